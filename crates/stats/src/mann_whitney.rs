//! The shift between two samples and its exact Mann-Whitney interval.
//! Not a verdict, and not a ratio: [`super::compare()`] feeds it logarithms and judges the result.
//!
//! The estimate is that of Hodges and Lehmann: the median of all differences `b[j] - a[i]`. The
//! interval runs from the `k`-th smallest to the `k`-th largest of those differences. With
//! independent samples whose distributions differ by a shift alone,
//!
//! ```text
//! coverage = 1 - 2 * P(U <= k - 1)
//! ```
//!
//! where `U` is the Mann-Whitney statistic of `n` against `m` (Hollander, Wolfe and Chicken,
//! "Nonparametric Statistical Methods", 3rd edition, sections 4.2 and 4.3). `k` is the largest
//! with at least the coverage asked for. Up to 50 samples together `P` is exact, by counting;
//! beyond, `k = floor(nm/2 - z sqrt(nm (n + m + 1) / 12))`. Ties only raise the coverage.

use super::quantile;

/// Largest total count for the exact distribution; its counts are then exact in an `f64`.
const EXACT_UP_TO: usize = 50;

/// A coverage to ask for, with what the exact and the normal computation need of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// 95 %.
    P95,
    /// 99 %.
    P99,
}

impl Level {
    /// The coverage as a fraction.
    #[must_use]
    pub fn coverage(self) -> f64 {
        match self {
            Self::P95 => 0.95,
            Self::P99 => 0.99,
        }
    }

    fn z(self) -> f64 {
        match self {
            Self::P95 => 1.959_964,
            Self::P99 => 2.575_829,
        }
    }
}

/// How far the second sample lies above the first, in the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The Hodges-Lehmann estimate.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// What the interval covers, as a fraction. Below the level asked for when the samples are
    /// so few that no interval reaches it: the interval is then the widest there is.
    pub coverage: f64,
}

/// The shift from `a` to `b` with its interval; see the module text for the formulas.
///
/// The cost in memory is one `f64` per pair. `None` when a side is empty or a difference is not
/// a finite number.
#[must_use]
pub fn shift(a: &[f64], b: &[f64], level: Level) -> Option<Shift> {
    let differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    let sorted = quantile::sorted(&differences)?;
    let (rank, coverage) = rank_and_coverage(a.len(), b.len(), level);
    Some(Shift {
        estimate: quantile::median_of_sorted(&sorted)?,
        low: sorted[rank - 1],
        high: sorted[sorted.len() - rank],
        coverage,
    })
}

/// The two-sided p-value of the Mann-Whitney test that `a` and `b` come from one distribution.
///
/// Up to 50 samples together it is exact, by counting; a tie counts half to each side, and half a step is
/// rounded towards the middle, so that ties never make it smaller. Beyond 50 it is the normal
/// approximation with continuity correction, without the correction for ties (which would make it smaller).
/// `None` when a side is empty or a sample is not a finite number.
#[must_use]
pub fn p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|sample| !sample.is_finite()) {
        return None;
    }
    let half = |x: f64, y: f64| f64::from(u8::from(x < y)) + f64::from(u8::from(x <= y));
    let doubled: f64 = a.iter().map(|&x| b.iter().map(|&y| half(x, y)).sum::<f64>()).sum();
    let pairs = (a.len() * b.len()) as f64;
    let smaller = (doubled / 2.0).min(pairs - doubled / 2.0).ceil();
    if a.len() + b.len() > EXACT_UP_TO {
        let spread = (pairs * (a.len() + b.len() + 1) as f64 / 12.0).sqrt();
        let z = ((pairs / 2.0 - smaller - 0.5) / spread).max(0.0);
        return Some(two_sided_normal(z));
    }
    let counts = counts_of_u(a.len(), b.len());
    let below: f64 = counts.iter().take(smaller as usize + 1).sum();
    Some((2.0 * below / orderings(a.len(), b.len())).min(1.0))
}

/// The probability that a standard normal number is `z` or more away from 0, for `z` of 0 or more:
/// Abramowitz and Stegun, "Handbook of Mathematical Functions", formula 26.2.17, absolute error below 2e-7.
fn two_sided_normal(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let sum = COEFFICIENTS.iter().rev().fold(0.0, |sum, c| (sum + c) * t);
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (2.0 * density * sum).clamp(0.0, 1.0)
}

