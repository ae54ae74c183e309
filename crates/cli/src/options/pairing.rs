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
    /// Only ranks with the same local rank, rail by rail
    #[arg(long, conflicts_with = "sample", help_heading = "Pairs")]
    pub rails: bool,
    /// Only K random peers for each rank [default: all up to 128 ranks, 16 beyond]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Pairs")]
    pub sample: Option<u32>,
    /// Only latency, or only bw [default: both]
    #[arg(long, value_name = "WHAT", hide_possible_values = true, help_heading = "Pairs")]
    pub only: Option<Only>,
    /// Exit with 1 if a rank, host or link is slower than the rest
    #[arg(long, help_heading = "Pairs")]
    pub strict: bool,
    /// Over RDMA between hosts: fill links that others use now, too [default: such a matrix is refused]
    #[arg(long, help_heading = "Pairs")]
    pub shared: bool,
}
