//! The verdict between two sides, each a list of launch times: same, faster, slower or unknown.
//! Not a test of batches or iterations: only launches are independent enough to be compared.
//!
//! The ratio is that of candidate to baseline: the Hodges-Lehmann shift of the log times, with
//! its Mann-Whitney interval ([`super::mann_whitney`]). Above 1 the candidate takes longer.
//!
//! # Why a 95 % interval is shown and a wider one decides
//!
//! The promise is that of 200 comparisons of a program with itself at most 5 % come out as a
//! difference. A 95 % interval keeps that promise only on average and only if launches are
//! independent; on shared machines they come in slow and fast stretches, and then it is wrong
//! far more often. "Faster" and "slower" are therefore held to more:
//!
//! 1. *A 99 % interval.* The guard starts from it, which leaves room for what the noise models
//!    leave out. Four launches against four or five have no 99 % interval; theirs is the whole
//!    range of the differences, widened by the ratio of the normal quantiles.
//! 2. *Dependence in launch order.* The guard is stretched about the estimate by the lag-1
//!    correlation inside the sides, cautiously estimated ([`super::autocorrelation`]).
//! 3. *Trend.* If both sides rise by a common slope, the side measured second looks slower, and
//!    the lists do not say which side that is. So the slope inside the sides, carried over the
//!    distance between them, may amount to no more than half of the difference.
//! 4. *A smallest effect.* A difference below [`Rule::smallest_effect`] is never called one,
//!    however sure it is: launch conditions alone move results by that much.
//!
//! A difference that passes 1.00 by the shown interval and fails here is not "same" either. It
//! is "inconclusive", with the reason. The price is power, which more launches buy back.
//!
//! # What no rule on two lists can do
//!
//! If all launches of one side fall into one stretch and all of the other into the next, nothing
//! inside the sides tells that from a real difference. Measure the sides in turns (A B B A A B
//! B A): a stretch or a trend then meets both, and the false alarms go away instead of being
//! guarded against. The simulations of both orders, with the rates found, are in this module's
//! tests. The case known to break the promise is a steady trend that noise hides within a side
//! but that moves the second side by about twice the noise: measured one side after the other,
//! there is such a slope for every number of launches, with up to 11 % false alarms.

mod history;
mod verdict;

#[cfg(test)]
mod false_alarms;

pub use history::{FEWEST_EARLIER, compare_by_history};
pub use verdict::{Comparison, Reason, Rule, Verdict};

use super::autocorrelation::{persistence, stretch};
use super::drift::common_slope;
use super::interval::Interval;
use super::mann_whitney::{Level, Shift, shift};

/// The fewest launches on each side: four against four is the smallest even comparison that has
/// a 95 % Mann-Whitney interval, and fewer say nothing about dependence in launch order.
pub const FEWEST_LAUNCHES: usize = 4;

/// The share of a difference that the trend inside the sides may explain.
const LARGEST_TREND: f64 = 0.5;

/// How much wider a 99 % interval is than one of 97.1 %, the widest of four against four, under
/// normal noise: 2.576 / 2.186. A little more than four against five (98.4 %) would need.
const SHORT_OF_99: f64 = 1.18;

/// Logarithms of ratios are held within this, so that a ratio is neither zero nor infinite.
const LARGEST_LOG: f64 = 700.0;

