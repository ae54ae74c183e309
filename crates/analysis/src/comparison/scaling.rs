//! Scaling efficiency: the same points on increasing numbers of hosts and ranks.
//! Not the comparison of two sides (`matched`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Point, Side, Times};
use busbw_logs::measurement::Measurement;

/// A point at all widths that it was measured at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// The point at the smallest width.
    #[serde(flatten)]
    pub point: Point,
    /// Figures by width, the smallest first.
    pub steps: Vec<Step>,
}

/// The number of hosts and ranks. Ordered by hosts, then ranks; by ranks where hosts are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Width {
    /// Hosts, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<usize>,
    /// Ranks.
    pub ranks: usize,
}

/// A point at one width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The width.
    #[serde(flatten)]
    pub width: Width,
    /// The figures of all launches.
    pub times: Times,
    /// Bus bandwidth divided by that at the smallest width.
    pub efficiency: f64,
}

/// The points of all runs that were measured on at least two widths, with a bus bandwidth. All launches
/// of a width count: their median is compared.
pub fn scale<'a>(runs: impl IntoIterator<Item = &'a Measurement>) -> Vec<Scaled> {
    let mut by_hosts: BTreeMap<Option<usize>, Vec<Measurement>> = BTreeMap::new();
    for run in runs {
        // Each communicator has hosts of its own.
        for one in run.clone().communicators() {
            by_hosts.entry(one.hosts).or_default().push(one);
        }
    }
    let mut found: BTreeMap<Point, Vec<(Width, Times, f64)>> = BTreeMap::new();
    for (hosts, runs) in &by_hosts {
        for (point, times) in Side::of("", runs).points {
            let busbw = times.busbw.filter(|busbw| *busbw > 0.0);
            if let (Some(ranks), Some(busbw)) = (point.ranks, busbw) {
                let width = Width { hosts: *hosts, ranks };
                found.entry(point.on(None)).or_default().push((width, times, busbw));
            }
        }
    }
    let scaled = found.into_iter().filter_map(|(point, mut steps)| {
        // Of the number of hosts nothing follows where one of them is not known.
        let known = steps.iter().all(|(width, ..)| width.hosts.is_some());
        steps.sort_by_key(|(width, ..)| (width.hosts.filter(|_| known), width.ranks, width.hosts));
        let (smallest, _, first) = steps.first().filter(|_| steps.len() > 1)?;
        let (ranks, first) = (smallest.ranks, *first);
        let step = |(width, times, busbw)| Step { width, times, efficiency: busbw / first };
        Some(Scaled { point: point.on(Some(ranks)), steps: steps.into_iter().map(step).collect() })
    });
    scaled.collect()
}
