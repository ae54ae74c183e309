//! What is to be run: a plan, with what else the options said of libraries and outputs.
//! Not how options become it (`busbw-cli`).

use std::path::PathBuf;

use busbw_core::{
    plan::Plan,
    record::{Folded, Waiver},
};
use busbw_render::Units;

use crate::backend::Resources;

/// A plan, and what else the options said.
#[derive(Debug, Clone)]
pub struct Request {
    /// What will be run.
    pub plan: Plan,
    /// Options that mean nothing on the plan's backend.
    pub waived: Vec<Waiver>,
    /// What looks like a mistake.
    pub remarks: Vec<String>,
    /// A line above the table, for who reads nothing else.
    pub preamble: Option<String>,
    /// The libraries and GPUs that it uses.
    pub resources: Resources,
    /// Ranks on this host, as far as that is known.
    pub ranks_here: usize,
    /// What stdout carries.
    pub output: Output,
    /// How much is said on stderr.
    pub talk: Talk,
    /// nccl-tests' JSON report.
    pub json_report: Option<PathBuf>,
    /// Where the record goes: a path of the user's, the default place, or nowhere.
    pub record: RecordPlace,
    /// What says the last line on stderr; none where another process says it.
    pub summary: Option<Summary>,
}

/// Sums a run up in one line. The second argument is what its record is found by, if there is one. The judgement is
/// `busbw-analysis`'s, which this crate does not use.
pub type Summary = fn(Folded, Option<&str>) -> String;

impl Request {
    /// A request for nothing but the plan: the table, and no record.
    pub fn of(plan: Plan) -> Request {
        Request {
            ranks_here: plan.ranks(),
            plan,
            waived: Vec::new(),
            remarks: Vec::new(),
            preamble: None,
            resources: Resources::default(),
            output: Output::default(),
            talk: Talk::default(),
            json_report: None,
            record: RecordPlace::None,
            summary: None,
        }
    }
}

/// What stdout carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The table, with bandwidths in this unit.
    Table(Units),
    /// Comma-separated values.
    Csv,
    /// The record's lines.
    Json,
}

impl Default for Output {
    fn default() -> Output {
        Output::Table(Units::default())
    }
}

/// How much is said on stderr beside errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Talk {
    /// Nothing.
    Quiet,
    /// What looks wrong, what was not done, and the closing lines.
    #[default]
    Usual,
    /// Also what was chosen, and how each row was measured.
    Verbose,
}

/// Where the record goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordPlace {
    /// The data folder.
    Default,
    /// Where the user said.
    At(PathBuf),
    /// Nowhere.
    None,
}
