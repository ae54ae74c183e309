//! Options that only `busbw replay` has: which part of a trace, and whether its gaps are kept.
//! Not those that it shares with benchmarks (`arguments`); its words are the trace's files.

use clap::Args;

use super::arguments::seconds;

/// The most calls that one pass can have.
const MOST_CALLS: i64 = 1 << 16;

/// Options of `busbw replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArguments {
    /// At most so many calls, the last of the trace
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=MOST_CALLS), help_heading = "Replay")]
    pub calls: u32,
    /// At most so many seconds of the job, the last of the trace
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, help_heading = "Replay")]
    pub span: f64,
    /// Calls follow each other, without the job's time between them
    #[arg(long = "no-gaps", help_heading = "Replay")]
    pub no_gaps: bool,
}
