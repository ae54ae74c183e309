//! A tuning as data: what was asked, what there was, what was tried, and what follows; tables and pages are made of it.
//! Not its printed form, and not the search that is under way.

use busbw_core::finding::Finding;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    catalogue::Waived,
    outcome::Report,
    space::Assignment,
    trial::{Failed, Finished, Purpose},
};

/// The number of this form.
pub const SCHEMA: u32 = 1;

/// A tuning, ended or interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// [`SCHEMA`].
    pub tune_schema: u32,
    /// busbw's version.
    pub busbw: String,
    /// When it began, local time.
    pub started: String,
    /// The command line, secrets masked.
    pub args: Vec<String>,
    /// Whether it climbed the ladder; else it searched.
    pub is_ladder: bool,
    /// Who moved the bytes.
    pub backend: String,
    /// Ranks of every launch.
    pub ranks: usize,
    /// NCCL's release, where it ran.
    pub nccl: Option<String>,
    /// Seconds of all launches.
    pub took_s: f64,
    /// Whether somebody ended it early.
    pub interrupted: bool,
    /// What was measured before the first change, part by part.
    pub parts: Vec<Part>,
    /// What was wrong before the first change, in the user's own environment.
    pub before: Vec<Finding>,
    /// Variables that were not tried, and why.
    pub variables_left_out: Vec<Waived>,
    /// Rungs of the ladder that were not tried, and why.
    pub rungs_left_out: Vec<Waived>,
    /// What follows for the environment; `None` while the search has not ended.
    pub outcome: Option<Report>,
    /// What follows for each call within that environment; `None` where nothing chooses by call here.
    pub by_call: Option<Report>,
    /// The lines of the tuner's file that follows from it; empty where no choice is worth it.
    pub tuner_file: Vec<String>,
    /// The environment and that file together, against the defaults; `None` where there is no file.
    pub with_file: Option<Report>,
    /// What to set so that NCCL chooses by the file; empty without one.
    pub file_settings: Vec<Assignment>,
    /// What remains between the recommendation and the limit of the hardware: a sentence a collective.
    pub remains: Vec<String>,
    /// Every launch.
    pub history: Vec<TunedLaunch>,
    /// Every launch of the search by call.
    pub history_by_call: Vec<TunedLaunch>,
    /// Every launch of the comparison with the file.
    pub history_with_file: Vec<TunedLaunch>,
}

/// A launch before the first change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it measured, such as `the network alone`.
    pub name: String,
    /// What it set for that.
    pub sets: Vec<Assignment>,
    /// The line that ends a run: speed, share of the limit, or how it failed; one a benchmark.
    pub said: Vec<String>,
}

/// The result in a text; `None` where it is none, of a tuning that has not ended, or of another form.
#[must_use]
pub fn read(text: &str) -> Option<Tuned> {
    let tuned: Tuned = serde_json::from_str(text).ok()?;
    (tuned.tune_schema == SCHEMA).then_some(tuned)
}

/// A launch of a tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunedLaunch {
    /// Its number, counted from 0.
    pub number: u64,
    /// What it added to the user's own environment.
    pub environment: Vec<Assignment>,
    /// What it was for.
    pub purpose: Purpose,
    /// Seconds that it took.
    pub took_s: f64,
    /// Its times; empty where it failed.
    pub times: Vec<CallTime>,
    /// How it failed.
    pub failed: Option<Failed>,
}

/// The time of a call in a launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTime {
    /// The call.
    #[serde(flatten)]
    pub call: Call,
    /// Seconds of one operation: the median of its batches.
    pub seconds: f64,
    /// NCCL declined to run the call so: the seconds are those of the nearest launch of the defaults.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
}

impl From<&Finished> for TunedLaunch {
    fn from(one: &Finished) -> Self {
        let times = one.result.iter().flatten();
        Self {
            number: one.trial.id,
            environment: one.trial.environment.clone(),
            purpose: one.trial.purpose,
            took_s: one.took_s,
            times: times
                .map(|(call, seconds)| CallTime {
                    call: call.clone(),
                    seconds: *seconds,
                    declined: one.declined.contains(call),
                })
                .collect(),
            failed: one.result.as_ref().err().cloned(),
        }
    }
}
