//! The ladder: rungs in a fixed order, each held against what was kept before it by fresh launches in turns.
//! Not which rungs there are (`catalogue`), and not the final comparison, which has the last word (`finals`).
//!
//! A rung's steps are screened with two launches each; the best of them and what was kept before it then run in turns again, five
//! fresh launches a side, and the step is kept where the interval of its gain is above 0 and the gain is worth it. Where it seems
//! worth it and that does not decide, five more a side follow: one launch that was disturbed hides any gain from five. The
//! launches of the screening do not count for that: they chose the step for being fast.

use busbw_stats::median;
use serde::{Deserialize, Serialize};

use super::{Phase, Search, SearchError, Strategy, finals};
use crate::{
    compared::{Compared, MIN_GAIN},
    objective::Goal,
    space::{Assignment, Point, Space},
    trial::{Failed, Purpose},
};

/// Launches of each step that only choose the step which is compared; one each where the budget has no more.
const SCREENING_LAUNCHES: usize = 2;
/// Launches a side of each look of the comparison. Five against five that do not overlap have p = 0.008.
const LAUNCHES: usize = 5;
/// Looks at the comparison, at most.
const LOOKS: usize = 2;
/// What the best step must promise to be compared, as a fraction.
const PROMISE: f64 = 0.01;
/// A step is kept where the interval decides: this p-value belongs to it, and the looks share it (Bonferroni).
const KEEPS_BELOW: f64 = 0.05 / LOOKS as f64;

/// A rung of the ladder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Its name.
    pub name: String,
    /// Its steps: each sets these variables together, and leaves others as they were kept.
    pub steps: Vec<Vec<Assignment>>,
}

/// A step that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it changes of what was kept before.
    pub sets: Vec<Assignment>,
    /// How many times as fast as what was kept before it, less 1, by the screening; `None` where it failed.
    pub gain: Option<f64>,
    /// How it failed.
    pub failed: Option<Failed>,
}

/// A rung that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Climbed {
    /// The rung's name.
    pub name: String,
    /// Its steps.
    pub steps: Vec<Step>,
    /// The best of them compared with what was kept before; `None` where none promised anything.
    pub compared: Option<Compared>,
    /// What is kept of it; empty where nothing is.
    pub kept: Vec<Assignment>,
}

impl Climbed {
    /// The step that gains most by the screening, which is the one that was compared; `None` where all failed.
    #[must_use]
    pub fn best(&self) -> Option<&Step> {
        let gained = self.steps.iter().filter_map(|step| Some((step, step.gain?)));
        gained.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(step, _)| step)
    }
}

/// How far a rung is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Screen,
    Compare,
}

/// The ladder under way or complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Climb {
    /// The rung's number.
    rung: usize,
    stage: Stage,
    /// The number of the first trial of this stage.
    first_trial: u64,
    /// What was kept, then the rung's steps; in the comparison the best step alone.
    sides: Vec<Point>,
    /// What the rung's steps set, in the order of `sides` at the screening, without what was kept.
    sets: Vec<Vec<Assignment>>,
    /// The step that is compared: its place in `sets`.
    chosen: usize,
    climbed: Vec<Climbed>,
    /// Rungs for which the budget had no launches.
    unreached: Vec<String>,
    /// Rungs that change nothing of what was kept before them.
    #[serde(default)]
    idle: Vec<String>,
}

/// Whether each rung sets what the space has.
pub(super) fn hold(space: &Space, strategy: &Strategy) -> Result<(), SearchError> {
    let all: Vec<(&str, &Assignment)> = match strategy {
        Strategy::Races => Vec::new(),
        Strategy::Ladder(rungs) => rungs
            .iter()
            .flat_map(|rung| rung.steps.iter().flatten().map(|one| (rung.name.as_str(), one)))
            .collect(),
        Strategy::Compare(sets) => sets.iter().map(|one| ("of the comparison", one)).collect(),
    };
    match all.into_iter().find(|(_, one)| level(space, one).is_none()) {
        Some((rung, one)) => {
            Err(SearchError::Rung { rung: rung.to_owned(), name: one.name.clone() })
        }
        None => Ok(()),
    }
}

/// The place of a variable, and that of its value.
fn level(space: &Space, one: &Assignment) -> Option<(usize, usize)> {
    let place = space.variables().iter().position(|variable| variable.name == one.name)?;
    let level = space.variables()[place].values.iter().position(|value| *value == one.value)?;
    Some((place, level))
}

