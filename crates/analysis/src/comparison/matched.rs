//! The same points of two sides: their ratio, and whether it is more than noise.
//! Not the statistics (`stats::compare`).

use serde::{Deserialize, Serialize};

use super::{Point, Side, Times};
use busbw_stats::{
    Comparison, Interval, Rule, Verdict, compare,
    compare::{MIN_EARLIER_LAUNCHES, MIN_LAUNCHES},
    compare_by_history, median,
};

/// A point of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The baseline's figures.
    pub baseline: Times,
    /// The candidate's figures.
    pub candidate: Times,
    /// How many times as fast as the baseline the candidate is.
    pub speed: f64,
    /// Its 95 % interval, where there are enough launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the verdict is based on.
    pub basis: Basis,
}

/// What a verdict is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The launches of both sides.
    Launches,
    /// This number of earlier launches of the same point on the same machine.
    History(usize),
}

/// Two sides, point by point.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Matching {
    /// Points of both.
    pub rows: Vec<Matched>,
    /// Points of the baseline alone.
    pub only_baseline: Vec<Point>,
    /// Points of the other alone.
    pub only_candidate: Vec<Point>,
}

/// Matches two sides. `history` gives earlier launches of a point on the same machine, as multiples of
/// their usual time, for points with too few launches on a side.
pub fn compare_sides(
    baseline: &Side,
    candidate: &Side,
    rule: &Rule,
    history: &mut dyn FnMut(&Point) -> Vec<f64>,
) -> Matching {
    let mut matching = Matching::default();
    for (point, ours) in &baseline.points {
        let Some(theirs) = candidate.points.get(point) else {
            matching.only_baseline.push(point.clone());
            continue;
        };
        matching.rows.push(matched(point, ours, theirs, rule, history));
    }
    let only = candidate.points.keys().filter(|point| !baseline.points.contains_key(point));
    matching.only_candidate = only.cloned().collect();
    matching
}

fn matched(
    point: &Point,
    baseline: &Times,
    candidate: &Times,
    rule: &Rule,
    history: &mut dyn FnMut(&Point) -> Vec<f64>,
) -> Matched {
    let (a, b) = (&baseline.launches_us, &candidate.launches_us);
    let mut basis = Basis::Launches;
    let mut found = compare(a, b, rule);
    if a.len().min(b.len()) < MIN_LAUNCHES {
        let earlier = history(point);
        if earlier.len() >= MIN_EARLIER_LAUNCHES
            && let (Some(a), Some(b)) = (median(a), median(b))
        {
            basis = Basis::History(earlier.len());
            found = compare_by_history(a, b, &earlier, rule);
        }
    }
    let Comparison { verdict, ratio, interval, .. } = found;
    let turned = |interval: Interval| Interval {
        low: 1.0 / interval.high,
        high: 1.0 / interval.low,
        coverage: interval.coverage,
    };
    Matched {
        point: point.clone(),
        baseline: baseline.clone(),
        candidate: candidate.clone(),
        speed: 1.0 / ratio.unwrap_or(candidate.time_us / baseline.time_us),
        interval: interval.map(turned),
        verdict,
        basis,
    }
}

impl Matched {
    /// Whether the candidate is less than `least` times as fast as the baseline. Where launches or the history
    /// give a verdict, only "slower" counts; with too few launches the figures decide.
    pub fn is_below(&self, least: f64) -> bool {
        let judged = self.interval.is_some();
        self.speed < least && (!judged || self.verdict == Verdict::Slower)
    }

    /// Whether the candidate looks less than `least` times as fast, but the verdict is inconclusive.
    pub fn may_be_below(&self, least: f64) -> bool {
        self.speed < least && !self.is_below(least) && self.verdict != Verdict::Same
    }
}
