//! What environments that failed have in common: one value, or two values together, with which nothing ever ran.
//! Not why the library fails there: that is in the text of each failure.

use serde::{Deserialize, Serialize};

use crate::{
    model::Forbidden,
    space::{Assignment, Point, Space},
    trial::{Failed, Failure, Finished},
};

/// Failures that values must have in common to be suspected: one failure may be anything's.
const MIN_FAILURES: usize = 2;
/// Values are not tried again where this many pairs of values at most would have failed that often by chance.
const MAX_BY_CHANCE: f64 = 0.5;
/// What two suspected values must promise to be tried again, in the logarithm of the time.
const PAIR_COST: f64 = 0.1;
/// The same of one value. Less, since most often it fails only beside another value, which a trial without that one shows.
const VALUE_COST: f64 = 0.02;

/// An environment that is disqualified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disqualified {
    /// The trial's number.
    pub trial: u64,
    /// What it set.
    pub environment: Vec<Assignment>,
    /// How it failed.
    pub failure: Failure,
    /// What was reported.
    pub text: String,
}

/// Values that were in several environments that failed, and in none that ran. They are not tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspected {
    /// One value, or two that were set together.
    pub values: Vec<Assignment>,
    /// Trials with them, all of which failed.
    pub failed: usize,
}

/// Everything that failed, in the order of trials.
pub(crate) fn disqualified(history: &[Finished]) -> Vec<Disqualified> {
    let failed = history.iter().filter_map(|one| {
        let Failed { failure, text } = one.result.as_ref().err()?;
        let environment = one.trial.environment.clone();
        Some(Disqualified {
            trial: one.trial.id,
            environment,
            failure: *failure,
            text: text.clone(),
        })
    });
    failed.collect()
}

/// What must not be tried again.
///
/// Values explain failures greedily: the value, then the pair of values, that is in most failed trials and in no other; what
/// it explains is set aside. Many pairs of values share two failures by chance, so values are given up only where
/// that many failures are too many for chance; until then they must promise more than others to be tried.
pub(crate) fn forbidden(space: &Space, history: &[Finished]) -> Forbidden {
    let (failed, ran): (Vec<&Finished>, Vec<&Finished>) =
        history.iter().partition(|one| one.result.is_err());
    let ran: Vec<&Point> = ran.into_iter().map(|one| &one.trial.point).collect();
    let mut open: Vec<&Point> = failed.iter().map(|one| &one.trial.point).collect();
    let points: Vec<Point> = open.iter().map(|point| (*point).clone()).collect();
    open.sort_unstable();
    open.dedup();
    let default = space.default_point();
    let levels: Vec<f64> = space.variables().iter().map(|v| v.values.len() as f64).collect();
    let all: f64 = levels.iter().sum();
    let squares: f64 = levels.iter().map(|levels| levels * levels).sum();
    let pairs = (all * all - squares) / 2.0;
    let rate = (points.len() + 1) as f64 / (history.len() + 2) as f64;
    let mut forbidden = Forbidden { points, ..Forbidden::default() };
    while open.len() >= MIN_FAILURES {
        let found = explanation(&open, &ran, &default);
        let Some(cells) = found else { break };
        let with_them = failed.iter().filter(|one| has(&one.trial.point, &cells)).count();
        open.retain(|point| !has(point, &cells));
        // A value alone is never given up: the other half of a pair may stand beside it in the best environment.
        if cells.len() > 1 && pairs * rate.powi(with_them as i32) <= MAX_BY_CHANCE {
            forbidden.together.push(cells);
        } else {
            let cost = if cells.len() == 1 { VALUE_COST } else { PAIR_COST };
            forbidden.suspected.push((cells, cost));
        }
    }
    forbidden
}

/// The suspected values for people.
pub(crate) fn suspected(space: &Space, history: &[Finished]) -> Vec<Suspected> {
    let failed = || history.iter().filter(|one| one.result.is_err());
    let one = |cells: Vec<(usize, usize)>| {
        let assignment = |(variable, level): &(usize, usize)| {
            let variable = &space.variables()[*variable];
            let value = variable.values.get(*level).cloned().flatten();
            Assignment { name: variable.name.clone(), value }
        };
        let values = cells.iter().map(assignment).collect();
        let failed = failed().filter(|one| has(&one.trial.point, &cells)).count();
        Suspected { values, failed }
    };
    forbidden(space, history).together.into_iter().map(one).collect()
}