impl Search {
    /// The ladder's rungs that are done.
    #[must_use]
    pub fn climbed(&self) -> &[Climbed] {
        self.climb.as_ref().map_or(&[], |climb| &climb.climbed)
    }

    /// The rungs that changed nothing of what was kept before them.
    #[must_use]
    pub fn idle(&self) -> &[String] {
        self.climb.as_ref().map_or(&[], |climb| &climb.idle)
    }

    /// The rungs for which the budget had no launches.
    #[must_use]
    pub fn unreached(&self) -> &[String] {
        self.climb.as_ref().map_or(&[], |climb| &climb.unreached)
    }

    /// What is compared finally, where no model decides it: what the ladder has kept, or what is given.
    pub(super) fn top(&self) -> Option<Point> {
        if let Strategy::Compare(sets) = &self.settings.strategy {
            let mut point = self.space.default_point();
            for (place, level) in sets.iter().filter_map(|one| level(&self.space, one)) {
                point[place] = level;
            }
            return Some(point);
        }
        self.climb.as_ref().and_then(|climb| climb.sides.first().cloned())
    }

    /// Begins at the first rung.
    pub(super) fn begin_climb(&mut self) {
        let default = self.space.default_point();
        self.climb = Some(Climb {
            rung: 0,
            stage: Stage::Screen,
            first_trial: self.asked,
            sides: vec![default],
            sets: Vec::new(),
            chosen: 0,
            climbed: Vec::new(),
            unreached: Vec::new(),
            idle: Vec::new(),
        });
        self.climb_from(0);
    }

    /// Asks for the first rung from `rung` on that has a step here, or ends the ladder.
    fn climb_from(&mut self, rung: usize) {
        let (Some(mut climb), Strategy::Ladder(rungs)) =
            (self.climb.clone(), self.settings.strategy.clone())
        else {
            return;
        };
        let kept = climb.sides[0].clone();
        for (number, one) in rungs.iter().enumerate().skip(rung) {
            let (sides, sets) = self.sides_of(one, &kept);
            if sides.len() < 2 {
                climb.idle.push(one.name.clone());
                continue;
            }
            let left = self.trials_left().saturating_sub(2 * LAUNCHES + 2 * finals::MIN_LAUNCHES);
            let launches = (left / sides.len()).min(SCREENING_LAUNCHES);
            if launches == 0 {
                climb.unreached.push(one.name.clone());
                continue;
            }
            climb.rung = number;
            (climb.sides, climb.sets) = (sides, sets);
            self.ask_rung(climb, Stage::Screen, launches);
            return;
        }
        climb.sides.truncate(1);
        self.climb = Some(climb);
        self.begin_final();
    }

    /// What was kept, and each step of a rung that changes it and has not failed.
    fn sides_of(&self, rung: &Rung, kept: &Point) -> (Vec<Point>, Vec<Vec<Assignment>>) {
        let (mut sides, mut sets) = (vec![kept.clone()], Vec::new());
        for step in &rung.steps {
            let mut point = kept.clone();
            for (place, level) in step.iter().filter_map(|one| level(&self.space, one)) {
                point[place] = level;
            }
            self.space.normalise(&mut point);
            let has_failed =
                self.history.iter().any(|one| one.trial.point == point && one.result.is_err());
            if !sides.contains(&point) && !has_failed {
                sides.push(point);
                sets.push(step.clone());
            }
        }
        (sides, sets)
    }

    fn ask_rung(&mut self, mut climb: Climb, stage: Stage, launches: usize) {
        (climb.stage, climb.first_trial) = (stage, self.asked);
        self.ask_sides(climb, launches);
    }

    /// Asks for launches of the present stage, beside those that it had.
    fn ask_sides(&mut self, climb: Climb, launches: usize) {
        for side in finals::in_turns(0..climb.sides.len(), launches) {
            self.ask(climb.sides[side].clone(), Purpose::Rung(side));
        }
        self.climb = Some(climb);
        self.phase = Phase::Climb;
    }

    /// Logarithms of the times of a side of the present stage, or how it failed.
    fn side(&self, climb: &Climb, side: usize) -> Result<Vec<f64>, Failed> {
        let goals = self.goals();
        let launches = self.history.iter().filter(|one| {
            one.trial.id >= climb.first_trial && one.trial.purpose == Purpose::Rung(side)
        });
        let mut logs = Vec::new();
        for one in launches {
            match &one.result {
                Err(failed) => return Err(failed.clone()),
                Ok(_) => logs.extend(goals.first().and_then(|goal: &Goal| goal.log_time(one))),
            }
        }
        Ok(logs)
    }

