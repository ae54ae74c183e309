//! The result of a comparison: the verdict, the reason where it is inconclusive, and the thresholds.
//! Not the decision itself: that is made in the parent module.

use crate::interval::Interval;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The thresholds of a comparison, as fractions of the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The smallest difference ever called faster or slower; 0.01 is 1 %. Zero, a negative
    /// value or a NaN sets no such limit.
    pub smallest_effect: f64,
    /// How close to 1 the whole printed interval must be for "same"; 0.05 is 5 %.
    pub same_within: f64,
}

impl Default for Rule {
    /// 1 % and 5 %.
    fn default() -> Self {
        Self { smallest_effect: 0.01, same_within: 0.05 }
    }
}

/// The candidate compared with the baseline. Samples are times, so faster means shorter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The shown interval lies within the rule's margin around 1, and holds 1 or the difference
    /// is below the smallest effect.
    #[serde(alias = "Same")]
    Same,
    /// The candidate takes less time, and the guard excludes 1.
    #[serde(alias = "Faster")]
    Faster,
    /// The candidate takes more time, and the guard excludes 1.
    #[serde(alias = "Slower")]
    Slower,
    /// The launches do not decide. The reason says what is missing.
    #[serde(alias = "cannot-tell", alias = "CannotTell")]
    Inconclusive(Reason),
}

/// Why a comparison is inconclusive. Displayed as a phrase that says what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A time is zero, negative, infinite or not a number.
    #[serde(alias = "UnusableTimes")]
    UnusableTimes,
    /// A side has fewer launches than a comparison needs.
    #[serde(alias = "TooFewLaunches")]
    TooFewLaunches {
        /// Launches of the baseline.
        baseline: usize,
        /// Launches of the candidate.
        candidate: usize,
        /// Launches needed on each side.
        needed: usize,
    },
    /// The guard excludes 1, but a trend inside the sides explains more than half of it.
    #[serde(alias = "Trend")]
    Trend,
    /// The shown interval excludes 1, but the guard does not.
    #[serde(alias = "NotEstablished")]
    NotEstablished {
        /// Factor by which the guard was widened for dependence between launches.
        stretch: f64,
    },
    /// The shown interval holds 1, or the difference is below the smallest effect, and the
    /// interval reaches past the margin for "same".
    #[serde(alias = "TooNoisy")]
    TooNoisy {
        /// Half the width of the shown interval of the ratio. No unit.
        half_width: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusableTimes => f.write_str("a launch time is not a positive finite number"),
            Self::TooFewLaunches { baseline, candidate, needed } => write!(
                f,
                "at least {needed} launches a side are needed; the baseline has {baseline} and the \
                 candidate {candidate}"
            ),
            Self::Trend => f.write_str(
                "a trend within each side explains most of the difference; measure the sides in \
                 turns",
            ),
            Self::NotEstablished { stretch } => write!(
                f,
                "the difference is within the noise between launches (guard interval widened \
                 {stretch:.1} times); add launches and measure the sides in turns"
            ),
            Self::TooNoisy { half_width } => write!(
                f,
                "the ratio is known only within {:.1} %; add launches",
                half_width * 100.0
            ),
        }
    }
}

/// The outcome of a comparison. Ratios are candidate over baseline and have no unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// Estimated ratio; absent when a side has no usable time.
    pub ratio: Option<f64>,
    /// Interval of the ratio to show: the exact Mann-Whitney interval of at least 95 %, as if
    /// launches were independent. Absent with too few launches.
    pub interval: Option<Interval>,
    /// The wider interval that decides. Its `coverage` is that of the interval it was widened
    /// from. Absent with too few launches.
    pub guard: Option<Interval>,
}

