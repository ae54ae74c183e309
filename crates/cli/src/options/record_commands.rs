//! Commands that begin at what was measured before: their options and help.
//! Not which command was meant (`command_line`).

use std::path::PathBuf;

use clap::{Args, Command as Grammar};

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
    /// Compare with this reference (busbw references) as the baseline
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    pub with: Option<String>,
    /// Take the newest N runs of the history as further sides, the oldest of them first
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100))]
    pub last: Option<usize>,
    /// Exit with 1, and name the points, where one is less than RATIO times as fast as the baseline
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub fail_below: Option<f64>,
    /// Exit with 1 where a run reaches less than SHARE of what its hardware allows, such as 80%, and with 2 where that is
    /// not known; the baseline is not judged, unless it is the only side
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "by")]
    pub fail_below_limit: Option<f64>,
    /// The machine, for its limit: a ready machine's name, or any file that busbw topo reads
    #[arg(long, value_name = "NAME|FILE", requires = "fail_below_limit")]
    pub machine: Option<String>,
    /// Hosts, where neither the runs nor the machine say how many there were
    #[arg(long, value_name = "N", requires = "fail_below_limit", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub nodes: Option<usize>,
    /// Show how the bus bandwidth keeps up with the number of ranks instead
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

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| format!("'{text}' is no number such as 0.95"))?;
    if ratio > 0.0 && ratio <= 1.0 {
        return Ok(ratio);
    }
    Err(format!("{text} is no ratio: 0.95 fails what is more than 5 % slower"))
}

/// `80%` or `0.8`, as percent.
fn share(text: &str) -> Result<f64, String> {
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
    /// Only this collective, such as all_reduce
    #[arg(long, value_name = "NAME")]
    pub collective: Option<String>,
    /// Only runs whose host or device has this in its name
    #[arg(long, value_name = "NAME")]
    pub on: Option<String>,
    /// Only runs that began at this time or later: 2026-11-22, 2026-11-22T08:00 (Z or +02:00 for a zone), or
    /// how long ago: 2d, 3h
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only runs that did not end well
    #[arg(long)]
    pub failed: bool,
    /// One line for each launch of a sweep, instead of one for the sweep
    #[arg(long)]
    pub all: bool,
    /// List the runs that began before this time (30d, 2026-11-01), and remove them with --yes; what is no record stays
    #[arg(long, value_name = "TIME", conflicts_with = "newest")]
    pub prune: Option<String>,
    /// Remove what --prune lists
    #[arg(long, requires = "prune")]
    pub yes: bool,
    /// Only the newest N of these
    #[arg(short = 'n', long, value_name = "N")]
    pub newest: Option<usize>,
    /// Print each run as a line of JSON
    #[arg(long)]
    pub json: bool,
}

const LIST_HELP: &str = "A record that is damaged, or was cut, is listed as such.
Examples:
  busbw list --collective all_reduce -n 10
  busbw list --since 2026-11-01 --failed; busbw list --since 2d
  busbw show ID; busbw compare ID ID; busbw compare --last 2
  busbw list --prune 30d; busbw list --prune 30d --yes";

const COMPARE_HELP: &str = "Points are compared where test, type, operator, root, ranks, size and place are equal. \"same\", \"faster\" and \"slower\"
are said only where at least 4 launches a side tell (--repeat, or several runs a side), or, with fewer, 20 earlier
launches of the same on this machine; else \"inconclusive\" with what is missing. Ratios are of speeds: 1.05 is 5 % faster than the baseline.
--fail-below counts what launches or history call slower, and takes fewer than 4 launches as they are. It fails as well
where a point of the baseline is missing, data are wrong, or a run did not complete; what noise hides it names.
Examples:
  busbw compare before.jsonl after.jsonl --fail-below 0.95
  busbw compare nightly/monday nightly/tuesday --markdown
  busbw compare mine.log --with 8x-h200-nvlink
  busbw compare --last 2
  busbw compare tonight.jsonl --fail-below-limit 80%
  busbw compare --by nodes 1node.log 2nodes.log 4nodes.log
Exit codes: 0 compared, 1 a gate does not hold, or nothing was compared, 2 a side cannot be read, or --fail-below-limit finds no limit";

const IMPORT_HELP: &str = "What is recognised is kept, what is not is counted and shown. Each bandwidth is computed again from size,
time, collective and ranks; those that disagree, and a stated average that the rows do not give, are named.
Examples:
  busbw import all_reduce.log
  busbw import logs/ --json > runs.jsonl
  kubectl logs job/nccl-test | busbw import
Exit codes: 0 read, 2 a file that was named gives nothing, or no file of a folder does";

/// Their grammars.
pub(super) fn record_commands() -> [Grammar; 5] {
    [
        ImportArguments::augment_args(Grammar::new("import"))
            .about("Read logs and records of any benchmark: what is in them, and whether it agrees with itself")
            .after_help(IMPORT_HELP),
        CompareArguments::augment_args(Grammar::new("compare"))
            .about("Say which of several sets of runs is faster, and where the runs do not decide it")
            .after_help(COMPARE_HELP),
        ListArguments::augment_args(Grammar::new("list"))
            .about("List past runs: when, on what, how fast, and how they ended")
            .after_help(LIST_HELP),
        ReferencesArguments::augment_args(Grammar::new("references"))
            .about("List tables of known systems that runs can be compared with")
            .after_help("Examples:\n  busbw references\n  busbw compare mine.log --with 8x-h800-nvlink"),
        SchemaArguments::augment_args(Grammar::new("schema"))
            .about("Print the JSON schema of what a command writes")
            .after_help("Keys may be added without a new version; a reader ignores those that it does not know.\nExamples:\n  busbw schema\n  busbw schema explain > explain.json"),
    ]
}
