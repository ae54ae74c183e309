//! The search: asks for trials, takes what they gave, decides what is tried next, and ends with an outcome.
//! Not the statistics of times (`model`), and not the launches: a driver runs what it asks for.
//!
//! 1. The baseline, then environments drawn at random, until each value was seen a few times.
//! 2. Races: candidates that the model's samples call best (Thompson, Biometrika 25, 1933) are measured, the worse half
//!    drops out, and so do those that can no longer win; the rest is measured again (successive halving: Jamieson
//!    and Talwalkar, AISTATS 2016; racing: Maron and Moore, NIPS 1993). The baseline runs in each race.
//! 3. The final comparison, in turns, of fresh launches alone.
//!
//! The ladder ([`Strategy::Ladder`]) has the same first and last part; between them it tries what it is given, rung by rung.
//!
//! Every decision follows from the seed and from what was reported. The state is data: what was saved between any
//! two reports goes on as if it had never stopped.

mod climb;
mod finals;
mod race;

use busbw_stats::Random;
use serde::{Deserialize, Serialize};

use climb::Climb;
pub use climb::{Climbed, Rung, Step};
pub(crate) use finals::{Final, Role};
use race::Race;

use crate::{
    call::Call,
    failures,
    model::{Fitted, Kernels, Observation, Weights, fit},
    objective::{Goal, Objective},
    space::{Assignment, Point, Space},
    trial::{Failed, Finished, Outcome, Purpose, ReportError, Trial, medians},
};

/// Baselines before anything else: how noisy this machine is.
const FIRST_BASELINES: usize = 3;
/// Baselines that fail before the search gives up.
const BASELINE_FAILURES: usize = 2;
/// Trials drawn at random that are asked for at once, the baseline among them.
const EXPLORE_BATCH: usize = 8;
/// Trials of the shortest search: the first baselines, one batch drawn at random, and the final comparison.
pub(crate) const LEAST_TRIALS: usize = FIRST_BASELINES + LEAST_TO_EXPLORE;
/// Of these, what must be left when the first batch is drawn.
const LEAST_TO_EXPLORE: usize = 2 * finals::MIN_LAUNCHES + EXPLORE_BATCH;
/// The share of trials that are drawn at random.
const EXPLORE_SHARE: f64 = 0.16;
/// The probability with which a variable keeps its default in a random environment.
const KEEPS_DEFAULT: f64 = 0.35;
/// Timed batches of each size in a trial of the search, and in one of the final comparison.
const BATCHES: u32 = 5;
const FINAL_BATCHES: u32 = 10;

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Trials at most, baselines and the final comparison included.
    pub trials: usize,
    /// Seconds at most, as the driver reports them; `None` without a limit.
    pub seconds: Option<f64>,
}

/// How a search goes about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// A model of the whole space, and races.
    Races,
    /// These rungs, in this order: each is compared with what was kept before it, and kept where that says so.
    Ladder(Vec<Rung>),
    /// Nothing is searched: this is compared with the defaults.
    Compare(Vec<Assignment>),
}

/// What a search is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is to be fast.
    pub objective: Objective,
    /// How to go about it.
    pub strategy: Strategy,
    /// What may be spent.
    pub budget: Budget,
    /// From which every random choice follows.
    pub seed: u64,
}

/// A search that cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Nothing is measured.
    #[error(
        "the objective has no calls, or numbers of them that are not positive: name sizes to search for"
    )]
    Objective,
    /// The final comparison alone needs more.
    #[error(
        "{0} trials cannot decide anything: the final comparison alone takes {1}; allow at least {2}"
    )]
    Budget(usize, usize, usize),
    /// The model has a bound.
    #[error("{0} variables are more than a search takes ({max}): leave some out", max = fit::MAX_VARIABLES)]
    TooMany(usize),
    /// A rung sets what the space does not have.
    #[error(
        "rung {rung} of the ladder sets {name}, which is no variable of the space, or has no such value"
    )]
    Rung {
        /// The rung.
        rung: String,
        /// The variable.
        name: String,
    },
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The defaults themselves fail.
    BaselineFails,
    /// Nothing that was found is worth a final comparison.
    NothingFound,
    /// Something was found, and the trials that are left cannot compare it.
    NotCompared,
    /// The final comparison is complete.
    Compared,
}

