//! Every iteration's time of every rank, kept as a histogram that ranks can exchange.
//! Not a row's figure: that is the median over batches.

use busbw_core::record::Spread;
use hdrhistogram::Histogram;

/// Significant digits of the histogram: a percentile is within 0.1 % of a sample.
const HISTOGRAM_DIGITS: u8 = 3;
/// The longest time that the histogram holds, in nanoseconds: an hour. Longer ones count as this.
const MAX_SAMPLE_NS: u64 = 3_600_000_000_000;

/// Times of iterations, nanoseconds.
#[derive(Debug)]
pub(super) struct Samples {
    times: Histogram<u64>,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples::new()
    }
}

impl Samples {
    pub(super) fn new() -> Samples {
        // The bounds are constants that the histogram takes.
        let times = Histogram::new_with_max(MAX_SAMPLE_NS, HISTOGRAM_DIGITS);
        Samples { times: times.unwrap_or_else(|_| unreachable!("constant bounds")) }
    }

    pub(super) fn add(&mut self, nanoseconds: u64) {
        self.times.saturating_record(nanoseconds);
    }

    /// As bytes: pairs of a time and its count.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let seen = self.times.iter_recorded();
        seen.flat_map(|at| [at.value_iterated_to(), at.count_at_value()])
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Adds the samples of another rank.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|raw| u64::from_le_bytes(*raw)).collect();
        for [time, count] in words.as_chunks().0 {
            self.times.saturating_record_n(*time, *count);
        }
    }

    /// The `percent` percentile of the time of one of an iteration's `messages`, in microseconds.
    pub(super) fn percentile(&self, percent: f64, messages: u64) -> f64 {
        self.times.value_at_percentile(percent) as f64 / 1e3 / messages.max(1) as f64
    }

    /// The usual percentiles, and the number of samples.
    pub(super) fn spread(&self, messages: u64) -> Spread {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3 / messages.max(1) as f64;
        Spread {
            samples: self.times.len(),
            min: us(self.times.min()),
            p50: self.percentile(50.0, messages),
            p90: self.percentile(90.0, messages),
            p99: self.percentile(99.0, messages),
            p999: self.percentile(99.9, messages),
            max: us(self.times.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_add_up() {
        let (mut mine, mut theirs) = (Samples::new(), Samples::new());
        (1..=900).for_each(|ns| mine.add(ns));
        (901..=1000).for_each(|ns| theirs.add(ns * 1000));
        let mut all = Samples::new();
        all.add_bytes(&mine.to_bytes());
        all.add_bytes(&theirs.to_bytes());
        let spread = all.spread(2);
        assert_eq!(spread.samples, 1000);
        assert_eq!((spread.min, spread.p50, spread.p90), (0.0005, 0.25, 0.45));
        assert!((spread.max / 500.0 - 1.0).abs() < 1e-3, "{spread:?}");
        assert!((spread.p99 / 495.0 - 1.0).abs() < 1e-3, "{spread:?}");
    }

    #[test]
    fn nothing_is_no_panic() {
        let none = Samples::new();
        assert!(none.to_bytes().is_empty());
        assert_eq!(none.spread(0).samples, 0);
        let mut some = Samples::new();
        some.add(u64::MAX);
        some.add_bytes(&[1, 2, 3]);
        assert_eq!(some.spread(1).samples, 1);
    }
}
