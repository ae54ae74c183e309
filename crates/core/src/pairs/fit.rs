//! The model of the figures: levels of classes, slowness of subjects, and noise. Computes the
//! residuals when some subjects are named.
//! Not which subjects are named.

use super::{
    figures::{Figures, scale},
    subject::Candidate,
};
use busbw_stats::median;

/// The smallest relative error that a cell is assumed to have: two buffers of one size differ by as
/// much.
const MIN_CELL_ERROR: f64 = 0.003;

/// The fewest cells from which the noise between cells is estimated.
const MIN_CELLS: usize = 5;

/// A median's standard error under normal noise, relative to that of the mean.
const MEDIAN_ERROR_FACTOR: f64 = 1.2533;

/// Information of a median absolute deviation, relative to a standard deviation from as many
/// values.
const SPREAD_EFFICIENCY: f64 = 0.37;

/// Every figure as a logarithm of time, and the noise before any subject is named.
pub(super) struct Field {
    /// The slowness of each cell.
    pub slowness: Vec<f64>,
    /// The class of each cell.
    pub class: Vec<usize>,
    /// How many classes there are.
    pub classes: usize,
    /// Whether the slowness of two subjects adds up, as times do; else the slower one counts.
    pub adds: bool,
    /// Standard deviation of each class's cells by their samples alone, and its degrees of freedom.
    by_samples: Vec<Option<(f64, f64)>>,
}

/// The fit of named subjects.
pub(super) struct Fit {
    /// The level of each class: the median slowness of cells that no subject slows.
    pub levels: Vec<f64>,
    /// The slowness of each subject in each class.
    pub effects: Vec<Vec<f64>>,
    /// The same beyond what other subjects explain of all its cells.
    pub beyond: Vec<Vec<f64>>,
    /// How many subjects slow each cell.
    pub named: Vec<usize>,
    /// The residual of each cell.
    pub rest: Vec<f64>,
    /// Noise of a cell by class, and its degrees of freedom; `None` where it is unknown.
    pub noise: Vec<Option<(f64, f64)>>,
}

impl Field {
    pub fn new(figures: &Figures) -> Field {
        let (cells, classes) = (figures.cells(), figures.classes().len());
        let by_samples = (0..classes).map(|class| {
            let of_class = || cells.iter().filter(move |cell| cell.class == class);
            let spreads: Vec<f64> = of_class().filter_map(|cell| cell.spread).collect();
            let counts: Vec<f64> = of_class().map(|cell| (cell.samples.max(1)) as f64).collect();
            let freedom: f64 = counts.iter().map(|count| SPREAD_EFFICIENCY * (count - 1.0)).sum();
            // Of two samples, the median is their mean.
            let (spread, count) = (median(&spreads)?, median(&counts)?);
            let error = if count > 2.0 { MEDIAN_ERROR_FACTOR } else { 1.0 } / count.sqrt();
            Some((spread * error, freedom))
        });
        Field {
            slowness: cells.iter().map(|cell| figures.slowness(cell)).collect(),
            class: cells.iter().map(|cell| cell.class).collect(),
            classes,
            adds: !figures.unit().more_is_better(),
            by_samples: by_samples.collect(),
        }
    }

