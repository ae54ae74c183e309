//! Time as a start-up cost and a cost per byte, in stretches of sizes: least squares of relative errors.
//! Not what the stretches mean (protocols, algorithms), and nothing beyond the sizes that were measured.
//!
//! The model of one stretch is Hockney's, t = alpha + beta × bytes (R. W. Hockney, Parallel Computing 20(3), 1994). Where
//! stretches end is chosen by Schwarz's criterion (Annals of Statistics 6(2), 1978), over all divisions (Bellman, CACM 4(6),
//! 1961: the best division of a prefix is known when a stretch is added).

use serde::{Deserialize, Serialize};

/// A measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Bytes, above 0.
    pub bytes: f64,
    /// Microseconds, above 0.
    pub time_us: f64,
}

/// Sizes over which one start-up cost and one cost per byte describe the times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its first size, bytes.
    pub first_bytes: f64,
    /// Its last size, bytes.
    pub last_bytes: f64,
    /// The start-up cost, microseconds; never negative.
    pub alpha_us: f64,
    /// The cost per byte, microseconds; never negative.
    pub beta_us: f64,
    /// Standard deviation of relative errors about it, with two degrees of freedom less than samples.
    pub residual: f64,
    /// Samples that it was fitted to.
    pub samples: usize,
}

impl Stretch {
    /// Microseconds of a size.
    pub fn time_us(&self, bytes: f64) -> f64 {
        self.alpha_us + self.beta_us * bytes
    }

    /// The relative error that 95 of 100 further samples of this stretch stay within, by Student's t.
    pub fn error_95(&self) -> f64 {
        let spread = self.residual * (1.0 + 1.0 / self.samples as f64).sqrt();
        student_95(self.samples.saturating_sub(2)) * spread
    }
}

/// Sizes that a stretch has at least: one more than two that any line meets, and one that can differ.
const MIN_SIZES: usize = 4;

/// Stretches that are looked for at most: the protocols of NCCL, and one change of algorithm.
const MAX_STRETCHES: usize = 4;

/// Rounding of printed times: tables have four digits. No fit is called better than that.
const ROUNDING: f64 = 5e-4;

/// Parameters of a stretch: start-up cost, cost per byte, and where it begins.
const PARAMETERS: f64 = 3.0;

