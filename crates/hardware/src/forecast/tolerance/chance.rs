//! The chance to meet a target where the places of failures are random: counted, or from draws with an interval.
//! Not which trunk bears how many (`parts`).

use busbw_stats::binomial_tail;
use serde::Serialize;

/// A probability, and its 95 % interval where it was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Chance {
    /// The probability, or the share of the draws.
    pub of: f64,
    /// Least and most that the draws allow (Clopper and Pearson, Biometrika 26, 1934); both the probability where it is counted.
    pub interval: [f64; 2],
}

impl Chance {
    pub(super) const fn exactly(of: f64) -> Chance {
        Chance { of, interval: [of, of] }
    }

    /// Of `draws`, `met` met the target.
    pub(super) fn drawn(met: usize, draws: usize) -> Chance {
        // The p at which so many successes or more have a probability of 2.5 %, and that at which so many or fewer have it.
        let solve = |below: &dyn Fn(f64) -> bool| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let middle = (low + high) / 2.0;
                match below(middle) {
                    true => low = middle,
                    false => high = middle,
                }
            }
            (low + high) / 2.0
        };
        let least = match met {
            0 => 0.0,
            met => solve(&|p| binomial_tail(draws, met, p) < 0.025),
        };
        let most = match draws - met {
            0 => 1.0,
            _ => solve(&|p| 1.0 - binomial_tail(draws, met + 1, p) > 0.025),
        };
        Chance { of: met as f64 / draws.max(1) as f64, interval: [least, most] }
    }
}

/// Groups of alike parts, and how many of each may fail.
pub(super) struct Urns {
    /// Parts of groups that bear none, then of each group that bears some: how many, and how many may fail.
    bounded: Vec<(usize, usize)>,
    /// All parts, those of groups that bear any loss too.
    all: usize,
    /// Logarithms of factorials.
    ln: Vec<f64>,
}

/// Probabilities below are not counted: all of them together are below the digits that are printed.
const NEGLIGIBLE: f64 = 1e-18;

impl Urns {
    /// Of each group its parts and how many may fail.
    pub fn of(groups: impl Iterator<Item = (usize, usize)>) -> Urns {
        let (mut none, mut all) = (0, 0);
        let mut bounded = Vec::new();
        for (parts, may) in groups {
            all += parts;
            match may {
                0 => none += parts,
                may if may >= parts => {}
                may => bounded.push((parts, may)),
            }
        }
        if none > 0 {
            bounded.insert(0, (none, 0));
        }
        let mut ln = vec![0.0; all + 1];
        for at in 1..=all {
            ln[at] = ln[at - 1] + (at as f64).ln();
        }
        Urns { bounded, all, ln }
    }

    /// The probability that no group has more failures than it bears, with `failed` of all parts drawn without replacement.
    /// Group by group: of those that are left, a group gets j with the hypergeometric probability.
    pub fn chance(&self, failed: usize) -> f64 {
        if failed > self.all {
            return 0.0;
        }
        let mut all = self.all;
        // Probability of each number of failures that fall into the groups that are still to come.
        let mut left = vec![0.0; failed + 1];
        left[failed] = 1.0;
        for &(parts, may) in &self.bounded {
            let mut next = vec![0.0; failed + 1];
            let there = left.iter().enumerate().filter(|(_, p)| **p > NEGLIGIBLE);
            for (drawn, &probability) in there {
                let (least, most) = (drawn.saturating_sub(all - parts), drawn.min(may).min(parts));
                if least > most {
                    continue;
                }
                // From the likeliest that is allowed, to both sides by the ratio of neighbours.
                let likeliest = (drawn + 1) as f64 * (parts + 1) as f64 / (all + 2) as f64;
                let begin = (likeliest as usize).clamp(least, most);
                let first = probability * self.ln_of(all, parts, drawn, begin).exp();
                let up = |j: usize| {
                    (parts - j) as f64 * (drawn - j) as f64
                        / ((j + 1) as f64 * (all + j + 1 - parts - drawn) as f64)
                };
                let (mut term, mut j) = (first, begin);
                while term > NEGLIGIBLE {
                    next[drawn - j] += term;
                    if j == most {
                        break;
                    }
                    term *= up(j);
                    j += 1;
                }
                (term, j) = (first, begin);
                while j > least && term > NEGLIGIBLE {
                    j -= 1;
                    term /= up(j);
                    next[drawn - j] += term;
                }
            }
            all -= parts;
            left = next;
        }
        // Those that are left fall into groups that bear all.
        left.iter().sum::<f64>().min(1.0)
    }

