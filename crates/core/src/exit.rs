//! Exit codes: one meaning each, the same for every command and backend.
//! Not error texts: those are made where the failure is known.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::printable::Printable;

/// How a command ended, as its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// 0: done, or the reader of stdout went away.
    Ok,
    /// 1: a gate was missed, or an internal error.
    Internal,
    /// 2: the command line or its input cannot be used.
    Usage,
    /// 3: a library (NCCL, MPI, CUDA) failed.
    Library,
    /// 4: a deadline passed.
    Timeout,
    /// 5: not possible on this machine.
    Impossible,
    /// 6: a rank was lost.
    RankLost,
    /// 7: wrong data, or NCCL_TESTS_MIN_BW missed.
    WrongData,
    /// 130: interrupted by the user.
    Interrupted,
}

impl Exit {
    /// The process exit code.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Internal => 1,
            Exit::Usage => 2,
            Exit::Library => 3,
            Exit::Timeout => 4,
            Exit::Impossible => 5,
            Exit::RankLost => 6,
            Exit::WrongData => 7,
            Exit::Interrupted => 130,
        }
    }
}

/// An error that knows its exit code; others exit with 1.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct ExitError {
    exit: Exit,
    text: String,
}

impl ExitError {
    /// An error with an exit code.
    pub fn new(exit: Exit, text: impl Into<String>) -> ExitError {
        ExitError { exit, text: text.into() }
    }

    /// The exit code's meaning.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

/// Says on stderr what went wrong, and how the program ends for it.
pub fn print_error(error: &anyhow::Error) -> Exit {
    // A closed stderr must not turn an exit code into a panic's.
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {error:#}");
    error.downcast_ref::<ExitError>().map_or(Exit::Internal, ExitError::exit)
}
