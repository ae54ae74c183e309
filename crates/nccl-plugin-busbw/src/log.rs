//! Lines in NCCL's log, by the function that it gives to `init`.
//! Not for whom they are.

use std::{
    ffi::{CString, c_int, c_ulong},
    sync::OnceLock,
};

use nccl_plugin_abi::{Logger, level, subsystem};

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Takes NCCL's function; the first one stays.
pub fn set(logger: Option<Logger>) {
    if let Some(logger) = logger {
        let _ = LOGGER.set(logger);
    }
}

/// A line that NCCL prints from NCCL_DEBUG=INFO on, if its subsystems are asked for.
pub fn info(text: &str) {
    write(level::INFO, subsystem::INIT | subsystem::NET, text);
}

/// A line that NCCL prints from NCCL_DEBUG=WARN on.
pub fn warn(text: &str) {
    write(level::WARN, subsystem::NET, text);
}

fn write(level: c_int, subsystems: c_ulong, text: &str) {
    let Some(logger) = LOGGER.get() else { return };
    // A zero within would cut the line, no more.
    let line = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the format takes one string; all of them end with a zero and live until the call returns.
    unsafe { logger(level, subsystems, c"busbw".as_ptr(), 0, c"%s".as_ptr(), line.as_ptr()) };
}
