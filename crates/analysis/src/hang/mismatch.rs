//! Calls of one number that differ between ranks: who is alone with it, and where it begins.
//! Not who waits in a call (`assess`).

use std::collections::BTreeMap;

use busbw_logs::hang::{Call, Progress};

use super::assess::Who;

/// In what calls of one number differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Operation,
    Datatype,
    Size,
}

/// Ranks that called something else.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Differing {
    pub what: What,
    /// The fewer ranks; all of them where neither side is more.
    pub ranks: Vec<Who>,
    /// Neither side is more: any of them may be wrong.
    pub even: bool,
    /// One call of each side, the most first.
    pub calls: Vec<(Who, Call)>,
    /// Calls behind this one in which the same ranks differ.
    pub later: usize,
}

/// A call as a rank made it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made<'a> {
    pub who: Who,
    pub call: &'a Call,
    /// The rank's source has lost calls: only a call of the same number among those of its operation is known to be the same one.
    pub has_gaps: bool,
}

impl Made<'_> {
    /// Whether both are known to be one call of the communicator.
    fn meets(&self, other: &Self) -> bool {
        let own = |one: &Self| (one.call.operation.clone(), one.call.nth);
        !(self.has_gaps || other.has_gaps) || own(self) == own(other)
    }
}

/// The most different calls of one number that are told apart.
const MAX_SIDES: usize = 64;

/// The first call before the number `before` in which ranks differ: its number, the call of the most, and who differs.
pub(super) fn mismatch(known: &[(Who, &Progress)], before: u64) -> Option<(u64, Call, Differing)> {
    let mut numbers: BTreeMap<u64, Vec<Made<'_>>> = BTreeMap::new();
    for (who, progress) in known {
        for (number, call) in progress.over.iter().chain(&progress.open) {
            if *number < before {
                let made = Made { who: *who, call, has_gaps: progress.has_gaps };
                numbers.entry(*number).or_default().push(made);
            }
        }
    }
    let mut all = numbers.iter().filter_map(|(number, made)| Some((*number, differing(made)?)));
    let (number, mut first) = all.next()?;
    first.later = all.filter(|(_, one)| one.ranks == first.ranks).count();
    let call = first.calls.first().map(|(_, call)| call.clone())?;
    // It is over: nobody waits in it.
    Some((number, Call { waited_ms: None, ..call }, first))
}

/// In what calls of one number differ, and who is alone with it.
pub(super) fn differing(made: &[Made<'_>]) -> Option<Differing> {
    let same = |what: What, a: &Call, b: &Call| match what {
        What::Operation => a.operation == b.operation,
        What::Datatype => {
            a.datatype.is_empty() || b.datatype.is_empty() || a.datatype == b.datatype
        }
        What::Size => a.elements.zip(b.elements).is_none_or(|(a, b)| a == b),
    };
    for what in [What::Operation, What::Datatype, What::Size] {
        let mut sides: Vec<Vec<&Made<'_>>> = Vec::new();
        for one in made {
            let alike = |side: &Vec<&Made<'_>>| {
                side.first()
                    .is_some_and(|first| same(what, first.call, one.call) || !first.meets(one))
            };
            match sides.iter().position(alike) {
                Some(at) => sides[at].push(one),
                None if sides.len() < MAX_SIDES => sides.push(vec![one]),
                None => {}
            }
        }
        if sides.len() < 2 {
            continue;
        }
        sides.sort_by_key(Vec::len);
        let calls: Vec<(Who, Call)> = sides
            .iter()
            .rev()
            .filter_map(|side| side.first().map(|one| (one.who, one.call.clone())))
            .collect();
        let most = sides.pop()?;
        let even = sides.last().is_some_and(|side| side.len() == most.len());
        let mut ranks: Vec<Who> = sides.iter().flatten().map(|one| one.who).collect();
        if even {
            ranks.extend(most.iter().map(|one| one.who));
        }
        ranks.sort_unstable();
        return Some(Differing { what, ranks, even, calls, later: 0 });
    }
    None
}
