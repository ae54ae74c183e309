//! What planning knows of the machine, and the error of options that cannot be used.
//! Not what comes out (`busbw_runner::request`).

use busbw_core::exit::{Exit, ExitError};
use busbw_runner::{
    backend::{mpi, nccl::Gpus},
    request::RecordPlace,
};
use thiserror::Error;

use crate::options::{BenchArguments, Environment};

/// Where the options and the environment put the record.
pub fn record_place(a: &BenchArguments, environment: &Environment) -> RecordPlace {
    match (&a.record, a.no_record || environment.no_record) {
        _ if environment.relayed => RecordPlace::None,
        (Some(path), _) => RecordPlace::At(path.clone()),
        (None, true) => RecordPlace::None,
        (None, false) => RecordPlace::Default,
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
    pub(in crate::options) fn new(text: impl Into<String>) -> BadOption {
        BadOption { text: text.into(), exit: Exit::Usage }
    }

    pub(super) fn impossible(text: impl Into<String>) -> BadOption {
        BadOption { text: text.into(), exit: Exit::Impossible }
    }
}

impl From<BadOption> for ExitError {
    fn from(bad: BadOption) -> ExitError {
        ExitError::new(bad.exit, bad.text)
    }
}

/// What planning must know of the machine.
#[derive(Debug, Clone)]
pub struct HostResources {
    /// Cores that this process may use.
    pub cores: usize,
    /// Cores that the process that started this one may use: a launcher that binds has more than it gives.
    pub cores_of_parent: usize,
    /// GPUs, or why there are none to use.
    pub gpus: Result<Gpus, String>,
    /// The MPI, or why there is none to use.
    pub mpi: Result<mpi::Libraries, String>,
    /// Seed for patterns, when none is given.
    pub seed: u64,
}
