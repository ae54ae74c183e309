//! What is made small: the time of a job's mix of sizes, of all sizes alike, or of each size for itself.
//! Not how a time is measured (`trial`).

use serde::{Deserialize, Serialize};

use crate::trial::Finished;

/// What the user wants to be fast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Every size alike: the geometric mean of the times of these sizes, in bytes.
    AllSizes(Vec<u64>),
    /// The time of a job that makes so many calls of each size: (bytes, calls).
    Weighted(Vec<(u64, f64)>),
    /// As `AllSizes` for the one environment, and the best environment of each size beside it.
    PerSize(Vec<u64>),
}

/// One thing to make small.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The geometric mean over these sizes.
    Geometric(Vec<u64>),
    /// The sum of calls × time: (bytes, calls).
    Sum(Vec<(u64, f64)>),
    /// One size's time.
    Size(u64),
}

impl Objective {
    /// The sizes that each trial measures, ascending, each once.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes = match self {
            Self::AllSizes(sizes) | Self::PerSize(sizes) => sizes.clone(),
            Self::Weighted(mix) => mix.iter().map(|(size, _)| *size).collect(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The goals: first that of the one environment, then those of single sizes.
    #[must_use]
    pub fn goals(&self) -> Vec<Goal> {
        match self {
            Self::AllSizes(_) => vec![Goal::Geometric(self.sizes())],
            Self::Weighted(mix) => vec![Goal::Sum(mix.clone())],
            Self::PerSize(_) => {
                let sizes = self.sizes();
                let single = sizes.iter().map(|size| Goal::Size(*size));
                std::iter::once(Goal::Geometric(sizes.clone())).chain(single).collect()
            }
        }
    }

    /// Whether there is something to measure: a size, and only positive finite numbers of calls.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let calls = match self {
            Self::Weighted(mix) => mix.iter().all(|(_, calls)| calls.is_finite() && *calls > 0.0),
            Self::AllSizes(_) | Self::PerSize(_) => true,
        };
        calls && !self.sizes().is_empty()
    }
}

impl Goal {
    /// The logarithm of the goal's time in a finished trial; `None` where it failed.
    #[must_use]
    pub fn log_time(&self, trial: &Finished) -> Option<f64> {
        match self {
            Self::Geometric(sizes) => {
                let logs = sizes.iter().map(|size| Some(trial.seconds(*size)?.ln()));
                Some(logs.sum::<Option<f64>>()? / sizes.len() as f64)
            }
            Self::Sum(mix) => {
                let times = mix.iter().map(|(size, calls)| Some(trial.seconds(*size)? * calls));
                Some(times.sum::<Option<f64>>()?.ln())
            }
            Self::Size(size) => Some(trial.seconds(*size)?.ln()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Purpose, Trial};

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
        let finished = Finished { trial, result: Ok(vec![(8, 2.0), (64, 8.0)]), took_s: 1.0 };
        let times = |objective: Objective| -> Vec<f64> {
            let goals = objective.goals();
            goals.iter().map(|goal| goal.log_time(&finished).unwrap().exp()).collect()
        };
        let near = |found: &[f64], wanted: &[f64]| {
            assert_eq!(found.len(), wanted.len());
            assert!(found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < 1e-12), "{found:?}");
        };
        near(&times(Objective::AllSizes(vec![64, 8])), &[4.0]);
        near(&times(Objective::Weighted(vec![(8, 3.0), (64, 1.0)])), &[14.0]);
        near(&times(Objective::PerSize(vec![8, 64])), &[4.0, 2.0, 8.0]);
        assert!(!Objective::AllSizes(Vec::new()).is_usable());
        assert!(!Objective::Weighted(vec![(8, f64::NAN)]).is_usable());
    }
}
