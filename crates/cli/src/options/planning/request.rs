//! What planning is told of the machine, and what comes out: a plan with what else was asked, or why not.
//! Not how one becomes the other.

use std::path::PathBuf;

use busbw_core::{exit::Exit, plan::Plan, record::Waiver};
use thiserror::Error;

use crate::{
    backend::{mpi, nccl::Gpus, net},
    options::{BenchArguments, Environment, Output},
};

/// A plan, and what else the options said.
#[derive(Debug, Clone)]
pub struct Request {
    /// What will be run.
    pub plan: Plan,
    /// Options that mean nothing on the plan's backend.
    pub waived: Vec<Waiver>,
    /// What looks like a mistake.
    pub remarks: Vec<String>,
    /// The GPUs that it runs on, if it does.
    pub gpus: Option<Gpus>,
    /// The MPI, if it uses one.
    pub mpi: Option<mpi::Libraries>,
    /// The net plugin, if one is asked for.
    pub net: Option<net::Wanted>,
    /// Ranks on this host, as far as that is known.
    pub ranks_here: usize,
    /// What stdout carries.
    pub output: Output,
    /// nccl-tests' JSON report.
    pub json_report: Option<PathBuf>,
    /// Where the record goes: a path of the user's, the default place, or nowhere.
    pub record: RecordPlace,
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

impl RecordPlace {
    /// Where the options and the environment put it.
    pub fn of(a: &BenchArguments, environment: &Environment) -> RecordPlace {
        match (&a.record, a.no_record || environment.no_record) {
            _ if environment.relayed => RecordPlace::None,
            (Some(path), _) => RecordPlace::At(path.clone()),
            (None, true) => RecordPlace::None,
            (None, false) => RecordPlace::Default,
        }
    }
}

/// Why options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct BadOption {
    text: String,
    /// How the program ends for it: 2, or 5 for what this machine does not have.
    pub exit: Exit,
}

impl BadOption {
    pub(super) fn new(text: impl Into<String>) -> BadOption {
        BadOption { text: text.into(), exit: Exit::Usage }
    }

    pub(super) fn impossible(text: impl Into<String>) -> BadOption {
        BadOption { text: text.into(), exit: Exit::Impossible }
    }
}

/// What planning must know of the machine.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Cores that this process may use.
    pub cores: usize,
    /// GPUs, or why there are none to use.
    pub gpus: Result<Gpus, String>,
    /// The MPI, or why there is none to use.
    pub mpi: Result<mpi::Libraries, String>,
    /// Seed for patterns, when none is given.
    pub seed: u64,
}
