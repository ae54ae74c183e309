//! What NCCL and its plugins share in memory: tables of functions and what they take, as C lays them out; and the
//! format of what busbw's net plugin counts, which the plugin writes and the program reads.
//! Not calling them (`busbw-ffi`), and no plugin (`nccl-plugin-busbw`).
//!
//! A kind of plugin is a module: [`net`], [`tuner`], [`profiler`].
#![forbid(unsafe_code)]

pub mod net;
/// What busbw's net plugin counted.
pub mod net_stats;
pub mod profiler;
pub mod tuner;

use std::ffi::{c_char, c_int, c_ulong};

/// ncclResult_t (nccl.h): a number, since newer libraries have more of them than are named here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub c_int);

impl Status {
    /// ncclSuccess.
    pub const SUCCESS: Status = Status(0);
    /// ncclSystemError: a call to the system failed.
    pub const SYSTEM: Status = Status(2);
    /// ncclInternalError: a bug of the library's, or of the plugin's.
    pub const INTERNAL: Status = Status(3);
    /// ncclInvalidArgument.
    pub const INVALID_ARGUMENT: Status = Status(4);
    /// ncclInvalidUsage.
    pub const INVALID_USAGE: Status = Status(5);
    /// ncclRemoteError: the other side went away, or the network failed.
    pub const REMOTE: Status = Status(6);
}

/// ncclDebugLogger_t: level, subsystems, file, line, and a format of printf's with its arguments
/// (nccl_common.h).
pub type Logger = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// ncclDebugLogLevel, as a [`Logger`] takes it.
pub mod level {
    use std::ffi::c_int;

    /// NCCL_LOG_WARN.
    pub const WARN: c_int = 2;
    /// NCCL_LOG_INFO.
    pub const INFO: c_int = 3;
}

/// Bits of ncclDebugLogSubSys, as a [`Logger`] takes them.
pub mod subsystem {
    use std::ffi::c_ulong;

    /// NCCL_INIT.
    pub const INIT: c_ulong = 0x1;
    /// NCCL_NET.
    pub const NET: c_ulong = 0x10;
    /// NCCL_TUNING.
    pub const TUNING: c_ulong = 0x40;
    /// NCCL_PROFILE.
    pub const PROFILE: c_ulong = 0x4000;
}