/// The rank `k`, counted from 1, of the interval's ends among the sorted differences.
fn rank_and_coverage(n: usize, m: usize, level: Level) -> (usize, f64) {
    let pairs = n * m;
    if n + m > EXACT_UP_TO {
        let product = pairs as f64;
        let spread = (product * (n + m + 1) as f64 / 12.0).sqrt();
        let rank = (product / 2.0 - level.z() * spread).floor();
        // One or two samples against many can leave no rank; the whole range then misses only
        // the two orderings in which the sides do not overlap.
        if rank < 1.0 {
            return (1, 1.0 - 2.0 / orderings(n, m));
        }
        return (rank as usize, level.coverage());
    }
    let counts = counts_of_u(n, m);
    let all = orderings(n, m);
    let mut below = counts[0];
    let mut narrowest = (1, (1.0 - 2.0 * below / all).max(0.0));
    for rank in 2..=pairs.div_ceil(2) {
        below += counts[rank - 1];
        let coverage = 1.0 - 2.0 * below / all;
        if coverage < level.coverage() {
            break;
        }
        narrowest = (rank, coverage);
    }
    narrowest
}

/// The number of orderings of `n` and `m` samples: the binomial coefficient of `n + m` and `n`.
fn orderings(n: usize, m: usize) -> f64 {
    let (few, many) = (n.min(m), n.max(m));
    // Each partial product is itself a binomial coefficient, so it stays a whole number.
    (1..=few).fold(1.0, |ways, k| ways * (many + k) as f64 / k as f64)
}

