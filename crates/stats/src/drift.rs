//! Whether a sequence of samples rises or falls with its index, and by how much.
//! Not a test of a cause: warm-up, heat and a busy neighbour all look alike here.
//!
//! The test is Mann and Kendall's: `S` is the number of pairs that rise minus the number that
//! fall (Mann, "Nonparametric Tests Against Trend", Econometrica 13, 1945). Without ties and up
//! to 60 samples its distribution is exact, from the counts of permutations by inversions.
//! Otherwise `S` is taken as normal with the variance corrected for ties (Kendall, "Rank
//! Correlation Methods", 1970, chapter 4) and a continuity correction of one:
//!
//! ```text
//! var(S) = (n (n - 1) (2 n + 5) - sum over ties t (t - 1) (2 t + 5)) / 18
//! z = (|S| - 1) / sqrt(var(S))
//! ```
//!
//! The size of the drift is the slope of Theil and Sen, the median of `(x[j] - x[i]) / (j - i)`
//! over all pairs (Sen, JASA 63, 1968): one outlier cannot make a trend.
//!
//! The test supposes samples that are independent but for the trend. Samples that come in slow
//! and fast stretches are called drifting more often than the 1 % it promises, which is what a
//! reader wants to be told about them anyway.

use super::quantile;
use serde::{Deserialize, Serialize};

/// Two-sided significance level of the trend test, as a fraction.
pub const SIGNIFICANCE: f64 = 0.01;

/// The fewest samples for which a trend can be significant at 1 %: `2 / 5!` is above it.
pub const MIN_SAMPLES: usize = 6;

/// Normal quantile of the two-sided 1 % level.
const Z_99: f64 = 2.575_829;

/// Largest count for the exact distribution; beyond it the normal one is as good.
const EXACT_UP_TO: usize = 60;

/// Longest sequence taken as it is; the pairs of a longer one would cost too much.
const MAX_SAMPLES: usize = 512;

/// The trend of a sequence with its index.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Whether the Mann-Kendall test finds a trend at the two-sided 1 % level.
    pub significant: bool,
    /// `slope * (n - 1) / |median|`: the change from the first sample to the last, as a
    /// fraction of the median. Positive when the samples grow. No unit.
    pub relative_change: f64,
}

/// Tests a sequence, in the order in which it was measured, for a trend.
///
/// A sequence longer than 512 samples is first reduced to the medians of at most 512 runs of
/// neighbours of equal length (the last may be shorter). `None` for fewer than
/// [`MIN_SAMPLES`] samples, a non-finite sample, or a relative change that is no finite
/// number (a zero median with a slope that is not zero).
#[must_use]
pub fn drift(samples: &[f64]) -> Option<Drift> {
    if samples.len() < MIN_SAMPLES || !samples.iter().all(|x| x.is_finite()) {
        return None;
    }
    let run = samples.len().div_ceil(MAX_SAMPLES);
    let sequence: Option<Vec<f64>> = samples.chunks(run).map(quantile::median).collect();
    let sequence = sequence?;
    Some(Drift {
        significant: is_significant(&sequence),
        relative_change: relative_change(&sequence)?,
    })
}

/// The Theil-Sen slope shared by several sequences: the median over all pairs inside each.
///
/// The unit is that of the samples per step. `None` when there is no pair or a slope is not a
/// finite number.
#[must_use]
pub fn common_slope(sequences: &[&[f64]]) -> Option<f64> {
    let mut slopes = Vec::new();
    for sequence in sequences {
        slopes.extend(pairs(sequence).map(|(i, j)| (sequence[j] - sequence[i]) / (j - i) as f64));
    }
    quantile::median(&slopes)
}

fn relative_change(sequence: &[f64]) -> Option<f64> {
    let change = common_slope(&[sequence])? * (sequence.len() - 1) as f64;
    if change == 0.0 {
        return Some(0.0);
    }
    let relative = change / quantile::median(sequence)?.abs();
    Some(relative).filter(|value| value.is_finite())
}

fn is_significant(sequence: &[f64]) -> bool {
    let n = sequence.len();
    let (mut rises, mut falls) = (0_usize, 0_usize);
    for (i, j) in pairs(sequence) {
        rises += usize::from(sequence[j] > sequence[i]);
        falls += usize::from(sequence[j] < sequence[i]);
    }
    let tied = rises + falls < n * (n - 1) / 2;
    if !tied && n <= EXACT_UP_TO {
        return 2.0 * share_with_inversions_up_to(n, rises.min(falls)) <= SIGNIFICANCE;
    }
    let variance = variance_of_s(sequence);
    variance > 0.0 && (rises.abs_diff(falls) as f64 - 1.0) / variance.sqrt() > Z_99
}