    /// Fits `subjects`.
    pub fn fit(&self, subjects: &[&Candidate]) -> Fit {
        let mut slowed_by = vec![Vec::new(); self.slowness.len()];
        for (number, subject) in subjects.iter().enumerate() {
            subject.places().for_each(|place| slowed_by[place].push(number));
        }
        let levels: Vec<f64> =
            (0..self.classes).map(|class| self.level(class, &slowed_by)).collect();
        let mut effects = vec![vec![0.0; self.classes]; subjects.len()];
        let mut shared = Vec::new();
        for (number, subject) in subjects.iter().enumerate() {
            for (class, places) in &subject.cells {
                let own = places.iter().filter(|at| slowed_by[**at].len() == 1);
                let own: Vec<f64> = own.map(|at| self.slowness[*at] - levels[*class]).collect();
                match median(&own) {
                    Some(effect) => effects[number][*class] = effect.max(0.0),
                    None => shared.push((number, *class, places)),
                }
            }
        }
        let mut beyond = effects.clone();
        for (number, class, places) in shared {
            // Other subjects slow all of its cells: it gets the rest.
            let others = |at: usize| {
                let others = slowed_by[at].iter().filter(|other| **other != number);
                self.together(others.map(|other| effects[*other][class]))
            };
            let left: Vec<_> = (places.iter())
                .map(|at| (self.slowness[*at] - levels[class] - others(*at), others(*at)))
                .collect();
            let more = median(&left.iter().map(|(more, _)| *more).collect::<Vec<_>>());
            let less = median(&left.iter().map(|(_, others)| *others).collect::<Vec<_>>());
            let (more, less) = (more.unwrap_or(0.0).max(0.0), less.unwrap_or(0.0));
            beyond[number][class] = more;
            effects[number][class] = match self.adds {
                true => ((more + less).exp() - less.exp()).ln_1p(),
                false => more + less,
            };
        }
        let rest = (0..self.slowness.len()).map(|at| {
            let class = self.class[at];
            let slow = self.together(slowed_by[at].iter().map(|number| effects[*number][class]));
            self.slowness[at] - levels[class] - slow
        });
        let rest: Vec<f64> = rest.collect();
        let named: Vec<usize> = slowed_by.iter().map(Vec::len).collect();
        let noise = (0..self.classes).map(|class| self.noise(class, &rest, &named)).collect();
        Fit { levels, effects, beyond, named, rest, noise }
    }

    /// The slowness of one cell under several subjects.
    fn together(&self, effects: impl Iterator<Item = f64>) -> f64 {
        match self.adds {
            true => effects.map(|effect| effect.exp() - 1.0).sum::<f64>().ln_1p(),
            false => effects.fold(0.0, f64::max),
        }
    }

    fn level(&self, class: usize, slowed_by: &[Vec<usize>]) -> f64 {
        let of = |also_slow: bool| -> Option<f64> {
            let at = (0..self.slowness.len()).filter(|at| self.class[*at] == class);
            let healthy = at.filter(|at| also_slow || slowed_by[*at].is_empty());
            median(&healthy.map(|at| self.slowness[at]).collect::<Vec<_>>())
        };
        of(false).or_else(|| of(true)).unwrap_or(0.0)
    }

    /// The larger of two estimates: from samples within cells, and from the cells that no subject
    /// slows.
    fn noise(&self, class: usize, rest: &[f64], named: &[usize]) -> Option<(f64, f64)> {
        let healthy: Vec<f64> = (0..rest.len())
            .filter(|at| self.class[*at] == class && named[*at] == 0)
            .map(|at| rest[at])
            .collect();
        let between = scale(&healthy).filter(|_| healthy.len() >= MIN_CELLS);
        let between = between.map(|scale| (scale, SPREAD_EFFICIENCY * (healthy.len() - 1) as f64));
        let (noise, freedom) = match (self.by_samples[class], between) {
            (Some((a, some)), Some((b, more))) => (a.max(b), some + more),
            (one, other) => one.or(other)?,
        };
        Some((noise.max(MIN_CELL_ERROR), freedom.max(1.0)))
    }

    /// Noise of each class while nobody is named yet, by the fast cells alone: as many as half of
    /// them may be slow. The lowest quarter of normal values begins 0.97 of their deviation above the
    /// lowest twentieth, and 1.28 where the other half is slow.
    pub fn first_noise(&self) -> Vec<Option<f64>> {
        let of_class = |class: usize| {
            let at = (0..self.slowness.len()).filter(|at| self.class[*at] == class);
            let values: Vec<f64> = at.map(|at| self.slowness[at]).collect();
            let low = busbw_stats::quantile(&values, 0.05)?;
            let fast = (busbw_stats::quantile(&values, 0.25)? - low) / 1.28;
            let fast = Some(fast).filter(|_| values.len() >= 2 * MIN_CELLS);
            let by_samples = self.by_samples[class].map(|(noise, _)| noise);
            Some(by_samples.into_iter().chain(fast).reduce(f64::max)?.max(MIN_CELL_ERROR))
        };
        (0..self.classes).map(of_class).collect()
    }
}
