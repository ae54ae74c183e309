//! Commands that begin at what was measured before: their options and help.
//! Not which command was meant (`command_line`).

use std::{convert::Infallible, path::PathBuf};

use busbw_core::Benchmark;
use clap::Args;

use crate::schemas::SCHEMAS;

/// Options of `busbw import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArguments {
    /// Logs and reports of nccl-tests, rccl-tests or OSU, NCCL_DEBUG=INFO logs, records, ids of runs, and folders of
    /// files; `-` is stdin; without one, what is piped in, else the newest run
    #[arg(value_name = "FILE")]
    pub sources: Vec<PathBuf>,
    /// Print each run as a folded record {run, rows, end}, a line each
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// Records, logs, folders of them, runs of the history, references; the first is the baseline. A
    /// side's runs are its launches
    #[arg(value_name = "A B")]
    pub sources: Vec<PathBuf>,
    /// Compare with this reference (busbw references) as the baseline [default: none, the first side is]
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    pub with: Option<String>,
    /// Take the newest N runs of the history as further sides, the oldest of them first [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100))]
    pub last: Option<usize>,
    /// Exit with 1, and name the points, where one is less than RATIO times as fast as the baseline [default: no gate]
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub fail_below: Option<f64>,
    /// Exit with 1 where a run reaches less than SHARE of its limit, such as 80%, and with 2 where no limit is known; a
    /// baseline beside other sides is not judged [default: no gate]
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "by")]
    pub fail_below_limit: Option<f64>,
    /// The machine, for its limit [default: the record's]
    #[arg(
        long,
        value_name = "NAME|FILE",
        requires = "fail_below_limit",
        hide_short_help = true,
        long_help = "The machine, for its limit: a ready machine's name, or any file that busbw topo reads [default: the record's]"
    )]
    pub machine: Option<String>,
    /// Hosts, where nothing says how many there were [default: by the runs]
    #[arg(long, value_name = "N", requires = "fail_below_limit", hide_short_help = true,
        long_help = "Hosts, where neither the runs nor the machine say how many there were [default: by these]", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub nodes: Option<usize>,
    /// Show how the bus bandwidth keeps up with the number of ranks instead [default: compare the sides]
    #[arg(long, value_name = "WHAT")]
    pub by: Option<By>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// What `compare` orders by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The size of the machine: nodes, and so ranks.
    Nodes,
}

/// A benchmark's name as records have it, or the part of one.
fn meant(word: &str) -> Result<String, Infallible> {
    let named = Benchmark::from_spelling(word).map(|benchmark| benchmark.name().to_owned());
    Ok(named.unwrap_or_else(|| word.to_owned()))
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| format!("'{text}' is no number such as 0.95"))?;
    if ratio > 0.0 && ratio <= 1.0 {
        return Ok(ratio);
    }
    Err(format!("{text} is no ratio: 0.95 fails what is more than 5 % slower"))
}

/// `80%` or `0.8`, as percent.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is no share of a limit such as 80% or 0.8");
    let share: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse().map_err(|_| wrong())?,
        None => text.parse::<f64>().map_err(|_| wrong())? * 100.0,
    };
    if share > 0.0 && share <= 100.0 { Ok(share) } else { Err(wrong()) }
}

/// Options of `busbw references`.
#[derive(Debug, Clone, Args)]
pub struct ReferencesArguments {
    /// Print each reference as a line of JSON, with its tables
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaArguments {
    /// Whose schema; without one, the names of all
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(SCHEMAS.iter().map(|one| one.name)))]
    pub name: Option<String>,
}

/// Options of `busbw list`.
#[derive(Debug, Clone, Args)]
pub struct ListArguments {
    /// Only this collective, such as all_reduce [default: all]
    #[arg(long, value_name = "NAME", value_parser = meant)]
    pub collective: Option<String>,
    /// Only runs whose host or device has this in its name [default: all]
    #[arg(long, value_name = "NAME")]
    pub on: Option<String>,
    /// Only runs that began at this time or later: 2026-11-22, 2026-11-22T08:00 (Z or +02:00 for a zone), or
    /// how long ago: 2d, 3h [default: all]
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only runs that did not end well
    #[arg(long)]
    pub failed: bool,
    /// One line for each launch of a sweep, instead of one for the sweep
    #[arg(long)]
    pub all: bool,
    /// List the runs that began before this time (30d, 2026-11-01), and remove them with --yes; what is no record stays
    /// [default: none]
    #[arg(long, value_name = "TIME", conflicts_with = "newest")]
    pub prune: Option<String>,
    /// Remove what --prune lists
    #[arg(long, requires = "prune")]
    pub yes: bool,
    /// Only the newest N of these [default: all]
    #[arg(short = 'n', long, value_name = "N")]
    pub newest: Option<usize>,
    /// Print each run as a line of JSON
    #[arg(long)]
    pub json: bool,
}
