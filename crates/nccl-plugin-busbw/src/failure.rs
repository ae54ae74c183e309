//! Why a network's call failed: NCCL's code, and a line for its log.
//! Not the calls (`network`).

use nccl_plugin_abi::Status;

/// Why a call failed, and the code that NCCL gets.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// NCCL's result code.
    pub status: Status,
    /// What was attempted, on what, why it failed: a line for NCCL's log.
    pub text: String,
}

impl Failure {
    /// A failure with NCCL's code for it.
    pub fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    /// A variable of the environment with a value that is not allowed.
    pub fn variable(name: &str, value: &str, expected: &str) -> Failure {
        Failure::new(Status::INVALID_USAGE, format!("{name}={value} is not {expected}"))
    }

    /// A system call that failed; `attempted` reads like "cannot listen on 10.0.0.1".
    pub fn system(attempted: &str, error: &(impl std::error::Error + ?Sized)) -> Failure {
        Failure::new(Status::SYSTEM, format!("{attempted}: {error}"))
    }
}

/// Result of a network's call.
pub type Result<T> = std::result::Result<T, Failure>;