impl Comparison {
    /// A comparison without intervals.
    pub(super) fn undecided(reason: Reason, ratio: Option<f64>) -> Self {
        Self { verdict: Verdict::Inconclusive(reason), ratio, interval: None, guard: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::noise::{Noise, Rng};
    use proptest::prelude::*;

    const STEADY: [f64; 8] = [1.00, 1.02, 0.99, 1.01, 0.98, 1.00, 1.01, 0.99];

    fn verdict(a: &[f64], b: &[f64]) -> Verdict {
        compare(a, b, &Rule::default()).verdict
    }

    fn times(factor: f64) -> Vec<f64> {
        // Another order, so that the two sides are not copies of each other.
        STEADY.iter().rev().map(|time| time * factor).collect()
    }

    #[test]
    fn clear_cases_are_called() {
        assert_eq!(verdict(&STEADY, &times(1.1)), Verdict::Slower);
        assert_eq!(verdict(&STEADY, &times(0.9)), Verdict::Faster);
        assert_eq!(verdict(&STEADY, &times(1.0)), Verdict::Same);
        assert_eq!(verdict(&[2.0; 5], &[2.5; 5]), Verdict::Slower);
    }

    #[test]
    fn a_sure_but_tiny_difference_is_same() {
        assert_eq!(verdict(&[1.0; 9], &[1.005; 9]), Verdict::Same);
        let strict = Rule { smallest_effect: 0.001, ..Rule::default() };
        let found = compare(&[1.0; 9], &[1.005; 9], &strict);
        assert_eq!(found.verdict, Verdict::Slower);
    }

    #[test]
    fn too_few_launches_name_the_number_needed() {
        let found = compare(&[1.0], &[1.2, 1.2, 1.2, 1.2], &Rule::default());
        let Verdict::Inconclusive(reason) = found.verdict else {
            panic!("{found:?}");
        };
        assert!(reason.to_string().contains("at least 4 launches a side"));
        assert!((found.ratio.unwrap() - 1.2).abs() < 1e-12);
        assert_eq!((found.interval, found.guard), (None, None));
        let none = compare(&[], &[], &Rule::default());
        assert!(matches!(none.verdict, Verdict::Inconclusive(Reason::TooFewLaunches { .. })));
    }

    #[test]
    fn every_other_reason_can_be_reached() {
        let unusable = verdict(&[0.0; 8], &STEADY);
        assert_eq!(unusable, Verdict::Inconclusive(Reason::UnusableTimes));
        let wild = [1.0, 1.4, 0.8, 1.2, 0.7, 1.3, 0.9, 1.1];
        let noisy = verdict(&wild, &times(1.0));
        assert!(matches!(noisy, Verdict::Inconclusive(Reason::TooNoisy { .. })));
        let small = verdict(&STEADY, &times(1.02));
        assert!(matches!(small, Verdict::Inconclusive(Reason::NotEstablished { .. })));
        let mut rng = Rng::new(1);
        let trend = (0..100).any(|_| {
            let times = Noise::LinearDrift.launches(&mut rng, 24);
            verdict(&times[..12], &times[12..]) == Verdict::Inconclusive(Reason::Trend)
        });
        assert!(trend);
    }

    proptest! {
        #[test]
        fn exchange_of_the_sides_turns_the_verdict(
            a in prop::collection::vec(0.9..1.1_f64, 4..10),
            b in prop::collection::vec(1.0..1.3_f64, 4..10),
        ) {
            let turned = match verdict(&b, &a) {
                Verdict::Slower => Verdict::Faster,
                Verdict::Faster => Verdict::Slower,
                other => other,
            };
            let (one, two) = (verdict(&a, &b), turned);
            prop_assert_eq!(std::mem::discriminant(&one), std::mem::discriminant(&two));
        }

        #[test]
        fn a_change_of_unit_does_not_change_the_ratio(
            a in prop::collection::vec(0.5..2.0_f64, 4..10), unit in 1e-6..1e6_f64,
        ) {
            let scaled: Vec<f64> = a.iter().map(|time| time * unit).collect();
            let one = compare(&a, &STEADY, &Rule::default()).ratio.unwrap();
            let two = compare(&scaled, &STEADY, &Rule::default()).ratio.unwrap();
            prop_assert!((two * unit / one - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_guard_holds_the_interval_and_the_interval_the_ratio(
            a in prop::collection::vec(1e-6..1e6_f64, 4..12),
            b in prop::collection::vec(1e-6..1e6_f64, 4..12),
        ) {
            let found = compare(&a, &b, &Rule::default());
            let (shown, guard) = (found.interval.unwrap(), found.guard.unwrap());
            prop_assert!(shown.contains(found.ratio.unwrap()) && shown.coverage >= 0.95);
            prop_assert!(guard.low <= shown.low && shown.high <= guard.high);
        }

        #[test]
        fn any_input_is_answered(
            a in prop::collection::vec(any::<f64>(), 0..9),
            b in prop::collection::vec(any::<f64>(), 0..9),
            positive in prop::collection::vec(f64::MIN_POSITIVE..f64::MAX, 4..9),
            effect: f64,
        ) {
            let rule = Rule { smallest_effect: effect, same_within: effect };
            let _ = compare(&a, &b, &rule);
            let ratio = compare(&positive, &a, &rule).ratio;
            prop_assert!(ratio.is_none_or(|ratio| ratio > 0.0 && ratio.is_finite()));
        }
    }
}
