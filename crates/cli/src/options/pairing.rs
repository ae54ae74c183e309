//! Options that only `busbw pairs` has: which pairs, and what is measured of them.
//! Not those that it shares with benchmarks (`arguments`).

use clap::{Args, ValueEnum};

/// What `--only` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Only {
    /// Half a round trip of the first size.
    Latency,
    /// Messages of the last size, one way.
    Bw,
}

/// Options of `busbw pairs`.
#[derive(Debug, Clone, Default, Args)]
pub struct PairingArguments {
    /// Only ranks of the same place in different hosts: rail by rail
    #[arg(long, conflicts_with = "sample", help_heading = "Pairs")]
    pub rails: bool,
    /// Only so many peers for each rank, drawn (default: all up to 128 ranks, 16 beyond)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Pairs")]
    pub sample: Option<u32>,
    /// Only latency, or only bandwidth
    #[arg(long, value_name = "WHAT", help_heading = "Pairs")]
    pub only: Option<Only>,
    /// Exit with 1 when somebody is slower than the others
    #[arg(long, help_heading = "Pairs")]
    pub strict: bool,
}
