//! The summary of the iterations of one measurement that nccl-tests prints with `-I`.
//! Not our own summary: it exists so that the two programs can be compared figure by figure.
//!
//! Source: `computeIterStats`, `percentileIndex` and `writePerIterReport` in src/util.cu of
//! nccl-tests 2.19.6. Its choices are kept although others could be made: p50 is the upper
//! middle sample, percentiles are nearest rank, and the deviation divides by `n`, not `n - 1`.

use super::quantile;
use serde::{Deserialize, Serialize};

/// What nccl-tests reports about a list of iteration times.
///
/// All times are in the unit of the samples (nccl-tests prints microseconds).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IterationStats {
    /// Smallest time.
    pub min: f64,
    /// Largest time.
    pub max: f64,
    /// Arithmetic mean: `sum / n`, summed in ascending order as nccl-tests does.
    pub avg: f64,
    /// `sorted[n / 2]`.
    pub p50: f64,
    /// 95th percentile, nearest rank.
    pub p95: f64,
    /// 99th percentile, nearest rank; with fewer than 100 iterations this is the largest time.
    pub p99: f64,
    /// Population standard deviation: `sqrt(sum((x - avg)^2) / n)`.
    pub stdev: f64,
    /// Coefficient of variation in percent: `stdev / avg * 100`, and 0 unless `avg > 0`.
    pub cv_percent: f64,
}

/// The per-iteration summary of nccl-tests 2.19.6; see [`IterationStats`] for each formula.
///
/// `None` for an empty slice, for a non-finite sample, and for samples so large that their sum
/// or the sum of their squares is not a finite `f64`.
#[must_use]
pub fn iteration_stats(times: &[f64]) -> Option<IterationStats> {
    let sorted = quantile::sorted(times)?;
    let n = sorted.len() as f64;
    let avg = sorted.iter().sum::<f64>() / n;
    let squares: f64 = sorted.iter().map(|x| (x - avg) * (x - avg)).sum();
    let stdev = (squares / n).sqrt();
    let cv_percent = if avg > 0.0 { stdev / avg * 100.0 } else { 0.0 };
    if !(avg.is_finite() && stdev.is_finite() && cv_percent.is_finite()) {
        return None;
    }
    Some(IterationStats {
        min: *sorted.first()?,
        max: *sorted.last()?,
        avg,
        p50: quantile::upper_median(&sorted)?,
        p95: quantile::nearest_rank(&sorted, 95)?,
        p99: quantile::nearest_rank(&sorted, 99)?,
        stdev,
        cv_percent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn twenty_iterations_match_a_hand_worked_case() {
        let times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let stats = iteration_stats(&times).unwrap();
        assert_eq!((stats.min, stats.max, stats.avg), (1.0, 20.0, 10.5));
        // Index 10; index (20 * 95 + 99) / 100 - 1 = 18; index (20 * 99 + 99) / 100 - 1 = 19.
        assert_eq!((stats.p50, stats.p95, stats.p99), (11.0, 19.0, 20.0));
        assert!((stats.stdev - 33.25_f64.sqrt()).abs() < 1e-12);
        assert!((stats.cv_percent - 33.25_f64.sqrt() / 10.5 * 100.0).abs() < 1e-12);
    }

    #[test]
    fn one_iteration_has_no_spread() {
        let stats = iteration_stats(&[3.5]).unwrap();
        assert_eq!((stats.min, stats.max, stats.avg), (3.5, 3.5, 3.5));
        assert_eq!((stats.p50, stats.p95, stats.p99), (3.5, 3.5, 3.5));
        assert_eq!((stats.stdev, stats.cv_percent), (0.0, 0.0));
    }

    #[test]
    fn a_mean_that_is_not_positive_has_no_coefficient_of_variation() {
        assert_eq!(iteration_stats(&[0.0, 0.0]).unwrap().cv_percent, 0.0);
        assert_eq!(iteration_stats(&[-1.0, -2.0]).unwrap().cv_percent, 0.0);
    }

    #[test]
    fn bad_samples_give_no_summary() {
        for bad in [&[][..], &[f64::NAN], &[f64::INFINITY, 1.0], &[1e308, 1e308]] {
            assert_eq!(iteration_stats(bad), None);
        }
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut times in prop::collection::vec(0.0..1e6_f64, 1..200)) {
            let before = iteration_stats(&times);
            times.reverse();
            prop_assert_eq!(before, iteration_stats(&times));
        }

        #[test]
        fn figures_stand_in_order(times in prop::collection::vec(0.0..1e6_f64, 1..200)) {
            let s = iteration_stats(&times).unwrap();
            prop_assert!(s.min <= s.p50 && s.p50 <= s.p95 && s.p95 <= s.p99 && s.p99 <= s.max);
        }

        #[test]
        fn a_change_of_unit_scales_the_times_and_not_the_percentage(
            times in prop::collection::vec(1e-3..1e6_f64, 1..60), power in -20..20_i32,
        ) {
            let unit = 2.0_f64.powi(power);
            let scaled: Vec<f64> = times.iter().map(|x| x * unit).collect();
            let (one, two) = (iteration_stats(&times).unwrap(), iteration_stats(&scaled).unwrap());
            prop_assert_eq!((one.avg * unit, one.p99 * unit), (two.avg, two.p99));
            prop_assert_eq!((one.stdev * unit, one.cv_percent), (two.stdev, two.cv_percent));
        }

        #[test]
        fn any_input_is_answered(times in prop::collection::vec(any::<f64>(), 0..20)) {
            let _ = iteration_stats(&times);
        }
    }
}
