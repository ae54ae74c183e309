//! One race: candidates, rounds, who drops out, and whether a further race could find anything.
//! Not how fast a candidate is (`model`).

use serde::{Deserialize, Serialize};

use super::{Phase, Search, finals};
use crate::{
    failures,
    model::{Fitted, Forbidden, Kernels, minimise::minimise},
    space::Point,
    trial::Purpose,
};

/// Candidates of a race.
const CANDIDATES: usize = 8;
/// Rounds of a race: 8, then 4 candidates. A third one found less: fresh candidates tell more than a third measurement.
const ROUNDS: usize = 2;
/// Corrections of the model's variances before a race.
const FIT_STEPS: usize = 3;
/// Surprisingly slow environments that are measured again in a round.
const REPEATS: usize = 2;
/// A candidate drops out where the probability that it beats the best is below that of a normal number this far out: 5 %.
const CANNOT_WIN: f64 = 1.645;
/// Samples of what may be true, by which a further race is judged.
const SAMPLES: usize = 24;
/// So many samples may still promise a gain that is worth it: 1 of 24 is below 5 %.
const PROMISING: usize = 1;
/// What a gain is worth it, as a fraction: less is not recommended.
pub(super) const WORTH: f64 = 0.02;

/// A race under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Race {
    /// The number of the goal that it is run for.
    goal: usize,
    /// Candidates that have not dropped out.
    alive: Vec<Point>,
    /// Measurements of each of them in this race.
    round: usize,
}

/// The environment with the lowest expected time of those that ran and never failed.
pub(super) fn leader(search: &Search, fitted: &Fitted<'_>) -> Option<Point> {
    let mut points = measured(search);
    let (means, _) = fitted.joint(&points);
    let best = means.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
    Some(points.swap_remove(best.0))
}

/// Environments that ran and never failed, each once.
fn measured(search: &Search) -> Vec<Point> {
    let failed: Vec<&Point> =
        search.history.iter().filter(|o| o.result.is_err()).map(|o| &o.trial.point).collect();
    let ran = search.history.iter().filter(|one| one.result.is_ok()).map(|one| &one.trial.point);
    let mut points: Vec<Point> = ran.filter(|point| !failed.contains(point)).cloned().collect();
    points.sort_unstable();
    points.dedup();
    points
}

impl Search {
    /// Begins the next race, or the final comparison where none is worth it.
    pub(super) fn next_race(&mut self) {
        let goals = self.goals().len();
        // Goals that are not settled take turns.
        let goal = (0..goals).map(|n| (self.rounds + n) % goals).find(|goal| !self.settled[*goal]);
        let Some(goal) = goal else {
            self.begin_final();
            return;
        };
        self.rounds += 1;
        let kernels = Kernels::of(&self.space);
        let observations = self.observations(goal);
        let weights = self.weights[goal].clone();
        let fitted = Fitted::fit(&kernels, &observations, weights, FIT_STEPS);
        self.weights[goal] = fitted.weights.clone();
        let forbidden = failures::forbidden(&self.space, &self.history);
        let Some(leader) = leader(self, &fitted) else {
            self.begin_final();
            return;
        };
        let candidates = self.candidates(&fitted, &forbidden, &leader);
        let Some(candidates) = candidates else {
            self.settled[goal] = true;
            self.next_race();
            return;
        };
        let left = self.trials_left();
        if left < finals::expected_trials(self, &fitted, &leader) + candidates.len() + REPEATS + 1 {
            self.begin_final();
            return;
        }
        let mut points = candidates.clone();
        points.extend(repeats(&fitted, &candidates));
        let default = self.space.default_point();
        if !points.contains(&default) {
            points.push(default);
        }
        self.random.shuffle(&mut points);
        self.ask_all(points, Purpose::Race);
        self.phase = Phase::Race(Race { goal, alive: candidates, round: 1 });
    }

    /// The candidates of a race: the best by the model, the leader, and the best of samples. `None` where hardly any
    /// sample has an environment that beats the leader by what is worth it.
    fn candidates(
        &mut self,
        fitted: &Fitted<'_>,
        forbidden: &Forbidden,
        leader: &Point,
    ) -> Option<Vec<Point>> {
        let default = self.space.default_point();
        let starts = [leader.clone(), default];
        let best = minimise(&self.space, &fitted.mean(), forbidden, &starts, &mut self.random);
        let starts = [leader.clone(), best.clone()];
        let mut candidates = vec![best];
        if !candidates.contains(leader) {
            candidates.push(leader.clone());
        }
        let mut promising = 0;
        for sample in 0..SAMPLES {
            if candidates.len() >= CANDIDATES && promising > PROMISING {
                break;
            }
            let tables = fitted.sample(&mut self.random);
            let point = minimise(&self.space, &tables, forbidden, &starts, &mut self.random);
            let gain = tables.value(leader) - tables.value(&point);
            promising += usize::from(gain > WORTH.ln_1p());
            if candidates.len() < CANDIDATES && !candidates.contains(&point) {
                candidates.push(point);
            }
            // Samples that all agree with the leader leave places in the race empty.
            if sample >= 2 * CANDIDATES && promising > PROMISING {
                break;
            }
        }
        (promising > PROMISING).then_some(candidates)
    }

    /// The next round of a race, or the next race.
    pub(super) fn go_on(&mut self, race: Race) {
        let failed = |point: &Point| {
            self.history.iter().any(|one| one.trial.point == *point && one.result.is_err())
        };
        let alive: Vec<Point> = race.alive.iter().filter(|point| !failed(point)).cloned().collect();
        if alive.len() < 2 || race.round >= ROUNDS {
            self.next_race();
            return;
        }
        let kernels = Kernels::of(&self.space);
        let observations = self.observations(race.goal);
        let weights = self.weights[race.goal].clone();
        let fitted = Fitted::fit(&kernels, &observations, weights, 0);
        let reserved =
            leader(self, &fitted).map_or(0, |one| finals::expected_trials(self, &fitted, &one));
        let mut alive = survivors(&fitted, alive);
        if alive.len() < 2 || self.trials_left() < reserved + alive.len() + REPEATS {
            self.next_race();
            return;
        }
        let next = Race { goal: race.goal, alive: alive.clone(), round: race.round + 1 };
        alive.extend(repeats(&fitted, &next.alive));
        self.random.shuffle(&mut alive);
        self.ask_all(alive, Purpose::Race);
        self.phase = Phase::Race(next);
    }
}

/// Environments to measure again beside these candidates.
fn repeats(fitted: &Fitted<'_>, candidates: &[Point]) -> Vec<Point> {
    let mut points = fitted.surprises();
    points.retain(|point| !candidates.contains(point));
    points.truncate(REPEATS);
    points
}

/// The better half of the candidates, without those that can no longer win.
fn survivors(fitted: &Fitted<'_>, alive: Vec<Point>) -> Vec<Point> {
    let (means, covariances) = fitted.joint(&alive);
    let n = alive.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
    let Some(&best) = order.first() else { return alive };
    order.truncate(n.div_ceil(2));
    let can_win = |one: &usize| {
        let at = |a: usize, b: usize| covariances[a * n + b];
        let variance = at(*one, *one) + at(best, best) - 2.0 * at(*one, best);
        *one == best || means[*one] - means[best] < CANNOT_WIN * variance.max(0.0).sqrt()
    };
    order.into_iter().filter(can_win).map(|one| alive[one].clone()).collect()
}
