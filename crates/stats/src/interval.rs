//! The 95 % interval of a median, read from the sorted samples themselves.
//! Not a normal-theory interval: it assumes nothing about the shape of the noise.
//!
//! For independent samples of one continuous distribution, the number of samples below the true
//! median is binomial with `n` trials at one half. So the interval from the `r`-th smallest to
//! the `r`-th largest sample holds the median with probability
//!
//! ```text
//! coverage = 1 - 2 * P(Binomial(n, 1/2) <= r - 1)
//! ```
//!
//! whatever the distribution is (David and Nagaraja, "Order Statistics", 3rd edition, section
//! 7.1). [`median_interval`] takes the largest `r` whose coverage is at least 95 %. Coverage
//! comes in steps, so the interval is conservative: the coverage it reports is its own, 96.9 %
//! at `n = 6`, not the 95 % asked for. Ties only raise it. For `n < 6` even the whole range
//! covers less than 95 %, and there is no such interval.
//!
//! The samples must be independent. Batches of one launch that drift are not, and then the
//! interval is too narrow; [`super::drift()`] is there to say so.

use super::quantile;
use serde::{Deserialize, Serialize};

/// The coverage asked for, as a fraction.
pub const COVERAGE: f64 = 0.95;

/// The fewest samples for which a 95 % interval of the median exists.
pub const MIN_SAMPLES: usize = 6;

/// A range that holds the true value in a stated share of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, in the unit of the samples (no unit for an interval of a ratio).
    pub low: f64,
    /// Upper end, in the same unit.
    pub high: f64,
    /// Probability that the interval holds the true value, as a fraction.
    pub coverage: f64,
}

impl Interval {
    /// Half the width as a fraction of the median: `(high - low) / 2 / |median|`.
    ///
    /// No unit; 0.05 reads "plus or minus 5 %". `None` when the median is zero or the result is
    /// not a finite number.
    #[must_use]
    pub fn relative_half_width(&self, median: f64) -> Option<f64> {
        // Halved before subtracting, so that very large ends do not overflow.
        let half = self.high / 2.0 - self.low / 2.0;
        Some(half / median.abs()).filter(|width| width.is_finite())
    }

    /// Whether `value` lies in the interval, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The 95 % interval of the median from order statistics; see the module text for the formula.
///
/// The unit is that of the samples. `None` for fewer than [`MIN_SAMPLES`] samples or for a
/// non-finite one.
#[must_use]
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    median_interval_of_sorted(&quantile::sorted(samples)?)
}

/// [`median_interval`] of samples that are already in ascending order.
#[must_use]
pub fn median_interval_of_sorted(sorted: &[f64]) -> Option<Interval> {
    let (rank, coverage) = rank_and_coverage(sorted.len())?;
    Some(Interval { low: sorted[rank - 1], high: sorted[sorted.len() - rank], coverage })
}

/// The largest rank `r`, counted from 1, with at least 95 % coverage, and that coverage.
fn rank_and_coverage(n: usize) -> Option<(usize, f64)> {
    let mut found = None;
    // In logarithms, because 2^-n leaves the range of an f64 beyond n = 1074.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for rank in 1..=n / 2 {
        below += log_term.exp();
        let coverage = 1.0 - 2.0 * below;
        if coverage < COVERAGE {
            break;
        }
        found = Some((rank, coverage));
        log_term += ((n - rank + 1) as f64 / rank as f64).ln();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Rng;
    use proptest::prelude::*;

    #[test]
    fn ranks_and_coverage_match_the_published_table() {
        // Coverage of (r, n - r + 1) at one half, worked out by hand from binomial sums.
        let table = [(6, 1, 0.96875), (8, 1, 0.992_187_5), (9, 2, 0.960_937_5)];
        for (n, rank, coverage) in table {
            let (found, exact) = rank_and_coverage(n).unwrap();
            assert_eq!(found, rank);
            assert!((exact - coverage).abs() < 1e-12);
        }
        assert_eq!(rank_and_coverage(10).unwrap().0, 2);
        assert_eq!(rank_and_coverage(21).unwrap().0, 6);
        assert_eq!(rank_and_coverage(50).unwrap().0, 18);
        assert_eq!(rank_and_coverage(100).unwrap().0, 40);
    }

    #[test]
    fn five_samples_have_no_interval() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).is_some());
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[f64::NAN; 8]), None);
    }

    #[test]
    fn a_large_count_does_not_underflow() {
        let (rank, coverage) = rank_and_coverage(100_000).unwrap();
        // The normal approximation of the rank is n/2 - 0.98 sqrt(n).
        assert!((49_680..=49_700).contains(&rank), "{rank}");
        assert!((0.95..0.953).contains(&coverage), "{coverage}");
    }

    #[test]
    fn relative_half_width_needs_a_median_that_is_not_zero() {
        let interval = Interval { low: 9.0, high: 11.0, coverage: 0.95 };
        assert_eq!(interval.relative_half_width(10.0), Some(0.1));
        assert_eq!(interval.relative_half_width(0.0), None);
        assert_eq!(interval.relative_half_width(f64::NAN), None);
    }

    #[test]
    fn simulated_coverage_is_at_least_the_stated_one() {
        for n in [6, 10, 21, 50] {
            let mut rng = Rng::new(n as u64);
            let mut held = 0;
            for _ in 0..4_000 {
                // A skewed distribution with a known median of 1.
                let samples: Vec<f64> = (0..n).map(|_| (0.3 * rng.normal()).exp()).collect();
                held += usize::from(median_interval(&samples).unwrap().contains(1.0));
            }
            let share = held as f64 / 4_000.0;
            println!("n {n}: coverage {share:.4}");
            assert!(share >= 0.94, "n {n}: {share}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median(samples in prop::collection::vec(-1e9..1e9_f64, 6..80)) {
            let interval = median_interval(&samples).unwrap();
            prop_assert!(interval.contains(quantile::median(&samples).unwrap()));
            prop_assert!(interval.coverage >= COVERAGE && interval.coverage <= 1.0);
        }

        #[test]
        fn order_and_unit_do_not_matter(
            samples in prop::collection::vec(1e-3..1e6_f64, 6..60), power in -20..20_i32,
        ) {
            let unit = 2.0_f64.powi(power);
            let turned: Vec<f64> = samples.iter().rev().map(|x| x * unit).collect();
            let (one, two) = (median_interval(&samples), median_interval(&turned));
            let (one, two) = (one.unwrap(), two.unwrap());
            prop_assert_eq!((one.low * unit, one.high * unit), (two.low, two.high));
        }

        #[test]
        fn any_input_is_answered(samples in prop::collection::vec(any::<f64>(), 0..20)) {
            let _ = median_interval(&samples).and_then(|i| i.relative_half_width(samples[0]));
        }
    }
}
