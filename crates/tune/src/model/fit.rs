//! How large each part of the model is, and the model itself, from the trials that were measured.
//! Not what it says of an environment (`tables`).
//!
//! The parts' variances are those of maximum likelihood, by the multiplicative steps of Zhou, Hu, Zhou and Lange
//! ("MM Algorithms for Variance Components Models", JCGS 28(2), 2019), each held back by a prior guess that
//! counts as one observation. A trial that is much slower than the rest of the trials make it out to be gets a larger
//! variance of its own, as in iteratively reweighted least squares, so that an outlier moves nothing.

use serde::{Deserialize, Serialize};

use super::{
    kernels::{DRIFT_TRIALS, Kernels},
    matrix::Cholesky,
};
use crate::space::Point;

/// The prior guess of each part's standard deviation, as a fraction of the time.
const MAIN: f64 = 0.05;
const PAIR: f64 = 0.01;
const OWN: f64 = 0.005;
const DRIFT: f64 = 0.01;
const NOISE: f64 = 0.03;
/// The level of all times is unknown: a factor of e either way, after the baseline is subtracted.
const CONSTANT: f64 = 1.0;
/// A trial this many standard deviations too slow counts less.
const OUTLIER: f64 = 2.0;
/// Rounds in which outliers are found before the variances are corrected.
const OUTLIER_STEPS: usize = 2;
/// An environment that is so many standard deviations of the noise slower than expected is measured again.
const SURPRISE: f64 = 3.3;

/// A trial as the model takes it.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) point: Point,
    /// The number of trials before it: the time of the drift.
    pub(crate) at: f64,
    /// The logarithm of the goal's time.
    pub(crate) log_time: f64,
}

/// The variances of the parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Weights {
    pub(crate) main: Vec<f64>,
    pub(crate) pair: Vec<f64>,
    pub(crate) own: f64,
    pub(crate) drift: f64,
    pub(crate) noise: f64,
}

impl Weights {
    /// The prior guess.
    pub(crate) fn prior(kernels: &Kernels) -> Self {
        Self {
            main: vec![MAIN * MAIN; kernels.variables()],
            pair: vec![PAIR * PAIR; kernels.pairs.len()],
            own: OWN * OWN,
            drift: DRIFT * DRIFT,
            noise: NOISE * NOISE,
        }
    }
}

/// The model of one goal.
#[derive(Debug, Clone)]
pub(crate) struct Fitted<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) observations: &'a [Observation],
    pub(super) factor: Cholesky,
    /// What each observation contributes to every prediction.
    pub(super) alpha: Vec<f64>,
    /// How much larger each observation's noise is than others'; 1 for most.
    pub(super) inflation: Vec<f64>,
    /// How much slower each observation is than all others make it out to be, in logarithms.
    residuals: Vec<f64>,
    pub(crate) weights: Weights,
    /// What was subtracted from all logarithms.
    pub(super) level: f64,
}

/// A part's sums over all pairs of observations, from which its variance is corrected.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// αᵀ K α: what the observations say of the part.
    found: f64,
    /// tr(P K): what they would say of it if its variance were right.
    expected: f64,
}

impl Sums {
    fn corrected(self, variance: f64, guess: f64) -> f64 {
        // The guess as one more observation: alone it would lead the variance to itself.
        let found = self.found.max(0.0) + guess / (variance * variance);
        let expected = self.expected.max(0.0) + 1.0 / variance;
        (variance * (found / expected).sqrt()).clamp(1e-9, 1.0)
    }
}

impl<'a> Fitted<'a> {
    /// Fits the model, with `steps` corrections of the variances from `weights` on.
    pub(crate) fn fit(
        kernels: &'a Kernels,
        observations: &'a [Observation],
        weights: Weights,
        steps: usize,
    ) -> Self {
        let n = observations.len();
        let logs: Vec<f64> = observations.iter().map(|one| one.log_time).collect();
        let level = busbw_stats::median(&logs).unwrap_or(0.0);
        let mut fitted = Self {
            kernels,
            observations,
            factor: Cholesky::of(0, Vec::new()),
            alpha: Vec::new(),
            inflation: vec![1.0; n],
            residuals: vec![0.0; n],
            weights,
            level,
        };
        fitted.solve();
        // Before the first correction: outliers that still count in full make noise and drift several times too large,
        // and what is noise then is no effect.
        for _ in 0..OUTLIER_STEPS {
            let precision = fitted.factor.inverse();
            fitted.find_outliers(&precision);
            fitted.solve();
        }
        for _ in 0..steps {
            let precision = fitted.factor.inverse();
            fitted.correct(&precision);
            fitted.find_outliers(&precision);
            fitted.solve();
        }
        fitted
    }

    /// Environments that ran once and were far slower than expected, the last first: an outlier that is not measured
    /// again looks like a bad environment for good.
    pub(crate) fn surprises(&self) -> Vec<Point> {
        let limit = SURPRISE * self.weights.noise.sqrt();
        let ran_once =
            |point: &Point| self.observations.iter().filter(|one| one.point == *point).count() == 1;
        let all = self.observations.iter().zip(&self.residuals).rev();
        let slow = all.filter(|(one, residual)| **residual > limit && ran_once(&one.point));
        slow.map(|(one, _)| one.point.clone()).collect()
    }

