//! The best environment of a set of tables: changes of one variable, then of two at once, from several starts.
//! Not a guarantee: an optimum that needs three changes at once, each pair of them worse, can be missed.

use busbw_stats::Random;

use super::Tables;
use crate::space::{Point, Space};

/// Random starts beside those that the caller gives.
const RANDOM_STARTS: usize = 4;
/// How many of the results of single changes are improved by double changes.
const WITH_PAIRS: usize = 2;

/// What must not be tried again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forbidden {
    /// Environments that failed.
    pub(crate) points: Vec<Point>,
    /// Values (variable, level) that failed environments have in common, all of one list together.
    pub(crate) together: Vec<Vec<(usize, usize)>>,
    /// The same where chance may explain it, with what they must promise, in the logarithm of the time.
    pub(crate) suspected: Vec<(Vec<(usize, usize)>, f64)>,
}

impl Forbidden {
    /// Whether `point` must not be tried.
    pub(crate) fn has(&self, point: &Point) -> bool {
        self.together.iter().any(|cells| matches(point, cells)) || self.points.contains(point)
    }

    /// What `point` must promise beyond others to be tried, in the logarithm of the time.
    pub(crate) fn cost(&self, point: &Point) -> f64 {
        let costs = self.suspected.iter().filter(|(cells, _)| matches(point, cells));
        costs.map(|(_, cost)| cost).sum()
    }
}

fn matches(point: &Point, cells: &[(usize, usize)]) -> bool {
    cells.iter().all(|(variable, level)| point[*variable] == *level)
}

/// The best environment that is found from `starts` and a few random ones. The first start must be allowed.
pub(crate) fn minimise(
    space: &Space,
    tables: &Tables,
    forbidden: &Forbidden,
    starts: &[Point],
    random: &mut Random,
) -> Point {
    let climb = Climb { space, tables, forbidden };
    let mut found: Vec<(f64, Point)> = Vec::new();
    let random_starts: Vec<Point> =
        (0..RANDOM_STARTS).map(|_| random_point(space, random)).collect();
    for start in starts.iter().chain(&random_starts) {
        let mut point = start.clone();
        space.normalise(&mut point);
        let reached = climb.singly(climb.cost(&point), point);
        if !found.iter().any(|(_, known)| *known == reached.1) {
            found.push(reached);
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.truncate(WITH_PAIRS);
    let improved = found.into_iter().map(|(cost, point)| climb.in_pairs(cost, point));
    let best = improved.min_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(cost, _)| cost.is_finite())
        .map_or_else(|| starts.first().cloned().unwrap_or_else(|| space.default_point()), |b| b.1)
}

/// Every level alike.
pub(crate) fn random_point(space: &Space, random: &mut Random) -> Point {
    let variables = space.variables().iter();
    let mut point: Point = variables.map(|v| random.below(v.values.len())).collect();
    space.normalise(&mut point);
    point
}

struct Climb<'a> {
    space: &'a Space,
    tables: &'a Tables,
    forbidden: &'a Forbidden,
}

impl Climb<'_> {
    fn cost(&self, point: &Point) -> f64 {
        if self.forbidden.has(point) {
            return f64::INFINITY;
        }
        self.tables.value(point) + self.forbidden.cost(point)
    }

    fn with(&self, point: &Point, changes: &[(usize, usize)]) -> Point {
        let mut changed = point.clone();
        changes.iter().for_each(|(variable, level)| changed[*variable] = *level);
        self.space.normalise(&mut changed);
        changed
    }

    /// Changes one variable at a time while that helps.
    fn singly(&self, mut cost: f64, mut point: Point) -> (f64, Point) {
        loop {
            let before = cost;
            for (place, variable) in self.space.variables().iter().enumerate() {
                for level in 0..variable.values.len() {
                    let changed = self.with(&point, &[(place, level)]);
                    let value = self.cost(&changed);
                    if value < cost {
                        (cost, point) = (value, changed);
                    }
                }
            }
            if cost >= before {
                return (cost, point);
            }
        }
    }

    /// Changes two variables at a time, then one, while that helps.
    fn in_pairs(&self, mut cost: f64, mut point: Point) -> (f64, Point) {
        let variables = self.space.variables();
        loop {
            let before = cost;
            for second in 0..variables.len() {
                for first in 0..second {
                    for a in 0..variables[first].values.len() {
                        for b in 0..variables[second].values.len() {
                            if a == point[first] || b == point[second] {
                                continue;
                            }
                            let changed = self.with(&point, &[(first, a), (second, b)]);
                            let value = self.cost(&changed);
                            if value < cost {
                                (cost, point) = (value, changed);
                            }
                        }
                    }
                }
            }
            if cost >= before {
                return (cost, point);
            }
            (cost, point) = self.singly(cost, point);
        }
    }
}
