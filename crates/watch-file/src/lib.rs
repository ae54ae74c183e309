//! What one process of a running job writes about its collectives: JSON Lines, one file a process.
//! Not taking the times (`nccl-profiler-busbw`), and not what they mean (`busbw watch`).
//!
//! docs/watch.md has the format with an example. A reader takes what it knows: a newer plugin may add kinds of lines and
//! fields; what it changes raises [`VERSION`].
#![forbid(unsafe_code)]

mod call;
mod line;
mod reading;

pub use self::{
    call::{Call, Calls, Class, OpenCall, Totals},
    line::{Communicator, End, GpuClock, Heartbeat, Line, Process, Steps},
    reading::{LONGEST_LINE, MOST_RANKS, Trouble, WatchFile},
};

/// The version of the format: of its first line.
pub const VERSION: u32 = 1;
