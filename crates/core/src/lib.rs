//! busbw's vocabulary and pure rules: types, sizes, factors, patterns, plan, record, exit codes.
//! No I/O, no clock, no unsafe: everything here is a function of its arguments.
#![forbid(unsafe_code)]

/// Ways to run a collective on one host, and which is fastest at which size.
pub mod algorithm;
/// Who sends how much to whom in alltoallv.
pub mod alltoallv;
/// From a measured time to algbw and busbw.
pub mod bandwidth;
/// What a run measures.
pub mod benchmark;
/// The collectives: a spec for each, how they count elements, and where those must have come from.
pub mod collective;
/// Tables as aligned columns.
pub mod columns;
/// The alpha-beta cost model behind the `fake` backend.
pub mod cost;
/// Element types.
pub mod datatype;
/// Variables of the environment that busbw itself reads.
pub mod environment;
/// Exit codes, one meaning each.
pub mod exit;
/// Faults that a run injects into itself on purpose.
pub mod fault;
/// What stands out, as data: the one form of every command that judges.
pub mod finding;
/// How busbw starts itself.
pub mod hidden_commands;
/// Tests of messages between pairs of ranks.
pub mod messages;
/// A release of NCCL, as written and ordered.
pub mod nccl_version;
/// Floating-point formats as integers: encoding, ordering, exact division.
pub mod number;
/// Reduction operators.
pub mod op;
/// Metrics as text for scrapers.
pub mod openmetrics;
/// The programs of the OSU Micro-Benchmarks.
pub mod osu;
/// What each pair of ranks reaches.
pub mod pairs;
/// Inputs and exact results as functions of seed, rank and index.
pub mod pattern;
/// What will be run: the typed result of reading options.
pub mod plan;
/// Text that is safe on a terminal.
pub mod printable;
/// Numbers with their units, as people read them.
pub mod quantity;
/// What is written down about a run.
pub mod record;
/// A word as a shell takes it.
pub mod shell;
/// Byte sizes as people type them.
pub mod size;
mod spelling;
/// Ranks that form separate communicators.
pub mod split;

pub use benchmark::Benchmark;
pub use collective::{Collective, layout};
pub use datatype::DataType;
pub use op::ReduceOp;
