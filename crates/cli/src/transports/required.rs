//! The number of bytes that must go from one group of ranks to another, with any algorithm: the
//! reference for the counters.
//! Not what a ring or a tree moves.

use busbw_core::{
    Collective,
    messages::Messages,
    plan::Plan,
    record::{Half, Row},
};

/// The smallest number of bytes that all groups together receive from other groups in one operation
/// of `size` bytes (the size column), with `ranks` distributed evenly over `groups`.
///
/// A group must receive what it lacks and cannot compute: partial sums of others, their blocks, the
/// root's data. With one rank a group these are the bytes behind busbw (nccl-tests
/// doc/PERFORMANCE.md).
pub fn received(collective: Collective, size: u64, ranks: usize, groups: usize) -> f64 {
    if groups < 2 || ranks < groups {
        return 0.0;
    }
    (collective.spec().received)(size as f64, ranks as f64, groups as f64)
}

/// Operations that ran while a row's counters were read: timed ones, warm-up, checks.
pub fn operations(row: &Row, plan: &Plan) -> f64 {
    let of_half = |half: &Half| {
        let iterations = half.fewer_iterations.unwrap_or(plan.iterations);
        let each =
            f64::from(iterations) * f64::from(plan.aggregated) * f64::from(plan.graph.max(1)) + 1.0;
        let checks = half.figures.wrong.map_or(0.0, |_| f64::from(plan.checks(iterations)));
        half.batches_us.len() as f64 * each + checks
    };
    row.out_of_place.iter().chain(&row.in_place).map(of_half).sum()
}

/// The bytes of messages, timed and untimed, that pairs of ranks exchanged while a row's counters
/// were read, without those of checks.
pub fn exchanged(test: Messages, row: &Row, plan: &Plan) -> f64 {
    let pairs = plan.pairs(test).len();
    let (asked, untimed) = plan.loops(row.size);
    let of_half = |half: &Half| {
        let timed = half.fewer_iterations.unwrap_or(asked);
        let window = half.messages.as_ref().map_or(plan.messaging.window, |found| found.window);
        let each = f64::from(timed + untimed.min(timed)) * test.messages(window) as f64;
        half.batches_us.len() as f64 * each * row.size as f64
    };
    pairs as f64 * row.out_of_place.iter().map(of_half).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use busbw_core::{alltoallv::Traffic, bandwidth::bandwidth};

    use super::*;

    /// With one rank a group it is busbw's numerator.
    #[test]
    fn every_rank_for_itself_is_busbw() {
        for collective in [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::ReduceScatter,
            Collective::AllToAll,
            Collective::SendRecv,
        ] {
            for ranks in [2, 4, 8] {
                let counts = collective.counts(1 << 20, 4, ranks, &Traffic::default());
                let size = counts.bytes(4) as u64;
                let busbw = bandwidth(collective, &counts, 4, ranks, 1.0).busbw * 1e9;
                let mine = received(collective, size, ranks, ranks) / ranks as f64;
                assert!((mine / busbw - 1.0).abs() < 1e-9, "{collective:?} {ranks}");
            }
        }
    }

    #[test]
    fn two_nodes_exchange_the_sum_once_each_way() {
        assert_eq!(received(Collective::AllReduce, 100, 8, 2), 200.0);
        assert_eq!(received(Collective::Broadcast, 100, 8, 2), 100.0);
        assert_eq!(received(Collective::AllReduce, 100, 8, 1), 0.0);
    }
}