fn has(point: &Point, cells: &[(usize, usize)]) -> bool {
    cells.iter().all(|(variable, level)| point[*variable] == *level)
}

/// The value, or the pair of values, that explains most of `open` and is in none of `ran` and not the default.
fn explanation(open: &[&Point], ran: &[&Point], default: &Point) -> Option<Vec<(usize, usize)>> {
    let mut best: Option<(usize, Vec<(usize, usize)>)> = None;
    let mut consider = |cells: Vec<(usize, usize)>| {
        let explained = open.iter().filter(|point| has(point, &cells)).count();
        let better = best.as_ref().is_none_or(|(most, _)| explained > *most);
        if explained >= MIN_FAILURES
            && better
            && !has(default, &cells)
            && !ran.iter().any(|point| has(point, &cells))
        {
            best = Some((explained, cells));
        }
    };
    let values =
        |point: &Point| -> Vec<(usize, usize)> { point.iter().copied().enumerate().collect() };
    for point in open {
        values(point).into_iter().for_each(|one| consider(vec![one]));
    }
    for point in open {
        let values = values(point);
        for (n, first) in values.iter().enumerate() {
            values[n + 1..].iter().for_each(|second| consider(vec![*first, *second]));
        }
    }
    best.map(|(_, cells)| cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::{
        space::{Scope, Variable},
        trial::{Purpose, Trial},
    };

    fn space() -> Space {
        let variable = |name: &str| Variable {
            name: name.to_owned(),
            values: ["0", "1", "2"].map(|text| Some(text.to_owned())).to_vec(),
            default: 0,
            ordered: true,
            scope: Scope::Process,
            needs: Vec::new(),
        };
        Space::new(["A", "B", "C"].map(variable).to_vec()).unwrap()
    }

    fn finished(space: &Space, id: u64, point: [usize; 3], ran: bool) -> Finished {
        let point = point.to_vec();
        let environment = space.environment(&point);
        let purpose = Purpose::Explore;
        let trial = Trial { id, environment, point, batches: 1, fresh: false, purpose };
        let call = Call { operation: "all_reduce".to_owned(), size: 8 };
        let result = match ran {
            true => Ok(vec![(call, 1.0)]),
            false => Err(Failed { failure: Failure::Crashed, text: "signal 11".to_owned() }),
        };
        Finished { trial, result, declined: Vec::new(), took_s: 1.0 }
    }

    #[test]
    fn two_values_that_only_fail_together_are_suspected() {
        let space = space();
        let history: Vec<Finished> = [
            ([0, 0, 0], true),
            ([1, 2, 0], false),
            ([1, 0, 1], true),
            ([0, 2, 1], true),
            ([1, 2, 2], false),
            ([2, 1, 2], true),
        ]
        .into_iter()
        .enumerate()
        .map(|(id, (point, ran))| finished(&space, id as u64, point, ran))
        .collect();
        let found = forbidden(&space, &history);
        assert_eq!(found.suspected, [(vec![(0, 1), (1, 2)], PAIR_COST)]);
        assert!(!found.has(&vec![1, 2, 1]) && found.cost(&vec![1, 2, 1]) > 0.0);
        // More failures than chance has among 27 pairs, at a rate of one in five.
        let mut history = history;
        for id in 6..40 {
            history.push(finished(&space, id, [0, 1, (id % 3) as usize], true));
        }
        history.push(finished(&space, 40, [1, 2, 1], false));
        let found = forbidden(&space, &history);
        assert_eq!(found.together, [vec![(0, 1), (1, 2)]]);
        assert!(found.has(&vec![1, 2, 1]) && !found.has(&vec![1, 1, 1]));
        let suspected = suspected(&space, &history);
        assert_eq!((suspected[0].values.len(), suspected[0].failed), (2, 3));
        assert_eq!(disqualified(&history).len(), 3);
    }

    #[test]
    fn one_failure_forbids_that_environment_alone() {
        let space = space();
        let history = [finished(&space, 0, [1, 2, 0], false)];
        let forbidden = forbidden(&space, &history);
        assert!(forbidden.has(&vec![1, 2, 0]) && !forbidden.has(&vec![1, 2, 1]));
    }
}
