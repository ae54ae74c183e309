//! From a plan to a record: backends, measurement, ranks and their supervisor, outputs.
//! Not options (`busbw-cli`), and not what a record means.
#![forbid(unsafe_code)]

/// Who moves the bytes.
pub mod backend;
/// Where ranks run, and what becomes of them.
pub mod launch;
/// One rank's measurement.
pub mod measure;
/// What a run writes while it goes on.
pub mod outputs;
/// A plan, and what else was asked.
pub mod request;
/// Signals that end a run.
pub mod signals;
