//! Flows that a hash puts onto equal links: how many the busiest link gets, and what the slowest flow keeps.
//! Not a simulation of packets: a flow stays on its link, as ECMP's hash of its headers decides.

use serde::Serialize;

/// Hashes (flows × queue pairs) up to which the distribution is exact; more are simulated.
const MAX_EXACT_HASHES: usize = 512;

/// Links up to which it is exact.
const MAX_EXACT_LINKS: usize = 512;

/// Probability below which larger loads are not counted.
const NEGLIGIBLE: f64 = 1e-13;

/// Draws of the simulation.
const DRAWS: usize = 20_000;

/// Most hashes over all draws of a simulation: fewer draws where there are many flows.
const MAX_SIMULATED_HASHES: usize = 50_000_000;

/// Flows onto links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Flows {
    /// Flows, each of which could fill a link.
    pub flows: usize,
    /// Queue pairs of a flow: parts of equal size, each hashed by itself.
    pub queue_pairs: usize,
    /// Equal links.
    pub links: usize,
}

/// How the distribution was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Method {
    /// All ways counted.
    Exact,
    /// Drawn.
    Simulated {
        /// How often.
        draws: usize,
    },
}

/// The load of the busiest link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Busiest {
    /// How it was had.
    pub method: Method,
    /// Load of every link with spraying, in flows: the least that the busiest can have.
    pub even: f64,
    /// Mean load of the busiest link, in flows.
    pub mean: f64,
    /// Load that is not exceeded half of the time.
    pub median: f64,
    /// Load that is not exceeded 99 times of 100.
    pub p99: f64,
    /// Probability of the least load that whole queue pairs allow.
    pub even_probability: f64,
    /// Mean share that the slowest flow keeps of what it has with spraying.
    pub slowest_share: f64,
    /// The probability of each load of the busiest link: (queue pairs, probability), where it is at least 1e-6.
    pub distribution: Vec<(usize, f64)>,
}

/// The busiest of `links` links.
pub fn busiest(flows: Flows) -> Busiest {
    let hashes = flows.flows.saturating_mul(flows.queue_pairs);
    if hashes <= MAX_EXACT_HASHES && flows.links <= MAX_EXACT_LINKS {
        summary(flows, &exact(hashes, flows.links), Method::Exact)
    } else {
        let draws = (MAX_SIMULATED_HASHES / hashes.max(1)).clamp(10, DRAWS);
        summary(flows, &simulated(hashes, flows.links, draws), Method::Simulated { draws })
    }
}

/// The probability that the busiest of `links` gets exactly k of n hashes, for k from 0 to n.
///
/// P(max ≤ k) = n!/mⁿ · \[xⁿ\] (Σ_{j≤k} xʲ/j!)ᵐ (multinomial distribution). Computed link by link, so that nothing overflows:
/// the i-th of m links takes j of the hashes left with the binomial probability of 1/(m−i).
pub fn exact(hashes: usize, links: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; hashes + 1];
    let mut before = 0.0;
    for (most, probability) in probabilities.iter_mut().enumerate() {
        let all = at_most(hashes, links, most);
        *probability = (all - before).max(0.0);
        before = all;
        // What is left is below the digits of the sum.
        if all >= 1.0 - NEGLIGIBLE {
            break;
        }
    }
    probabilities
}

fn at_most(hashes: usize, links: usize, most: usize) -> f64 {
    if most.saturating_mul(links) < hashes {
        return 0.0;
    }
    // Probability of each number of hashes left, no link so far above `most`.
    let mut left = vec![0.0; hashes + 1];
    left[hashes] = 1.0;
    for link in 0..links {
        let share = 1.0 / (links - link) as f64;
        let mut next = vec![0.0; hashes + 1];
        for (n, &probability) in left.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            if share >= 1.0 {
                next[0] += if n <= most { probability } else { 0.0 };
                continue;
            }
            // Binomial probabilities of j of n, each from the one before.
            let mut term = probability * (1.0 - share).powi(n as i32);
            for j in 0..=n.min(most) {
                next[n - j] += term;
                term *= (n - j) as f64 / (j + 1) as f64 * share / (1.0 - share);
            }
        }
        left = next;
    }
    left[0]
}

