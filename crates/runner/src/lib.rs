//! From a plan to a record: backends, measurement, ranks and their supervisor, outputs.
//! Not options (`busbw-cli`), and not what a record means.
#![forbid(unsafe_code)]

/// The backends, which move the bytes.
pub mod backend;
/// busbw's plugins for NCCL, as files.
pub mod embedded;
/// Starts and supervises ranks.
pub mod launch;
/// The measurement of one rank thread.
pub mod measure;
/// Everything that a run writes.
pub mod outputs;
/// The line that shows how much time is left.
pub mod progress_line;
/// What is to be run: a plan, libraries and outputs.
pub mod request;
/// Signals that end a run.
pub mod signals;