fn pairs(sequence: &[f64]) -> impl Iterator<Item = (usize, usize)> {
    let n = sequence.len();
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

/// The share of the permutations of `n` things that have at most `most` inversions.
fn share_with_inversions_up_to(n: usize, most: usize) -> f64 {
    let mut share = vec![0.0; most + 1];
    share[0] = 1.0;
    for placed in 2..=n {
        // The new thing adds 0 to placed - 1 inversions, each equally likely.
        let before = share.clone();
        for (inversions, value) in share.iter_mut().enumerate() {
            let first = (inversions + 1).saturating_sub(placed);
            *value = before[first..=inversions].iter().sum::<f64>() / placed as f64;
        }
    }
    share.iter().sum()
}

fn variance_of_s(sequence: &[f64]) -> f64 {
    let term = |count: usize| {
        let t = count as f64;
        t * (t - 1.0) * (2.0 * t + 5.0)
    };
    let mut sorted = sequence.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|t| term(t.len())).sum();
    (term(sequence.len()) - ties) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, Rng};
    use proptest::prelude::*;

    #[test]
    fn inversion_counts_match_the_published_ones() {
        // Permutations of 4 by inversions: 1, 3, 5, 6, 5, 3, 1.
        for (most, count) in [(0, 1.0), (1, 4.0), (2, 9.0), (3, 15.0), (6, 24.0)] {
            let share = share_with_inversions_up_to(4, most);
            assert!((share - count / 24.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_straight_rise_is_found_and_measured() {
        let samples: Vec<f64> = (0..11).map(|i| 95.0 + f64::from(i)).collect();
        let found = drift(&samples).unwrap();
        assert!(found.significant);
        assert!((found.relative_change - 0.1).abs() < 1e-12);
        let falling: Vec<f64> = samples.iter().rev().copied().collect();
        assert!((drift(&falling).unwrap().relative_change + 0.1).abs() < 1e-12);
    }

    #[test]
    fn one_outlier_at_the_end_is_no_trend() {
        let samples = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01, 9.0];
        let found = drift(&samples).unwrap();
        assert!(!found.significant);
        assert!(found.relative_change.abs() < 0.05);
    }

    #[test]
    fn equal_samples_do_not_drift() {
        let none = Drift { significant: false, relative_change: 0.0 };
        assert_eq!(drift(&[2.0; 12]), Some(none));
        assert_eq!(drift(&[0.0; 12]), Some(none));
    }

    #[test]
    fn short_or_bad_sequences_give_no_answer() {
        assert_eq!(drift(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert!(drift(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().significant);
        assert_eq!(drift(&[f64::NAN; 9]), None);
        assert_eq!(drift(&[-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn false_alarms_stay_near_the_level_and_power_is_there() {
        for n in [6, 20, 80, 700] {
            let mut rng = Rng::new(17 + n as u64);
            let trials = if n > 100 { 300 } else { 2_000 };
            let mut alarms = 0;
            for _ in 0..trials {
                let samples = Noise::Lognormal.launches(&mut rng, n);
                alarms += usize::from(drift(&samples).unwrap().significant);
            }
            let rate = alarms as f64 / f64::from(trials);
            println!("n {n}: drift false alarms {rate:.4}");
            assert!(rate <= 0.02, "n {n}: {rate}");
        }
        let mut rng = Rng::new(5);
        let found = (0..500)
            .filter(|_| {
                let samples = Noise::LinearDrift.launches(&mut rng, 24);
                drift(&samples).unwrap().significant
            })
            .count();
        println!("12 % drift over 24 samples found in {found} of 500");
        assert!(found >= 450, "{found} of 500");
    }

    #[test]
    fn a_shared_slope_ignores_the_gap_between_the_sequences() {
        let slope = common_slope(&[&[1.0, 2.0, 3.0], &[101.0, 102.0, 103.0]]);
        assert_eq!(slope, Some(1.0));
        assert_eq!(common_slope(&[&[1.0], &[]]), None);
    }

    proptest! {
        #[test]
        fn a_change_of_unit_does_not_matter(
            samples in prop::collection::vec(1e-3..1e6_f64, 6..40), power in -20..20_i32,
        ) {
            let scaled: Vec<f64> = samples.iter().map(|x| x * 2.0_f64.powi(power)).collect();
            prop_assert_eq!(drift(&samples), drift(&scaled));
        }

        #[test]
        fn reversal_turns_the_sign(samples in prop::collection::vec(1e-3..1e6_f64, 6..40)) {
            let turned: Vec<f64> = samples.iter().rev().copied().collect();
            let (one, two) = (drift(&samples).unwrap(), drift(&turned).unwrap());
            prop_assert_eq!(one.significant, two.significant);
            prop_assert_eq!(one.relative_change, -two.relative_change);
        }

        #[test]
        fn any_input_is_answered(samples in prop::collection::vec(any::<f64>(), 0..20)) {
            let _ = drift(&samples);
        }
    }
}
