//! A tuner for NCCL: the symbols that it finds in `libnccl-tuner-busbw.so`.
//! Not the file that it reads (`busbw-tuner-file`), nor finding what belongs into it (`busbw-tune`).
//!
//! Without BUSBW_TUNER it does nothing. docs/tuner.md has the rules that it keeps.

/// A tuner that was configured before this one.
pub mod before;
/// The tables that NCCL finds, and their functions.
pub mod exported;
/// Lines in NCCL's log.
mod log;
/// The tuner's name and those of its variables.
pub mod names;
/// What the program itself wants its next calls to have.
pub mod next_calls;
/// The variables and the file.
pub mod setting;
/// What a communicator's tuner has, and what it answers.
pub mod tuner;
