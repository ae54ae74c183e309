//! NCCL's tuning model by version, 2.18 to 2.30: the time it predicts for each algorithm and protocol,
//! and so what it will choose. Source of every figure: NCCL's src/graph/tuning.cc of that release.
//! Not a limit (`limits`) and not a measurement: NCCL chooses by these times whether they come true.
//!
//! Units: microseconds, GB/s. Arithmetic is in 32-bit floats where NCCL's is, so that times agree to
//! the digits that it prints. Not covered, as in NCCL: symmetric memory, copy engines, sends and
//! receives, registered buffers.

pub mod communicator;
pub mod from_log;
pub mod inference;
pub mod table;
pub mod time;

mod bandwidth;
mod constants;
mod latency;
mod speeds;

pub use communicator::{CollNet, Communicator, Graph, Graphs, Version};
pub use from_log::from_log;
pub use inference::{Inferred, infer};
pub use table::{Entry, Protocol, Table};
pub use time::{Choice, Prediction};

#[cfg(test)]
mod worked_examples;