    /// Logarithm of the probability that j of `drawn` of `all` are among `parts`.
    fn ln_of(&self, all: usize, parts: usize, drawn: usize, j: usize) -> f64 {
        let choose = |n: usize, k: usize| self.ln[n] - self.ln[k] - self.ln[n - k];
        choose(parts, j) + choose(all - parts, drawn - j) - choose(all, drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_stats::random::Random;

    /// All ways to choose, one by one.
    fn counted(groups: &[(usize, usize)], failed: usize) -> f64 {
        let of: Vec<usize> =
            groups.iter().enumerate().flat_map(|(at, (parts, _))| vec![at; *parts]).collect();
        let (mut met, mut all) = (0u64, 0u64);
        for mask in 0u32..1 << of.len() {
            if mask.count_ones() as usize != failed {
                continue;
            }
            let mut lost = vec![0usize; groups.len()];
            for (at, group) in of.iter().enumerate() {
                lost[*group] += (mask >> at & 1) as usize;
            }
            all += 1;
            met += u64::from(lost.iter().zip(groups).all(|(lost, (_, may))| lost <= may));
        }
        met as f64 / all as f64
    }

    #[test]
    fn ways_are_counted() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let groups: Vec<(usize, usize)> = (0..1 + random.below(4))
                .map(|_| {
                    let parts = 1 + random.below(4);
                    (parts, random.below(parts + 1))
                })
                .collect();
            let all: usize = groups.iter().map(|(parts, _)| parts).sum();
            let urns = Urns::of(groups.iter().copied());
            for failed in 0..=all {
                let (got, expected) = (urns.chance(failed), counted(&groups, failed));
                assert!((got - expected).abs() < 1e-9, "{groups:?} {failed}: {got}, {expected}");
            }
            assert_eq!(urns.chance(all + 1), 0.0);
        }
    }

    /// By hand: two of four links, two on each leaf, one may fail on each: 4 of 6 ways.
    #[test]
    fn two_of_four() {
        let urns = Urns::of([(2, 1), (2, 1)].into_iter());
        assert!((urns.chance(2) - 4.0 / 6.0).abs() < 1e-12);
        assert_eq!(urns.chance(3), 0.0);
        // 1,000 leaves of 32 links, of which one may fail: as birthdays are, 1 − 32·31/2·1000 / (32000·31999/2).
        let urns = Urns::of((0..1000).map(|_| (32, 1)));
        assert!((urns.chance(2) - (1.0 - 31.0 / 31_999.0)).abs() < 1e-8);
    }

    /// Clopper and Pearson's table: 0 of 10: 0 to 0.3085; 5 of 10: 0.1871 to 0.8129.
    #[test]
    fn intervals_of_draws() {
        let none = Chance::drawn(0, 10);
        assert_eq!(none.interval[0], 0.0);
        assert!((none.interval[1] - 0.3085).abs() < 1e-4, "{none:?}");
        let half = Chance::drawn(5, 10);
        assert!((half.interval[0] - 0.1871).abs() < 1e-4, "{half:?}");
        assert!((half.interval[1] - 0.8129).abs() < 1e-4, "{half:?}");
        assert_eq!(Chance::drawn(10, 10).interval[1], 1.0);
    }
}