/// Compares two lists of launch times; see the module text for the rule and its reasons.
///
/// Each value is one launch's median time, in any unit shared by both sides. Each list must be
/// *in launch order*: a sorted list looks like a trend, and nothing will be found. With fewer
/// than [`FEWEST_LAUNCHES`] on a side, or a time that is not a positive finite number, the
/// verdict is [`Verdict::Inconclusive`].
#[must_use]
pub fn compare(baseline: &[f64], candidate: &[f64], rule: &Rule) -> Comparison {
    let (Some(a), Some(b)) = (logs(baseline), logs(candidate)) else {
        return Comparison::undecided(Reason::UnusableTimes, None);
    };
    let (Some(shown), Some(wide)) = (shift(&a, &b, Level::P95), shift(&a, &b, Level::P99)) else {
        return Comparison::undecided(too_few(&a, &b), None);
    };
    let ratio = ratio_of(shown.estimate);
    if a.len().min(b.len()) < FEWEST_LAUNCHES {
        return Comparison::undecided(too_few(&a, &b), Some(ratio));
    }
    let interval = as_ratio(&shown, 1.0);
    let stretch = guard_stretch(&a, &b, &wide);
    let guard = as_ratio(&wide, stretch);
    let evidence = Evidence {
        log_ratio: shown.estimate,
        interval,
        guard,
        outlives_trend: outlives_trend(&a, &b, shown.estimate),
        stretch,
    };
    Comparison {
        verdict: evidence.judge(rule),
        ratio: Some(ratio),
        interval: Some(interval),
        guard: Some(guard),
    }
}

/// What the verdict is made from, so that the rule can be read apart from the arithmetic.
struct Evidence {
    log_ratio: f64,
    interval: Interval,
    guard: Interval,
    outlives_trend: bool,
    stretch: f64,
}

impl Evidence {
    fn judge(&self, rule: &Rule) -> Verdict {
        let matters = self.log_ratio.abs() >= rule.smallest_effect.max(0.0).ln_1p();
        if matters && !self.guard.contains(1.0) {
            return match (self.outlives_trend, self.log_ratio > 0.0) {
                (false, _) => Verdict::Inconclusive(Reason::Trend),
                (true, true) => Verdict::Slower,
                (true, false) => Verdict::Faster,
            };
        }
        let crosses_one = self.interval.contains(1.0);
        let margin = 1.0 + rule.same_within;
        let narrow = self.interval.high <= margin && self.interval.low >= 1.0 / margin;
        if narrow && (crosses_one || !matters) {
            return Verdict::Same;
        }
        Verdict::Inconclusive(if crosses_one || !matters {
            Reason::TooNoisy { half_width: (self.interval.high - self.interval.low) / 2.0 }
        } else {
            Reason::NotEstablished { stretch: self.stretch }
        })
    }
}

fn too_few(baseline: &[f64], candidate: &[f64]) -> Reason {
    Reason::TooFewLaunches {
        baseline: baseline.len(),
        candidate: candidate.len(),
        needed: FEWEST_LAUNCHES,
    }
}

fn guard_stretch(a: &[f64], b: &[f64], wide: &Shift) -> f64 {
    let rho = persistence(&[a, b]);
    let dependence = stretch(a.len(), rho).max(stretch(b.len(), rho));
    if wide.coverage < Level::P99.coverage() { dependence * SHORT_OF_99 } else { dependence }
}

/// Whether the trend that runs inside the sides is too small to have made the difference.
fn outlives_trend(a: &[f64], b: &[f64], log_ratio: f64) -> bool {
    // From the middle of one side to the middle of the next, when one follows the other.
    let distance = (a.len() + b.len()) as f64 / 2.0;
    common_slope(&[a, b])
        .is_some_and(|slope| (slope * distance).abs() <= LARGEST_TREND * log_ratio.abs())
}

fn logs(times: &[f64]) -> Option<Vec<f64>> {
    times.iter().map(|&time| (time.is_finite() && time > 0.0).then(|| time.ln())).collect()
}

fn ratio_of(log: f64) -> f64 {
    log.clamp(-LARGEST_LOG, LARGEST_LOG).exp()
}

fn as_ratio(shift: &Shift, stretch: f64) -> Interval {
    Interval {
        low: ratio_of(shift.estimate - stretch * (shift.estimate - shift.low)),
        high: ratio_of(shift.estimate + stretch * (shift.high - shift.estimate)),
        coverage: shift.coverage,
    }
}
