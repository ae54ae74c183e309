//! What a search found, as far as it holds: a recommendation that the final comparison proves, or "leave the defaults".
//! Not text for people beyond one sentence, and not the comparison's launches (`search`).
//!
//! A gain counts where fresh launches in turns, seven a side at least, differ by the rank test with p < 0.001 and by
//! 2 % or more. The number of launches is fixed before the first one, and none of the search's own trials counts: it chose the winner
//! for being fast, so its trials flatter it.

use busbw_stats::{
    Interval,
    mann_whitney::{Level, p_value, shift},
};
use serde::{Deserialize, Serialize};

use crate::{
    failures::{Disqualified, Suspected, disqualified, suspected},
    objective::Goal,
    search::{End, Final, Role, Search},
    space::Assignment,
    trial::{Finished, Purpose},
};

/// The rank test's p-value below which a difference counts.
pub const MAX_P: f64 = 0.001;
/// The least gain that is recommended, as a fraction.
pub const MIN_GAIN: f64 = 0.02;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Set the environment of the report.
    Set,
    /// Leave the defaults.
    Leave,
    /// The defaults themselves fail: nothing can be compared with them.
    Repair,
}

/// Two sides compared: launches in turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// How many times as fast as the other side, less 1; negative where it is slower.
    pub gain: f64,
    /// The 95 % interval of the gain.
    pub interval: Interval,
    /// The rank test's two-sided p-value.
    pub p: f64,
    /// Launches of the other side and of this one.
    pub launches: (usize, usize),
}

impl Compared {
    /// Compares logarithms of times: those of the other side, then those of the side whose gain it is.
    fn of(other: &[f64], this: &[f64]) -> Option<Self> {
        let shift = shift(this, other, Level::P95)?;
        let gain = |log: f64| log.exp() - 1.0;
        let (low, high, coverage) = (gain(shift.low), gain(shift.high), shift.coverage);
        Some(Self {
            gain: gain(shift.estimate),
            interval: Interval { low, high, coverage },
            p: p_value(other, this)?,
            launches: (other.len(), this.len()),
        })
    }

    /// Whether the gain is established and worth it.
    #[must_use]
    pub fn is_gain(&self) -> bool {
        self.p < MAX_P && self.gain >= MIN_GAIN
    }

    /// Whether a loss is established: the whole interval is below 0.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.interval.high < 0.0
    }
}

/// What one variable of the recommendation gives: the recommendation against the same with this variable's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnGain {
    /// The variable and its recommended value.
    pub variable: Assignment,
    /// The recommendation compared with what it is without this variable; `None` where that failed or did not run.
    pub compared: Option<Compared>,
}

/// One size of the recommendation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtSize {
    /// Bytes.
    pub size: u64,
    /// The recommendation compared with the defaults.
    pub compared: Compared,
}

/// What is best at one size, for a tuner file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Bytes.
    pub size: u64,
    /// What to set; empty where the defaults stay.
    pub environment: Vec<Assignment>,
    /// The environment compared with the defaults at this size; `None` where the defaults stay.
    pub compared: Option<Compared>,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What to do.
    pub advice: Advice,
    /// What to set; empty unless `advice` is to set something.
    pub environment: Vec<Assignment>,
    /// The best environment that was found, recommended or not, compared with the defaults. `None` without a final comparison.
    pub best: Option<(Vec<Assignment>, Compared)>,
    /// The most that the best environment can gain over the defaults, as a fraction: the upper end of the final
    /// comparison's interval, or of the model's where none was worth it.
    pub within: f64,
    /// What each variable of the best environment gives.
    pub variables: Vec<OwnGain>,
    /// The best environment at each size: gains and losses.
    pub sizes: Vec<AtSize>,
    /// The best at each size; empty unless the objective asks for it.
    pub choices: Vec<Choice>,
    /// What failed.
    pub disqualified: Vec<Disqualified>,
    /// Values that failed environments have in common.
    pub suspected: Vec<Suspected>,
    /// Trials, the final comparison included.
    pub trials: usize,
}

impl Search {
    /// The outcome; `None` while the search has not ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Report> {
        let end = self.end()?;
        let mut report = Report {
            advice: if end == End::BaselineFails { Advice::Repair } else { Advice::Leave },
            environment: Vec::new(),
            best: None,
            within: self.best().map_or(0.0, |best| best.between.1.max(0.0)),
            variables: Vec::new(),
            sizes: Vec::new(),
            choices: Vec::new(),
            disqualified: disqualified(self.history()),
            suspected: suspected(self.space(), self.history()),
            trials: self.history().len(),
        };
        if let Some(finals) = self.compared() {
            Sides { search: self, finals }.fill(&mut report);
        }
        Some(report)
    }
}

