//! Who enters the calls of a communicator last, by its own doing, and what the others wait for it.
//! Not why it is late (`straggler`).
//!
//! No clock of another host is needed. A collective in which every rank needs every other's data ends on all ranks at the same
//! time, but for the latency of a step or two; so the rank whose kernel ran for the shortest time entered last, by the
//! difference to the others'. The same holds for a send and its receive.
//!
//! A rank that had to wait in another communicator hands its delay on. What it waited there since it last met the ranks of
//! this call is taken off what they wait for it here: only the rest is its own.

use std::collections::HashMap;

use busbw_stats::binomial_tail;

use crate::{Job, Matched};

/// Operations that end everywhere at about the same time. Of a broadcast and a reduce one side may be done long before the
/// other has come; gathers and scatters are the same.
const TOGETHER: [&str; 7] =
    ["AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AllToAll", "Send", "Recv"];
/// A rank is named from this many late entries on.
const LEAST_ENTRIES: usize = 10;
/// Of all late entries, those that must be one rank's.
const LEAST_PART: f64 = 2.0 / 3.0;
/// Of the time in these calls, what the others must have waited for it.
const LEAST_COST: f64 = 0.05;
/// That so many late entries are one rank's by chance must be less probable: a job has thousands of ranks and communicators,
/// of which each could be the one.
const CHANCE: f64 = 1e-6;

/// Whether a call ends on all of its ranks at about the same time.
fn ends_together(call: &Matched<'_>) -> bool {
    TOGETHER.contains(&call.class.operation.as_str())
}

/// Whether it can be told who entered a call last: at least two ranks' times are known, and it ends on all together.
pub(crate) fn is_compared(call: &Matched<'_>) -> bool {
    ends_together(call) && call.durations().nth(1).is_some()
}

/// What one rank's entries cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// Calls that it entered last by its own doing, later than the others by more than the noise.
    pub last: usize,
    /// What the last but one waited in these calls, less what this rank had waited elsewhere, ns: what would have been saved
    /// had this rank alone been on time.
    pub caused: u64,
    /// What it waited for the last one in all calls, ns.
    pub suffered: u64,
    /// Of all calls with a late entry, those that it was in.
    pub with_late: usize,
}

/// A late entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateEntry {
    /// The call: its place in the communicator's list.
    pub call: usize,
    /// The rank: its place in [`crate::Group::members`].
    pub member: usize,
    /// By how much it was later than the last but one by its own doing, ns.
    pub by: u64,
}

/// The calls of one communicator.
#[derive(Debug, Clone, PartialEq)]
pub struct Lateness {
    /// Calls of which at least two ranks' times are known.
    pub calls: usize,
    /// Those of which it is known what their last rank waited for before.
    pub known: usize,
    /// The time in these calls, of each the longest of its ranks, ns.
    pub time: u64,
    /// By the place of the rank in [`crate::Group::members`].
    pub ranks: Vec<Entries>,
    /// The rank that is late so often and so much that chance does not explain it.
    pub late: Option<usize>,
    /// All late entries.
    pub entries: Vec<LateEntry>,
    /// The fewest ranks of a call with a late entry.
    fewest: usize,
}

/// By how much kernels' times of one call may differ though all entered together, ns: they end one after another, a step of
/// the algorithm apart. 20 us at least, 10 us for each doubling of the ranks, and 5 % of the shortest.
fn noise(ranks: usize, shortest: u64) -> u64 {
    let doublings = u64::from(ranks.max(1).next_power_of_two().trailing_zeros());
    (10_000 * doublings).max(20_000).max(shortest / 20)
}

