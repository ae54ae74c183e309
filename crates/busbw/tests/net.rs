//! The `net` backend and `plugin check` on the net plugin of tests/shims: real processes, each bounded in time.
//! Not busbw's own plugin (crates/nccl-plugin-busbw).
#![forbid(unsafe_code)]
// clippy.toml allows this in test functions; everything in here serves one.
#![allow(clippy::unwrap_used)]

// How runs are started, watched and ended is that of tests/faults.rs.
#[allow(dead_code, reason = "not everything that faults need")]
#[path = "faults/aftermath.rs"]
mod aftermath;
#[allow(dead_code, reason = "not everything that faults need")]
#[path = "faults/bench.rs"]
mod bench;
#[allow(dead_code, reason = "not everything that faults need")]
#[path = "faults/traces.rs"]
mod traces;

#[path = "nccl/build.rs"]
mod build;
#[path = "net/check.rs"]
mod check;
#[path = "net/runs.rs"]
mod runs;