    /// A step that failed is not launched again. What was kept before the rung must not fail; if it does, the defaults
    /// are kept and the ladder ends.
    pub(super) fn fail_step(&mut self, id: u64) {
        let failed = self.history.iter().find(|one| one.trial.id == id);
        let Some(Purpose::Rung(side)) = failed.map(|one| one.trial.purpose) else { return };
        let default = self.space.default_point();
        match &mut self.climb {
            Some(climb) if side == 0 && climb.sides[0] != default => {
                climb.sides = vec![default];
                self.pending.clear();
                self.is_cut = true;
            }
            _ => self.pending.retain(|trial| trial.purpose != Purpose::Rung(side)),
        }
    }

    /// What follows a complete stage.
    pub(super) fn go_on_climbing(&mut self) {
        let Some(mut climb) = self.climb.clone() else { return };
        match climb.stage {
            Stage::Screen => {
                let before = self.side(&climb, 0).ok().as_deref().and_then(median);
                let steps: Vec<Step> =
                    (1..climb.sides.len()).map(|n| self.step(&climb, n, before)).collect();
                let gain = |step: &Step| step.gain.unwrap_or(f64::NEG_INFINITY);
                let best =
                    (0..steps.len()).max_by(|a, b| gain(&steps[*a]).total_cmp(&gain(&steps[*b])));
                let best = best.filter(|best| gain(&steps[*best]) >= PROMISE);
                let name = match &self.settings.strategy {
                    Strategy::Ladder(rungs) => rungs[climb.rung].name.clone(),
                    Strategy::Races | Strategy::Compare(_) => return,
                };
                climb.climbed.push(Climbed { name, steps, compared: None, kept: Vec::new() });
                match best {
                    Some(best) => {
                        climb.chosen = best;
                        climb.sides = vec![climb.sides[0].clone(), climb.sides[best + 1].clone()];
                        self.ask_rung(climb, Stage::Compare, LAUNCHES);
                    }
                    None => self.end_rung(climb, false),
                }
            }
            Stage::Compare => {
                let sides = (self.side(&climb, 0), self.side(&climb, 1));
                let compared = match &sides {
                    (Ok(before), Ok(step)) => Compared::of(before, step, KEEPS_BELOW),
                    _ => None,
                };
                let is_kept = compared.is_some_and(|one| {
                    one.interval.low > 0.0 && one.gain >= MIN_GAIN && one.p < KEEPS_BELOW
                });
                let is_open = compared.is_some_and(|one| {
                    let had = one.launches.0.min(one.launches.1);
                    !is_kept && one.gain >= MIN_GAIN && had < LOOKS * LAUNCHES
                });
                if is_open && self.trials_left() >= 2 * (LAUNCHES + finals::MIN_LAUNCHES) {
                    self.ask_sides(climb, LAUNCHES);
                    return;
                }
                let chosen = climb.sets.get(climb.chosen).cloned().unwrap_or_default();
                if let Some(last) = climb.climbed.last_mut() {
                    last.compared = compared;
                    if is_kept {
                        last.kept = chosen;
                    }
                    if let (Err(failed), Some(step)) = (sides.1, last.steps.get_mut(climb.chosen)) {
                        (step.gain, step.failed) = (None, Some(failed));
                    }
                }
                self.end_rung(climb, is_kept);
            }
        }
    }

    fn step(&self, climb: &Climb, side: usize, before: Option<f64>) -> Step {
        let sets = climb.sets.get(side - 1).cloned().unwrap_or_default();
        match self.side(climb, side) {
            Ok(logs) => {
                let gain = median(&logs).zip(before).map(|(log, before)| (before - log).exp_m1());
                Step { sets, gain, failed: None }
            }
            Err(failed) => Step { sets, gain: None, failed: Some(failed) },
        }
    }

    /// Goes to the next rung with what is kept of this one.
    fn end_rung(&mut self, mut climb: Climb, is_kept: bool) {
        let kept = climb.sides.get(usize::from(is_kept)).cloned();
        climb.sides = vec![kept.unwrap_or_else(|| self.space.default_point())];
        let next = climb.rung + 1;
        self.climb = Some(climb);
        self.climb_from(next);
    }
}