/// In how many of the orderings of `n` and `m` samples `U` takes each value from 0 to `nm`.
///
/// `U` is a partition of its value into at most `n` parts of at most `m` each.
fn counts_of_u(n: usize, m: usize) -> Vec<f64> {
    let pairs = n * m;
    let mut ways = vec![vec![0.0; pairs + 1]; n + 1];
    ways[0][0] = 1.0;
    for part in 1..=m {
        for parts in 1..=n {
            let (fewer, rest) = ways.split_at_mut(parts);
            for value in part..=pairs {
                rest[0][value] += fewer[parts - 1][value - part];
            }
        }
    }
    (0..=pairs).map(|value| ways.iter().map(|of_parts| of_parts[value]).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Rng;
    use proptest::prelude::*;

    #[test]
    fn counts_are_those_of_the_binomial_coefficient() {
        // Two against two: 1, 1, 2, 1, 1 orderings with U from 0 to 4.
        assert_eq!(counts_of_u(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(counts_of_u(4, 4).iter().sum::<f64>(), 70.0);
        let largest: f64 = counts_of_u(25, 25).iter().sum();
        assert_eq!(largest, 126_410_606_437_752.0);
        assert_eq!(orderings(25, 25), largest);
        assert_eq!(orderings(3, 1), 4.0);
    }

    #[test]
    fn ranks_match_the_published_critical_values() {
        // Tables of U: two-sided 5 % rejects at U <= 0, 2, 13, 127 for 4, 5, 8 and 20 a side.
        for (n, critical) in [(4, 0), (5, 2), (8, 13), (20, 127)] {
            assert_eq!(rank_and_coverage(n, n, Level::P95).0, critical + 1);
        }
        // Two-sided 1 % rejects at U <= 0, 7, 105 for 5, 8 and 20 a side.
        for (n, critical) in [(5, 0), (8, 7), (20, 105)] {
            assert_eq!(rank_and_coverage(n, n, Level::P99).0, critical + 1);
        }
    }

    #[test]
    fn p_values_are_those_of_the_tables() {
        let rising: Vec<f64> = (0..7).map(f64::from).collect();
        let above: Vec<f64> = (10..17).map(f64::from).collect();
        // Seven against seven that do not overlap: 2 of 3,432 orderings.
        assert!((p_value(&rising, &above).unwrap() - 2.0 / 3_432.0).abs() < 1e-12);
        assert_eq!(p_value(&rising, &above), p_value(&above, &rising));
        // U = 13 for eight a side is the last of the 5 % table, 14 the first beyond it.
        let a: Vec<f64> = (0..8).map(f64::from).collect();
        let with_u = |u: usize| {
            let (full, rest) = (u / 8, u % 8);
            let mut b: Vec<f64> = vec![7.5; 8 - full - usize::from(rest > 0)];
            b.extend(vec![-0.5; full]);
            b.extend((rest > 0).then_some(7.5 - rest as f64));
            p_value(&a, &b).unwrap()
        };
        assert!(with_u(13) < 0.05 && with_u(14) > 0.05, "{} {}", with_u(13), with_u(14));
        assert_eq!(p_value(&[1.0; 9], &[1.0; 9]), Some(1.0));
        assert_eq!(p_value(&[1.0], &[]), None);
        assert_eq!(p_value(&[1.0], &[f64::NAN]), None);
        assert!((two_sided_normal(1.959_964) - 0.05).abs() < 1e-6);
        assert!((two_sided_normal(3.290_527) - 0.001).abs() < 1e-6);
    }

    #[test]
    fn equal_sides_are_rarely_told_apart() {
        for (n, m) in [(7, 7), (12, 20), (30, 30)] {
            let mut rng = Rng::new((n * 1_000 + m) as u64);
            let mut found = 0;
            for _ in 0..4_000 {
                let a: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
                let b: Vec<f64> = (0..m).map(|_| rng.normal()).collect();
                found += u32::from(p_value(&a, &b).unwrap() < 0.05);
            }
            let share = f64::from(found) / 4_000.0;
            assert!((0.02..0.06).contains(&share), "{n} against {m}: {share}");
        }
    }

    #[test]
    fn four_against_four_reach_ninety_five_but_not_ninety_nine() {
        let (rank, coverage) = rank_and_coverage(4, 4, Level::P99);
        assert_eq!(rank, 1);
        assert!((coverage - (1.0 - 2.0 / 70.0)).abs() < 1e-12);
        assert!(rank_and_coverage(3, 3, Level::P95).1 < 0.95);
        assert_eq!(rank_and_coverage(1, 1, Level::P95), (1, 0.0));
    }

    #[test]
    fn the_normal_rank_continues_the_exact_one() {
        let (exact, _) = rank_and_coverage(25, 25, Level::P95);
        let (normal, _) = rank_and_coverage(25, 26, Level::P95);
        assert!(normal > exact && normal < exact + 20, "{exact} {normal}");
        assert_eq!(rank_and_coverage(1, 60, Level::P99).0, 1);
    }

    #[test]
    fn simulated_coverage_is_at_least_the_stated_one() {
        for (n, m) in [(4, 4), (5, 9), (30, 30)] {
            let mut rng = Rng::new((n * 100 + m) as u64);
            let mut held = 0;
            for _ in 0..2_000 {
                let a: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
                let b: Vec<f64> = (0..m).map(|_| rng.normal() + 1.5).collect();
                let found = shift(&a, &b, Level::P95).unwrap();
                held += usize::from(found.low <= 1.5 && 1.5 <= found.high);
            }
            let share = f64::from(held as u32) / 2_000.0;
            println!("{n} against {m}: coverage {share:.4}");
            assert!(share >= 0.94, "{n} against {m}: {share}");
        }
    }

    proptest! {
        #[test]
        fn exchange_of_the_sides_turns_the_sign(
            a in prop::collection::vec(-9.0..9.0_f64, 1..12),
            b in prop::collection::vec(-9.0..9.0_f64, 1..12),
        ) {
            let one = shift(&a, &b, Level::P95).unwrap();
            let two = shift(&b, &a, Level::P95).unwrap();
            prop_assert_eq!((one.estimate, one.low), (-two.estimate, -two.high));
            prop_assert!(one.low <= one.estimate && one.estimate <= one.high);
        }

        #[test]
        fn any_input_is_answered(
            a in prop::collection::vec(any::<f64>(), 0..9),
            b in prop::collection::vec(any::<f64>(), 0..60),
        ) {
            let _ = shift(&a, &b, Level::P99);
        }
    }
}
