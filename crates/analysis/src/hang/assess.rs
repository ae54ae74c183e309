//! One communicator: the call that its ranks wait in, who waits, who has not come, and who called something else.
//! Not what the ranks do in other communicators (`chain`).

use std::collections::BTreeMap;

use busbw_logs::hang::{Call, Group, Progress};

use super::words;

/// A member of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Its process; none where nothing names it.
    pub process: Option<usize>,
}

/// A communicator that waits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stuck {
    /// Its place in the evidence.
    pub group: usize,
    /// The number of the call among all of the communicator.
    pub number: u64,
    /// The call, as one that waits made it.
    pub call: Call,
    /// Those who are in it.
    pub waiting: Vec<Who>,
    /// Those who have not come to it.
    pub absent: Vec<Who>,
    /// Those of whom nothing is known.
    pub unknown: Vec<Who>,
    /// Those who called something else, and their calls.
    pub differing: Option<Differing>,
    /// How many calls each of the absent ones is behind.
    pub behind: BTreeMap<u32, u64>,
    /// The source knows what was launched, saw it once, and a job that goes on looks alike.
    pub seen_once: bool,
    /// A send or receive between two ranks.
    pub is_message: bool,
    /// The absent ones have called it, and their GPUs have not begun.
    pub not_begun: bool,
    /// When each process that waits called it, ns by the clock of its host.
    pub called: BTreeMap<usize, u64>,
}

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
    /// One call of each side.
    pub calls: Vec<(Who, Call)>,
}

/// What is known of a communicator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    /// Calls in which ranks wait: one of collectives, and messages.
    pub stuck: Vec<Stuck>,
    /// It goes on.
    pub moving: bool,
}

/// Assesses a communicator.
pub(super) fn assess(at: usize, group: &Group) -> State {
    let mut state = State::default();
    let known: Vec<(Who, &Progress)> = group
        .members
        .iter()
        .filter_map(|(rank, member)| {
            Some((Who { rank: *rank, process: Some(member.process) }, member.progress.as_ref()?))
        })
        .collect();
    let mut unknown: Vec<Who> = group
        .members
        .iter()
        .filter(|(_, member)| member.progress.is_none())
        .map(|(rank, member)| Who { rank: *rank, process: Some(member.process) })
        .collect();
    let unlisted = (0..group.ranks.unwrap_or(0)).filter(|rank| !group.members.contains_key(rank));
    // A file may claim any number. Where more are missing than there are, nobody is named.
    let unlisted = unlisted.take(group.members.len() + 1);
    unknown.extend(unlisted.map(|rank| Who { rank, process: None }));
    let counted = known.iter().any(|(_, progress)| progress.counts_only);
    let found = match counted {
        true => launched(at, group, &known, &unknown),
        false => collective(at, &known, &unknown),
    };
    state.moving |= group.progressed == Some(true);
    state.stuck.extend(found.filter(|_| !state.moving));
    state.stuck.extend(messages(at, &known, &unknown));
    state
}

/// The first collective that is not over on all ranks.
fn collective(at: usize, known: &[(Who, &Progress)], unknown: &[Who]) -> Option<Stuck> {
    let number = *known.iter().filter_map(|(_, progress)| progress.open.keys().next()).min()?;
    let mut inside: Vec<(Who, &Call)> = Vec::new();
    let mut absent = Vec::new();
    let mut behind = BTreeMap::new();
    for (who, progress) in known {
        match progress.open.get(&number) {
            Some(call) => inside.push((*who, call)),
            None if progress.entered < number => {
                absent.push(*who);
                behind.insert(who.rank, number - progress.entered);
            }
            None => {}
        }
    }
    // A rank whose call is over says what it called, too.
    let made = known.iter().filter_map(|(who, progress)| {
        Some((*who, progress.open.get(&number).or_else(|| progress.over.get(&number))?))
    });
    let differing = differing(&made.collect::<Vec<_>>());
    let begun = |call: &Call| call.started == Some(true);
    let not_begun = absent.is_empty()
        && differing.is_none()
        && inside.iter().any(|(_, call)| begun(call))
        && inside.iter().any(|(_, call)| call.started == Some(false));
    if not_begun {
        absent = inside
            .iter()
            .filter(|(_, call)| call.started == Some(false))
            .map(|(who, _)| *who)
            .collect();
        inside.retain(|(_, call)| call.started != Some(false));
    }
    let called = called(inside.iter().copied());
    // The one that has waited longest is shown.
    let (_, shown) = inside.iter().max_by_key(|(_, call)| call.waited_ms)?;
    Some(Stuck {
        group: at,
        number,
        call: (*shown).clone(),
        waiting: inside.iter().map(|(who, _)| *who).collect(),
        absent,
        unknown: unknown.to_vec(),
        differing,
        behind,
        seen_once: false,
        is_message: false,
        not_begun,
        called,
    })
}