/// The same by drawing, with a seed that is always the same.
pub fn simulated(hashes: usize, links: usize, draws: usize) -> Vec<f64> {
    let mut state = 1u64;
    let mut seen = Vec::new();
    let mut loads = vec![0usize; links];
    for _ in 0..draws {
        loads.fill(0);
        for _ in 0..hashes {
            loads[(next(&mut state) % links as u64) as usize] += 1;
        }
        let most = loads.iter().copied().max().unwrap_or(0);
        if seen.len() <= most {
            seen.resize(most + 1, 0usize);
        }
        seen[most] += 1;
    }
    seen.into_iter().map(|count| count as f64 / draws as f64).collect()
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn summary(flows: Flows, probabilities: &[f64], method: Method) -> Busiest {
    let part = 1.0 / flows.queue_pairs.max(1) as f64;
    let hashes = flows.flows.saturating_mul(flows.queue_pairs);
    let even = flows.flows as f64 / flows.links as f64;
    let loads = || probabilities.iter().enumerate().map(|(load, p)| (load as f64 * part, *p));
    let quantile = |share: f64| {
        let mut sum = 0.0;
        let reached = loads().find(|(_, p)| {
            sum += p;
            sum >= share - 1e-12
        });
        reached.map_or(0.0, |(load, _)| load)
    };
    // A flow that shares a link with others keeps its part of it; alone it has the link, and no more.
    let rate = |load: f64| 1.0 / load.max(1.0);
    let slowest = loads().map(|(load, p)| p * rate(load)).sum::<f64>() / rate(even);
    let least = hashes.div_ceil(flows.links.max(1));
    Busiest {
        method,
        even,
        mean: loads().map(|(load, p)| load * p).sum(),
        median: quantile(0.5),
        p99: quantile(0.99),
        even_probability: probabilities.get(least).copied().unwrap_or(0.0),
        slowest_share: slowest.min(1.0),
        distribution: probabilities
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, p)| *p >= 1e-6)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way of putting a few hashes onto a few links, counted one by one.
    #[test]
    fn few_flows_are_counted_one_by_one() {
        for (hashes, links) in [(1, 1), (2, 2), (3, 2), (4, 4), (6, 3), (5, 8)] {
            let ways = usize::pow(links, hashes as u32);
            let mut seen = vec![0usize; hashes + 1];
            for way in 0..ways {
                let mut loads = vec![0usize; links];
                let mut rest = way;
                for _ in 0..hashes {
                    loads[rest % links] += 1;
                    rest /= links;
                }
                seen[loads.into_iter().max().unwrap_or(0)] += 1;
            }
            let got = exact(hashes, links);
            for (load, count) in seen.into_iter().enumerate() {
                let wanted = count as f64 / ways as f64;
                assert!((got[load] - wanted).abs() < 1e-12, "{hashes} on {links}: {load}");
            }
        }
    }

    #[test]
    fn exact_and_simulated_agree() {
        for (hashes, links) in [(8, 8), (32, 8), (64, 16), (256, 32)] {
            let (exact, drawn) = (exact(hashes, links), simulated(hashes, links, 40_000));
            let sum: f64 = exact.iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            for (load, wanted) in exact.iter().enumerate() {
                let got = drawn.get(load).copied().unwrap_or(0.0);
                // Five standard deviations of a share of 40,000 draws.
                let most = 5.0 * (wanted * (1.0 - wanted) / 40_000.0).sqrt() + 1e-4;
                assert!((got - wanted).abs() < most, "{hashes} on {links}: {load}: {got} {wanted}");
            }
        }
    }

    #[test]
    fn more_queue_pairs_spread_better_and_spraying_is_best() {
        let share = |queue_pairs| {
            let known = busiest(Flows { flows: 8, queue_pairs, links: 8 });
            assert_eq!(known.method, Method::Exact);
            known.slowest_share
        };
        let all: Vec<f64> = [1, 2, 4, 16, 64].map(share).to_vec();
        assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
        assert!(all[0] > 0.3 && all[4] < 1.0, "{all:?}");
        // Eight flows on eight links: none shares in 8!/8^8 of the cases.
        let known = busiest(Flows { flows: 8, queue_pairs: 1, links: 8 });
        assert!((known.even_probability - 40_320.0 / 16_777_216.0).abs() < 1e-12);
        assert!((known.even - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_link_and_many_flows() {
        let one = busiest(Flows { flows: 5, queue_pairs: 1, links: 1 });
        assert!((one.mean - 5.0).abs() < 1e-12 && (one.slowest_share - 1.0).abs() < 1e-12);
        let many = busiest(Flows { flows: 1000, queue_pairs: 4, links: 64 });
        assert!(matches!(many.method, Method::Simulated { .. }));
        assert!(many.mean > many.even && many.p99 >= many.median);
        // Fewer flows than links: alone a flow has no more than its link.
        let few = busiest(Flows { flows: 1, queue_pairs: 1, links: 8 });
        assert!((few.slowest_share - 1.0).abs() < 1e-12);
    }
}
