//! The `nccl` backend on the shim libraries of tests/shims: everything of it but its timing. Real
//! processes, each bounded in time.
//! Not real GPUs: tests/gpu.sh runs there.
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
#[path = "faults/cells.rs"]
mod cells;
#[allow(dead_code, reason = "not everything that faults need")]
#[path = "faults/traces.rs"]
mod traces;

#[path = "nccl/build.rs"]
mod build;
#[path = "nccl/data.rs"]
mod data;
#[path = "nccl/groups.rs"]
mod groups;
#[path = "nccl/libraries.rs"]
mod libraries;
#[path = "nccl/log.rs"]
mod log;
#[path = "nccl/loss.rs"]
mod loss;
#[path = "nccl/options.rs"]
mod options;
#[path = "nccl/refusal.rs"]
mod refusal;
#[path = "nccl/rocm.rs"]
mod rocm;
#[path = "nccl/scale.rs"]
mod scale;
#[path = "nccl/shims.rs"]
mod shims;
