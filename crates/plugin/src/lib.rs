//! A network for NCCL and RCCL: what the library finds in `libnccl-net-busbw.so`.
//! Not loading such libraries (`native`).
//!
//! NCCL calls [`exported`], which calls a [`network::Network`]: `multipath`, or for comparison `reference`.

/// What a device of ours is.
pub mod devices;
/// The tables that NCCL finds, and their functions.
pub mod exported;
/// Lines in NCCL's log.
pub mod log;
/// busbw's own network.
pub mod multipath;
/// What a network is.
pub mod network;
/// NCCL's own way with sockets, for comparison.
pub mod reference;
