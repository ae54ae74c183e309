//! A network for NCCL and RCCL: the symbols that they find in `libnccl-net-busbw.so`.
//! Not loading such libraries (`busbw-ffi`).
//!
//! NCCL calls [`exported`], which calls a [`network::Network`]: `multipath`, unless the library that links this crate
//! brings another one ([`exported::replace`]).

/// What a device of ours is.
pub mod devices;
/// The tables that NCCL finds, and their functions.
pub mod exported;
/// Why a call failed.
pub mod failure;
/// Lines in NCCL's log.
pub mod log;
/// busbw's own network.
pub mod multipath;
/// What a network is.
pub mod network;
/// The transport that BUSBW_NET asks for.
mod transport;
