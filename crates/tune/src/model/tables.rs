//! What the fitted model says of environments: the mean, or one sample of what may be true, as tables; and how
//! sure differences are. Not the search for the best one (`minimise`).

use super::{Fitted, matrix::Cholesky};
use busbw_stats::Random;

use crate::space::Point;

/// The effect of each value and of each pair of values, in logarithms of time.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    /// Variable, then level.
    main: Vec<Vec<f64>>,
    /// For each pair of variables (as [`super::Kernels`] lists them) the levels of the first times those of the second.
    pair: Vec<Vec<f64>>,
    pairs: Vec<(usize, usize)>,
    constant: f64,
}

impl Tables {
    /// The logarithm of the time of `point`, as these tables have it.
    pub(crate) fn value(&self, point: &Point) -> f64 {
        let main: f64 = self.main.iter().zip(point).map(|(table, level)| table[*level]).sum();
        let pair = |(table, (i, j)): (&Vec<f64>, &(usize, usize))| {
            table[point[*i] * self.main[*j].len() + point[*j]]
        };
        self.constant + main + self.pair.iter().zip(&self.pairs).map(pair).sum::<f64>()
    }

    /// Adds what observations with these coefficients contribute.
    fn add(&mut self, fitted: &Fitted<'_>, alpha: &[f64]) {
        let kernels = fitted.kernels;
        self.constant += alpha.iter().sum::<f64>();
        for (variable, table) in self.main.iter_mut().enumerate() {
            let weight = fitted.weights.main[variable];
            for (level, value) in table.iter_mut().enumerate() {
                let by = |(one, alpha): (&super::Observation, &f64)| {
                    alpha * kernels.alike(variable, level, one.point[variable])
                };
                *value += weight * fitted.observations.iter().zip(alpha).map(by).sum::<f64>();
            }
        }
        for ((table, (i, j)), weight) in
            self.pair.iter_mut().zip(&self.pairs).zip(&fitted.weights.pair)
        {
            let (rows, columns) = (kernels.levels(*i), kernels.levels(*j));
            // First by the values that were tried, then spread over those that are alike.
            let mut tried = vec![0.0; rows * columns];
            for (one, alpha) in fitted.observations.iter().zip(alpha) {
                tried[one.point[*i] * columns + one.point[*j]] += alpha;
            }
            for (at, alpha) in tried.iter().enumerate().filter(|(_, alpha)| **alpha != 0.0) {
                let (row, column) = (at / columns, at % columns);
                for r in 0..rows {
                    let by_row = weight * alpha * kernels.alike(*i, row, r);
                    if by_row != 0.0 {
                        for c in 0..columns {
                            table[r * columns + c] += by_row * kernels.alike(*j, column, c);
                        }
                    }
                }
            }
        }
    }
}

