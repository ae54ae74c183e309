//! The input of a verdict: figures of ordered pairs, each with its class and its samples.
//! Not the matrix that is shown, and not a verdict.

use thiserror::Error;

use super::Unit;
use busbw_stats::{mad, median};

/// The figure of one sender and receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Number of the sender.
    pub from: usize,
    /// Number of the receiver.
    pub to: usize,
    /// Number of its class. Only cells of one class are compared.
    pub class: usize,
    /// Median of its samples, in the unit of the figures.
    pub median: f64,
    /// Standard deviation of one sample relative to the median, estimated from few samples; `None`
    /// with a single one.
    pub spread: Option<f64>,
    /// Number of samples, each of another pass through the schedule.
    pub samples: usize,
}

/// Figures of the pairs of some ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    unit: Unit,
    hosts: Vec<usize>,
    classes: Vec<String>,
    cells: Vec<Cell>,
}

/// Why figures cannot be judged.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BadFigures {
    /// A rank or class that does not exist, or a rank with itself.
    #[error(
        "the figure of rank {from} to rank {to} in class {class} belongs to no pair of the {ranks} ranks and {classes} classes"
    )]
    NoPair {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// Its class.
        class: usize,
        /// How many ranks there are.
        ranks: usize,
        /// How many classes.
        classes: usize,
    },
    /// A figure that is not positive.
    #[error("rank {from} to rank {to} has the figure {value}: a speed or a time is above 0")]
    Value {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// The figure.
        value: f64,
    },
}

/// The first class where only the hosts of ranks are known.
pub const WITHIN_HOSTS: &str = "within hosts";
/// The second one.
pub const BETWEEN_HOSTS: &str = "between hosts";

/// Factors for the median absolute deviation of 2, 3 … samples, which is too small on average
/// (Croux and Rousseeuw, "Time-Efficient Algorithms for Two Highly Robust Estimators of Scale",
/// COMPSTAT 1992, section 2.1).
const SMALL_SAMPLE_FACTORS: [f64; 8] = [1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107];

/// The factor from a median absolute deviation to the standard deviation of normal noise.
const NORMAL_FACTOR: f64 = 1.4826;

impl Cell {
    /// From its samples; `None` without any, or if one is not above 0.
    pub fn of(from: usize, to: usize, class: usize, samples: &[f64]) -> Option<Cell> {
        let logs: Vec<f64> = samples.iter().map(|sample| sample.ln()).collect();
        let median = median(samples).filter(|_| logs.iter().all(|log| log.is_finite()))?;
        Some(Cell { from, to, class, median, spread: scale(&logs), samples: samples.len() })
    }
}

impl Figures {
    /// `hosts` is the host of each rank, `classes` the names of classes.
    ///
    /// # Errors
    /// A cell has a rank or class that does not exist, or a figure that is not positive.
    pub fn new(
        unit: Unit,
        hosts: Vec<usize>,
        classes: Vec<String>,
        cells: Vec<Cell>,
    ) -> Result<Figures, BadFigures> {
        for &Cell { from, to, class, median, .. } in &cells {
            if from == to || from.max(to) >= hosts.len() || class >= classes.len() {
                let (ranks, classes) = (hosts.len(), classes.len());
                return Err(BadFigures::NoPair { from, to, class, ranks, classes });
            }
            if !(median.is_finite() && median > 0.0) {
                return Err(BadFigures::Value { from, to, value: median });
            }
        }
        Ok(Figures { unit, hosts, classes, cells })
    }

    /// From samples of pairs, with the two classes that hosts make. Pairs without samples are left
    /// out.
    ///
    /// # Errors
    /// A cell has a rank that does not exist, or a figure that is not positive.
    pub fn by_hosts<'a>(
        unit: Unit,
        hosts: Vec<usize>,
        samples: impl IntoIterator<Item = (usize, usize, &'a [f64])>,
    ) -> Result<Figures, BadFigures> {
        let class = |from: usize, to: usize| usize::from(hosts.get(from) != hosts.get(to));
        let cells = (samples.into_iter().filter(|(.., samples)| !samples.is_empty()))
            .map(|(from, to, samples)| {
                let bad = samples.iter().copied().find(|s| !(s.is_finite() && *s > 0.0));
                Cell::of(from, to, class(from, to), samples).ok_or(BadFigures::Value {
                    from,
                    to,
                    value: bad.unwrap_or(f64::NAN),
                })
            })
            .collect::<Result<_, _>>()?;
        Figures::new(unit, hosts, vec![WITHIN_HOSTS.into(), BETWEEN_HOSTS.into()], cells)
    }

    /// Unit of the figures.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The host of each rank.
    pub fn hosts(&self) -> &[usize] {
        &self.hosts
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The figures.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Logarithm of a cell's time, up to a constant: larger is slower, and what a class has in
    /// common is a sum.
    pub(super) fn slowness(&self, cell: &Cell) -> f64 {
        if self.unit.more_is_better() { -cell.median.ln() } else { cell.median.ln() }
    }
}

/// Standard deviation of few values, from their median absolute deviation.
pub(super) fn scale(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let wider = match n {
        0 | 1 => return None,
        2..=9 => SMALL_SAMPLE_FACTORS.get(n - 2).copied().unwrap_or(1.0),
        _ => n as f64 / (n as f64 - 0.8),
    };
    mad(values).map(|mad| NORMAL_FACTOR * wider * mad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_make_two_classes() {
        let samples = [(0, 1, &[2.0, 2.0][..]), (1, 2, &[8.0][..]), (2, 0, &[][..])];
        let figures = Figures::by_hosts(Unit::Microseconds, vec![0, 0, 1], samples).unwrap();
        let classes: Vec<_> =
            figures.cells().iter().map(|cell| (cell.class, cell.spread)).collect();
        assert_eq!(classes, [(0, Some(0.0)), (1, None)]);
    }

    #[test]
    fn nonsense_is_refused() {
        let of = |from, to, samples: &[f64]| {
            let figures = Figures::by_hosts(Unit::Microseconds, vec![0, 0], [(from, to, samples)]);
            figures.unwrap_err().to_string()
        };
        assert!(of(0, 0, &[1.0]).contains("no pair"));
        assert!(of(0, 2, &[1.0]).contains("2 ranks"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(of(0, 1, &[1.0, bad]).contains("above 0"), "{bad}");
        }
    }
}
