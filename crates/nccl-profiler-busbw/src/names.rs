//! The profiler's name, and those of the variables that it reads.
//! Not their values (`setting`).

use std::ffi::CStr;

/// What NCCL's log calls this profiler.
pub const PROFILER: &CStr = c"busbw";
/// `off`: nothing is recorded. `standby`: nothing until RAS asks. Unset: calls and the times of their kernels. `sampled`: of small calls that follow one another
/// closely few kernels (`timing`). `full`: the network's steps too.
pub const VARIABLE: &str = "BUSBW_WATCH";
/// The folder of the files. It may lie on a network file system, since it is named.
pub const FOLDER: &str = "BUSBW_WATCH_DIR";
