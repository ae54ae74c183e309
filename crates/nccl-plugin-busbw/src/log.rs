//! Lines in NCCL's log, by the function that it gives to `init`.
//! Not the filter by level and subsystem, which is NCCL's.

use std::{
    ffi::{CString, c_int, c_ulong},
    sync::OnceLock,
};

use nccl_plugin_abi::{Logger, level, subsystem};

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Takes NCCL's log function. The first one stays.
pub fn set(logger: Option<Logger>) {
    if let Some(logger) = logger {
        let _ = LOGGER.set(logger);
    }
}

/// Logs a line that NCCL prints with NCCL_DEBUG=INFO, if NCCL_DEBUG_SUBSYS includes INIT or NET.
pub fn info(text: &str) {
    write(level::INFO, subsystem::INIT | subsystem::NET, text);
}

/// Logs a line that NCCL prints with NCCL_DEBUG=WARN or INFO.
pub fn warn(text: &str) {
    write(level::WARN, subsystem::NET, text);
}

fn write(level: c_int, subsystems: c_ulong, text: &str) {
    let Some(logger) = LOGGER.get() else { return };
    // A zero byte would cut the line.
    let line = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the format takes one string; all of them end with a zero and live until the call returns.
    unsafe { logger(level, subsystems, c"busbw".as_ptr(), 0, c"%s".as_ptr(), line.as_ptr()) };
}
