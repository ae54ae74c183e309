//! A tuning as data: what was asked, what there was, what was tried, and what follows; tables and pages are made of it.
//! Not its printed form, and not the search that is under way.

use serde::{Deserialize, Serialize};

use crate::{catalogue::Waived, outcome::Report, trial::Finished};

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
    /// Variables that were not tried, and why.
    pub variables_left_out: Vec<Waived>,
    /// Rungs of the ladder that were not tried, and why.
    pub rungs_left_out: Vec<Waived>,
    /// What follows for the environment; `None` while the search has not ended.
    pub outcome: Option<Report>,
    /// What follows for each call within that environment; `None` where nothing chooses by call here.
    pub by_call: Option<Report>,
    /// What remains between the recommendation and the limit of the hardware: a sentence a collective.
    pub remains: Vec<String>,
    /// Every launch.
    pub history: Vec<Finished>,
    /// Every launch of the search by call.
    pub history_by_call: Vec<Finished>,
}
