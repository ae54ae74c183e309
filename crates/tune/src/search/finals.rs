//! The final comparison as trials: which environments, how many launches of each, and in which order.
//! Not what it says (`outcome`).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{End, Phase, Search, race};
use crate::{
    call::Call,
    compared::{Compared, FIRST_LOOK_P, MIN_GAIN, SECOND_LOOK_P},
    failures,
    model::{Fitted, Kernels, minimise::minimise},
    objective::Goal,
    space::Point,
    trial::{Finished, Purpose},
};

/// Launches of each side at least: with seven against seven the exact rank test can reach p < 0.001.
pub(crate) const MIN_LAUNCHES: usize = 7;
/// Launches of each side that are worth a second look.
const MIN_EXTENSION: usize = 3;
/// Launches of each side at most.
const MAX_LAUNCHES: usize = 20;
/// Launches of the winner without one variable: its gain is shown with its interval, and nothing is decided by it.
const ABLATION_LAUNCHES: usize = 4;
/// Measurements of a winner that the search itself did not run, before the comparison.
const CONFIRMATIONS: usize = 2;
/// The number of launches is such that the expected gain is found with a probability of 95 % at p < 0.001: the
/// sum of the normal quantiles 3.29 and 1.645.
const QUANTILES: f64 = 3.29 + 1.645;
/// The efficiency of the rank test under normal noise is 3 / pi (Lehmann, "Nonparametrics", 1975).
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;
/// A variable whose expected loss is below this, as a fraction, goes back to its default before the comparison.
const NEGLIGIBLE: f64 = 0.002;
/// All variables that go back may lose this much together.
const NEGLIGIBLE_TOGETHER: f64 = 0.004;
/// So does one whose expected loss is below this many standard deviations of itself: what few trials say of it is noise.
const UNKNOWN: f64 = 0.5;
/// The most variables whose own gain is measured.
const MAX_ABLATIONS: usize = 8;
/// The most environments for single calls.
const MAX_CALL_WINNERS: usize = 3;
/// Where the gain is below what is worth it with this many standard deviations, no comparison is made.
const SURELY_LESS: f64 = 1.96;

/// The final comparison under way or complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Final {
    /// The sides; the first is the baseline, the second the winner.
    pub(crate) sides: Vec<Side>,
    /// The number of the first trial of this comparison.
    pub(crate) first_trial: u64,
    /// How far it is.
    stage: Stage,
    /// Whether it took a second look.
    is_extended: bool,
}

/// The parts of the final comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Compare,
    Ablate,
}

/// A side of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) point: Point,
    pub(crate) role: Role,
}

/// What a side is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// The defaults.
    Baseline,
    /// The best environment.
    Winner,
    /// The winner again, in turns with the ablations.
    Again,
    /// The winner with this variable's default.
    Without(usize),
    /// The best environment of these calls.
    Calls(Vec<Call>),
}

impl Final {
    /// The launches of a side, in their order.
    pub(crate) fn launches<'a>(
        &self,
        history: &'a [Finished],
        side: usize,
    ) -> impl Iterator<Item = &'a Finished> + use<'a> {
        let first = self.first_trial;
        let all = history.iter().filter(move |one| one.trial.id >= first);
        all.filter(move |one| one.trial.purpose == Purpose::Final(side))
    }

    /// Compares two sides; `None` where one did not run or failed.
    pub(crate) fn compare(
        &self,
        history: &[Finished],
        other: usize,
        this: usize,
        goal: &Goal,
    ) -> Option<Compared> {
        let logs = |side: usize| -> Option<Vec<f64>> {
            self.launches(history, side).map(|one| goal.log_time(one)).collect()
        };
        let look = if self.is_extended { SECOND_LOOK_P } else { FIRST_LOOK_P };
        Compared::of(&logs(other)?, &logs(this)?, look)
    }
}

/// Trials that the final comparison would take if it began now.
pub(super) fn expected_trials(search: &Search, fitted: &Fitted<'_>, leader: &Point) -> usize {
    let point = simplified(search, fitted, leader);
    let ablations = search.space.changed(&point).len().min(MAX_ABLATIONS);
    let ablations = if ablations > 1 { ablations + 1 } else { 0 };
    let singles = if search.goals().len() > 1 { MAX_CALL_WINNERS } else { 0 };
    (2 + singles) * launches(search, fitted, &point) + ablations * ABLATION_LAUNCHES + CONFIRMATIONS
}

