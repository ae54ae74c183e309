//! The collectives that a job called, as its libraries wrote them down: NCCL's log, NCCL Inspector's files, PyTorch's
//! flight recorder, busbw's profiler and its own records.
//! Not a measurement (`measurement`), and not what a search makes of it (`busbw-tune`).
//!
//! What several ranks report of one call counts once. Nothing is guessed: what cannot be told is left out with a reason,
//! and the number of such calls. Time is linear in the input, and memory is bounded (docs/trace.md).

mod call;
mod classes;
mod collected;
mod exchange;
mod flight_recorder;
mod inspector;
mod job;
mod nccl_log;
mod profiler;
mod reader;
mod record;
mod sequence;
mod sizes;

pub use call::{Call, Communicator, LeftOut, Operation, Reporter, Spacing, Trace, TraceSource};
pub use classes::{Class, Mix};
pub use reader::{Reader, TraceError};

#[cfg(test)]
mod tests;
