//! Options of `busbw report`.
//! Not what a report holds (`busbw-report`).

use std::path::PathBuf;

use clap::Args;

/// Options of `busbw report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArguments {
    /// Records, logs of nccl-tests, rccl-tests or OSU, NCCL_DEBUG=INFO logs, results of sweep, transports,
    /// tune and check, files of the profiler, matrices of pairs, ids of runs in the data folder; `-` is
    /// stdin; without one, the newest run
    #[arg(value_name = "RECORD|LOG|RESULT")]
    pub sources: Vec<PathBuf>,
    /// The page to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Replace hosts, users, addresses, GUIDs and serial numbers, each always by the same word
    #[arg(long)]
    pub redact: bool,
    /// Overwrite the page if it is there
    #[arg(long)]
    pub force: bool,
    /// The page's title [default: what was measured]
    #[arg(long, value_name = "T")]
    pub title: Option<String>,
    /// The machine, for limits: a ready machine's name, a machine file (TOML), NCCL's topology (XML), or
    /// the text of nvidia-smi topo -m [default: what the sources tell]
    #[arg(long, value_name = "FILE|NAME|XML")]
    pub machine: Option<String>,
    /// Hosts, where neither the source nor the machine says how many there were [default: what they say]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub nodes: Option<usize>,
}
