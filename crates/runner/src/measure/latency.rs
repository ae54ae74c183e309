//! Latency figures of a collective whose iterations were timed one by one: the mean of each rank,
//! and every sample of every rank.
//! Not the iterations (`batch`), and not messages between pairs, which have figures of their own.

use busbw_core::record::LatencyFigures;
use busbw_stats::median;

use super::{RunError, Session, samples::Samples};

impl Session<'_> {
    /// Combines the samples of the ranks of our communicator. `batches` holds one operation's mean
    /// time on every rank, in microseconds; our own iterations are in `mine`.
    pub(super) fn latency_figures(
        &mut self,
        batches: &[Vec<f64>],
        mine: &Samples,
    ) -> Result<LatencyFigures, RunError> {
        let each = self.world.allgather(&mine.to_bytes(), self.deadline())?;
        let mut samples = Samples::new();
        for bytes in self.group().threads.iter().filter_map(|thread| each.get(*thread)) {
            samples.add_bytes(bytes);
        }
        let fused = u64::from(self.plan.aggregated);
        let (fastest_rank_us, slowest_rank_us) = extremes(batches);
        let percentile = |percent: &u8| (*percent, samples.percentile(f64::from(*percent), fused));
        Ok(LatencyFigures {
            fastest_rank_us,
            slowest_rank_us,
            spread: samples.spread(fused),
            percentiles: self.plan.messaging.percentiles.iter().map(percentile).collect(),
        })
    }
}

/// The smallest and the largest of the ranks' figures. A rank's figure is its median over the means
/// of batches, as the figure of all ranks is.
fn extremes(batches: &[Vec<f64>]) -> (f64, f64) {
    let ranks = batches.iter().map(Vec::len).min().unwrap_or(0);
    let of_rank = |rank| {
        let means: Vec<f64> = batches.iter().filter_map(|batch| batch.get(rank).copied()).collect();
        median(&means).unwrap_or(f64::NAN)
    };
    let each: Vec<f64> = (0..ranks).map(of_rank).collect();
    let of = |pick: fn(f64, f64) -> f64| each.iter().copied().fold(f64::NAN, pick);
    (of(f64::min), of(f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_those_of_ranks() {
        assert_eq!(extremes(&[vec![1.0, 5.0], vec![900.0, 7.0], vec![3.0, 6.0]]), (3.0, 6.0));
        let (none, _) = extremes(&[]);
        assert!(none.is_nan());
    }
}
