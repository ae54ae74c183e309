//! What can go wrong with a plugin that was loaded.
//! Not loading it (`library::LoadError`).

use nccl_plugin_abi::Status;
use thiserror::Error;

use super::{Busy, logger};

/// A call that a plugin refused, or that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetError {
    /// The plugin's own code.
    #[error("{call} of the net plugin failed: {text}{said}")]
    Refused {
        /// The function.
        call: &'static str,
        /// ncclResult_t.
        code: i32,
        /// What the code means.
        text: &'static str,
        /// What the plugin said last, behind "; it said: ", or nothing.
        said: String,
    },
    /// It has no such function, and NCCL would not do without.
    #[error("the net plugin has no {0}: the pointer in its table is null")]
    Absent(&'static str),
    /// It said that all is well, and it is not.
    #[error("{call} of the net plugin: {text}")]
    Wrong {
        /// The function.
        call: &'static str,
        /// What came back.
        text: String,
    },
    /// This version of the table has no room for what is asked.
    #[error("{call} of the net plugin cannot take {what}")]
    TooLarge {
        /// The function.
        call: &'static str,
        /// What, and what the most is.
        what: String,
    },
    /// Memory that is used for something else.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// A request that is none of this connection's, or done already; memory that was not registered with it.
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

/// A function that must be there.
pub(super) fn present<F>(call: &'static str, function: Option<F>) -> Result<F, NetError> {
    function.ok_or(NetError::Absent(call))
}

/// ncclGetErrorString's words in short.
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