/// Looks at all calls of a job; `of` has those of each communicator.
#[must_use]
pub fn lateness(job: &Job, of: &[Vec<Matched<'_>>]) -> Vec<Lateness> {
    let waits = Waits::of(job, of);
    (0..job.groups.len().min(of.len())).map(|at| of_group(job, at, &of[at], &waits)).collect()
}

fn of_group(job: &Job, at: usize, calls: &[Matched<'_>], waits: &Waits) -> Lateness {
    let group = &job.groups[at];
    let ranks = vec![Entries::default(); group.members.len()];
    let mut found = Lateness {
        calls: 0,
        known: 0,
        time: 0,
        ranks,
        late: None,
        entries: Vec::new(),
        fewest: usize::MAX,
    };
    // When each rank last met the same others, by its own clock.
    let mut met: HashMap<(usize, Option<u32>), u64> = HashMap::new();
    for (place, call) in calls.iter().enumerate() {
        let Some(order) = Order::of(call) else { continue };
        let together = ends_together(call);
        if together {
            found.calls += 1;
            found.time = found.time.saturating_add(order.longest);
        }
        for (member, duration) in call.durations() {
            let suffered = &mut found.ranks[member].suffered;
            *suffered = suffered.saturating_add(duration - order.shortest);
        }
        let asked = call.entries.iter().find(|(member, _)| *member == order.last);
        let asked = asked.map_or(0, |(_, call)| call.enqueued);
        let others = call.other_than(group.members[order.last].rank);
        let since = met.get(&(order.last, others)).copied();
        for (member, one) in &call.entries {
            met.insert((*member, call.other_than(group.members[*member].rank)), one.enqueued);
        }
        // Of the first call with these ranks it is not known what came before it.
        let (true, Some(since)) = (together, since) else { continue };
        let inherited = waits.between(group.members[order.last].peer, since, asked);
        let Some(inherited) = inherited else { continue };
        found.known += 1;
        let by = (order.next - order.shortest).saturating_sub(inherited);
        if by > noise(call.entries.len(), order.shortest) {
            found.fewest = found.fewest.min(call.durations().count());
            call.durations().for_each(|(member, _)| found.ranks[member].with_late += 1);
            let entries = &mut found.ranks[order.last];
            entries.last += 1;
            entries.caused = entries.caused.saturating_add(by);
            found.entries.push(LateEntry { call: place, member: order.last, by });
        }
    }
    found.late = found.named();
    found
}

/// What each process waited for others, in the order in which it asked for the calls.
struct Waits {
    by_peer: Vec<Vec<Asked>>,
}

/// A call that a process asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    /// When, ns.
    at: u64,
    /// What it had waited in all calls before, ns; while they are collected, what it waited in this one.
    waited: u64,
    /// Calls before of which that is not known, since they were not timed; while they are collected, 1 if this is one.
    untimed: u64,
}

impl Waits {
    fn of(job: &Job, of: &[Vec<Matched<'_>>]) -> Self {
        let mut by_peer: Vec<Vec<Asked>> = vec![Vec::new(); job.peers.len()];
        for (group, calls) in job.groups.iter().zip(of) {
            for call in calls {
                let order = Order::of(call);
                for (member, one) in &call.entries {
                    let at = one.enqueued;
                    let rank = group.members[*member].rank;
                    let asked = match (&order, one.duration) {
                        (Some(order), Some(took)) => {
                            Asked { at, waited: took.saturating_sub(order.shortest), untimed: 0 }
                        }
                        // What a rank sends to itself is never timed, and waits for nobody.
                        (None, None) if call.class.peer != Some(rank) => {
                            Asked { at, waited: 0, untimed: 1 }
                        }
                        _ => continue,
                    };
                    by_peer[group.members[*member].peer].push(asked);
                }
            }
        }
        for calls in &mut by_peer {
            calls.sort_unstable();
            let (mut waited, mut untimed) = (0, 0);
            for call in calls {
                let own = *call;
                (call.waited, call.untimed) = (waited, untimed);
                waited = u64::saturating_add(waited, own.waited);
                untimed += own.untimed;
            }
        }
        Self { by_peer }
    }

    /// What a process waited in the calls that it asked for after `from` and before `to`. None: one of them was not timed.
    fn between(&self, peer: usize, from: u64, to: u64) -> Option<u64> {
        let calls = &self.by_peer[peer];
        let first = calls.partition_point(|one| one.at <= from);
        let behind = calls.partition_point(|one| one.at < to);
        match (calls.get(first), calls.get(behind)) {
            (Some(before), Some(until)) if until.untimed == before.untimed => {
                Some(until.waited.saturating_sub(before.waited))
            }
            (Some(_), Some(_)) => None,
            _ => Some(0),
        }
    }
}

/// A call by the times of its ranks.
struct Order {
    last: usize,
    shortest: u64,
    next: u64,
    longest: u64,
}

impl Order {
    fn of(call: &Matched<'_>) -> Option<Self> {
        let (last, shortest) = call.durations().min_by_key(|(_, duration)| *duration)?;
        let others = || call.durations().filter(|(rank, _)| *rank != last).map(|(_, one)| one);
        Some(Self { last, shortest, next: others().min()?, longest: others().max()? })
    }
}

impl Lateness {
    fn named(&self) -> Option<usize> {
        let all: usize = self.ranks.iter().map(|one| one.last).sum();
        let (rank, most) = self.ranks.iter().enumerate().max_by_key(|(_, one)| one.caused)?;
        let often = most.last >= LEAST_ENTRIES && most.last as f64 >= LEAST_PART * all as f64;
        let much = most.caused as f64 >= LEAST_COST * self.time as f64;
        // Any one of a call's ranks is as likely to be the last; of sends and receives, one of two.
        let chance = || binomial_tail(most.with_late, most.last, 1.0 / self.fewest as f64);
        (often && much && chance() < CHANCE).then_some(rank)
    }
}
