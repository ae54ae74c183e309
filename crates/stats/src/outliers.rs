//! How many samples lie far from the rest, by Tukey's fences.
//! Not a filter: outliers are counted and reported, and never removed from any figure.
//!
//! With quartiles `q1` and `q3` and `iqr = q3 - q1`, a sample is a *mild* outlier when it lies
//! outside `[q1 - 1.5 iqr, q3 + 1.5 iqr]` and a *severe* one when it lies outside
//! `[q1 - 3 iqr, q3 + 3 iqr]` (Tukey, "Exploratory Data Analysis", 1977, chapter 2). Normal
//! noise puts 0.7 % of samples outside the inner fences and 2 in a million outside the outer.
//! When more than half of the samples are equal the fences close on that value, and every other
//! sample is severe: that is a fact about the clock's resolution as often as about the samples.

use super::quantile;
use serde::{Deserialize, Serialize};

/// Inner fences, in interquartile ranges.
const INNER_FENCE_IQRS: f64 = 1.5;

/// Outer fences, in interquartile ranges.
const OUTER_FENCE_IQRS: f64 = 3.0;

/// How many samples lie outside the fences. A sample counts once: severe ones are not mild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outliers {
    /// Samples outside the inner fences (1.5 interquartile ranges) and inside the outer ones.
    pub mild: usize,
    /// Samples outside the outer fences (3 interquartile ranges).
    pub severe: usize,
}

/// Counts mild and severe outliers; see the module text for the fences.
///
/// `None` for an empty slice or a non-finite sample. Fewer than 4 samples never show one.
#[must_use]
pub fn outliers(samples: &[f64]) -> Option<Outliers> {
    Some(outliers_of_sorted(&quantile::sorted(samples)?))
}

/// [`outliers`] of finite samples that are already in ascending order; none for no samples.
#[must_use]
pub fn outliers_of_sorted(sorted: &[f64]) -> Outliers {
    let quartiles =
        quantile::quantile_of_sorted(sorted, 0.25).zip(quantile::quantile_of_sorted(sorted, 0.75));
    let Some((q1, q3)) = quartiles else {
        return Outliers::default();
    };
    let iqr = q3 - q1;
    let outside = |fence: f64| {
        let (low, high) = (q1 - fence * iqr, q3 + fence * iqr);
        sorted.iter().filter(|&&x| x < low || x > high).count()
    };
    let severe = outside(OUTER_FENCE_IQRS);
    Outliers { mild: outside(INNER_FENCE_IQRS) - severe, severe }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mild_and_severe_are_told_apart() {
        // Quartiles 3 and 7, so the fences are at -3, 13 and at -9, 19.
        let mut samples: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(outliers(&samples), Some(Outliers::default()));
        samples[8] = 14.0;
        assert_eq!(outliers(&samples), Some(Outliers { mild: 1, severe: 0 }));
        samples[0] = -14.0;
        assert_eq!(outliers(&samples), Some(Outliers { mild: 1, severe: 1 }));
    }

    #[test]
    fn equal_samples_close_the_fences() {
        let mut samples = [5.0; 9];
        assert_eq!(outliers(&samples), Some(Outliers::default()));
        samples[0] = 5.1;
        assert_eq!(outliers(&samples), Some(Outliers { mild: 0, severe: 1 }));
    }

    #[test]
    fn bad_samples_give_no_count() {
        assert_eq!(outliers(&[]), None);
        assert_eq!(outliers(&[f64::NAN]), None);
        assert_eq!(outliers_of_sorted(&[]), Outliers::default());
        assert_eq!(outliers(&[1.0]), Some(Outliers::default()));
    }

    proptest! {
        #[test]
        fn order_and_unit_do_not_matter(
            samples in prop::collection::vec(1e-3..1e6_f64, 1..60), power in -20..20_i32,
        ) {
            let unit = 2.0_f64.powi(power);
            let turned: Vec<f64> = samples.iter().rev().map(|x| x * unit).collect();
            prop_assert_eq!(outliers(&samples), outliers(&turned));
        }

        #[test]
        fn at_most_half_of_the_samples_are_outliers(
            samples in prop::collection::vec(-1e6..1e6_f64, 1..60),
        ) {
            let found = outliers(&samples).unwrap();
            prop_assert!((found.mild + found.severe) * 2 <= samples.len());
        }

        #[test]
        fn any_input_is_answered(samples in prop::collection::vec(any::<f64>(), 0..20)) {
            let _ = outliers(&samples);
        }
    }
}