/// The stretches that describe the samples; `None` where there are fewer than three sizes, or a sample is not above 0.
///
/// All samples of a size belong to one stretch. With fewer than four sizes there is one stretch.
pub fn stretches(samples: &[Sample]) -> Option<Vec<Stretch>> {
    let sound = |value: f64| value.is_finite() && value > 0.0;
    if !samples.iter().all(|sample| sound(sample.bytes) && sound(sample.time_us)) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let mut begins = vec![0];
    for (at, pair) in sorted.windows(2).enumerate() {
        if let [one, next] = pair
            && next.bytes > one.bytes
        {
            begins.push(at + 1);
        }
    }
    let sizes = begins.len();
    begins.push(sorted.len());
    if sizes < 3 {
        return None;
    }
    let of = |from: usize, to: usize| fit(&sorted[begins[from]..begins[to]]);
    // best[k][end]: the least sum of squares of k + 1 stretches over the sizes before `end`, and where the last begins.
    let first = (0..=sizes).map(|end| (end > 0).then(|| (of(0, end).1, 0)));
    let mut best: Vec<Vec<Option<(f64, usize)>>> = vec![first.collect()];
    for more in 1..MAX_STRETCHES {
        let Some(before) = best.last() else { break };
        let ending = |end: usize| {
            let begins = MIN_SIZES * more..=end.checked_sub(MIN_SIZES)?;
            let sum =
                |begin: usize| Some((before.get(begin)?.as_ref()?.0 + of(begin, end).1, begin));
            begins.filter_map(sum).min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let row = (0..=sizes).map(ending).collect();
        best.push(row);
    }
    let n = sorted.len() as f64;
    let criterion = |number: usize, squares: f64| {
        n * (squares / n + ROUNDING * ROUNDING).ln() + PARAMETERS * (number + 1) as f64 * n.ln()
    };
    let number = (0..MAX_STRETCHES)
        .filter_map(|number| best[number][sizes].map(|(sum, _)| (number, criterion(number, sum))))
        .min_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let mut found = Vec::new();
    let mut end = sizes;
    for number in (0..=number).rev() {
        let begin = best[number][end]?.1;
        found.push(of(begin, end).0);
        end = begin;
    }
    found.reverse();
    Some(found)
}

/// Least squares of relative errors, with neither cost negative; and the sum of these squares.
fn fit(samples: &[Sample]) -> (Stretch, f64) {
    // With y/y = 1 as the target: minimise sum (alpha/t + beta × s/t − 1)².
    let (mut uu, mut uv, mut vv, mut u, mut v) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for sample in samples {
        let (one, size) = (1.0 / sample.time_us, sample.bytes / sample.time_us);
        uu += one * one;
        uv += one * size;
        vv += size * size;
        u += one;
        v += size;
    }
    let squares = |alpha: f64, beta: f64| {
        let error = |sample: &Sample| (alpha + beta * sample.bytes) / sample.time_us - 1.0;
        samples.iter().map(|sample| error(sample).powi(2)).sum::<f64>()
    };
    let determinant = uu * vv - uv * uv;
    let both = (determinant > 1e-12 * uu * vv)
        .then(|| ((u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant))
        .filter(|(alpha, beta)| *alpha >= 0.0 && *beta >= 0.0);
    let (alpha, beta) = both.unwrap_or_else(|| {
        let edges = [(u / uu, 0.0), (0.0, v / vv)];
        if squares(edges[0].0, 0.0) <= squares(0.0, edges[1].1) { edges[0] } else { edges[1] }
    });
    let sum = squares(alpha, beta);
    let freedom = samples.len().saturating_sub(2).max(1) as f64;
    let ends = [samples.first(), samples.last()].map(|end| end.map_or(0.0, |end| end.bytes));
    let stretch = Stretch {
        first_bytes: ends[0],
        last_bytes: ends[1],
        alpha_us: alpha,
        beta_us: beta,
        residual: (sum / freedom).sqrt(),
        samples: samples.len(),
    };
    (stretch, sum)
}

/// Student's t for 95 % of both sides (Abramowitz, Stegun, table 26.10), for 1 to 30 degrees of freedom; above, the next
/// lower entry. Without a degree of freedom nothing is known of errors, and the first entry stands.
fn student_95(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    T[freedom.clamp(1, T.len()) - 1]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(alpha: f64, beta: f64, exponents: std::ops::Range<i32>) -> Vec<Sample> {
        let of = |exponent| {
            let bytes = 2f64.powi(exponent);
            Sample { bytes, time_us: alpha + beta * bytes }
        };
        exponents.map(of).collect()
    }

    #[test]
    fn odd_samples_are_refused() {
        let two = line(10.0, 1e-3, 3..5);
        assert_eq!(stretches(&two), None);
        assert_eq!(stretches(&[]), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut samples = line(10.0, 1e-3, 3..12);
            samples[4].time_us = bad;
            assert_eq!(stretches(&samples), None);
            samples[4] = Sample { bytes: bad, time_us: 1.0 };
            assert_eq!(stretches(&samples), None);
        }
    }

    /// A protocol that starts sooner and sends half as fast, below 64 KiB.
    #[test]
    fn two_protocols_are_two_stretches() {
        let mut samples = line(10.0, 2e-3, 3..16);
        samples.extend(line(60.0, 1e-3, 16..30));
        let found = stretches(&samples).expect("fit");
        assert_eq!(found.len(), 2, "{found:?}");
        for (stretch, (alpha, beta)) in found.iter().zip([(10.0, 2e-3), (60.0, 1e-3)]) {
            assert!((stretch.alpha_us / alpha - 1.0).abs() < 1e-6, "{stretch:?}");
            assert!((stretch.beta_us / beta - 1.0).abs() < 1e-6, "{stretch:?}");
        }
    }

    /// Errors of known spread come back as the residual, and 95 of 100 others are within the error that is stated.
    #[test]
    fn residuals_are_those_of_the_samples() {
        let mut random = crate::Random::new(7);
        let (mut within, mut all, mut sum) = (0, 0, 0.0);
        for _ in 0..200 {
            let mut noisy = |exponent: i32| {
                let bytes = 2f64.powi(exponent);
                Sample { bytes, time_us: (20.0 + 1e-3 * bytes) * (1.0 + 0.03 * random.normal()) }
            };
            let samples: Vec<Sample> = (3..27).map(&mut noisy).collect();
            let found = stretches(&samples).expect("fit");
            for _ in 0..20 {
                let next = noisy(20);
                let stretch = found.iter().find(|one| one.last_bytes >= next.bytes).expect("in");
                let error = next.time_us / stretch.time_us(next.bytes) - 1.0;
                within += usize::from(error.abs() <= stretch.error_95());
                all += 1;
                sum += stretch.residual / 20.0;
            }
        }
        let share = within as f64 / all as f64;
        assert!((0.90..=0.99).contains(&share), "{share}");
        assert!((sum / 200.0 - 0.03).abs() < 0.006, "{}", sum / 200.0);
    }

    proptest! {
        /// Without noise both costs come back, whatever they are.
        #[test]
        fn exact_lines_are_recovered(
            alpha in 0.1f64..1000.0,
            gbps in 0.01f64..1000.0,
            last in 12i32..34,
            order in any::<bool>(),
        ) {
            let beta = 1e-3 / gbps;
            let mut samples = line(alpha, beta, 3..last);
            if order { samples.reverse(); }
            let found = stretches(&samples).expect("fit");
            prop_assert_eq!(found.len(), 1);
            let only = found[0];
            for sample in &samples {
                prop_assert!((only.time_us(sample.bytes) / sample.time_us - 1.0).abs() < 1e-6);
            }
            prop_assert!((only.alpha_us / alpha - 1.0).abs() < 1e-6, "{:?}", only);
            // A cost per byte that no size shows cannot be told.
            if beta * 2f64.powi(last - 1) > 0.01 * alpha {
                prop_assert!((only.beta_us / beta - 1.0).abs() < 1e-4, "{:?} {}", only, beta);
            }
            prop_assert!(only.residual < 1e-6);
        }
    }
}
