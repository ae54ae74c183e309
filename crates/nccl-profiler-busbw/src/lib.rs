//! A profiler for NCCL: the symbols that it finds in `libnccl-profiler-busbw.so`, and what they record of a job's collectives.
//! Not the format of the file (`busbw-watch-file`), and not what it means (`busbw watch`).
//!
//! NCCL's call → `exported` (pointers) → `recorder` (slots without locks) → `writer` (a thread) → a file. docs/watch.md has the
//! rules that it keeps: the job goes on whatever happens here.

/// The tables that NCCL finds, and their functions.
pub mod exported;
/// The profiler's name and those of its variables.
pub mod names;

mod communicators;
mod event;
mod folder;
mod gpu_clock;
mod handle;
mod log;
mod memory;
mod places;
mod process_ends;
mod recorder;
mod setting;
mod slots;
mod steps;
mod timing;
mod writer;
