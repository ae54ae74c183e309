//! One communicator: the call that its ranks wait in, who waits, who has not come, and who called something else.
//! Not what the ranks do in other communicators (`chain`).

use std::collections::BTreeMap;

use busbw_logs::hang::{Call, Group, Progress};

use super::mismatch::{Differing, Made, What, differing, mismatch};
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
    /// Nobody waits in this call: it ended although ranks called something else, or its ranks wait in a later one.
    pub is_over: bool,
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

/// What is known of a communicator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    /// Calls in which ranks wait: one of collectives, and messages.
    pub stuck: Vec<Stuck>,
    /// The first call that is over and in which ranks called something else, before one that is stuck.
    pub mismatch: Option<Stuck>,
    /// It goes on.
    pub moving: bool,
}

impl Stuck {
    /// Nothing of a communicator yet.
    fn of(group: usize) -> Self {
        Self {
            group,
            number: 0,
            call: Call::default(),
            waiting: Vec::new(),
            absent: Vec::new(),
            unknown: Vec::new(),
            differing: None,
            is_over: false,
            behind: BTreeMap::new(),
            seen_once: false,
            is_message: false,
            not_begun: false,
            called: BTreeMap::new(),
        }
    }
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
    if !counted {
        let before = found.as_ref().map_or(u64::MAX, |one| one.number);
        state.mismatch = mismatch(&known, before).map(|(number, call, differing)| Stuck {
            number,
            call,
            unknown: unknown.clone(),
            differing: Some(differing),
            is_over: true,
            ..Stuck::of(at)
        });
    }
    state.stuck.extend(found.filter(|_| !state.moving));
    state.stuck.extend(messages(at, &known, &unknown));
    state
}

/// The first collective that is not over on all ranks.
fn collective(at: usize, known: &[(Who, &Progress)], unknown: &[Who]) -> Option<Stuck> {
    let first = known.iter().filter_map(|(_, progress)| progress.open.keys().next()).min();
    let Some(&number) = first else { return untimed(at, known, unknown) };
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
        let call = progress.open.get(&number).or_else(|| progress.over.get(&number))?;
        // It hangs, and by all that is known it is this call.
        Some(Made { who: *who, call, has_gaps: false })
    });
    let made: Vec<Made<'_>> = made.collect();
    let differing = differing(&made);
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
        number,
        call: (*shown).clone(),
        waiting: inside.iter().map(|(who, _)| *who).collect(),
        absent,
        unknown: unknown.to_vec(),
        differing,
        behind,
        not_begun,
        called,
        ..Stuck::of(at)
    })
}

fn called<'a>(inside: impl IntoIterator<Item = (Who, &'a Call)>) -> BTreeMap<usize, u64> {
    inside.into_iter().filter_map(|(who, call)| Some((who.process?, call.since?))).collect()
}

/// The first collective that some ranks asked for and others did not, where it may stand: of a call whose kernel was not timed no
/// end is known. A job that goes on looks alike for a moment.
fn untimed(at: usize, known: &[(Who, &Progress)], unknown: &[Who]) -> Option<Stuck> {
    let number = known.iter().map(|(_, progress)| progress.entered).min()?.saturating_add(1);
    let (inside, absent): (Vec<_>, Vec<_>) =
        known.iter().copied().partition(|(_, progress)| progress.entered >= number);
    let calls = inside.iter().map(|(who, progress)| {
        let call = progress.over.get(&number).filter(|call| call.end_unknown)?;
        (!progress.has_gaps).then_some((*who, call))
    });
    let calls: Vec<(Who, &Call)> = calls.collect::<Option<_>>()?;
    let (_, shown) = calls.iter().max_by_key(|(_, call)| call.waited_ms)?;
    Some(Stuck {
        number,
        call: (*shown).clone(),
        waiting: calls.iter().map(|(who, _)| *who).collect(),
        behind: absent.iter().map(|(who, _)| (who.rank, 1)).collect(),
        absent: absent.iter().map(|(who, _)| *who).collect(),
        unknown: unknown.to_vec(),
        seen_once: true,
        called: called(calls.iter().copied()),
        ..Stuck::of(at)
    })
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
    // The first that somebody has not launched: the others may have launched more behind it.
    let number = rest.iter().map(|(_, progress)| progress.entered + 1).min().unwrap_or(most);
    let least = least(known);
    let made: Vec<(Who, Call)> = ahead
        .iter()
        .filter_map(|(who, progress)| Some((*who, newest_call(progress, number, &least)?)))
        .collect();
    let borrowed: Vec<Made<'_>> =
        made.iter().map(|(who, call)| Made { who: *who, call, has_gaps: false }).collect();
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
        number,
        call,
        waiting: ahead.iter().map(|(who, _)| *who).collect(),
        behind: rest.iter().map(|(who, progress)| (who.rank, most - progress.entered)).collect(),
        absent: rest.iter().map(|(who, _)| *who).collect(),
        unknown: unknown.to_vec(),
        differing,
        seen_once: group.progressed.is_none(),
        ..Stuck::of(at)
    })
}

/// The operation of which this rank has launched more than some other, which is the one that it waits in. `least` has the fewest
/// launches of each operation.
fn newest_call(own: &Progress, number: u64, least: &BTreeMap<&str, u64>) -> Option<Call> {
    let more = |(operation, count): &(&String, &u64)| {
        least.get(operation.as_str()).copied().unwrap_or_default() < **count
    };
    let (operation, _) = own
        .by_operation
        .iter()
        .find(more)
        .or_else(|| own.by_operation.iter().max_by_key(|(_, count)| **count))?;
    Some(Call { operation: words::snake(operation), number, ..Call::default() })
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
                number: message.call.number,
                call,
                waiting,
                absent,
                unknown: missing,
                is_message: true,
                called,
                ..Stuck::of(at)
            });
        }
    }
    all
}
