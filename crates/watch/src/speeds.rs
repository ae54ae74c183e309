//! How fast the calls of one communicator were, by operation and size.
//! Not a limit, and not an earlier run: `busbw watch` puts these beside.

use std::collections::BTreeMap;

use busbw_core::Collective;
use serde::Serialize;

use crate::{Group, Matched};

/// The calls of one operation whose sizes are between two powers of two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// NCCL's name of the operation.
    pub operation: String,
    /// The collective of nccl-tests that counts as this does; none for what it has not.
    pub collective: Option<Collective>,
    /// The smallest size, bytes as nccl-tests counts them.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// `RING SIMPLE`, where NCCL said so.
    pub choice: String,
    /// Calls, of which each is counted once whatever the number of its ranks.
    pub calls: usize,
    /// Bytes of these calls, as `size` counts them.
    pub bytes: u64,
    /// Calls whose time is known.
    pub timed: usize,
    /// Median time from when the last rank entered to the end, us. Where files of ranks are missing, from when the last of
    /// the others entered.
    pub time_us: Option<f64>,
    /// The time that 99 % of the calls kept, us.
    pub p99_us: Option<f64>,
    /// Bytes over time, median, GB/s.
    pub algbw: Option<f64>,
    /// The same with nccl-tests' factor, GB/s.
    pub busbw: Option<f64>,
    /// The busbw that the hardware allows, GB/s, where somebody knows it; [`speeds`] does not.
    pub limit: Option<f64>,
    /// The busbw of an earlier run at the nearest size, GB/s; [`speeds`] does not know it.
    pub earlier: Option<f64>,
    /// What a rank waited for the last one, on average, of all the time in these calls.
    pub waited: Option<f64>,
    /// How many calls took how long: upper end, us, and calls; two steps for each doubling.
    pub histogram: Vec<(f64, usize)>,
}

/// The speeds, sizes between two powers of two together, the operation with the most time first.
#[must_use]
pub fn speeds(group: &Group, calls: &[Matched<'_>]) -> Vec<Speed> {
    let speeds = by_class(group.ranks, calls, doublings);
    speeds.into_iter().map(|(_, speed)| speed).collect()
}

/// The same with each size for itself.
#[must_use]
pub fn speeds_by_size(group: &Group, calls: &[Matched<'_>]) -> Vec<Speed> {
    let speeds = by_class(group.ranks, calls, |size| size);
    speeds.into_iter().map(|(_, speed)| speed).collect()
}

/// The class of a size: sizes of one are between the same two powers of two.
pub(crate) fn doublings(size: u64) -> u64 {
    u64::from(size.checked_ilog2().unwrap_or(0))
}

/// The speeds of calls of communicators of `ranks` ranks, by `of` their sizes; beside each the time that the job spent in
/// its calls, us. Those with the most time first.
pub(crate) fn by_class<'a>(
    ranks: u32,
    calls: impl IntoIterator<Item = &'a Matched<'a>>,
    of: impl Fn(u64) -> u64,
) -> Vec<(f64, Speed)> {
    let mut classes: BTreeMap<(String, u64, String), Class> = BTreeMap::new();
    for call in calls {
        let class = call.class;
        let choice =
            [class.algorithm.as_str(), class.protocol.as_str()].join(" ").trim().to_owned();
        // Of a send and its receive, which are one message, the sender's name stands.
        let operation = if class.peer.is_some() { "Send" } else { class.operation.as_str() };
        let key = (operation.to_owned(), of(class.size), choice);
        classes.entry(key).or_default().take(call);
    }
    let mut speeds: Vec<(f64, Speed)> = classes
        .into_iter()
        .map(|((operation, _, choice), class)| {
            (class.longest, class.speed(operation, choice, ranks))
        })
        .collect();
    speeds.sort_by(|a, b| b.0.total_cmp(&a.0));
    speeds
}

/// The collective that counts bytes as NCCL's operation of this name does here.
pub(crate) fn collective(operation: &str) -> Option<Collective> {
    Some(match operation {
        "AllReduce" => Collective::AllReduce,
        "AllGather" => Collective::AllGather,
        "ReduceScatter" => Collective::ReduceScatter,
        "Broadcast" => Collective::Broadcast,
        "Reduce" => Collective::Reduce,
        "AlltoAll" | "AllToAll" => Collective::AllToAll,
        "Gather" => Collective::Gather,
        "Scatter" => Collective::Scatter,
        "Send" | "Recv" => Collective::SendRecv,
        _ => return None,
    })
}

#[derive(Default)]
struct Class {
    least: Option<u64>,
    most: u64,
    calls: usize,
    bytes: u64,
    times_us: Vec<f64>,
    /// Bytes over time of each, GB/s.
    rates: Vec<f64>,
    /// All ranks' times in all calls, and what of it was waiting for the last one, us.
    all: f64,
    waited: f64,
    /// The sum of the longest times, us: what the job spent.
    longest: f64,
}

impl Class {
    fn take(&mut self, call: &Matched<'_>) {
        let size = call.class.size;
        self.least = Some(self.least.map_or(size, |least| least.min(size)));
        self.most = self.most.max(size);
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(size);
        let (mut shortest, mut longest, mut sum, mut ranks) = (u64::MAX, 0, 0_u64, 0_u64);
        for (_, duration) in call.durations() {
            shortest = shortest.min(duration);
            longest = longest.max(duration);
            sum = sum.saturating_add(duration);
            ranks += 1;
        }
        if ranks == 0 || shortest == 0 {
            return;
        }
        let us = shortest as f64 / 1e3;
        self.times_us.push(us);
        self.rates.push(size as f64 / 1e3 / us);
        self.all += sum as f64 / 1e3;
        self.waited += sum.saturating_sub(ranks.saturating_mul(shortest)) as f64 / 1e3;
        self.longest += longest as f64 / 1e3;
    }

    fn speed(self, operation: String, choice: String, ranks: u32) -> Speed {
        let collective = collective(&operation);
        let algbw = busbw_stats::median(&self.rates).filter(|_| self.most > 0);
        let factor = |of: Collective| of.spec().bus_factor.of(ranks as usize);
        Speed {
            collective,
            operation,
            choice,
            least: self.least.unwrap_or(0),
            most: self.most,
            calls: self.calls,
            bytes: self.bytes,
            timed: self.times_us.len(),
            time_us: busbw_stats::median(&self.times_us),
            p99_us: busbw_stats::quantile(&self.times_us, 0.99),
            algbw,
            busbw: algbw.zip(collective).filter(|_| ranks > 0).map(|(rate, of)| rate * factor(of)),
            limit: None,
            earlier: None,
            waited: (self.all > 0.0).then(|| self.waited / self.all),
            histogram: histogram(&self.times_us),
        }
    }
}

fn histogram(times_us: &[f64]) -> Vec<(f64, usize)> {
    let mut bins: BTreeMap<i32, usize> = BTreeMap::new();
    for time in times_us {
        *bins.entry((time.log2() * 2.0).ceil() as i32).or_default() += 1;
    }
    bins.into_iter().map(|(bin, calls)| ((f64::from(bin) / 2.0).exp2(), calls)).collect()
}
