//! How a machine keeps its speed as it grows: the same points on more and more hosts and ranks.
//! Not two machines, and not two states of one (`matched`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Point, Side, Times};
use busbw_logs::measurement::Measurement;

/// A point on all the machines that it was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// The point on the smallest.
    #[serde(flatten)]
    pub point: Point,
    /// From the smallest to the largest.
    pub steps: Vec<Step>,
}

/// How large a machine was. The order is that of the axis: hosts, and ranks on as many hosts; where
/// hosts are not known, ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Width {
    /// Hosts, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<usize>,
    /// Ranks.
    pub ranks: usize,
}

/// A point on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// How large it was.
    #[serde(flatten)]
    pub width: Width,
    /// What was measured, in all launches.
    pub times: Times,
    /// Bus bandwidth over that of the smallest.
    pub efficiency: f64,
}

/// The points of all runs that were measured on at least two widths, with a bus bandwidth. All launches
/// of a width count: what is held against others is their median.
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
