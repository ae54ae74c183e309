//! Everyone's text becomes measurements: nccl-tests, rccl-tests, OSU, records, plain tables.
//! Not what a measurement means (`busbw-analysis`).
#![forbid(unsafe_code)]

mod flight_recorder;
/// What files tell of a job that hangs.
pub mod hang;
/// What others wrote.
pub mod import;
/// What was measured, whoever wrote it down.
pub mod measurement;
/// The collectives that a job called.
pub mod trace;