/// What a search does now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Start,
    Explore,
    Race(Race),
    Climb,
    /// The winner runs for the first time.
    Confirm,
    Final,
    Ended(End),
}

/// The best environment so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Levels of the space.
    pub point: Point,
    /// What it sets; empty for the defaults.
    pub environment: Vec<Assignment>,
    /// How many times as fast as the defaults it is expected to be, less 1.
    pub gain: f64,
    /// The ends of the 95 % interval of that expectation.
    pub between: (f64, f64),
}

/// A search under way or ended; its state is data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    space: Space,
    settings: Settings,
    random: Random,
    history: Vec<Finished>,
    /// Asked for and not reported.
    pending: Vec<Trial>,
    asked: u64,
    phase: Phase,
    /// The parts' variances of each goal's model, from which the next fit begins.
    weights: Vec<Weights>,
    /// For each goal, whether no candidate can still win.
    settled: Vec<bool>,
    rounds: usize,
    /// The ladder, once it has begun.
    climb: Option<Climb>,
    /// The final comparison, once it has begun.
    finals: Option<Final>,
    /// Whether the driver has asked for an end of the search proper.
    is_cut: bool,
}

impl Search {
    /// A search that begins.
    ///
    /// # Errors
    /// There is nothing to measure, the budget is less than the final comparison takes, or there are more than 64
    /// variables.
    pub fn new(space: Space, settings: Settings) -> Result<Self, SearchError> {
        if !settings.objective.is_usable() {
            return Err(SearchError::Objective);
        }
        let needed = 2 * finals::MIN_LAUNCHES;
        let least = needed + FIRST_BASELINES + EXPLORE_BATCH;
        climb::hold(&space, &settings.strategy)?;
        if settings.budget.trials < least {
            return Err(SearchError::Budget(settings.budget.trials, needed, least));
        }
        if space.variables().len() > fit::MAX_VARIABLES {
            return Err(SearchError::TooMany(space.variables().len()));
        }
        let goals = settings.objective.goals().len();
        let weights = vec![Weights::prior(&Kernels::of(&space)); goals];
        let mut search = Self {
            random: Random::new(settings.seed),
            space,
            settings,
            history: Vec::new(),
            pending: Vec::new(),
            asked: 0,
            phase: Phase::Start,
            weights,
            settled: vec![false; goals],
            rounds: 0,
            climb: None,
            finals: None,
            is_cut: false,
        };
        let default = search.space.default_point();
        (0..FIRST_BASELINES).for_each(|_| search.ask(default.clone(), Purpose::Baseline));
        Ok(search)
    }

    /// The trials to run now, in this order; none when the search has ended. The next ones are decided when all of
    /// these are reported.
    #[must_use]
    pub fn pending(&self) -> &[Trial] {
        &self.pending
    }

    /// Takes what a pending trial gave, and the seconds that it took. A trial that was lost for reasons outside the
    /// environment is not reported: it stays pending.
    ///
    /// # Errors
    /// No such trial is pending, or a size has no usable time; the trial then stays pending.
    pub fn report(&mut self, id: u64, outcome: Outcome, took_s: f64) -> Result<(), ReportError> {
        let place = self.pending.iter().position(|trial| trial.id == id);
        let place = place.ok_or(ReportError::NotPending(id))?;
        let all = self.settings.objective.calls();
        let (result, declined) = match outcome {
            Outcome::Measured(times) => (Ok(medians(id, &times, &all)?), Vec::new()),
            Outcome::InPart { times, declined } => {
                let may_decline = matches!(self.settings.objective, Objective::PerCall(_))
                    && !self.pending[place].environment.is_empty();
                let declined = if may_decline { declined } else { Vec::new() };
                let measured: Vec<Call> =
                    all.into_iter().filter(|call| !declined.contains(call)).collect();
                (Ok(medians(id, &times, &measured)?), declined)
            }
            Outcome::Failed { failure, text } => (Err(Failed { failure, text }), Vec::new()),
        };
        let trial = self.pending.remove(place);
        let took_s = if took_s.is_finite() { took_s.max(0.0) } else { 0.0 };
        self.history.push(Finished { trial, result, declined, took_s });
        // Trials of a batch may be reported in any order; decisions must not depend on it.
        let sorted = |one: &Finished| one.trial.id;
        self.history.sort_by_key(sorted);
        let last_failed = |one: &Finished| one.trial.id == id && one.result.is_err();
        let has_failed = self.history.iter().any(last_failed);
        if self.pending.is_empty() || has_failed && matches!(self.phase, Phase::Final) {
            self.fill_declined();
        }
        if has_failed && matches!(self.phase, Phase::Climb) {
            self.fail_step(id);
        }
        if has_failed && matches!(self.phase, Phase::Final) {
            self.fail_final(id);
        } else if self.pending.is_empty() {
            self.advance();
        }
        Ok(())
    }

