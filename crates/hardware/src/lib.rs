//! A machine and what it allows: its topology, the machine file that people write, the limits that follow,
//! what NCCL's own cost model predicts, and what to expect of networks that drop, hash, or must not drop; a fabric of
//! such machines, and what to expect of it.
//! Not the machine that this process runs on (`busbw-host`): nothing is read from /sys here.
#![forbid(unsafe_code)]

/// Flows that a hash puts onto equal links.
pub mod collisions;
/// A fabric as people write it, and the links that it is built of.
pub mod fabric;
/// A flow-level simulator.
pub mod flows;
/// What to expect of collectives on a fabric.
pub mod forecast;
/// Several senders to one port of a switch.
pub mod incast;
/// What the bytes of a collective allow on a machine.
pub mod limits;
/// Throughput where packets are lost.
pub mod loss;
/// What a network that must not drop needs.
pub mod lossless;
/// A machine as far as limits need it.
pub mod machine;
/// What to expect before a run.
pub mod prediction;
/// How long a lost path holds a job up.
pub mod recovery;
/// The tree of devices of a host, and the ways through it.
pub mod topology;
/// NCCL's own predictions, by version.
pub mod tuning;
