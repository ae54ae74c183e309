//! How alike two values of a variable are, and which pairs of variables have an effect of their own.
//! Not how large an effect is (`fit`).

use super::matrix::Cholesky;
use crate::space::Space;

/// The places in a list over which an effect of ordered values reaches.
const REACH: f64 = 1.5;
/// The share of an ordered variable's effect that neighbours have in common; the rest allows for a cliff.
const SMOOTH: f64 = 0.6;
/// Trials after which half of the machine's drift is forgotten, roughly.
pub(super) const DRIFT_TRIALS: f64 = 40.0;

/// Similarities of values, as far as they follow from the space alone.
#[derive(Debug, Clone)]
pub(crate) struct Kernels {
    /// For each variable levels × levels, 1 on the diagonal.
    of: Vec<Vec<f64>>,
    levels: Vec<usize>,
    factors: Vec<Cholesky>,
    /// All pairs of variables, the first before the second.
    pub(super) pairs: Vec<(usize, usize)>,
}

impl Kernels {
    pub(crate) fn of(space: &Space) -> Self {
        let mut kernels =
            Self { of: Vec::new(), levels: Vec::new(), factors: Vec::new(), pairs: Vec::new() };
        for (place, variable) in space.variables().iter().enumerate() {
            let levels = variable.values.len();
            // "Not set" is the library's own choice: alike to none of the listed values.
            let is_set = |level: usize| variable.values[level].is_some();
            let alike = |a: usize, b: usize| {
                if a == b {
                    return 1.0;
                }
                let near = (a.abs_diff(b) as f64 / REACH).powi(2) / 2.0;
                let both = variable.ordered && is_set(a) && is_set(b);
                if both { SMOOTH * (-near).exp() } else { 0.0 }
            };
            let kernel: Vec<f64> =
                (0..levels * levels).map(|at| alike(at / levels, at % levels)).collect();
            kernels.factors.push(Cholesky::of(levels, kernel.clone()));
            kernels.of.push(kernel);
            kernels.levels.push(levels);
            kernels.pairs.extend((0..place).map(|before| (before, place)));
        }
        kernels
    }

    /// Variables.
    pub(super) fn variables(&self) -> usize {
        self.levels.len()
    }

    /// Values of a variable.
    pub(super) fn levels(&self, variable: usize) -> usize {
        self.levels[variable]
    }

    /// How alike two values of a variable are, from 0 to 1.
    pub(super) fn alike(&self, variable: usize, a: usize, b: usize) -> f64 {
        self.of[variable][a * self.levels[variable] + b]
    }

    /// The factor of a variable's kernel, for samples.
    pub(super) fn factor(&self, variable: usize) -> &Cholesky {
        &self.factors[variable]
    }
}
