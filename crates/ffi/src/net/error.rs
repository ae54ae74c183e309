//! The errors of a loaded plugin.
//! Not those of loading it (`library::LoadError`).

use nccl_plugin_abi::Status;
use thiserror::Error;

use super::{Busy, logger};

/// A call that a plugin refused, or that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetError {
    /// The plugin's own code.
    #[error("{call} of the net plugin failed: {text}{said}")]
    Refused {
        /// The function.
        call: &'static str,
        /// ncclResult_t.
        code: i32,
        /// The meaning of the code.
        text: &'static str,
        /// The plugin's last log line, behind "; it said: ", or nothing.
        said: String,
    },
    /// It lacks a function that NCCL requires.
    #[error("the net plugin has no {0}: the pointer in its table is null")]
    Absent(&'static str),
    /// It reported success with an invalid result.
    #[error("{call} of the net plugin: {text}")]
    Wrong {
        /// The function.
        call: &'static str,
        /// The result.
        text: String,
    },
    /// This version of the table cannot represent the request.
    #[error("{call} of the net plugin cannot take {what}")]
    TooLarge {
        /// The function.
        call: &'static str,
        /// The value, and the maximum.
        what: String,
    },
    /// The memory is in use.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// A request that is not of this connection, or complete already; memory that was not
    /// registered with it.
    #[error("a bug of busbw: {0}")]
    Misuse(&'static str),
}

/// A status as a result.
pub(super) fn checked(call: &'static str, status: Status) -> Result<(), NetError> {
    if status == Status::SUCCESS {
        return Ok(());
    }
    let said = logger::last_warning().map_or_else(String::new, |line| format!("; it said: {line}"));
    Err(NetError::Refused { call, code: status.0, text: meaning(status), said })
}

/// A required function.
pub(super) fn present<F>(call: &'static str, function: Option<F>) -> Result<F, NetError> {
    function.ok_or(NetError::Absent(call))
}

/// ncclGetErrorString's texts, shortened.
fn meaning(status: Status) -> &'static str {
    match status.0 {
        1 => "unhandled CUDA error (1)",
        2 => "system error (2)",
        3 => "internal error (3)",
        4 => "invalid argument (4)",
        5 => "invalid usage (5)",
        6 => "remote error (6)",
        7 => "in progress (7)",
        _ => "a code that is none of ncclResult_t's",
    }
}
