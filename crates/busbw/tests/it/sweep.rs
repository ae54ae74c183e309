//! `busbw sweep` and `busbw transports`: real launches on the host, on a cost model, and on the shim libraries
//! of tests/shims. Each is bounded in time.
//! Not real transports: those need GPUs.

pub mod command;
mod ends;
mod environments;
mod transports;
