//! What is made small: the time of a job's mix of calls, of all calls alike, or of each call for itself.
//! Not how a time is measured (`trial`).

use serde::{Deserialize, Serialize};

use crate::{call::Call, trial::Finished};

/// What the user wants to be fast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Every call alike: the geometric mean of their times.
    AllCalls(Vec<Call>),
    /// The time of a job that makes so many of each call.
    Weighted(Vec<(Call, f64)>),
    /// As `AllCalls` for the one environment, and the best environment of each call beside it.
    PerCall(Vec<Call>),
}

/// One thing to make small.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The geometric mean over these calls.
    Geometric(Vec<Call>),
    /// The sum of number × time.
    Sum(Vec<(Call, f64)>),
    /// One call's time.
    Call(Call),
}

impl Objective {
    /// The calls that each trial measures, in order, each once.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = match self {
            Self::AllCalls(calls) | Self::PerCall(calls) => calls.clone(),
            Self::Weighted(mix) => mix.iter().map(|(call, _)| call.clone()).collect(),
        };
        calls.sort_unstable();
        calls.dedup();
        calls
    }

    /// The goals: first that of the one environment, then those of single calls.
    #[must_use]
    pub fn goals(&self) -> Vec<Goal> {
        match self {
            Self::AllCalls(_) => vec![Goal::Geometric(self.calls())],
            Self::Weighted(mix) => vec![Goal::Sum(mix.clone())],
            Self::PerCall(_) => {
                let calls = self.calls();
                let single = calls.iter().cloned().map(Goal::Call);
                std::iter::once(Goal::Geometric(calls.clone())).chain(single).collect()
            }
        }
    }

    /// Whether there is something to measure: a call, and only positive finite numbers of them.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let has_numbers = match self {
            Self::Weighted(mix) => mix.iter().all(|(_, many)| many.is_finite() && *many > 0.0),
            Self::AllCalls(_) | Self::PerCall(_) => true,
        };
        has_numbers && !self.calls().is_empty()
    }
}

impl Goal {
    /// The logarithm of the goal's time in a finished trial; `None` where it failed.
    #[must_use]
    pub fn log_time(&self, trial: &Finished) -> Option<f64> {
        match self {
            Self::Geometric(calls) => {
                let logs = calls.iter().map(|call| Some(trial.seconds(call)?.ln()));
                Some(logs.sum::<Option<f64>>()? / calls.len() as f64)
            }
            Self::Sum(mix) => {
                let times = mix.iter().map(|(call, many)| Some(trial.seconds(call)? * many));
                Some(times.sum::<Option<f64>>()?.ln())
            }
            Self::Call(call) => Some(trial.seconds(call)?.ln()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Purpose, Trial};

    fn call(size: u64) -> Call {
        Call { operation: "all_reduce".to_owned(), size }
    }

    #[test]
    fn goals_are_those_times() {
        let trial = Trial {
            id: 0,
            environment: Vec::new(),
            point: Vec::new(),
            batches: 1,
            fresh: false,
            purpose: Purpose::Baseline,
        };
        let finished = Finished {
            trial,
            result: Ok(vec![(call(8), 2.0), (call(64), 8.0)]),
            declined: Vec::new(),
            took_s: 1.0,
        };
        let times = |objective: Objective| -> Vec<f64> {
            let goals = objective.goals();
            goals.iter().map(|goal| goal.log_time(&finished).unwrap().exp()).collect()
        };
        let near = |found: &[f64], wanted: &[f64]| {
            assert_eq!(found.len(), wanted.len());
            assert!(found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < 1e-12), "{found:?}");
        };
        near(&times(Objective::AllCalls(vec![call(64), call(8)])), &[4.0]);
        near(&times(Objective::Weighted(vec![(call(8), 3.0), (call(64), 1.0)])), &[14.0]);
        near(&times(Objective::PerCall(vec![call(8), call(64)])), &[4.0, 2.0, 8.0]);
        assert!(!Objective::AllCalls(Vec::new()).is_usable());
        assert!(!Objective::Weighted(vec![(call(8), f64::NAN)]).is_usable());
    }
}