/// The leader without the variables that hardly matter, by backward elimination.
fn simplified(search: &Search, fitted: &Fitted<'_>, leader: &Point) -> Point {
    let space = &search.space;
    let forbidden = failures::forbidden(space, &search.history);
    let mut point = leader.clone();
    loop {
        let without = |place: &usize| {
            let mut other = point.clone();
            other[*place] = space.variables()[*place].default;
            space.normalise(&mut other);
            other
        };
        let others = space.changed(&point);
        let others = others.iter().map(without).filter(|other| !forbidden.has(other));
        let mut all = vec![leader.clone(), point.clone()];
        all.extend(others);
        let (means, covariances) = fitted.joint(&all);
        let n = all.len();
        let loses = |place: &usize| means[*place] - means[1];
        let deviation = |a: usize, b: usize| {
            let at = |a: usize, b: usize| covariances[a * n + b];
            (at(a, a) + at(b, b) - 2.0 * at(a, b)).max(0.0).sqrt()
        };
        let cheapest = (2..all.len()).min_by(|a, b| loses(a).total_cmp(&loses(b)));
        let Some(cheapest) = cheapest.filter(|place| {
            loses(place) < NEGLIGIBLE.max(UNKNOWN * deviation(*place, 1))
                && means[*place] - means[0]
                    < NEGLIGIBLE_TOGETHER.max(UNKNOWN * deviation(*place, 0))
        }) else {
            return point;
        };
        point.clone_from(&all[cheapest]);
    }
}

/// The order of `launches` launches of each side: A B C, C B A, and so on, so that drift affects all alike.
pub(super) fn in_turns(sides: Range<usize>, launches: usize) -> Vec<usize> {
    let mut all = Vec::new();
    for round in 0..launches {
        match round % 2 {
            0 => all.extend(sides.clone()),
            _ => all.extend(sides.clone().rev()),
        }
    }
    all
}

/// Launches of each side.
fn launches(search: &Search, fitted: &Fitted<'_>, winner: &Point) -> usize {
    let (gain, spread) = fitted.difference(winner, &search.space.default_point());
    // What is expected of the gain is not sure: count on a little less.
    let gain = (gain - spread).max(race::WORTH.ln_1p());
    let each = 2.0 * QUANTILES.powi(2) * fitted.weights.noise / (EFFICIENCY * gain * gain);
    (each.ceil() as usize).clamp(MIN_LAUNCHES, MAX_LAUNCHES)
}

impl Search {
    /// Begins the final comparison, or ends the search where nothing is worth one.
    pub(super) fn begin_final(&mut self) {
        self.compare_finally(false);
    }

    /// The same, after the winner ran for the first time where `is_confirmed`: only what ran can win then.
    pub(super) fn compare_finally(&mut self, is_confirmed: bool) {
        self.phase = Phase::Ended(End::NothingFound);
        let kernels = Kernels::of(&self.space);
        let observations = self.observations(0);
        let default = self.space.default_point();
        if observations.is_empty() {
            return;
        }
        let fitted = Fitted::fit(&kernels, &observations, self.weights[0].clone(), 0);
        let singles = self.call_winners(&kernels);
        let leader = race::leader(self, &fitted).unwrap_or_else(|| default.clone());
        let has_failed = |point: &Point| {
            self.history.iter().any(|one| one.trial.point == *point && one.result.is_err())
        };
        let winner = if let Some(top) = self.top() {
            // What failed once is out, however fast it is when it runs.
            if has_failed(&top) {
                return;
            }
            top
        } else if is_confirmed {
            leader
        } else {
            // The best by the model need not have been measured as a whole.
            let forbidden = failures::forbidden(&self.space, &self.history);
            let starts = [leader, default.clone()];
            let best = minimise(&self.space, &fitted.mean(), &forbidden, &starts, &mut self.random);
            simplified(self, &fitted, &best)
        };
        let (gain, spread) = fitted.difference(&winner, &default);
        let is_worth = winner != default && gain + SURELY_LESS * spread >= race::WORTH.ln_1p();
        if !is_worth && singles.is_empty() {
            return;
        }
        if is_worth && !is_confirmed && self.confirm(&winner) {
            return;
        }
        let side = |point: &Point, role: Role| Side { point: point.clone(), role };
        let mut sides = vec![side(&default, Role::Baseline), side(&winner, Role::Winner)];
        sides.extend(singles);
        // What was found is compared even if hangs took the time that was meant for it; the number of trials holds.
        let by_number = self.settings.budget.trials.saturating_sub(self.history.len());
        let most =
            (self.trials_left().max(MIN_LAUNCHES * sides.len())).min(by_number) / sides.len();
        let launches = launches(self, &fitted, &winner).min(most);
        if launches < MIN_LAUNCHES {
            self.phase = Phase::Ended(End::NotCompared);
            return;
        }
        let first_trial = self.asked;
        self.ask_in_turns(&sides, 0, launches);
        self.finals = Some(Final { sides, first_trial, stage: Stage::Compare, is_extended: false });
        self.phase = Phase::Final;
    }

    /// Asks for launches of the sides from number `first` on: A B C, C B A, and so on.
    fn ask_in_turns(&mut self, sides: &[Side], first: usize, launches: usize) {
        for side in in_turns(first..sides.len(), launches) {
            self.ask(sides[side].point.clone(), Purpose::Final(side));
        }
    }

