//! Options of `busbw plugin`.
//! Not the plugin.

use clap::{Args, Subcommand, ValueEnum};

/// `busbw plugin`.
#[derive(Debug, Clone, Args)]
pub struct PluginArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// What can be done.
#[derive(Debug, Clone, Subcommand)]
pub enum PluginCommand {
    /// Write a plugin of busbw's out, and print its path: NCCL_NET_PLUGIN=$(busbw plugin path),
    /// NCCL_TUNER_PLUGIN=$(busbw plugin path tuner), NCCL_PROFILER_PLUGIN=$(busbw plugin path profiler)
    Path {
        /// Which one
        #[arg(value_name = "PLUGIN", default_value = "net")]
        plugin: PluginKind,
    },
    /// Hold a net plugin against what NCCL expects of it, rule by rule
    Check(CheckArguments),
}

/// A plugin of busbw's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PluginKind {
    /// The network, for NCCL_NET_PLUGIN
    Net,
    /// The choice by size, for NCCL_TUNER_PLUGIN
    Tuner,
    /// What a running job's calls take, for NCCL_PROFILER_PLUGIN
    Profiler,
}

/// `busbw plugin check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArguments {
    /// busbw (its own), or what NCCL_NET_PLUGIN takes: a file, or the word in libnccl-net-WORD.so
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
    /// The version of its table, 8 to 12 [default: the newest that it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=12))]
    pub table: Option<u32>,
    /// Only this rule; several times for several [default: all]
    #[arg(long, value_name = "NAME")]
    pub rule: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
