//! When a measurement has enough batches: a fixed count, a precision, or a time limit.
//! Not a clock or a loop: the caller passes the samples so far and the seconds gone by.
//!
//! # Optional stopping
//!
//! A rule that looks at the interval after every batch and stops at the first one that is narrow
//! enough stops when the interval is narrow by luck. Its interval is then too narrow on average
//! and misses the true median more often than its coverage says. Two things are done about it:
//!
//! * the rule looks only at 6, 8, 11, 15, 21, 29, 40, ... samples, each count about 1.4 times
//!   the one before, so that there are few looks and each brings much that is new;
//! * the precision must hold at two successive looks, so that one lucky look is not enough.
//!
//! That takes most of the bias away and not all of it. The simulation in the tests of this
//! module puts a number on what is left.

use super::{interval, quantile};
use serde::{Deserialize, Serialize};

/// The rule of `--precision` and `--max-time`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StoppingRule {
    /// Batches that are always taken, whatever the other limits say.
    pub min_batches: usize,
    /// Half-width of the 95 % interval of the median to reach, as a fraction of the median;
    /// 0.02 is plus or minus 2 %. `None` stops at `min_batches`.
    pub precision: Option<f64>,
    /// Seconds after which no further batch is started. `None` sets no limit: with a precision
    /// that the noise does not allow, the measurement then does not end by itself.
    pub max_time_seconds: Option<f64>,
}

/// What to do after the batches so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Measure another batch.
    Continue,
    /// Stop, for this reason.
    Stop(Stop),
}

/// Why a measurement stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The precision held at two successive looks.
    Reached,
    /// The time limit passed first.
    OutOfTime,
    /// No precision was asked for, and the batches asked for are there.
    FixedCount,
}

impl StoppingRule {
    /// Decides from the samples so far, in any unit, and the seconds since the first began.
    ///
    /// In this order: fewer than `min_batches` samples continue, even past the time limit; with
    /// no precision asked for, stop; with the precision reached, stop; with the time used up,
    /// stop. The precision depends only on the samples up to the latest look, so that asking
    /// again between two looks gives the same answer. Samples that are not finite never reach a
    /// precision. A time or a limit that is not a number counts as used up, because a
    /// measurement that ends too early does less harm than one that does not end.
    #[must_use]
    pub fn decide(&self, samples: &[f64], elapsed_seconds: f64) -> Decision {
        if samples.len() < self.min_batches {
            return Decision::Continue;
        }
        let Some(precision) = self.precision else {
            return Decision::Stop(Stop::FixedCount);
        };
        if self.holds_at_two_looks(samples, precision) {
            return Decision::Stop(Stop::Reached);
        }
        let used_up =
            |limit: f64| elapsed_seconds.is_nan() || limit.is_nan() || elapsed_seconds >= limit;
        if self.max_time_seconds.is_some_and(used_up) {
            return Decision::Stop(Stop::OutOfTime);
        }
        Decision::Continue
    }

    fn holds_at_two_looks(&self, samples: &[f64], precision: f64) -> bool {
        self.last_two_looks(samples.len())
            .is_some_and(|looks| looks.iter().all(|&look| is_precise(&samples[..look], precision)))
    }

    /// The two latest looks at or before `count` samples.
    fn last_two_looks(&self, count: usize) -> Option<[usize; 2]> {
        let mut earlier = self.min_batches.max(interval::MIN_SAMPLES);
        let mut later = next_look(earlier);
        if later > count {
            return None;
        }
        while next_look(later) <= count {
            (earlier, later) = (later, next_look(later));
        }
        Some([earlier, later])
    }
}

/// The sample count at which the rule looks after it has looked at `look`: 7/5 of it.
fn next_look(look: usize) -> usize {
    // Saturating, so that an absurd minimum is only never reached.
    look.saturating_add(look / 5 * 2 + look % 5 * 2 / 5)
}