impl Fitted<'_> {
    fn empty(&self) -> Tables {
        let kernels = self.kernels;
        let main = (0..kernels.variables()).map(|v| vec![0.0; kernels.levels(v)]).collect();
        let cells = |(i, j): &(usize, usize)| vec![0.0; kernels.levels(*i) * kernels.levels(*j)];
        let pair = kernels.pairs.iter().map(cells).collect();
        Tables { main, pair, pairs: kernels.pairs.clone(), constant: 0.0 }
    }

    /// The mean of what may be true, with the deviations of measured environments left out.
    pub(crate) fn mean(&self) -> Tables {
        let mut tables = self.empty();
        tables.constant = self.level;
        tables.add(self, &self.alpha);
        tables
    }

    /// One sample of what may be true, given the observations: a sample of the prior, corrected by what it
    /// gets wrong of them (Matheron's rule; Wilson et al., "Efficiently Sampling Functions from Gaussian Process
    /// Posteriors", ICML 2020).
    pub(crate) fn sample(&self, random: &mut Random) -> Tables {
        let kernels = self.kernels;
        let mut tables = self.empty();
        let normals = |random: &mut Random, count: usize| -> Vec<f64> {
            (0..count).map(|_| random.normal()).collect()
        };
        tables.constant = random.normal();
        for (variable, table) in tables.main.iter_mut().enumerate() {
            let sample = kernels.factor(variable).times(&normals(random, table.len()));
            let spread = self.weights.main[variable].sqrt();
            table.iter_mut().zip(sample).for_each(|(value, z)| *value = spread * z);
        }
        for ((table, (i, j)), weight) in
            tables.pair.iter_mut().zip(&kernels.pairs).zip(&self.weights.pair)
        {
            let sample = grid(kernels.factor(*i), kernels.factor(*j), table.len(), |count| {
                normals(random, count)
            });
            table.iter_mut().zip(sample).for_each(|(value, z)| *value = weight.sqrt() * z);
        }
        let drifts = self.drift_sample(random);
        let mut own: Vec<(&Point, f64)> = Vec::new();
        let mut wrong = Vec::with_capacity(self.observations.len());
        for ((one, drift), inflation) in self.observations.iter().zip(drifts).zip(&self.inflation) {
            let known = own.iter().find(|(point, _)| **point == one.point).map(|(_, value)| *value);
            let deviation = known.unwrap_or_else(|| {
                let value = self.weights.own.sqrt() * random.normal();
                own.push((&one.point, value));
                value
            });
            let noise = (self.weights.noise * inflation).sqrt() * random.normal();
            let sampled = tables.value(&one.point) + deviation + drift + noise;
            wrong.push(one.log_time - self.level - sampled);
        }
        let alpha = self.factor.solve(&wrong);
        tables.add(self, &alpha);
        tables.constant += self.level;
        tables
    }

    /// A sample of the drift at each observation: an autoregression of first order.
    fn drift_sample(&self, random: &mut Random) -> Vec<f64> {
        let mut last: Option<(&super::Observation, f64)> = None;
        let mut drifts = Vec::with_capacity(self.observations.len());
        for one in self.observations {
            let z = random.normal();
            let value = last.map_or(z, |(before, value)| {
                let rho = super::fit::drift(before, one);
                rho * value + (1.0 - rho * rho).max(0.0).sqrt() * z
            });
            last = Some((one, value));
            drifts.push(self.weights.drift.sqrt() * value);
        }
        drifts
    }

    /// The mean logarithm of the time of each of `points` at one time, and the covariances between them, row by row.
    pub(crate) fn joint(&self, points: &[Point]) -> (Vec<f64>, Vec<f64>) {
        let of = |point: &Point| -> Vec<f64> {
            self.observations.iter().map(|one| self.of_points(point, &one.point)).collect()
        };
        let cross: Vec<Vec<f64>> = points.iter().map(of).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let means = cross.iter().map(|row| self.level + dot(row, &self.alpha)).collect();
        let half: Vec<Vec<f64>> = cross.iter().map(|row| self.factor.forward(row)).collect();
        let mut covariances = Vec::with_capacity(points.len() * points.len());
        for (a, half_a) in points.iter().zip(&half) {
            for (b, half_b) in points.iter().zip(&half) {
                covariances.push(self.of_points(a, b) - dot(half_a, half_b));
            }
        }
        (means, covariances)
    }

    /// The mean and the standard deviation of ln(time of `b` / time of `a`).
    pub(crate) fn difference(&self, a: &Point, b: &Point) -> (f64, f64) {
        let (means, c) = self.joint(&[a.clone(), b.clone()]);
        (means[1] - means[0], (c[0] + c[3] - c[1] - c[2]).max(0.0).sqrt())
    }
}

/// A sample with the covariance of the Kronecker product of two factors, row by row.
fn grid(
    rows: &Cholesky,
    columns: &Cholesky,
    cells: usize,
    normals: impl FnOnce(usize) -> Vec<f64>,
) -> Vec<f64> {
    let z = normals(cells);
    let width = columns.size();
    let across: Vec<Vec<f64>> = z.chunks(width).map(|row| columns.times(row)).collect();
    let mut sample = vec![0.0; cells];
    for column in 0..width {
        let down: Vec<f64> = across.iter().map(|row| row[column]).collect();
        for (row, value) in rows.times(&down).into_iter().enumerate() {
            sample[row * width + column] = value;
        }
    }
    sample
}
