//! A trial: what is asked of the driver, and what it answers: times by call, or how the environment failed.
//! Not how it is run: fresh processes and calls inside one communicator both answer to this.

use busbw_stats::median;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    space::{Assignment, Point},
};

/// One environment to be measured once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number, counted from 0, in the order in which trials are asked for.
    pub id: u64,
    /// What it adds to the user's own environment; empty for the baseline.
    pub environment: Vec<Assignment>,
    /// The same as levels of the space.
    pub point: Point,
    /// Timed batches of each call that are worth their time here. A driver may run fewer.
    pub batches: u32,
    /// Whether it must be a launch of its own, in the order asked for. Others that differ only in variables of
    /// [`Scope::Call`](crate::Scope::Call) may alternate in one communicator.
    pub fresh: bool,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The defaults again, so that drift shows.
    Baseline,
    /// An environment drawn at random, to learn what each variable does.
    Explore,
    /// A candidate of a race.
    Race,
    /// A side of a rung of the ladder: 0 is what was kept before it, others are its steps.
    Rung(usize),
    /// A side of the final comparison: its number.
    Final(usize),
}

/// How an environment failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// A process ended early.
    Crashed,
    /// It did not end in the time that the driver allows.
    Hung,
    /// Verification found wrong elements.
    WrongResult,
    /// The library refused the setting with a message.
    Refused,
}

impl Failure {
    /// A word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Hung => "hung",
            Self::WrongResult => "wrong result",
            Self::Refused => "refused",
        }
    }
}

/// The times of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTimes {
    /// The call.
    pub call: Call,
    /// Seconds of one operation, one figure a batch.
    pub seconds: Vec<f64>,
}

/// The driver's answer to a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran, and every result was right.
    Measured(Vec<CallTimes>),
    /// It ran, every result was right, and NCCL declined to run some calls so, which stay as they are by default. Taken where the best
    /// of each call is looked for, of anything but the defaults.
    InPart {
        /// The times of the others.
        times: Vec<CallTimes>,
        /// Those calls.
        declined: Vec<Call>,
    },
    /// The environment failed: it is disqualified.
    Failed {
        /// How.
        failure: Failure,
        /// What the library, the record or the watchdog says.
        text: String,
    },
}

/// How an environment failed, and what was said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// How.
    pub failure: Failure,
    /// What the library, the record or the watchdog says.
    pub text: String,
}

/// A trial with its answer, as the search keeps it: one figure a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The trial.
    pub trial: Trial,
    /// Seconds of one operation by call, or how it failed.
    pub result: Result<Vec<(Call, f64)>, Failed>,
    /// Calls that NCCL declined to run so: their seconds are those of the nearest launch of the defaults, once its batch is complete.
    #[serde(default)]
    pub declined: Vec<Call>,
    /// Seconds that the trial took, start and end included.
    pub took_s: f64,
}

/// An answer that the search does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// No such trial is pending.
    #[error("trial {0} is not pending: report each trial that was asked for once")]
    NotPending(u64),
    /// A call is missing, or its times are not usable.
    #[error(
        "trial {id} cannot be used: {operation} of {size} B has no positive finite time; report it as failed, or measure it again"
    )]
    NoTime {
        /// The trial.
        id: u64,
        /// The call's operation.
        operation: String,
        /// Its size in bytes.
        size: u64,
    },
}

/// One figure for each of `calls`: the median of its batches.
pub(crate) fn medians(
    id: u64,
    times: &[CallTimes],
    calls: &[Call],
) -> Result<Vec<(Call, f64)>, ReportError> {
    let one = |call: &Call| {
        let seconds = times.iter().find(|one| one.call == *call).map(|one| one.seconds.as_slice());
        let figure = median(seconds.unwrap_or_default()).filter(|seconds| *seconds > 0.0);
        let missing =
            || ReportError::NoTime { id, operation: call.operation.clone(), size: call.size };
        figure.map(|seconds| (call.clone(), seconds)).ok_or_else(missing)
    };
    calls.iter().map(one).collect()
}

impl Finished {
    /// Seconds of one operation of `call`; `None` where the trial failed.
    #[must_use]
    pub fn seconds(&self, call: &Call) -> Option<f64> {
        let times = self.result.as_ref().ok()?;
        times.iter().find(|(of, _)| of == call).map(|(_, seconds)| *seconds)
    }
}