impl Report {
    /// The advice in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match (self.advice, &self.best) {
            (Advice::Repair, _) => {
                "the defaults themselves fail here: repair that first (see the failures)".to_owned()
            }
            (Advice::Set, Some((environment, compared))) => {
                let set: Vec<String> = environment
                    .iter()
                    .map(|one| match &one.value {
                        Some(value) => format!("{}={value}", one.name),
                        None => format!("{} not set", one.name),
                    })
                    .collect();
                format!(
                    "set {}: {:.1} % faster (95 % interval {:.1} to {:.1} %, {} and {} launches in turns, p = {:.1e})",
                    set.join(" "),
                    100.0 * compared.gain,
                    100.0 * compared.interval.low,
                    100.0 * compared.interval.high,
                    compared.launches.0,
                    compared.launches.1,
                    compared.p,
                )
            }
            _ => format!(
                "the defaults are within {:.1} % of the best found; leave them",
                100.0 * self.within
            ),
        }
    }
}

struct Sides<'a> {
    search: &'a Search,
    finals: &'a Final,
}

impl Sides<'_> {
    /// The logarithms of a goal's times in the launches of one side, in launch order; none where the side failed.
    fn logs(&self, side: usize, goal: &Goal) -> Vec<f64> {
        let is_of = |one: &&Finished| {
            one.trial.id >= self.finals.first_trial && one.trial.purpose == Purpose::Final(side)
        };
        let launches = self.search.history().iter().filter(is_of);
        launches.map(|one| goal.log_time(one)).collect::<Option<Vec<f64>>>().unwrap_or_default()
    }

    fn compare(&self, other: usize, this: usize, goal: &Goal) -> Option<Compared> {
        Compared::of(&self.logs(other, goal), &self.logs(this, goal))
    }

    fn fill(&self, report: &mut Report) {
        let (baseline, winner) = (0, 1);
        let space = self.search.space();
        let goals = self.search.goals();
        let Some(best) = self.finals.sides.get(winner) else { return };
        let environment = space.environment(&best.point);
        if let Some(compared) = self.compare(baseline, winner, &goals[0]) {
            if compared.is_gain() && !environment.is_empty() {
                report.advice = Advice::Set;
                report.environment.clone_from(&environment);
            }
            report.within = compared.interval.high.max(0.0);
            report.best = Some((environment.clone(), compared));
        }
        let sizes = self.search.settings().objective.sizes();
        for size in &sizes {
            if let Some(compared) = self.compare(baseline, winner, &Goal::Size(*size)) {
                report.sizes.push(AtSize { size: *size, compared });
            }
        }
        report.variables = space
            .changed(&best.point)
            .into_iter()
            .zip(environment)
            .map(|(place, variable)| OwnGain { variable, compared: self.own(place, &goals[0]) })
            .collect();
        if goals.len() > 1 {
            report.choices = sizes.iter().map(|size| self.choice(*size)).collect();
        }
    }

    /// What the variable at `place` gives.
    fn own(&self, place: usize, goal: &Goal) -> Option<Compared> {
        let winner = &self.finals.sides.get(1)?.point;
        if self.search.space().changed(winner) == [place] {
            return self.compare(0, 1, goal);
        }
        let without =
            self.finals.sides.iter().position(|side| side.role == Role::Without(place))?;
        self.compare(without, 1, goal)
    }

    /// The best of the sides at one size: the one that the search chose for it, or else the winner.
    fn choice(&self, size: u64) -> Choice {
        let is_for = |role: &Role| matches!(role, Role::Sizes(sizes) if sizes.contains(&size));
        let own = self.finals.sides.iter().position(|side| is_for(&side.role));
        let established = own.into_iter().chain([1]).find_map(|side| {
            let compared = self.compare(0, side, &Goal::Size(size)).filter(Compared::is_gain)?;
            Some((self.search.space().environment(&self.finals.sides[side].point), compared))
        });
        match established {
            Some((environment, compared)) => Choice { size, environment, compared: Some(compared) },
            None => Choice { size, environment: Vec::new(), compared: None },
        }
    }
}