    /// What follows a complete part of the comparison: a second look, what each variable gives, or the end.
    pub(super) fn go_on_finally(&mut self) {
        let Some(mut finals) = self.finals.clone() else { return };
        let stage = finals.stage;
        finals.stage = Stage::Ablate;
        let full = finals.sides.len();
        if stage == Stage::Compare && self.winner_is_undecided(&finals) {
            let done = finals.launches(&self.history, 1).count();
            let more = (self.trials_left() / full).min(MAX_LAUNCHES.saturating_sub(done));
            if !finals.is_extended && more >= MIN_EXTENSION {
                self.ask_in_turns(&finals.sides, 0, more);
                (finals.is_extended, finals.stage) = (true, Stage::Compare);
            }
        } else if stage == Stage::Compare {
            let winner = finals.sides[1].point.clone();
            let changed = self.space.changed(&winner);
            // Each variable's own gain is measured even if hangs took the time that was meant for it.
            let by_number = self.settings.budget.trials.saturating_sub(self.history.len());
            let most = (by_number / ABLATION_LAUNCHES).saturating_sub(1);
            if changed.len() > 1 && most > 0 {
                finals.sides.push(Side { point: winner.clone(), role: Role::Again });
                for place in changed.into_iter().take(MAX_ABLATIONS.min(most)) {
                    let mut point = winner.clone();
                    point[place] = self.space.variables()[place].default;
                    self.space.normalise(&mut point);
                    finals.sides.push(Side { point, role: Role::Without(place) });
                }
                self.ask_in_turns(&finals.sides, full, ABLATION_LAUNCHES);
            }
        }
        self.finals = Some(finals);
        let is_over = self.pending.is_empty();
        self.phase = if is_over { Phase::Ended(End::Compared) } else { Phase::Final };
    }

    /// Whether the winner looks better than the defaults, but the rank test does not say so yet.
    fn winner_is_undecided(&self, finals: &Final) -> bool {
        let goals = self.goals();
        let compared = goals.first().and_then(|goal| finals.compare(&self.history, 0, 1, goal));
        compared.is_some_and(|one| one.gain >= MIN_GAIN && !one.is_gain())
    }

    /// Measures a winner that never ran before: what was left out of it may have kept it from failing.
    fn confirm(&mut self, winner: &Point) -> bool {
        let has_run = self.history.iter().any(|one| one.trial.point == *winner);
        if has_run || self.trials_left() < 2 * MIN_LAUNCHES + CONFIRMATIONS {
            return false;
        }
        (0..CONFIRMATIONS).for_each(|_| self.ask(winner.clone(), Purpose::Race));
        self.is_cut = true;
        self.phase = Phase::Confirm;
        true
    }

    /// A side of the final comparison failed. An ablation or a call's environment is left out; without the winner
    /// there is another comparison, if the budget has one.
    pub(super) fn fail_final(&mut self, id: u64) {
        let Some(finals) = self.finals.clone() else { return };
        let failed = self.history.iter().find(|one| one.trial.id == id);
        let Some(Purpose::Final(number)) = failed.map(|one| one.trial.purpose) else { return };
        if number > 1 {
            self.pending.retain(|trial| trial.purpose != Purpose::Final(number));
            if self.pending.is_empty() {
                self.advance();
            }
            return;
        }
        self.pending.clear();
        let fails_itself = finals.sides.get(number).is_none_or(|s| s.role == Role::Baseline);
        self.phase = Phase::Ended(End::BaselineFails);
        if !fails_itself {
            self.begin_final();
        }
    }

    /// The best environments of single calls, each with the calls for which it is best.
    fn call_winners(&self, kernels: &Kernels) -> Vec<Side> {
        let mut winners: Vec<(Point, Vec<Call>, f64)> = Vec::new();
        let default = self.space.default_point();
        for (number, goal) in self.goals().iter().enumerate() {
            let Goal::Call(call) = goal else { continue };
            let observations = self.observations(number);
            let fitted = Fitted::fit(kernels, &observations, self.weights[number].clone(), 0);
            let Some(point) = race::leader(self, &fitted) else { continue };
            let point = simplified(self, &fitted, &point);
            let (gain, _) = fitted.difference(&point, &default);
            if point == default || gain < race::WORTH.ln_1p() {
                continue;
            }
            match winners.iter_mut().find(|(known, ..)| *known == point) {
                Some((_, calls, total)) => {
                    calls.push(call.clone());
                    *total += gain;
                }
                None => winners.push((point, vec![call.clone()], gain)),
            }
        }
        winners.sort_by(|a, b| b.2.total_cmp(&a.2));
        winners.truncate(MAX_CALL_WINNERS);
        let side = |(point, calls, _)| Side { point, role: Role::Calls(calls) };
        winners.into_iter().map(side).collect()
    }
}