fn called<'a>(inside: impl IntoIterator<Item = (Who, &'a Call)>) -> BTreeMap<usize, u64> {
    inside.into_iter().filter_map(|(who, call)| Some((who.process?, call.since?))).collect()
}

/// The most different calls of one number that are told apart.
const MAX_SIDES: usize = 64;

/// In what calls of one number differ, and who is alone with it.
fn differing(made: &[(Who, &Call)]) -> Option<Differing> {
    let same = |what: What, a: &Call, b: &Call| match what {
        What::Operation => a.operation == b.operation,
        What::Datatype => {
            a.datatype.is_empty() || b.datatype.is_empty() || a.datatype == b.datatype
        }
        What::Size => a.elements.zip(b.elements).is_none_or(|(a, b)| a == b),
    };
    for what in [What::Operation, What::Datatype, What::Size] {
        let mut sides: Vec<Vec<(Who, &Call)>> = Vec::new();
        for one in made {
            let alike = |side: &Vec<(Who, &Call)>| {
                side.first().is_some_and(|first| same(what, first.1, one.1))
            };
            match sides.iter().position(alike) {
                Some(at) => sides[at].push(*one),
                None if sides.len() < MAX_SIDES => sides.push(vec![*one]),
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
            .filter_map(|side| side.first().map(|(who, call)| (*who, (*call).clone())))
            .collect();
        let most = sides.pop()?;
        let even = sides.last().is_some_and(|side| side.len() == most.len());
        let mut ranks: Vec<Who> = sides.iter().flatten().map(|(who, _)| *who).collect();
        if even {
            ranks.extend(most.iter().map(|(who, _)| *who));
        }
        ranks.sort_unstable();
        return Some(Differing { what, ranks, even, calls });
    }
    None
}

/// Of a source that counts launches alone: who has launched fewer than the others, or others.
fn launched(
    at: usize,
    group: &Group,
    known: &[(Who, &Progress)],
    unknown: &[Who],
) -> Option<Stuck> {
    let most = known.iter().map(|(_, progress)| progress.entered).max()?;
    let (ahead, rest): (Vec<_>, Vec<_>) =
        known.iter().copied().partition(|(_, progress)| progress.entered == most);
    let least = least(known);
    let made: Vec<(Who, Call)> = ahead
        .iter()
        .filter_map(|(who, progress)| Some((*who, newest_call(progress, &least)?)))
        .collect();
    let borrowed: Vec<(Who, &Call)> = made.iter().map(|(who, call)| (*who, call)).collect();
    let differing = match rest.is_empty() {
        // Each has launched as many, but of other operations.
        true => differing(&borrowed).filter(|one| one.what == What::Operation),
        false => None,
    };
    if rest.is_empty() && differing.is_none() && unknown.is_empty() {
        return None;
    }
    let call = made.first().map(|(_, call)| call.clone()).unwrap_or_default();
    Some(Stuck {
        group: at,
        number: most,
        call,
        waiting: ahead.iter().map(|(who, _)| *who).collect(),
        behind: rest.iter().map(|(who, progress)| (who.rank, most - progress.entered)).collect(),
        absent: rest.iter().map(|(who, _)| *who).collect(),
        unknown: unknown.to_vec(),
        differing,
        seen_once: group.progressed.is_none(),
        is_message: false,
        not_begun: false,
        called: BTreeMap::new(),
    })
}

/// The operation of which this rank has launched more than some other, which is the one that it waits in. `least` has the fewest
/// launches of each operation.
fn newest_call(own: &Progress, least: &BTreeMap<&str, u64>) -> Option<Call> {
    let more = |(operation, count): &(&String, &u64)| {
        least.get(operation.as_str()).copied().unwrap_or_default() < **count
    };
    let (operation, count) = own
        .by_operation
        .iter()
        .find(more)
        .or_else(|| own.by_operation.iter().max_by_key(|(_, count)| **count))?;
    Some(Call { operation: words::snake(operation), number: *count, ..Call::default() })
}

/// The fewest launches of each operation; of one that a rank has not launched at all, none.
fn least<'p>(known: &[(Who, &'p Progress)]) -> BTreeMap<&'p str, u64> {
    let mut all: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (operation, count) in known.iter().flat_map(|(_, progress)| &progress.by_operation) {
        let (fewest, ranks) = all.entry(operation).or_insert((u64::MAX, 0));
        *fewest = (*fewest).min(*count);
        *ranks += 1;
    }
    let on_all = |ranks: usize, fewest: u64| if ranks < known.len() { 0 } else { fewest };
    all.into_iter().map(|(name, (fewest, ranks))| (name, on_all(ranks, fewest))).collect()
}

