//! Figures as levels of classes, slowed by subjects, and noise: what is left when some are named.
//! Not who is to be named.

use super::{
    figures::{Figures, scale},
    subject::Candidate,
};
use busbw_stats::median;

/// Cells are never taken to be surer than this, as a part of their figure: two buffers of one size
/// differ by as much.
const SUREST: f64 = 0.003;

/// The fewest cells whose differences tell how much noise there is between cells.
const FEWEST: usize = 5;

/// A median's standard error for normal noise, over that of the mean.
const OF_MEDIAN: f64 = 1.2533;

/// What a median absolute deviation knows, in terms of a standard deviation from as many values.
const EFFICIENCY: f64 = 0.37;

/// Every figure as a logarithm of time, and what is known of the noise before anybody is named.
pub(super) struct Field {
    /// The slowness of each cell.
    pub slowness: Vec<f64>,
    /// The class of each cell.
    pub class: Vec<usize>,
    /// How many classes there are.
    pub classes: usize,
    /// Whether slowness of two subjects adds up, as times do; else the slower one counts.
    pub adds: bool,
    /// Standard deviation of each class's cells by their samples alone, and its degrees of freedom.
    by_samples: Vec<Option<(f64, f64)>>,
}

/// What subjects explain.
pub(super) struct Fit {
    /// The level of each class: the median slowness of cells that nobody slows.
    pub levels: Vec<f64>,
    /// Of each subject, its slowness in each class.
    pub effects: Vec<Vec<f64>>,
    /// The same beyond what others explain of all its cells.
    pub beyond: Vec<Vec<f64>>,
    /// How many subjects slow each cell.
    pub named: Vec<usize>,
    /// What is left of each cell.
    pub rest: Vec<f64>,
    /// Noise of a cell by class, and its degrees of freedom; none where it cannot be known.
    pub noise: Vec<Option<(f64, f64)>>,
}

impl Field {
    pub fn new(figures: &Figures) -> Field {
        let (cells, classes) = (figures.cells(), figures.classes().len());
        let by_samples = (0..classes).map(|class| {
            let of_class = || cells.iter().filter(move |cell| cell.class == class);
            let spreads: Vec<f64> = of_class().filter_map(|cell| cell.spread).collect();
            let counts: Vec<f64> = of_class().map(|cell| (cell.samples.max(1)) as f64).collect();
            let freedom: f64 = counts.iter().map(|count| EFFICIENCY * (count - 1.0)).sum();
            // Of two samples, the median is their mean.
            let (spread, count) = (median(&spreads)?, median(&counts)?);
            let error = if count > 2.0 { OF_MEDIAN } else { 1.0 } / count.sqrt();
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

    /// What `subjects` explain.
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
            // Others slow all of its cells: it has what they leave.
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

    /// What several subjects make of one cell.
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

    /// The larger of what samples within cells say, and what the cells that nobody slows do.
    fn noise(&self, class: usize, rest: &[f64], named: &[usize]) -> Option<(f64, f64)> {
        let healthy: Vec<f64> = (0..rest.len())
            .filter(|at| self.class[*at] == class && named[*at] == 0)
            .map(|at| rest[at])
            .collect();
        let between = scale(&healthy).filter(|_| healthy.len() >= FEWEST);
        let between = between.map(|scale| (scale, EFFICIENCY * (healthy.len() - 1) as f64));
        let (noise, freedom) = match (self.by_samples[class], between) {
            (Some((a, some)), Some((b, more))) => (a.max(b), some + more),
            (one, other) => one.or(other)?,
        };
        Some((noise.max(SUREST), freedom.max(1.0)))
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
            let fast = Some(fast).filter(|_| values.len() >= 2 * FEWEST);
            let by_samples = self.by_samples[class].map(|(noise, _)| noise);
            Some(by_samples.into_iter().chain(fast).reduce(f64::max)?.max(SUREST))
        };
        (0..self.classes).map(of_class).collect()
    }
}
