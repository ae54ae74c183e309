//! What files tell of a job that hangs: which rank is in which call of which communicator, and what became of processes.
//! Not who is to blame (`busbw_analysis::hang`), and not what a job called in all (`trace`).
//!
//! Four kinds of evidence become one form: dumps of PyTorch's flight recorder, files of busbw's profiler, reports of NCCL's
//! RAS, and what logs say of failures. Nothing is guessed: what a file does not say stays absent, and what cannot be used is
//! a remark.

mod evidence;
mod log;
mod ras;
mod reader;
mod recorder;
mod same;
mod watch;

pub use evidence::{Call, Condition, Evidence, Group, Member, Message, Process, Progress, Source};
pub use ras::BY_RAS;
pub use reader::{EvidenceError, Parsed, Reader, is_evidence};

#[cfg(test)]
mod tests;
