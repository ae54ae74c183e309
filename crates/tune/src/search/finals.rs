//! The final comparison as trials: which environments, how many launches of each, and in which order.
//! Not what it says (`outcome`).

use serde::{Deserialize, Serialize};

use super::{End, Phase, Search, race};
use crate::{
    failures,
    model::{Fitted, Kernels, minimise::minimise},
    objective::Goal,
    space::Point,
    trial::Purpose,
};

/// Launches of each side at least: with seven against seven the exact rank test can reach p < 0.001.
pub(crate) const MIN_LAUNCHES: usize = 7;
/// Launches of each side where the budget has them: with eleven, one launch that is far too slow does not hide a
/// gain that all others show (U = 11 of 121: p = 0.0006).
const PLANNED_LAUNCHES: usize = 11;
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
/// The most variables whose own gain is measured.
const MAX_ABLATIONS: usize = 8;
/// The most environments for single sizes.
const MAX_SIZE_WINNERS: usize = 3;
/// Where the gain is below what is worth it with this many standard deviations, no comparison is made.
const SURELY_LESS: f64 = 1.96;

/// The final comparison under way or complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Final {
    /// The sides; the first is the baseline, the second the winner.
    pub(crate) sides: Vec<Side>,
    /// The number of the first trial of this comparison.
    pub(crate) first_trial: u64,
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
    /// The winner with this variable's default.
    Without(usize),
    /// The best environment of these sizes, in bytes.
    Sizes(Vec<u64>),
}

/// Trials that the final comparison would take if it began now.
pub(super) fn expected_trials(search: &Search, fitted: &Fitted<'_>, leader: &Point) -> usize {
    let point = simplified(search, fitted, leader);
    let ablations = search.space.changed(&point).len().min(MAX_ABLATIONS);
    let ablations = if ablations > 1 { ablations } else { 0 };
    let sizes = if search.goals().len() > 1 { MAX_SIZE_WINNERS } else { 0 };
    (2 + sizes) * launches(search, fitted, &point) + ablations * ABLATION_LAUNCHES + CONFIRMATIONS
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
        let (means, _) = fitted.joint(&all);
        let loses = |place: &usize| means[*place] - means[1];
        let cheapest = (2..all.len()).min_by(|a, b| loses(a).total_cmp(&loses(b)));
        let Some(cheapest) = cheapest.filter(|place| {
            loses(place) < NEGLIGIBLE && means[*place] - means[0] < NEGLIGIBLE_TOGETHER
        }) else {
            return point;
        };
        point.clone_from(&all[cheapest]);
    }
}

/// Launches of each side.
fn launches(search: &Search, fitted: &Fitted<'_>, winner: &Point) -> usize {
    let (gain, spread) = fitted.difference(winner, &search.space.default_point());
    // What is expected of the gain is not sure: count on a little less.
    let gain = (gain - spread).max(race::WORTH.ln_1p());
    let each = 2.0 * QUANTILES.powi(2) * fitted.weights.noise / (EFFICIENCY * gain * gain);
    (each.ceil() as usize).clamp(PLANNED_LAUNCHES, MAX_LAUNCHES)
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
        let sizes = self.size_winners(&kernels);
        let leader = race::leader(self, &fitted).unwrap_or_else(|| default.clone());
        let winner = if is_confirmed {
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
        if !is_worth && sizes.is_empty() {
            return;
        }
        if is_worth && !is_confirmed && self.confirm(&winner) {
            return;
        }
        let side = |point: &Point, role: Role| Side { point: point.clone(), role };
        let mut sides = vec![side(&default, Role::Baseline), side(&winner, Role::Winner)];
        sides.extend(sizes);
        let full = sides.len();
        let changed = self.space.changed(&winner);
        if is_worth && changed.len() > 1 {
            for place in changed.into_iter().take(MAX_ABLATIONS) {
                let mut point = winner.clone();
                point[place] = self.space.variables()[place].default;
                self.space.normalise(&mut point);
                sides.push(side(&point, Role::Without(place)));
            }
        }
        // What each variable gives is worth less than whether they give anything.
        let left = self.trials_left();
        let launches = launches(self, &fitted, &winner).min(left / full);
        if launches < MIN_LAUNCHES {
            return;
        }
        sides.truncate(full + (left - full * launches) / ABLATION_LAUNCHES);
        let first_trial = self.asked;
        for round in 0..launches {
            let count = if round < ABLATION_LAUNCHES { sides.len() } else { full };
            let mut order: Vec<usize> = (0..count).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            order.iter().for_each(|s| self.ask(sides[*s].point.clone(), Purpose::Final(*s)));
        }
        self.finals = Some(Final { sides, first_trial });
        self.phase = Phase::Final;
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

    /// A side of the final comparison failed. An ablation or a size's environment is left out; without the winner
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

    /// The best environments of single sizes, each with the sizes for which it is best.
    fn size_winners(&self, kernels: &Kernels) -> Vec<Side> {
        let mut winners: Vec<(Point, Vec<u64>, f64)> = Vec::new();
        let default = self.space.default_point();
        for (number, goal) in self.goals().iter().enumerate() {
            let Goal::Size(size) = goal else { continue };
            let observations = self.observations(number);
            let fitted = Fitted::fit(kernels, &observations, self.weights[number].clone(), 0);
            let Some(point) = race::leader(self, &fitted) else { continue };
            let point = simplified(self, &fitted, &point);
            let (gain, _) = fitted.difference(&point, &default);
            if point == default || gain < race::WORTH.ln_1p() {
                continue;
            }
            match winners.iter_mut().find(|(known, ..)| *known == point) {
                Some((_, sizes, total)) => {
                    sizes.push(*size);
                    *total += gain;
                }
                None => winners.push((point, vec![*size], gain)),
            }
        }
        winners.sort_by(|a, b| b.2.total_cmp(&a.2));
        winners.truncate(MAX_SIZE_WINNERS);
        let side = |(point, sizes, _)| Side { point, role: Role::Sizes(sizes) };
        winners.into_iter().map(side).collect()
    }
}
