//! The tuner's name, and those of the variables that it reads.
//! Not their values (`setting`).

use std::ffi::CStr;

/// What NCCL's log calls this tuner.
pub const TUNER: &CStr = c"busbw";
/// The file with its hash, `FILE#sha256=<64 hex>`. Unset or empty: this tuner chooses nothing.
pub const VARIABLE: &str = "BUSBW_TUNER";
/// The library of a tuner that was configured before this one, which is asked where the file has no entry.
pub const BEFORE: &str = "BUSBW_TUNER_BEFORE";
