//! How much launches resemble the launch before them, and how far that widens an interval.
//! Not a model of the machine: one number, the lag-1 correlation, stands for all of it.
//!
//! Shared machines have slow and fast stretches. `n` launches from few stretches say less than
//! `n` independent launches, and an interval computed as if they were independent is too narrow.
//!
//! [`persistence`] estimates the lag-1 correlation `rho` from the ranks of the launches within
//! their own side, in launch order (ranks, so that one outlier cannot hide it), pooled over the
//! sides. Short sequences understate it: the mean of the raw estimate `r` is about
//! `rho - (1 + 3 rho) / n` (Marriott and Pope, Biometrika 41, 1954), which is undone by
//! `(n r + 1) / (n - 3)`. With few launches the estimate is itself a guess, so [`PERSISTENCE_STANDARD_ERRORS`]
//! standard errors of `1 / sqrt(total)` are added: the fewer the launches, the more dependence
//! is assumed that they cannot rule out.
//!
//! [`stretch`] turns `rho` into a factor for the half-width. The variance of a mean of `n`
//! grows by `v` and the spread seen inside the side shrinks, by (Bayley and Hammersley,
//! Supplement to the JRSS 8, 1946; Zwiers and von Storch, Journal of Climate 8, 1995)
//!
//! ```text
//! v = 1 + 2 * sum over k = 1 .. n - 1 of (1 - k / n) rho^k
//! stretch = sqrt(v (n - 1) / (n - v))
//! ```

/// Standard errors added to the estimated correlation. Chosen by simulation: with 1 a slowdown
/// of 10 % in 2 % noise is barely found nine times in ten by 8 launches a side, and with 0 a
/// random walk under both sides gives more than 5 % false alarms.
pub const PERSISTENCE_STANDARD_ERRORS: f64 = 0.75;

/// The largest correlation assumed. Beyond it a side is one stretch and proves nothing.
pub const MAX_PERSISTENCE: f64 = 0.95;

/// A cautious upper value of the lag-1 correlation of launches in launch order, in `[0, 0.95]`.
///
/// Each slice is one side. Sides of fewer than two launches or of equal launches add nothing;
/// 0 when no side adds anything. Non-finite values are ranked after the finite ones.
#[must_use]
pub fn persistence(sides: &[&[f64]]) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    let (mut total, mut counted) = (0_usize, 0_usize);
    for side in sides {
        let ranks = centred_ranks(side);
        let spread: f64 = ranks.iter().map(|rank| rank * rank).sum();
        if spread > 0.0 {
            products += ranks.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
            squares += spread;
            total += side.len();
            counted += 1;
        }
    }
    if counted == 0 {
        return 0.0;
    }
    let n = total as f64 / counted as f64;
    let raw = products / squares;
    // Three or fewer launches a side carry no estimate; assume the most.
    if n <= 3.0 {
        return MAX_PERSISTENCE;
    }
    let estimate = (n * raw + 1.0) / (n - 3.0);
    (estimate + PERSISTENCE_STANDARD_ERRORS / (total as f64).sqrt()).clamp(0.0, MAX_PERSISTENCE)
}

/// The factor by which the half-width of an interval from `n` launches grows; at least 1.
///
/// No unit. `rho` is taken into `[0, 0.95]`; a NaN counts as 0.95. Fewer than 2 launches give 1,
/// because nothing about their dependence can be said or undone.
#[must_use]
pub fn stretch(n: usize, rho: f64) -> f64 {
    if n < 2 {
        return 1.0;
    }
    let rho = if rho.is_nan() { MAX_PERSISTENCE } else { rho.clamp(0.0, MAX_PERSISTENCE) };
    let count = n as f64;
    let mut v = 1.0;
    let mut power = 1.0;
    for k in 1..n {
        power *= rho;
        if power < 1e-12 {
            break;
        }
        v += 2.0 * (1.0 - k as f64 / count) * power;
    }
    (v * (count - 1.0) / (count - v)).sqrt()
}

/// The rank of each value among all, less the mean rank; ties share their mean rank.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mean = (values.len() as f64 - 1.0) / 2.0;
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let rank = first as f64 + (tied.len() as f64 - 1.0) / 2.0;
        for &index in tied {
            ranks[index] = rank - mean;
        }
        first += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, Rng};
    use proptest::prelude::*;

    #[test]
    fn ranks_are_centred_and_ties_share() {
        assert_eq!(centred_ranks(&[30.0, 10.0, 20.0]), [1.0, -1.0, 0.0]);
        assert_eq!(centred_ranks(&[5.0, 5.0, 9.0]), [-0.5, -0.5, 1.0]);
    }

    #[test]
    fn independent_launches_are_not_stretched() {
        assert_eq!(stretch(8, 0.0), 1.0);
        assert_eq!(stretch(1, 0.9), 1.0);
        assert_eq!(stretch(0, 0.9), 1.0);
        assert_eq!(stretch(8, f64::NAN), stretch(8, MAX_PERSISTENCE));
    }

    #[test]
    fn many_launches_reach_the_textbook_factor() {
        // sqrt((1 + rho) / (1 - rho)) is the limit for a long sequence.
        assert!((stretch(100_000, 0.5) - 3.0_f64.sqrt()).abs() < 1e-3);
        assert!(stretch(8, 0.5) > 3.0_f64.sqrt());
    }

    #[test]
    fn sides_that_say_nothing_are_left_out() {
        assert_eq!(persistence(&[]), 0.0);
        assert_eq!(persistence(&[&[1.0], &[2.0; 9]]), 0.0);
        assert_eq!(persistence(&[&[1.0, 2.0, 3.0]]), MAX_PERSISTENCE);
    }

    #[test]
    fn a_steady_rise_is_the_largest_persistence() {
        let rise: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(persistence(&[&rise, &rise]), MAX_PERSISTENCE);
    }

    #[test]
    fn the_estimate_is_centred_and_leans_to_caution() {
        for rho in [0.0, 0.5] {
            let mut rng = Rng::new(3);
            let mut sum = 0.0;
            for _ in 0..500 {
                let times = Noise::Autoregressive(rho).launches(&mut rng, 400);
                sum += persistence(&[&times[..200], &times[200..]]);
            }
            // PERSISTENCE_STANDARD_ERRORS standard errors of 1 / sqrt(400) above the truth; ranks lose a little of rho.
            let mean = sum / 500.0;
            println!("rho {rho}: mean {mean:.3}");
            assert!(
                (mean - rho - PERSISTENCE_STANDARD_ERRORS / 20.0).abs() < 0.03,
                "rho {rho}: {mean}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_input_is_answered(
            a in prop::collection::vec(any::<f64>(), 0..20), n in 0..500_usize, rho: f64,
        ) {
            prop_assert!((0.0..=MAX_PERSISTENCE).contains(&persistence(&[&a, &a])));
            let factor = stretch(n, rho);
            prop_assert!(factor >= 1.0 && factor.is_finite());
        }
    }
}
