//! The one-line description of a measurement: centre, interval, range, and what is wrong with it.
//! Not a verdict between measurements, and not the nccl-tests summary of single iterations.

use super::drift::{self, Drift};
use super::interval::{self, Interval};
use super::outliers::{self, Outliers};
use super::quantile;
use serde::{Deserialize, Serialize};

/// Half the 95 % interval over the median above which a measurement is called noisy.
pub const NOISY_HALF_WIDTH: f64 = 0.05;

/// The samples of one measurement, described. All times are in the unit of the samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median, interpolated between the two middle samples of an even count.
    pub median: f64,
    /// The 95 % interval of the median; absent for fewer than 6 samples.
    pub interval: Option<Interval>,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Samples outside Tukey's fences. They are counted in every other figure too.
    pub outliers: Outliers,
    /// The trend with the order of measurement; absent for fewer than 6 samples, and where no
    /// change relative to the median can be given.
    pub drift: Option<Drift>,
    /// Half the interval is over 5 % of the median, or cannot be set against it because the
    /// median is zero. `false` where there is no interval: too few samples are not shown to be
    /// noisy, and the missing interval says so.
    pub noisy: bool,
}

/// Describes the samples of one measurement, in the order in which they were measured.
///
/// Only [`Summary::drift`] depends on that order. `None` for an empty slice or a sample that is
/// not finite.
#[must_use]
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let sorted = quantile::sorted(samples)?;
    let median = quantile::median_of_sorted(&sorted)?;
    let interval = interval::median_interval_of_sorted(&sorted);
    Some(Summary {
        median,
        interval,
        min: *sorted.first()?,
        max: *sorted.last()?,
        outliers: outliers::outliers_of_sorted(&sorted),
        drift: drift::drift(samples),
        noisy: interval.is_some_and(|interval| is_noisy(&interval, median)),
    })
}

fn is_noisy(interval: &Interval, median: f64) -> bool {
    match interval.relative_half_width(median) {
        Some(width) => width > NOISY_HALF_WIDTH,
        None => interval.low < interval.high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quiet_measurement_is_described() {
        let samples = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 10.1, 9.9];
        let summary = summarise(&samples).unwrap();
        assert_eq!((summary.median, summary.min, summary.max), (10.0, 9.9, 10.1));
        assert!(!summary.noisy);
        assert!(!summary.drift.unwrap().significant);
        assert_eq!(summary.outliers, Outliers::default());
        let interval = summary.interval.unwrap();
        assert_eq!((interval.low, interval.high), (9.9, 10.1));
    }

    #[test]
    fn noise_is_judged_by_the_interval_and_not_by_outliers() {
        let mut samples = vec![10.0; 20];
        samples[3] = 99.0;
        assert!(!summarise(&samples).unwrap().noisy);
        let spread: Vec<f64> = (0..8).map(|i| 10.0 + f64::from(i % 4)).collect();
        assert!(summarise(&spread).unwrap().noisy);
    }

    #[test]
    fn few_samples_have_neither_interval_nor_drift() {
        let summary = summarise(&[1.0, 50.0]).unwrap();
        assert_eq!((summary.interval, summary.drift), (None, None));
        assert!(!summary.noisy);
    }

    #[test]
    fn zeros_do_not_divide() {
        let summary = summarise(&[0.0; 9]).unwrap();
        assert_eq!((summary.median, summary.noisy), (0.0, false));
        let around_zero = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0];
        assert!(summarise(&around_zero).unwrap().noisy);
    }

    proptest! {
        #[test]
        fn order_changes_the_drift_alone(
            samples in prop::collection::vec(1e-3..1e6_f64, 1..60),
        ) {
            let turned: Vec<f64> = samples.iter().rev().copied().collect();
            let one = summarise(&samples).unwrap();
            let two = summarise(&turned).unwrap();
            prop_assert_eq!(Summary { drift: two.drift, ..one }, two);
        }

        #[test]
        fn a_change_of_unit_scales_the_times_alone(
            samples in prop::collection::vec(1e-3..1e6_f64, 1..60), power in -20..20_i32,
        ) {
            let unit = 2.0_f64.powi(power);
            let scaled: Vec<f64> = samples.iter().map(|x| x * unit).collect();
            let one = summarise(&samples).unwrap();
            let two = summarise(&scaled).unwrap();
            prop_assert_eq!((one.median * unit, one.max * unit), (two.median, two.max));
            prop_assert_eq!((one.noisy, one.outliers), (two.noisy, two.outliers));
            prop_assert_eq!(one.drift, two.drift);
        }

        #[test]
        fn any_input_is_answered(samples in prop::collection::vec(any::<f64>(), 0..30)) {
            let _ = summarise(&samples);
        }
    }
}
