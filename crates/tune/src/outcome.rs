//! What a search found, as far as it holds: a recommendation that the final comparison proves, or "leave the defaults".
//! Not text for people beyond one sentence, and not the comparison's launches (`search`).

use busbw_stats::median;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    compared::Compared,
    failures::{Disqualified, Suspected, disqualified, suspected},
    objective::Goal,
    search::{Climbed, End, Final, LEAST_TRIALS, Role, Search},
    space::Assignment,
};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Set the environment of the report.
    Set,
    /// Leave the defaults.
    Leave,
    /// Something was found, and the budget did not allow its comparison.
    Undecided,
    /// The defaults themselves fail: nothing can be compared with them.
    Repair,
}

/// What one variable of the recommendation gives: the recommendation against the same with this variable's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnGain {
    /// The variable and its recommended value.
    pub variable: Assignment,
    /// The recommendation compared with what it is without this variable; `None` where that failed or did not run.
    pub compared: Option<Compared>,
}

/// The best environment that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// What it sets.
    pub environment: Vec<Assignment>,
    /// It compared with the defaults.
    pub compared: Compared,
}

/// One call of the recommendation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtCall {
    /// The call.
    #[serde(flatten)]
    pub call: Call,
    /// Seconds of one operation with the defaults: the median of launches.
    pub default_s: f64,
    /// The same with the best environment.
    pub with_it_s: f64,
    /// The recommendation compared with the defaults.
    pub compared: Compared,
}

/// What is best for one call, for a tuner file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The call.
    #[serde(flatten)]
    pub call: Call,
    /// What to set; empty where the defaults stay.
    pub environment: Vec<Assignment>,
    /// The environment compared with the defaults at this call; `None` where the defaults stay.
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
    pub best: Option<Found>,
    /// The most that the best environment can gain over the defaults, as a fraction: the upper end of the final
    /// comparison's interval, or of the model's where none was worth it.
    pub within: f64,
    /// What each variable of the best environment gives.
    pub variables: Vec<OwnGain>,
    /// The best environment at each call: gains and losses.
    pub calls: Vec<AtCall>,
    /// The best for each call; empty unless the objective asks for it.
    pub choices: Vec<Choice>,
    /// The rungs of the ladder, in their order; empty without one.
    pub rungs: Vec<Climbed>,
    /// Rungs for which the budget had no launches.
    pub rungs_unreached: Vec<String>,
    /// What failed.
    pub disqualified: Vec<Disqualified>,
    /// Values that failed environments have in common.
    pub suspected: Vec<Suspected>,
    /// Trials, the final comparison included.
    pub trials: usize,
}

impl Search {
    /// Whether anything but the defaults was launched.
    fn has_tried(&self) -> bool {
        self.history().iter().any(|one| !one.trial.environment.is_empty())
    }

    /// The outcome; `None` while the search has not ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Report> {
        let end = self.end()?;
        let mut report = Report {
            advice: match end {
                End::BaselineFails => Advice::Repair,
                End::NotCompared => Advice::Undecided,
                // Of what was not tried nothing is known.
                End::NothingFound if !self.has_tried() => Advice::Undecided,
                End::NothingFound | End::Compared => Advice::Leave,
            },
            environment: Vec::new(),
            best: None,
            within: self.best().map_or(0.0, |best| best.between.1.max(0.0)),
            variables: Vec::new(),
            calls: Vec::new(),
            choices: Vec::new(),
            rungs: self.climbed().to_vec(),
            rungs_unreached: self.unreached().to_vec(),
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
            (Advice::Undecided, _) if self.within == 0.0 && self.rungs_unreached.is_empty() => {
                format!(
                    "nothing was tried: a search takes {LEAST_TRIALS} launches, the final comparison included, and its time or their number does not suffice"
                )
            }
            (Advice::Undecided, _) if self.within == 0.0 => {
                "nothing was tried: the time or the number of launches is too small for it"
                    .to_owned()
            }
            (Advice::Undecided, _) => format!(
                "the best that was found may be up to {:.1} % faster than the defaults, and the launches that were left could not compare them: allow more of them",
                100.0 * self.within
            ),
            (Advice::Repair, _) => {
                "the defaults themselves fail here: repair that first (see the failures)".to_owned()
            }
            (Advice::Set, Some(Found { environment, compared })) => {
                let set: Vec<String> = environment.iter().map(ToString::to_string).collect();
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
    fn compare(&self, other: usize, this: usize, goal: &Goal) -> Option<Compared> {
        self.finals.compare(self.search.history(), other, this, goal)
    }

    /// The median of a side's launches.
    fn seconds(&self, side: usize, call: &Call) -> Option<f64> {
        let launches = self.finals.launches(self.search.history(), side);
        median(&launches.filter_map(|one| one.seconds(call)).collect::<Vec<_>>())
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
            report.best = Some(Found { environment: environment.clone(), compared });
        }
        let calls = self.search.settings().objective.calls();
        for call in &calls {
            let compared = self.compare(baseline, winner, &Goal::Call(call.clone()));
            let seconds = self.seconds(baseline, call).zip(self.seconds(winner, call));
            if let (Some(compared), Some((default_s, with_it_s))) = (compared, seconds) {
                report.calls.push(AtCall { call: call.clone(), default_s, with_it_s, compared });
            }
        }
        report.variables = space
            .changed(&best.point)
            .into_iter()
            .zip(environment)
            .map(|(place, variable)| OwnGain { variable, compared: self.own(place, &goals[0]) })
            .collect();
        if goals.len() > 1 {
            report.choices = calls.iter().map(|call| self.choice(call)).collect();
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
        let again = self.finals.sides.iter().position(|side| side.role == Role::Again)?;
        self.compare(without, again, goal)
    }

    /// The best of the sides for one call: the one that the search chose for it, or else the winner.
    fn choice(&self, call: &Call) -> Choice {
        let is_for = |role: &Role| matches!(role, Role::Calls(calls) if calls.contains(call));
        let own = self.finals.sides.iter().position(|side| is_for(&side.role));
        let established = own.into_iter().chain([1]).find_map(|side| {
            let compared =
                self.compare(0, side, &Goal::Call(call.clone())).filter(Compared::is_gain)?;
            Some((self.search.space().environment(&self.finals.sides[side].point), compared))
        });
        let call = call.clone();
        match established {
            Some((environment, compared)) => Choice { call, environment, compared: Some(compared) },
            None => Choice { call, environment: Vec::new(), compared: None },
        }
    }
}
