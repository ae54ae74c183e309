//! Who enters the calls of one communicator last, and what the others wait for it.
//! Not why it is late, and not whether it waits itself elsewhere (`culprit`).
//!
//! No clock of another host is needed. A collective in which every rank needs every other's data ends on all ranks at the same
//! time, but for the latency of a step or two; so the rank whose kernel ran for the shortest time entered last, by the
//! difference to the others'. The same holds for a send and its receive.

use busbw_stats::binomial_tail;

use crate::{Group, Matched};

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

/// What one rank's entries cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// Calls that it entered last, later than the others by more than the noise.
    pub last: usize,
    /// What the last but one waited in these calls, ns: what would have been saved had this rank alone been on time.
    pub caused: u64,
    /// What it waited for the last one in all calls, ns.
    pub suffered: u64,
    /// The longest time of `caused` in one call, ns.
    pub longest: u64,
    /// Of all calls with a late entry, those that it was in.
    pub with_late: usize,
}

/// The calls of one communicator.
#[derive(Debug, Clone, PartialEq)]
pub struct Lateness {
    /// Calls of which at least two ranks' times are known.
    pub calls: usize,
    /// The time in these calls, of each the longest of its ranks, ns.
    pub time: u64,
    /// By the place of the rank in [`Group::members`].
    pub ranks: Vec<Entries>,
    /// The rank that is late so often and so much that chance does not explain it.
    pub late: Option<usize>,
    /// The fewest ranks of a call with a late entry.
    fewest: usize,
    /// For each call with a late entry: its place in the list that was given, the rank, and by how much it was later than the
    /// last but one, ns.
    pub entries: Vec<(usize, usize, u64)>,
}

/// By how much kernels' times of one call may differ though all entered together, ns: they end one after another, a step of
/// the algorithm apart. 20 us at least, 10 us for each doubling of the ranks, and 5 % of the shortest.
fn noise(ranks: usize, shortest: u64) -> u64 {
    let doublings = u64::from(ranks.max(1).next_power_of_two().trailing_zeros());
    (10_000 * doublings).max(20_000).max(shortest / 20)
}

/// Looks at all calls of a communicator.
#[must_use]
pub fn lateness(group: &Group, calls: &[Matched<'_>]) -> Lateness {
    let mut ranks = vec![Entries::default(); group.members.len()];
    let (mut compared, mut time, mut late, mut fewest) = (0, 0, Vec::new(), usize::MAX);
    for (place, call) in calls.iter().enumerate() {
        if !TOGETHER.contains(&call.class.operation.as_str()) {
            continue;
        }
        let Some(order) = Order::of(call) else { continue };
        compared += 1;
        time += order.longest;
        for (rank, duration) in call.durations() {
            ranks[rank].suffered += duration - order.shortest;
        }
        let lead = order.next - order.shortest;
        if lead > noise(group.members.len(), order.shortest) {
            call.durations().for_each(|(rank, _)| ranks[rank].with_late += 1);
            let entries = &mut ranks[order.last];
            entries.last += 1;
            entries.caused += lead;
            entries.longest = entries.longest.max(lead);
            fewest = fewest.min(call.durations().count());
            late.push((place, order.last, lead));
        }
    }
    let mut found = Lateness { calls: compared, time, ranks, late: None, fewest, entries: late };
    found.late = found.named();
    found
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
