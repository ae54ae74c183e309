//! The chain of waits over all communicators, and its ends.
//! Not the words for an end (`report`).
//!
//! A process that waits in one communicator is waited for in others: it is not to blame. An end is where nobody is left to be
//! waited for: a process that is gone, that called something else, or that waits nowhere; or a call that all ranks are in.

use std::collections::{BTreeMap, BTreeSet};

use busbw_logs::hang::{Condition, Evidence};

use super::assess::{Stuck, Who};

/// An end of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// Ranks called something else.
    Differs,
    /// A process is gone.
    Died,
    /// A process is there and does not run or answer.
    Stopped,
    /// Ranks called something else in a call that ended all the same.
    Differed,
    /// A process has not come, and waits nowhere.
    NeverCame,
    /// A process wrote nothing any more.
    Silent,
    /// Processes wait for each other.
    Circle,
    /// All ranks are in the call, and it does not end.
    Network,
    /// Nothing is known of a process.
    Unknown,
}

/// An end, where it was met, and who it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Met {
    pub end: End,
    /// Its place among those that are stuck; none for a process that is gone and that nobody waits for by what is known.
    pub stuck: Option<usize>,
    pub who: Option<Who>,
}

/// All ends that can be met.
pub(super) fn ends(evidence: &Evidence, stuck: &[&Stuck]) -> Vec<Met> {
    let mut waits: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, one) in stuck.iter().enumerate() {
        for process in one.waiting.iter().filter_map(|who| who.process) {
            waits.entry(process).or_default().push(at);
        }
    }
    let mut met = BTreeSet::new();
    let next: Vec<BTreeSet<usize>> =
        (0..stuck.len()).map(|at| follow(evidence, at, stuck, &waits, &mut met)).collect();
    met.extend(circles(&next, &met));
    // RAS gives up a process whether somebody waits for it or not.
    let named: BTreeSet<usize> = met.iter().filter_map(|one| one.who?.process).collect();
    for (at, process) in evidence.processes.iter().enumerate() {
        let end = match process.condition {
            Condition::Died(_) => End::Died,
            Condition::Stopped(_) => End::Stopped,
            _ => continue,
        };
        if !named.contains(&at) && stuck.iter().all(|one| one.is_over) {
            let who = Some(Who { rank: process.rank.unwrap_or_default(), process: Some(at) });
            met.insert(Met { end, stuck: None, who });
        }
    }
    met.into_iter().collect()
}

/// The ends in one communicator, and the communicators that it waits for.
fn follow(
    evidence: &Evidence,
    at: usize,
    all: &[&Stuck],
    waits: &BTreeMap<usize, Vec<usize>>,
    met: &mut BTreeSet<Met>,
) -> BTreeSet<usize> {
    let stuck = Some(at);
    let mut next = BTreeSet::new();
    let Some(one) = all.get(at) else { return next };
    if let Some(differing) = &one.differing {
        met.extend(differing.ranks.iter().map(|who| Met {
            end: if one.is_over { End::Differed } else { End::Differs },
            stuck,
            who: Some(*who),
        }));
        return next;
    }
    let condition = |who: &Who| {
        let process = evidence.processes.get(who.process?)?;
        match process.condition {
            Condition::Died(_) => Some(End::Died),
            Condition::Stopped(_) => Some(End::Stopped),
            Condition::Silent(_) => Some(End::Silent),
            Condition::Unknown | Condition::Alive | Condition::Finished => None,
        }
    };
    let mut found = false;
    let absent = one.absent.iter().map(|who| (who, true));
    for (who, known) in absent.chain(one.unknown.iter().map(|who| (who, false))) {
        found = true;
        let elsewhere = || who.process.and_then(|process| waits.get(&process));
        match condition(who) {
            Some(end) => {
                met.insert(Met { end, stuck, who: Some(*who) });
            }
            None => match elsewhere() {
                Some(others) => next.extend(others.iter().copied().filter(|other| *other != at)),
                None => {
                    let end = if known { End::NeverCame } else { End::Unknown };
                    met.insert(Met { end, stuck, who: Some(*who) });
                }
            },
        }
    }
    // Who died within the call keeps the others there.
    let gone = one
        .waiting
        .iter()
        .filter_map(|who| Some(Met { end: condition(who)?, stuck, who: Some(*who) }));
    let gone: Vec<Met> = gone.collect();
    if !found && gone.is_empty() {
        // Calls that a process has made before it keep its GPU.
        for (process, since) in &one.called {
            let others = waits.get(process).into_iter().flatten().filter(|other| **other != at);
            let earlier = |other: &&usize| {
                all.get(**other)
                    .and_then(|one| one.called.get(process))
                    .is_some_and(|other| other < since)
            };
            next.extend(others.filter(earlier));
        }
        if next.is_empty() {
            met.insert(Met { end: End::Network, stuck, who: None });
        }
    }
    met.extend(gone);
    next
}

/// Communicators from which no end can be reached: their ranks wait for each other.
fn circles(next: &[BTreeSet<usize>], met: &BTreeSet<Met>) -> Vec<Met> {
    let mut ending: BTreeSet<usize> = met.iter().filter_map(|one| one.stuck).collect();
    let mut before: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, others) in next.iter().enumerate() {
        for other in others {
            before.entry(*other).or_default().push(at);
        }
    }
    let mut open: Vec<usize> = ending.iter().copied().collect();
    while let Some(at) = open.pop() {
        for earlier in before.get(&at).into_iter().flatten() {
            if ending.insert(*earlier) {
                open.push(*earlier);
            }
        }
    }
    let rest = (0..next.len()).filter(|at| !ending.contains(at));
    rest.map(|at| Met { end: End::Circle, stuck: Some(at), who: None }).collect()
}
