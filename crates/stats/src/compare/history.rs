//! The verdict between two sides of one launch each, by how far earlier launches of the same thing
//! on the same machine lie apart.
//! Not for sides that have launches enough to speak for themselves (`compare`).
//!
//! Two launches of a program with itself differ by as much as any two of its history do. A
//! difference is called one only where it exceeds the largest that the history shows, widened by
//! [`WIDENED`]; the shown interval is the estimate with 95 % of the differences between pairs. With
//! 10,000 simulated comparisons each, the share called different, in percent, was with 20, 30 and
//! 60 earlier launches: heavy-tailed 4.3, 2.4, 0.5; lognormal 0.5, 0.2, 0.0; two levels at random
//! and autoregressive 0.1 and less. With 8, every tenth comparison of heavy-tailed times was wrong:
//! a history too short to hold a slow launch does not know of them. A level that moved since the
//! history was measured (a new driver, a warmer room) is a difference, and is called one.

use super::{Comparison, Evidence, Reason, Rule, logs, ratio_of};
use crate::{Interval, quantile};

/// The fewest earlier launches that tell how far launches lie apart.
pub const FEWEST_EARLIER: usize = 20;

/// How much more than the largest difference of the history a difference must be.
const WIDENED: f64 = 1.25;

/// Compares two times, each of one launch (or the median of too few), with `history`: earlier
/// launches of the same thing, in launch order and in the same unit.
#[must_use]
pub fn compare_by_history(
    baseline: f64,
    candidate: f64,
    history: &[f64],
    rule: &Rule,
) -> Comparison {
    let sides = logs(&[baseline, candidate]);
    let Some(&[a, b]) = sides.as_deref().and_then(<[f64]>::as_array) else {
        return Comparison::undecided(Reason::UnusableTimes, None);
    };
    let difference: f64 = b - a;
    let earlier = logs(history).filter(|logs| logs.len() >= FEWEST_EARLIER);
    let Some(earlier) = earlier else {
        let needed = super::FEWEST_LAUNCHES;
        let reason = Reason::TooFewLaunches { baseline: 1, candidate: 1, needed };
        return Comparison::undecided(reason, Some(ratio_of(difference)));
    };
    let apart: Vec<f64> = earlier
        .iter()
        .enumerate()
        .flat_map(|(at, one)| earlier[at + 1..].iter().map(move |other| (one - other).abs()))
        .collect();
    let largest = apart.iter().copied().fold(0.0, f64::max);
    let usual = quantile(&apart, 0.95).unwrap_or(largest);
    let within = |slack: f64| Interval {
        low: ratio_of(difference - slack),
        high: ratio_of(difference + slack),
        coverage: 0.95,
    };
    let (interval, guard) = (within(usual), within(WIDENED * largest));
    let evidence = Evidence {
        log_ratio: difference,
        interval,
        guard,
        outlives_trend: true,
        stretch: WIDENED * largest / usual.max(f64::MIN_POSITIVE),
    };
    Comparison {
        verdict: evidence.judge(rule),
        ratio: Some(ratio_of(difference)),
        interval: Some(interval),
        guard: Some(guard),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::Verdict,
        noise::{Noise, Rng},
    };

    /// The share of comparisons of a program, `factor` times as slow, with itself that were called
    /// a difference.
    fn different(noise: Noise, earlier: usize, factor: f64, trials: u32) -> f64 {
        let mut rng = Rng::new(earlier as u64);
        let mut count = 0;
        for _ in 0..trials {
            let times = noise.launches(&mut rng, earlier + 2);
            let (history, sides) = times.split_at(earlier);
            let rule = Rule::default();
            let found = compare_by_history(sides[0], sides[1] * factor, history, &rule).verdict;
            count += u32::from(matches!(found, Verdict::Faster | Verdict::Slower));
        }
        f64::from(count) / f64::from(trials)
    }

    #[test]
    fn false_alarms_stay_below_the_promise() {
        for (noise, most) in [
            (Noise::Lognormal, 0.01),
            (Noise::HeavyTailed, 0.05),
            (Noise::Bimodal, 0.01),
            (Noise::Autoregressive(0.5), 0.01),
            (Noise::Autoregressive(0.8), 0.01),
        ] {
            for earlier in [FEWEST_EARLIER, 30] {
                let rate = different(noise, earlier, 1.0, 5_000);
                println!("{noise:?} {earlier}: {rate}");
                assert!(rate <= most, "{noise:?} {earlier}: {rate}");
            }
        }
    }

    #[test]
    fn what_stands_out_is_found() {
        assert!(different(Noise::Lognormal, 20, 1.2, 1_000) > 0.95);
        assert!(different(Noise::Lognormal, 20, 0.8, 1_000) > 0.95);
    }

    #[test]
    fn little_history_tells_nothing() {
        let found = compare_by_history(1.0, 2.0, &[1.0; 19], &Rule::default());
        assert!(matches!(found.verdict, Verdict::Inconclusive(Reason::TooFewLaunches { .. })));
        assert_eq!(found.ratio, Some(2.0));
        let steady = compare_by_history(1.0, 1.02, &[1.0; 20], &Rule::default());
        assert_eq!(steady.verdict, Verdict::Slower);
        assert_eq!(
            compare_by_history(1.0, 1.001, &[1.0; 20], &Rule::default()).verdict,
            Verdict::Same
        );
        let wrong = compare_by_history(f64::NAN, 1.0, &[1.0; 20], &Rule::default()).verdict;
        assert_eq!(wrong, Verdict::Inconclusive(Reason::UnusableTimes));
    }
}
