//! This machine: what /proc, /sys, NVML and the drivers of adapters say of it, and what is wrong with it.
//! Not what it allows (`busbw-hardware`), and nothing is measured.
#![forbid(unsafe_code)]

/// What devices count meanwhile.
pub mod counters;
/// The preflight of a node.
pub mod doctor;
/// Whether others use it.
pub mod in_use;
/// What this machine is.
pub mod machine;
/// Whether several processes' kernels run side by side on a GPU.
pub mod mps;
/// What became of a process.
pub mod process_state;
/// Nodes as files, for tests of this and of other crates. As a feature that only tests switch on, it would have every crate
/// above this one built twice.
#[doc(hidden)]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod recorded;
/// What a host contributes to the preparation of a job on several.
pub mod survey;
/// What a pod's container says at its end.
pub mod termination_message;
/// The tree of devices of a host, and what it allows.
pub mod topo;
