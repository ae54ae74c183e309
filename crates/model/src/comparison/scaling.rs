//! How a machine keeps its speed as it grows: the same points on more and more ranks.
//! Not two machines, and not two states of one (`matched`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Point, Side, Times};

/// A point on all the ranks that it was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// The point on the fewest.
    #[serde(flatten)]
    pub point: Point,
    /// From the fewest ranks to the most.
    pub steps: Vec<Step>,
}

/// A point on some ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Ranks.
    pub ranks: usize,
    /// What was measured.
    pub times: Times,
    /// Bus bandwidth over that of the fewest ranks.
    pub efficiency: f64,
}

/// The points of all sides that were measured on at least two numbers of ranks, with a bus bandwidth.
/// Where several sides have one, the first counts.
pub fn scale(sides: &[Side]) -> Vec<Scaled> {
    let mut found: BTreeMap<Point, BTreeMap<usize, (Times, f64)>> = BTreeMap::new();
    for (point, times) in sides.iter().flat_map(|side| &side.points) {
        let busbw = times.busbw.filter(|busbw| *busbw > 0.0);
        if let (Some(ranks), Some(busbw)) = (point.ranks, busbw) {
            let steps = found.entry(point.on(None)).or_default();
            steps.entry(ranks).or_insert_with(|| (times.clone(), busbw));
        }
    }
    let several = found.into_iter().filter(|(_, steps)| steps.len() > 1);
    let scaled = several.filter_map(|(point, steps)| {
        let (fewest, (_, first)) = steps.first_key_value().map(|(n, step)| (*n, step.clone()))?;
        let step = |(ranks, (times, busbw)): (usize, (Times, f64))| Step {
            ranks,
            times,
            efficiency: busbw / first,
        };
        Some(Scaled { point: point.on(Some(fewest)), steps: steps.into_iter().map(step).collect() })
    });
    scaled.collect()
}