    fn solve(&mut self) {
        let n = self.observations.len();
        let mut covariance = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                covariance[i * n + j] = self.prior_covariance(i, j);
            }
            covariance[i * n + i] += self.weights.noise * self.inflation[i];
        }
        self.factor = Cholesky::of(n, covariance);
        let logs: Vec<f64> =
            self.observations.iter().map(|one| one.log_time - self.level).collect();
        self.alpha = self.factor.solve(&logs);
    }

    /// The prior covariance of two observations, noise apart.
    fn prior_covariance(&self, i: usize, j: usize) -> f64 {
        let (a, b) = (&self.observations[i], &self.observations[j]);
        self.of_points(&a.point, &b.point) + self.weights.drift * drift(a, b)
    }

    /// The prior covariance of two environments at one time, drift and noise apart.
    pub(super) fn of_points(&self, a: &Point, b: &Point) -> f64 {
        let weights = &self.weights;
        let mut alike = [0.0; MAX_VARIABLES];
        let alike = &mut alike[..self.kernels.variables()];
        let mut sum = CONSTANT * CONSTANT;
        for (variable, value) in alike.iter_mut().enumerate() {
            *value = self.kernels.alike(variable, a[variable], b[variable]);
            sum += weights.main[variable] * *value;
        }
        for ((i, j), weight) in self.kernels.pairs.iter().zip(&weights.pair) {
            sum += weight * alike[*i] * alike[*j];
        }
        sum + if a == b { weights.own } else { 0.0 }
    }

    fn correct(&mut self, precision: &[f64]) {
        let n = self.observations.len();
        let variables = self.kernels.variables();
        let mut main = vec![Sums::default(); variables];
        let mut pair = vec![Sums::default(); self.kernels.pairs.len()];
        let (mut own, mut wander, mut noise) = (Sums::default(), Sums::default(), Sums::default());
        let mut alike = vec![0.0; variables];
        for i in 0..n {
            for j in 0..=i {
                let twice = if i == j { 1.0 } else { 2.0 };
                let found = twice * self.alpha[i] * self.alpha[j];
                let expected = twice * precision[i * n + j];
                let add = |sums: &mut Sums, by: f64| {
                    sums.found += found * by;
                    sums.expected += expected * by;
                };
                let (a, b) = (&self.observations[i], &self.observations[j]);
                for (variable, value) in alike.iter_mut().enumerate() {
                    *value = self.kernels.alike(variable, a.point[variable], b.point[variable]);
                    add(&mut main[variable], *value);
                }
                for ((first, second), sums) in self.kernels.pairs.iter().zip(&mut pair) {
                    add(sums, alike[*first] * alike[*second]);
                }
                add(&mut wander, drift(a, b));
                if a.point == b.point {
                    add(&mut own, 1.0);
                }
                if i == j {
                    add(&mut noise, self.inflation[i]);
                }
            }
        }
        let weights = &mut self.weights;
        let all = |variances: &mut Vec<f64>, sums: &[Sums], guess: f64| {
            variances.iter_mut().zip(sums).for_each(|(v, s)| *v = s.corrected(*v, guess * guess));
        };
        all(&mut weights.main, &main, MAIN);
        all(&mut weights.pair, &pair, PAIR);
        weights.own = own.corrected(weights.own, OWN * OWN);
        weights.drift = wander.corrected(weights.drift, DRIFT * DRIFT);
        weights.noise = noise.corrected(weights.noise, NOISE * NOISE);
    }

    /// Judges each observation by all others (the leave-one-out residual, Rasmussen and Williams, equation 5.12).
    fn find_outliers(&mut self, precision: &[f64]) {
        let n = self.observations.len();
        for i in 0..n {
            let own = precision[i * n + i];
            let residual = self.alpha[i] / own;
            self.residuals[i] = residual;
            // With the noise that this observation would have if it were like the others.
            let noise = self.weights.noise * (1.0 - self.inflation[i]);
            let spread = (1.0 / own + noise).max(self.weights.noise).sqrt();
            self.inflation[i] = (residual / spread / OUTLIER).max(1.0).powi(2);
        }
    }
}

/// The most variables of a model.
pub(crate) const MAX_VARIABLES: usize = 64;

pub(super) fn drift(a: &Observation, b: &Observation) -> f64 {
    (-(a.at - b.at).abs() / DRIFT_TRIALS).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Scope, Space, Variable};
    use busbw_stats::Random;

    #[test]
    fn outliers_make_neither_noise_nor_drift() {
        let variable = |name: &str| Variable {
            name: name.to_owned(),
            values: ["0", "1", "2"].map(|text| Some(text.to_owned())).to_vec(),
            default: 0,
            ordered: false,
            scope: Scope::Process,
            needs: Vec::new(),
        };
        let space = Space::new(["A", "B"].map(variable).to_vec()).unwrap();
        let mut random = Random::new(1);
        let one = |n: usize| Observation {
            point: vec![n % 3, n / 3 % 3],
            at: n as f64,
            log_time: 0.01 * random.normal() + if n % 20 == 9 { 0.8 } else { 0.0 },
        };
        let observations: Vec<Observation> = (0..60).map(one).collect();
        let kernels = Kernels::of(&space);
        let mut weights = Weights::prior(&kernels);
        // As from race to race: each fit begins with the variances of the one before.
        for _ in 0..5 {
            weights = Fitted::fit(&kernels, &observations, weights, 3).weights;
        }
        let (noise, drift) = (weights.noise.sqrt(), weights.drift.sqrt());
        // It is taken for 4 %, still too much; where outliers count in full before the first correction, for 11 %.
        assert!(noise < 0.06, "noise of 1 % is taken for {noise}");
        assert!(drift < 0.06, "no drift at all is taken for {drift}");
    }
}
