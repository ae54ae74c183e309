//! Lines in NCCL's log, by the function that it gives to `init`.
//! Not the filter by level and subsystem, which is NCCL's. At a call nothing is logged.

use std::ffi::{CString, c_int};

use nccl_plugin_abi::{Logger, level, subsystem};

/// Logs a line that NCCL prints with NCCL_DEBUG=INFO, if NCCL_DEBUG_SUBSYS includes INIT or TUNING.
pub(crate) fn info(logger: Option<Logger>, text: &str) {
    write(logger, level::INFO, text);
}

/// Logs a line that NCCL prints with NCCL_DEBUG=WARN or INFO, and has in ncclGetLastError.
pub(crate) fn warn(logger: Option<Logger>, text: &str) {
    write(logger, level::WARN, text);
}

fn write(logger: Option<Logger>, level: c_int, text: &str) {
    let Some(logger) = logger else { return };
    // A zero byte would cut the line.
    let line = CString::new(format!("TUNER/busbw: {text}").replace('\0', " ")).unwrap_or_default();
    let subsystems = subsystem::INIT | subsystem::TUNING;
    // SAFETY: the format takes one string; all of them end with a zero and live until the call returns.
    unsafe { logger(level, subsystems, c"busbw".as_ptr(), 0, c"%s".as_ptr(), line.as_ptr()) };
}
