//! Options of the commands that start no benchmark: they read a record, a text, or this machine.
//! Not those of benchmarks (`arguments`), nor of what runs several of them (`sweeping`).

use std::path::PathBuf;

use busbw_render::Units;
use clap::Args;

use super::table_form::units_words;

/// Options of `busbw show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArguments {
    /// A record file, or the id of a run in the data folder; without one, the newest run
    pub run: Option<PathBuf>,
    /// Print comma-separated values instead of the table
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print the record's lines instead of the table
    #[arg(long)]
    pub json: bool,
    /// Draw busbw over size, as wide as the terminal
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    pub plot: bool,
    /// Bandwidths of the table: GB/s, GiB/s or Gb/s [default: GB/s]
    #[arg(long, value_name = "UNIT", value_parser = units_words(), hide_possible_values = true, conflicts_with_all = ["csv", "json", "plot"])]
    pub units: Option<Units>,
}

/// Options of `busbw algorithms`.
#[derive(Debug, Clone, Args)]
pub struct AlgorithmsArguments {
    /// Ranks [default: with --measure one a core, otherwise all that were measured]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub ranks: Option<u16>,
    /// Measure every collective anew (seconds; needs 64 MiB a rank)
    #[arg(long)]
    pub measure: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw lint`.
#[derive(Debug, Clone, Args)]
pub struct LintArguments {
    /// Files to read: scripts, mpirun lines, YAML, env dumps; ids of runs, for their settings; `-` or nothing is stdin
    pub files: Vec<PathBuf>,
    /// NCCL version in use, such as 2.28.9, to name variables that it does not read [default: any]
    #[arg(long, value_name = "VERSION")]
    pub nccl: Option<String>,
    /// Print findings as JSON Lines
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArguments {
    /// Have N ranks, one a GPU, say what they see, and print what differs between them [default: this process alone]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub ranks: Option<u16>,
    /// NCCL library to use [default: BUSBW_NCCL, then the first that is found]
    #[arg(long, value_name = "PATH")]
    pub nccl: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArguments {
    /// Logs of nccl-tests, rccl-tests or OSU, NCCL_DEBUG=INFO logs, records, ids of runs; of a job that hangs flight-recorder
    /// dumps and files of busbw's profiler, or their folder; `-` is stdin; without one, what is piped in, else the newest run
    #[arg(value_name = "LOG|RECORD|DUMP")]
    pub sources: Vec<PathBuf>,
    /// Ask NCCL's RAS of a job that hangs; it is only read; it listens at localhost:28028, or at
    /// NCCL_RAS_ADDR [default: it is not asked]
    #[arg(long, value_name = "HOST:PORT")]
    pub ras: Option<String>,
    /// The machine: a ready machine's name, or any file that busbw topo reads; `-` is stdin [default: what the record or
    /// the log tells]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// Hosts, where neither the log nor the machine says how many there were [default: what they say]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub nodes: Option<usize>,
    /// List the ready machines that --machine knows, with the source of their figures, and explain nothing
    #[arg(long, conflicts_with_all = ["sources", "machine", "nodes", "verbose", "ras"])]
    pub list_machines: bool,
    /// Say everything: every finding with its evidence, what was assumed and what is missing
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Print GitHub-flavoured Markdown, such as for a bot's comment
    #[arg(long, conflicts_with_all = ["json", "verbose"])]
    pub markdown: bool,
    /// Print each explanation as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw topo`.
#[derive(Debug, Clone, Args)]
pub struct TopoArguments {
    /// A file: NCCL's or RCCL's topology or graph XML, the text of nvidia-smi topo -m, a machine or fabric file, JSON of
    /// busbw topo, a record; or the name of a ready machine; `-` is stdin; without one, this machine
    pub file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "xml")]
    pub json: bool,
    /// Write the XML that NCCL reads with NCCL_TOPO_FILE [default: to stdout]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub xml: Option<PathBuf>,
    /// Read /sys and /proc below DIR instead, as of a recorded machine; no driver is asked [default: /]
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub root: Option<PathBuf>,
}
