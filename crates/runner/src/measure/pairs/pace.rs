//! How many messages a sample of a pair is made of.
//! Not how many samples there are (`busbw_core::pairs`).

use busbw_core::{messages::Messages, plan::Plan};

/// Seconds that the messages of one pair should take in a round: long enough for a clock, and so
/// short that a hundred rounds do not take minutes.
const ROUND_S: f64 = 0.05;
/// The fewest round trips of a sample: a median of fewer follows a single slow one.
const MIN_ROUND_TRIPS: u32 = 10;

/// Messages of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// Messages in flight at once.
    pub(super) window: u32,
    /// Timed and untimed iterations.
    pub(super) iterations: u32,
    pub(super) warmup: u32,
}

impl Pace {
    /// A single message, or round trip.
    pub(super) const ONE: Pace = Pace { window: 1, iterations: 1, warmup: 0 };

    /// As the plan asks for.
    pub(super) fn of(plan: &Plan, test: Messages) -> Pace {
        if test.is_latency() {
            return Pace { window: 1, iterations: plan.iterations, warmup: plan.warmup };
        }
        let large = plan.messaging.large;
        Pace {
            window: plan.messaging.window,
            iterations: large.map_or(plan.iterations, |large| large.iterations),
            warmup: large.map_or(plan.warmup, |large| large.warmup),
        }
    }

    /// As much of it as fits into a round, where the slowest message or round trip takes `seconds`.
    pub(super) fn kept_to(self, seconds: f64, test: Messages) -> Pace {
        let fits = |each: f64| if each > 0.0 { (ROUND_S / each) as u32 } else { u32::MAX };
        if test.is_latency() {
            let iterations = self.iterations.min(fits(seconds).max(MIN_ROUND_TRIPS));
            return Pace {
                iterations,
                warmup: self.warmup.min(iterations / MIN_ROUND_TRIPS),
                ..self
            };
        }
        let window = self.window.min(fits(seconds).max(1));
        let iterations = self.iterations.min(fits(f64::from(window) * seconds).max(1));
        Pace { window, iterations, warmup: self.warmup.min(iterations) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_messages_are_fewer() {
        let asked = Pace { window: 8, iterations: 4, warmup: 1 };
        let kept = |seconds| {
            let pace = asked.kept_to(seconds, Messages::Bandwidth);
            (pace.window, pace.iterations, pace.warmup)
        };
        assert_eq!(kept(0.0), (8, 4, 1));
        assert_eq!(kept(0.0001), (8, 4, 1));
        assert_eq!(kept(0.0025), (8, 2, 1));
        assert_eq!(kept(0.015), (3, 1, 1));
        assert_eq!(kept(5.0), (1, 1, 1));
        let asked = Pace { window: 1, iterations: 200, warmup: 20 };
        let kept = |seconds| {
            let pace = asked.kept_to(seconds, Messages::Latency);
            (pace.iterations, pace.warmup)
        };
        assert_eq!(kept(1e-6), (200, 20));
        assert_eq!(kept(0.001), (50, 5));
        assert_eq!(kept(1.0), (10, 1));
    }
}
