//! busbw's vocabulary and pure rules: types, sizes, factors, patterns, statistics, the record.
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
/// The eleven collectives and how they count elements.
pub mod collective;
/// What sets of runs say about each other.
pub mod comparison;
/// The alpha-beta cost model behind the `fake` backend.
pub mod cost;
/// Element types.
pub mod datatype;
/// Exit codes, one meaning each.
pub mod exit;
/// Faults that a run injects into itself on purpose.
pub mod fault;
/// Where every element of a receive buffer must have come from.
pub mod layout;
/// What the bytes of a collective allow on a machine.
pub mod limits;
/// A machine as far as limits need it.
pub mod machine;
/// What was measured, whoever wrote it down.
pub mod measurement;
/// Tests of messages between pairs of ranks.
pub mod messages;
/// What MPI says of who carries messages.
pub mod mpi_log;
/// What NCCL says of itself.
pub mod nccl_log;
/// Floating-point formats as integers: encoding, ordering, exact division.
pub mod number;
/// Reduction operators.
pub mod op;
/// The programs of the OSU Micro-Benchmarks.
pub mod osu;
/// What each pair of ranks reaches.
pub mod pairs;
/// Inputs and exact results as functions of seed, rank and index.
pub mod pattern;
/// What will be run: the typed result of reading options.
pub mod plan;
/// What is written down about a run.
pub mod record;
/// Byte sizes as people type them.
pub mod size;
/// Ranks that form separate communicators.
pub mod split;
/// Medians, intervals, drift, comparison, stopping.
pub mod stats;
/// The tree of devices of a host, and the ways through it.
pub mod topology;
/// NCCL's own predictions, by version.
pub mod tuning;

pub use benchmark::Benchmark;
pub use collective::Collective;
pub use datatype::DataType;
pub use op::ReduceOp;
