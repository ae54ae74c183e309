//! A machine and what it allows: its topology, the machine file that people write, the limits that follow,
//! and what NCCL's own cost model predicts.
//! Not the machine that this process runs on (`busbw-host`): nothing is read from /sys here.
#![forbid(unsafe_code)]

/// What the bytes of a collective allow on a machine.
pub mod limits;
/// A machine as far as limits need it.
pub mod machine;
/// The tree of devices of a host, and the ways through it.
pub mod topology;
/// NCCL's own predictions, by version.
pub mod tuning;
