//! Bus bandwidth over size as one figure in the terminal; the time of latency tests.
//! Not the report's charts, which are drawn where the page is read.

mod terminal;

pub use terminal::{screen, terminal};

use crate::{LineKind, Series};
use busbw_core::{printable::printable, quantity::rate};

/// The data of the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The test and its hardware.
    pub title: String,
    /// Unit of the figures: `GB/s`, or `us` of latency tests.
    pub unit: &'static str,
    /// What was measured.
    pub curves: Vec<Curve>,
    /// What the hardware allows.
    pub limits: Vec<Limit>,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Whether it is the second curve of a series (in place).
    pub in_place: bool,
    /// Bytes and the figure, by size.
    pub points: Vec<(f64, f64)>,
}

/// A horizontal line.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Its name in the legend.
    pub name: String,
    /// GB/s.
    pub busbw: f64,
}

impl Figure {
    /// The figure of these series; none where no row of a size has a bandwidth.
    pub fn of(title: String, series: &[Series]) -> Option<Figure> {
        let several = series.len() > 1;
        let latency = !series.is_empty() && series.iter().all(|one| one.latency);
        let mut curves = Vec::new();
        for one in series {
            for in_place in [false, true] {
                let rows = one.rows.iter().filter(|row| row.size > 0);
                let placed = rows.filter_map(|row| {
                    let half = if in_place { &row.in_place } else { &row.out_of_place };
                    let half = half.as_ref()?;
                    let figure = if latency { half.time_us } else { half.busbw.or(half.algbw) };
                    Some((row.size as f64, figure.filter(|figure| *figure > 0.0)?))
                });
                let mut points: Vec<(f64, f64)> = placed.collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                let place = if in_place { "in place" } else { "out of place" };
                let name = match (several, in_place) {
                    (false, _) => place.to_owned(),
                    (true, false) => one.name.clone(),
                    (true, true) => format!("{}, in place", one.name),
                };
                let name = printable(&name).into_owned();
                if !points.is_empty() {
                    curves.push(Curve { name, in_place, points });
                }
            }
        }
        let mut limits: Vec<Limit> = Vec::new();
        for line in series.iter().flat_map(|one| &one.lines) {
            let word = match line.kind {
                LineKind::Payload => "limit (payload)",
                LineKind::Line => "line rate",
                LineKind::Expected => "NCCL expects",
            };
            let name = format!("{word} {} GB/s", rate(line.busbw));
            if !limits.iter().any(|other| other.name == name) {
                limits.push(Limit { name, busbw: line.busbw });
            }
        }
        (!curves.is_empty()).then_some(Figure {
            title: printable(&title).into_owned(),
            unit: if latency { "us" } else { "GB/s" },
            curves,
            limits,
        })
    }

    /// The smallest and the largest size, bytes; never the same.
    fn sizes(&self) -> (f64, f64) {
        let sizes = || self.curves.iter().flat_map(|curve| &curve.points).map(|(size, _)| *size);
        let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        (low, high.max(low * 2.0))
    }

    /// The axis of bandwidth: GB/s from tick to tick, a round number, and how many of these hold everything.
    fn ticks(&self) -> (f64, u32) {
        let points = self.curves.iter().flat_map(|curve| &curve.points).map(|(_, busbw)| *busbw);
        let highest = points.chain(self.limits.iter().map(|limit| limit.busbw)).fold(0.0, f64::max);
        let needed = highest * 1.02 / 5.0;
        let power = 10_f64.powf(needed.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= needed).unwrap_or(10.0 * power);
        (step, (highest * 1.02 / step).ceil().max(1.0) as u32)
    }
}
