//! What NCCL and its plugins share in memory, and what busbw's net plugin counts.
//! No I/O, no clock, no unsafe: everything here is a function of its arguments.
#![forbid(unsafe_code)]

/// What NCCL and its plugins share in memory.
pub mod abi;
/// What busbw's net plugin counted.
pub mod net_stats;
