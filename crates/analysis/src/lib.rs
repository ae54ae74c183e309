//! What measurements say about each other and about the machine.
//! Not how they are read (`busbw-logs`), and nothing is measured.
#![forbid(unsafe_code)]

/// Whether a set of hosts is fit for a job.
pub mod check;
/// What sets of runs say about each other.
pub mod comparison;
/// What a measurement says.
pub mod explain;
/// What measurements on some hosts let expect on more.
pub mod extrapolation;
/// Why a job hangs.
pub mod hang;
/// Interfaces that are slow, or that share a link.
pub mod interfaces;
/// What the speed of a running job's calls is held against.
pub mod job_speeds;
/// A machine that a word of the command line names.
pub mod machine_argument;
/// What others measured.
pub mod references;
/// What a sweep measured.
pub mod sweep;
