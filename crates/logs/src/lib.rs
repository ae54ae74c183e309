//! Everyone's text becomes measurements: nccl-tests, rccl-tests, OSU, records, plain tables.
//! Not what a measurement means (`busbw-analysis`).
#![forbid(unsafe_code)]

/// What others wrote.
pub mod import;
/// What was measured, whoever wrote it down.
pub mod measurement;
/// The collectives that a job called.
pub mod trace;