    /// Calls that were declined have the seconds of the nearest launch of the defaults. Of a batch that is over, so that the order
    /// of reports changes nothing.
    fn fill_declined(&mut self) {
        let is_default = |one: &&Finished| one.trial.environment.is_empty();
        let defaults: Vec<Finished> = self.history.iter().filter(is_default).cloned().collect();
        for one in &mut self.history {
            let Ok(times) = &mut one.result else { continue };
            for call in &one.declined {
                let id = one.trial.id;
                let ran = defaults
                    .iter()
                    .filter_map(|other| Some((other.trial.id.abs_diff(id), other.seconds(call)?)));
                let nearest = ran.min_by_key(|(distance, _)| *distance);
                if let Some((_, seconds)) =
                    nearest.filter(|_| times.iter().all(|(of, _)| of != call))
                {
                    times.push((call.clone(), seconds));
                }
            }
        }
    }

    /// So many seconds are its bound from now on, those that it has used included.
    pub fn allow(&mut self, seconds: f64) {
        self.settings.budget.seconds = Some(seconds);
    }

    /// Ends the search proper, since its time is over or the user wants no more: what is pending is dropped, and
    /// the final comparison follows if something was found.
    pub fn cut(&mut self) {
        if !matches!(self.phase, Phase::Final | Phase::Ended(_)) {
            self.pending.clear();
            self.fill_declined();
            self.is_cut = true;
            self.advance();
        }
    }

    /// What was tried, in the order of trials.
    #[must_use]
    pub fn history(&self) -> &[Finished] {
        &self.history
    }