/// Sends and receives whose other end has not come.
fn messages(at: usize, known: &[(Who, &Progress)], unknown: &[Who]) -> Vec<Stuck> {
    let by_rank: BTreeMap<u32, (Who, &Progress)> =
        known.iter().map(|(who, progress)| (who.rank, (*who, *progress))).collect();
    let mut all = Vec::new();
    for (who, progress) in known {
        let mut so_far: BTreeMap<(u32, bool), usize> = BTreeMap::new();
        for message in &progress.messages {
            let other = by_rank.get(&message.peer);
            let nth = message.nth.filter(|_| other.is_some_and(|(_, one)| one.has_all_messages));
            let place = so_far.entry((message.peer, message.is_send)).or_default();
            // Its other end, if that is open: messages between two ranks meet in their order.
            let theirs = other.and_then(|(_, progress)| {
                let ends = progress.messages.iter();
                let mut ends =
                    ends.filter(|one| one.peer == who.rank && one.is_send != message.is_send);
                match nth {
                    Some(nth) => ends.find(|one| one.nth == Some(nth)),
                    None => ends.nth(*place),
                }
            });
            *place += 1;
            // The other end may be over, or not be in what is kept.
            let made = other.and_then(|(_, progress)| {
                let made = progress.messages_made.get(&(who.rank, !message.is_send)).copied();
                Some(made.unwrap_or_default() >= nth?)
            });
            let met = theirs.is_some() || made == Some(true);
            let absent: Vec<Who> =
                other.filter(|_| !met).map(|(who, _)| *who).into_iter().collect();
            let missing: Vec<Who> = match other {
                Some(_) => Vec::new(),
                None => vec![
                    unknown
                        .iter()
                        .find(|one| one.rank == message.peer)
                        .copied()
                        .unwrap_or(Who { rank: message.peer, process: None }),
                ],
            };
            // Both ends are in it: it is told once.
            if theirs.is_some() && who.rank > message.peer {
                continue;
            }
            let mut waiting = vec![*who];
            let mut inside = vec![(*who, &message.call)];
            if let (Some((peer, _)), Some(theirs)) = (other, theirs) {
                waiting.push(*peer);
                inside.push((*peer, &theirs.call));
            }
            let called = called(inside);
            let mut call = message.call.clone();
            call.operation = match message.is_send {
                true => format!("send to rank {} of the group", message.peer),
                false => format!("recv from rank {} of the group", message.peer),
            };
            all.push(Stuck {
                group: at,
                number: message.call.number,
                call,
                waiting,
                absent,
                unknown: missing,
                differing: None,
                behind: BTreeMap::new(),
                seen_once: false,
                is_message: true,
                not_begun: false,
                called,
            });
        }
    }
    all
}
