//! `busbw sweep` and `busbw transports`: real launches on the host, on a cost model, and on the shim libraries
//! of tests/shims. Each is bounded in time.
//! Not real transports: those need GPUs.
#![forbid(unsafe_code)]
// clippy.toml allows this in test functions; everything in here serves one.
#![allow(clippy::unwrap_used)]

#[path = "nccl/build.rs"]
mod build;
#[path = "sweep/command.rs"]
mod command;
#[path = "sweep/ends.rs"]
mod ends;
#[path = "sweep/environments.rs"]
mod environments;
#[path = "sweep/transports.rs"]
mod transports;