    /// The space that is searched.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What the search is about.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Why it has ended; `None` while it has not.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        if let Phase::Ended(end) = self.phase { Some(end) } else { None }
    }

    /// Trials that can still be asked for, by number and by time.
    #[must_use]
    pub fn trials_left(&self) -> usize {
        let by_number = self.settings.budget.trials.saturating_sub(self.history.len());
        let Some(seconds) = self.settings.budget.seconds else { return by_number };
        let took: Vec<f64> = self.history.iter().map(|one| one.took_s).collect();
        let spent: f64 = took.iter().sum();
        match busbw_stats::median(&took).filter(|one| *one > 0.0) {
            // A float cast saturates: less than nothing is 0.
            Some(one) => by_number.min(((seconds - spent) / one) as usize),
            None => by_number,
        }
    }

    /// The best environment so far for the first goal, by all trials; `None` before the baseline has run.
    #[must_use]
    pub fn best(&self) -> Option<Best> {
        let kernels = Kernels::of(&self.space);
        let observations = self.observations(0);
        if observations.is_empty() {
            return None;
        }
        let fitted = Fitted::fit(&kernels, &observations, self.weights[0].clone(), 0);
        let point = race::leader(self, &fitted)?;
        let (log, spread) = fitted.difference(&point, &self.space.default_point());
        let gain = |log: f64| log.exp() - 1.0;
        Some(Best {
            environment: self.space.environment(&point),
            gain: gain(log),
            between: (gain(log - 1.96 * spread), gain(log + 1.96 * spread)),
            point,
        })
    }

    pub(crate) fn goals(&self) -> Vec<Goal> {
        self.settings.objective.goals()
    }

    /// The final comparison, if it is complete.
    pub(crate) fn compared(&self) -> Option<&Final> {
        self.finals.as_ref().filter(|_| self.end() == Some(End::Compared))
    }

    /// What the model of a goal sees: every trial that ran.
    fn observations(&self, goal: usize) -> Vec<Observation> {
        let goals = self.goals();
        let one = |one: &Finished| {
            let log_time = goals[goal].log_time(one)?;
            Some(Observation { point: one.trial.point.clone(), at: one.trial.id as f64, log_time })
        };
        self.history.iter().filter_map(one).collect()
    }

    fn ask(&mut self, point: Point, purpose: Purpose) {
        let is_final = matches!(purpose, Purpose::Final(_));
        self.pending.push(Trial {
            id: self.asked,
            environment: self.space.environment(&point),
            point,
            batches: if is_final { FINAL_BATCHES } else { BATCHES },
            fresh: is_final || matches!(purpose, Purpose::Rung(_)),
            purpose,
        });
        self.asked += 1;
    }

    /// Decides what comes after a complete batch.
    fn advance(&mut self) {
        let failed_baselines = self
            .history
            .iter()
            .filter(|one| one.trial.environment.is_empty() && one.result.is_err())
            .count();
        if failed_baselines >= BASELINE_FAILURES {
            self.phase = Phase::Ended(End::BaselineFails);
            return;
        }
        match self.phase.clone() {
            Phase::Confirm => self.compare_finally(true),
            Phase::Start | Phase::Explore | Phase::Race(_) | Phase::Climb if self.is_cut => {
                self.begin_final();
            }
            Phase::Start if matches!(self.settings.strategy, Strategy::Ladder(_)) => {
                self.begin_climb();
            }
            Phase::Climb => self.go_on_climbing(),
            Phase::Start if matches!(self.settings.strategy, Strategy::Compare(_)) => {
                self.begin_final();
            }
            Phase::Start | Phase::Explore => self.explore(),
            Phase::Race(race) => self.go_on(race),
            Phase::Final => self.go_on_finally(),
            Phase::Ended(_) => {}
        }
    }

    /// Asks for random environments, until there are enough of them.
    fn explore(&mut self) {
        let explored =
            self.history.iter().filter(|one| one.trial.purpose == Purpose::Explore).count();
        // Of the trials that the time allows.
        let all = self.settings.budget.trials.min(self.history.len() + self.trials_left());
        let wanted = ((all as f64 * EXPLORE_SHARE) as usize).max(EXPLORE_BATCH - 1);
        let wanted = wanted.saturating_sub(explored).min(EXPLORE_BATCH - 1);
        if wanted == 0 || self.trials_left() < LEAST_TO_EXPLORE {
            self.next_race();
            return;
        }
        self.phase = Phase::Explore;
        let forbidden = failures::forbidden(&self.space, &self.history);
        let mut points = vec![self.space.default_point()];
        // A space with hardly any other environment must not hold this up.
        for _ in 0..50 * wanted {
            let point = self.random_environment();
            if points.len() <= wanted && !points.contains(&point) && !forbidden.has(&point) {
                points.push(point);
            }
        }
        self.random.shuffle(&mut points);
        self.ask_all(points, Purpose::Explore);
    }

    fn random_environment(&mut self) -> Point {
        let mut point = self.space.default_point();
        for (variable, level) in self.space.variables().iter().zip(&mut point) {
            if self.random.uniform() >= KEEPS_DEFAULT {
                *level = self.random.below(variable.values.len());
            }
        }
        self.space.normalise(&mut point);
        point
    }

    /// Asks for each point; the default among them is the baseline.
    fn ask_all(&mut self, points: Vec<Point>, purpose: Purpose) {
        let default = self.space.default_point();
        for point in points {
            let purpose = if point == default { Purpose::Baseline } else { purpose };
            self.ask(point, purpose);
        }
    }
}
