//! One side of a comparison: its runs as times of launches, point by point.
//! Not the verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Point, variant::variants};
use busbw_core::record::Figures;
use busbw_logs::measurement::{Figure, Measurement};
use busbw_stats::median;

/// The figures of a side at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Each launch's time of one operation, microseconds, in the order of the runs.
    pub launches_us: Vec<f64>,
    /// Their median.
    pub time_us: f64,
    /// Wrong elements in all launches.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong: u64,
    /// Bus bandwidth at that time, GB/s; the bandwidth of a program that prints only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busbw: Option<f64>,
}

/// A side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its figures by point.
    #[serde(skip)]
    pub points: BTreeMap<Point, Times>,
}

impl Side {
    /// The runs of a side, in launch order. A run gives one launch of each of its points (the median
    /// of its cycles), or those that it says it had.
    pub fn of<'a>(name: &str, runs: impl IntoIterator<Item = &'a Measurement>) -> Side {
        let mut points: BTreeMap<Point, (Vec<f64>, Option<Speed>, u64)> = BTreeMap::new();
        let runs: Vec<&Measurement> = runs.into_iter().collect();
        for (run, variant) in runs.iter().zip(variants(&runs)) {
            let mut own: BTreeMap<Point, Vec<Cycle<'_>>> = BTreeMap::new();
            for row in &run.rows {
                for (in_place, half) in run.halves(row) {
                    let (time_us, busbw) = run.figures(row, half);
                    // A record computes a bandwidth of messages that only go back and forth.
                    let busbw = busbw.filter(|_| run.test.figure != Figure::Latency);
                    let cycle = Cycle { half, time_us, busbw };
                    let point = Point::of(run, row, in_place).of_variant(variant.as_ref());
                    own.entry(point).or_default().push(cycle);
                }
            }
            for (point, cycles) in own {
                let launches = launches(&cycles);
                if launches.is_empty() {
                    continue;
                }
                let speed = cycles.iter().find_map(Cycle::speed);
                let (times, known, wrong) = points.entry(point).or_default();
                times.extend(launches);
                *known = known.or(speed);
                *wrong += cycles.iter().filter_map(|cycle| cycle.half.wrong).sum::<u64>();
            }
        }
        let times = points.into_iter().filter_map(|(point, (launches_us, speed, wrong))| {
            let time_us = median(&launches_us)?;
            let busbw = speed.map(|speed| speed.busbw * speed.time_us / time_us);
            Some((point, Times { launches_us, time_us, wrong, busbw }))
        });
        Side { name: name.to_owned(), points: times.collect() }
    }

    /// The ranks of all its points.
    pub fn ranks(&self) -> BTreeSet<Option<usize>> {
        self.points.keys().map(|point| point.ranks).collect()
    }

    /// Gives a side that does not state its ranks those of `other`, if these are one number.
    pub fn assume_ranks_of(&mut self, other: &Side) -> Option<usize> {
        let theirs = other.ranks();
        let only = theirs.first().copied().flatten().filter(|_| theirs.len() == 1)?;
        if self.ranks() != BTreeSet::from([None]) {
            return None;
        }
        let points = std::mem::take(&mut self.points).into_iter();
        self.points = points.map(|(point, times)| (point.on(Some(only)), times)).collect();
        Some(only)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A bandwidth and the time that it was computed from.
#[derive(Debug, Clone, Copy)]
struct Speed {
    busbw: f64,
    time_us: f64,
}

/// The figures of a run at a point in one of its cycles.
struct Cycle<'a> {
    half: &'a Figures,
    time_us: Option<f64>,
    busbw: Option<f64>,
}

impl Cycle<'_> {
    fn speed(&self) -> Option<Speed> {
        Some(Speed { busbw: self.busbw?, time_us: self.time_us? })
    }
}

/// A run's launches of a point.
fn launches(cycles: &[Cycle<'_>]) -> Vec<f64> {
    if let Some(cycle) = cycles.iter().find(|cycle| cycle.half.launches) {
        return cycle.half.samples_us.clone();
    }
    let times: Vec<f64> = cycles.iter().filter_map(|cycle| cycle.time_us).collect();
    median(&times).into_iter().collect()
}