fn is_precise(samples: &[f64], precision: f64) -> bool {
    let width = || {
        let sorted = quantile::sorted(samples)?;
        let median = quantile::median_of_sorted(&sorted)?;
        interval::median_interval_of_sorted(&sorted)?.relative_half_width(median)
    };
    width().is_some_and(|width| width <= precision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Rng;
    use proptest::prelude::*;

    const RULE: StoppingRule =
        StoppingRule { min_batches: 5, precision: Some(0.02), max_time_seconds: Some(10.0) };

    #[test]
    fn looks_grow_by_about_two_fifths() {
        let looks = std::iter::successors(Some(6), |&look| Some(next_look(look)));
        let first: Vec<usize> = looks.take(8).collect();
        assert_eq!(first, [6, 8, 11, 15, 21, 29, 40, 56]);
        assert_eq!(next_look(usize::MAX), usize::MAX);
        assert_eq!(RULE.last_two_looks(7), None);
        assert_eq!(RULE.last_two_looks(14), Some([8, 11]));
    }

    #[test]
    fn quiet_samples_stop_at_the_second_look() {
        let samples = [1.0; 20];
        assert_eq!(RULE.decide(&samples[..7], 0.0), Decision::Continue);
        assert_eq!(RULE.decide(&samples[..8], 0.0), Decision::Stop(Stop::Reached));
    }

    #[test]
    fn the_minimum_comes_before_the_time_limit() {
        assert_eq!(RULE.decide(&[1.0; 4], 99.0), Decision::Continue);
        assert_eq!(RULE.decide(&[1.0; 5], 99.0), Decision::Stop(Stop::OutOfTime));
        assert_eq!(RULE.decide(&[1.0; 5], f64::NAN), Decision::Stop(Stop::OutOfTime));
        assert_eq!(RULE.decide(&[1.0; 5], 9.0), Decision::Continue);
    }

    #[test]
    fn without_a_precision_the_count_is_fixed() {
        let rule = StoppingRule { precision: None, ..RULE };
        assert_eq!(rule.decide(&[1.0; 4], 0.0), Decision::Continue);
        assert_eq!(rule.decide(&[1.0; 5], 0.0), Decision::Stop(Stop::FixedCount));
    }

    #[test]
    fn wild_or_bad_samples_never_reach_a_precision() {
        let wild: Vec<f64> = (0..40).map(|i| f64::from(1 + i % 3)).collect();
        assert_eq!(RULE.decide(&wild, 1.0), Decision::Continue);
        assert_eq!(RULE.decide(&[f64::NAN; 40], 1.0), Decision::Continue);
    }

    /// How often the interval holds the true median of 1 when `stops` ends the measurement.
    fn coverage_when_stopped(stops: impl Fn(&[f64]) -> bool) -> f64 {
        let mut rng = Rng::new(11);
        let trials = 2_000;
        let mut held = 0;
        for _ in 0..trials {
            let mut samples = Vec::new();
            while !stops(&samples) {
                samples.push((0.05 * rng.normal()).exp());
            }
            held += u32::from(interval::median_interval(&samples).unwrap().contains(1.0));
        }
        f64::from(held) / f64::from(trials)
    }

    #[test]
    fn two_spaced_looks_keep_most_of_the_coverage() {
        let spaced =
            coverage_when_stopped(|samples| RULE.decide(samples, 0.0) != Decision::Continue);
        let naive = coverage_when_stopped(|samples| is_precise(samples, 0.02));
        println!("coverage when stopped: two spaced looks {spaced:.4}, every batch {naive:.4}");
        assert!(spaced >= 0.93, "{spaced}");
        assert!(spaced > naive + 0.01, "{spaced} against {naive}");
    }

    proptest! {
        #[test]
        fn the_answer_depends_on_the_samples_up_to_the_look(
            samples in prop::collection::vec(0.9..1.1_f64, 11..15),
        ) {
            prop_assert_eq!(RULE.decide(&samples, 0.0), RULE.decide(&samples[..11], 0.0));
        }

        #[test]
        fn any_input_is_answered(
            samples in prop::collection::vec(any::<f64>(), 0..30),
            min_batches: usize, precision: Option<f64>, limit: Option<f64>, elapsed: f64,
        ) {
            let rule = StoppingRule { min_batches, precision, max_time_seconds: limit };
            let _ = rule.decide(&samples, elapsed);
            let _ = StoppingRule { min_batches: 0, ..rule }.decide(&samples, elapsed);
        }
    }
}
