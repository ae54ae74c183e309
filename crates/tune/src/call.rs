//! What is measured at one size: the unit of which an objective is made.
//! Not its time (`trial`).

use serde::{Deserialize, Serialize};

/// A collective, or a test of messages, at one size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Call {
    /// Its name, such as `all_reduce`.
    pub operation: String,
    /// Bytes, as the size column of its table counts them.
    pub size: u64,
}
