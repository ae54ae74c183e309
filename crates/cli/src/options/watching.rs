//! Options of `busbw watch`: how a running job's collectives are.
//! Not reading its files, and not what they say (`busbw_watch`).

use std::{net::ToSocketAddrs, path::PathBuf};

use busbw_job::hosts::Hosts;
use clap::Args;

/// `busbw watch`.
pub(super) const WATCH: &str = "watch";

/// Options of `busbw watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchArguments {
    /// Folders or files that busbw's profiler writes [default: the newest job in the data folder]
    #[arg(value_name = "FOLDER|FILE")]
    pub sources: Vec<PathBuf>,
    /// Hosts of the job, whose files are read over ssh: hostA,hostB [default: this host alone]
    #[arg(short = 'H', long, value_name = "HOSTS")]
    pub hosts: Option<Hosts>,
    /// ssh with its own options, such as 'ssh -p 2222' [default: ssh]
    #[arg(
        long = "launcher-command",
        value_name = "WORDS",
        requires = "hosts",
        hide_short_help = true,
        long_help = "ssh with its own options, such as 'ssh -p 2222' [default: ssh]"
    )]
    pub launcher_command: Option<String>,
    /// The job of this process, where there are several [default: the only job]
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Print once and exit: 0 nobody is late, 1 somebody is late or hangs, 5 cannot tell [default: a page that follows the job]
    #[arg(long)]
    pub once: bool,
    /// What to hold speeds against: a record, a log, or the id of a run [default: no run]
    #[arg(long, value_name = "RUN")]
    pub against: Option<PathBuf>,
    /// The machine, for limits: a ready machine's name, or any file that busbw topo reads [default: no limits]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// Only the last part of the job, such as 60s [default: all of it with --once, else 60s]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub last: Option<f64>,
    /// Have the job's profilers record while this runs [default: no]
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        num_args = 0..=1,
        default_missing_value = "calls",
        hide_possible_values = true,
        hide_short_help = true,
        long_help = "Have the job's profilers record while this runs, by NCCL's RAS (NCCL 2.31), and set them back when it ends: `calls`, or `full` with the network's steps; --once then is about 10 s, or --last [default: no; calls where no value is given]"
    )]
    pub enable_profiling: Option<Recorded>,
    /// NCCL's RAS of the job, for --enable-profiling [default: localhost:28028]
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "enable_profiling",
        hide_short_help = true,
        long_help = "NCCL's RAS of the job, for --enable-profiling [default: localhost:28028]"
    )]
    pub ras: Option<String>,
    /// Answer scrapers of Prometheus at http://ADDRESS/metrics, such as 127.0.0.1:9400, until Ctrl-C [default: no]
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with_all = ["once", "json"])]
    pub prometheus: Option<String>,
    /// Write OpenMetrics text into FILE each time, for a textfile collector [default: no]
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Print JSON; a line each second without --once
    #[arg(long)]
    pub json: bool,
}

/// What profilers record while `watch --enable-profiling` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Recorded {
    /// Calls; times of kernels in communicators that begin from now on.
    Calls,
    /// Calls, all kernels and the network's steps.
    Full,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("a time such as 60s is expected".to_owned()),
    }
}

fn address(text: &str) -> Result<String, String> {
    match text.to_socket_addrs() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("an address and a port such as 127.0.0.1:9400 are expected".to_owned()),
    }
}
