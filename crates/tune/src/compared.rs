//! Two sides of a comparison: launches in turns, the gain, and when it counts.
//! Not which sides there are (`search`), and not what follows from them (`outcome`).
//!
//! A gain counts where fresh launches in turns, seven a side at least, differ by the rank test with p < 0.001 and by
//! 2 % or more. There are two looks at most, which share the 0.001 (Bonferroni). None of the search's own trials counts: it
//! chose the winner for being fast, so its trials flatter it.

use busbw_stats::{
    Interval,
    mann_whitney::{Level, p_value, shift},
};
use serde::{Deserialize, Serialize};

/// The least gain that is recommended, as a fraction.
pub const MIN_GAIN: f64 = 0.02;
/// The p-value of the look after the planned launches. Seven against seven that do not overlap have 0.00058.
pub(crate) const FIRST_LOOK_P: f64 = 0.0006;
/// The p-value of the look after all launches that the budget has, where the first one did not decide.
pub(crate) const SECOND_LOOK_P: f64 = 0.0004;

/// Two sides compared: launches in turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// How many times as fast as the other side, less 1; negative where it is slower.
    pub gain: f64,
    /// The 95 % interval of the gain.
    pub interval: Interval,
    /// The rank test's two-sided p-value.
    pub p: f64,
    /// The p-value below which it counts: the share of 0.001 that this look at the launches has.
    pub decides_below: f64,
    /// Launches of the other side and of this one.
    pub launches: (usize, usize),
}

impl Compared {
    /// Compares logarithms of times: those of the other side, then those of the side whose gain it is.
    pub(crate) fn of(other: &[f64], this: &[f64], decides_below: f64) -> Option<Self> {
        let shift = shift(this, other, Level::P95)?;
        let gain = |log: f64| log.exp() - 1.0;
        let (low, high, coverage) = (gain(shift.low), gain(shift.high), shift.coverage);
        Some(Self {
            gain: gain(shift.estimate),
            interval: Interval { low, high, coverage },
            p: p_value(other, this)?,
            decides_below,
            launches: (other.len(), this.len()),
        })
    }

    /// Whether the gain is established and worth it.
    #[must_use]
    pub fn is_gain(&self) -> bool {
        self.p < self.decides_below && self.gain >= MIN_GAIN
    }

    /// Whether a loss is established: the whole interval is below 0.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.interval.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_needs_ranks_and_size() {
        let logs =
            |from: f64| -> Vec<f64> { (0..7).map(|n| from + 0.001 * f64::from(n)).collect() };
        let gain = |by: f64| Compared::of(&logs(by), &logs(0.0), FIRST_LOOK_P).unwrap();
        assert!(gain(0.05).is_gain() && (gain(0.05).gain - 0.05_f64.exp_m1()).abs() < 1e-12);
        assert!(!gain(0.015).is_gain(), "below 2 %");
        assert!(!gain(0.004).is_gain(), "the sides overlap");
        assert!(gain(-0.05).is_loss() && !gain(-0.05).is_gain());
        let six = Compared::of(&logs(0.5)[..6], &logs(0.0)[..6], FIRST_LOOK_P).unwrap();
        assert!(!six.is_gain(), "six a side cannot reach it");
    }
}
