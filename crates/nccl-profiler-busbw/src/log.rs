//! Lines in NCCL's log, by the function that it gives to `init` (v4 and newer), else on stderr.
//! Not the filter by level and subsystem, which is NCCL's. No event is logged.

use std::{
    ffi::{CString, c_int},
    sync::{Mutex, PoisonError},
};

use nccl_plugin_abi::{Logger, level, subsystem};

/// NCCL's function, while a communicator lives: then its library is loaded.
static LOGGER: Mutex<Option<Logger>> = Mutex::new(None);

/// Takes NCCL's function, or forgets it.
pub(crate) fn by(logger: Option<Logger>) {
    *LOGGER.lock().unwrap_or_else(PoisonError::into_inner) = logger;
}

/// Logs a line that NCCL prints with NCCL_DEBUG=INFO, if NCCL_DEBUG_SUBSYS includes INIT or PROFILE. Without NCCL's function
/// it is left out.
pub(crate) fn info(text: &str) {
    let _ = write(level::INFO, text);
}

/// Logs a line that NCCL prints with NCCL_DEBUG=WARN or INFO; without NCCL's function it is on stderr.
pub(crate) fn warn(text: &str) {
    if !write(level::WARN, text) {
        eprintln!("PROFILER/busbw: {text}");
    }
}

fn write(level: c_int, text: &str) -> bool {
    let logger = LOGGER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(logger) = *logger else { return false };
    // A zero byte would cut the line.
    let line =
        CString::new(format!("PROFILER/busbw: {text}").replace('\0', " ")).unwrap_or_default();
    let subsystems = subsystem::INIT | subsystem::PROFILE;
    // SAFETY: the format takes one string; all of them end with a zero and live until the call returns. The library is
    // loaded, since the lock is held and its last communicator makes us forget the function.
    unsafe { logger(level, subsystems, c"busbw".as_ptr(), 0, c"%s".as_ptr(), line.as_ptr()) };
    true
}
