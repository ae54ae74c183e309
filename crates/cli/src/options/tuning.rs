//! The words of `busbw tune`: which of them are its own, and which the collectives' or the launcher's.
//! Not what is tried (`busbw_tune`), and not how (`tune`).

use std::{ffi::OsString, path::PathBuf};

use busbw_core::Benchmark;
use clap::{Args, Command as Grammar};

use super::{checking::duration, own_words::OwnWords};

/// Seconds of a search and of a ladder where the user says nothing.
const SEARCH_S: f64 = 300.0;
const LADDER_S: f64 = 600.0;
/// The most collectives of one search.
const MAX_COLLECTIVES: usize = 16;

/// Options of `busbw tune`.
#[derive(Debug, Clone, Args)]
pub struct TuneArguments {
    /// Search all settings together, by a model of what was measured, instead of rung by rung
    #[arg(long)]
    pub search: bool,
    /// Time for all of it [default: 10m; with --search 5m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time: Option<f64>,
    /// Launches at most, the final comparison among them
    #[arg(
        long,
        value_name = "N",
        default_value = "300",
        hide_short_help = true,
        long_help = "Launches at most, the final comparison among them"
    )]
    pub trials: usize,
    /// A variable and the values to try: `NCCL_IB_TC=unset,106` [default: the usual ones]
    #[arg(short = 'x', value_name = "NAME=VALUE,…", allow_hyphen_values = true)]
    pub values: Vec<String>,
    /// Ask nothing: load GPUs and networks as if the answer were yes
    #[arg(long)]
    pub yes: bool,
    /// Load GPUs and networks although others use them
    #[arg(long)]
    pub shared: bool,
    /// From which every random choice of --search follows
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        hide_short_help = true,
        long_help = "From which every random choice of --search follows"
    )]
    pub seed: u64,
    /// Go on with an interrupted one: the file that it named [default: a new one]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["search", "values", "seed", "trials"])]
    pub resume: Option<PathBuf>,
    /// Print what a tuner's file, or that of a tuning by its id, makes NCCL choose, and launch nothing [default: tune]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["search", "resume"])]
    pub show: Option<PathBuf>,
    /// Of --show, for communicators of so many ranks [default: all]
    #[arg(
        long,
        value_name = "N",
        requires = "show",
        hide_short_help = true,
        long_help = "Of --show, for communicators of so many ranks [default: all]"
    )]
    pub ranks: Option<u32>,
    /// Of --show, for communicators of so many nodes [default: all]
    #[arg(
        long,
        value_name = "M",
        requires = "show",
        hide_short_help = true,
        long_help = "Of --show, for communicators of so many nodes [default: all]"
    )]
    pub nodes: Option<u32>,
    /// Print one JSON object, with every launch
    #[arg(long)]
    pub json: bool,
    /// Keep the state, the result and the records of all launches in this folder [default: the state alone, in the data folder]
    #[arg(
        long,
        value_name = "FOLDER",
        hide_short_help = true,
        long_help = "Keep the state, the result and the records of all launches in this folder [default: the state alone, in the data folder]"
    )]
    pub record: Option<PathBuf>,
    /// Weigh sizes as a job calls them: NCCL's log (COLL), Inspector's or our profiler's files, flight-recorder dumps, records [default: all alike]
    #[arg(long, value_name = "FILES")]
    pub trace: Vec<PathBuf>,
    /// Measure such a job's calls without the job, under the defaults and under --with [default: tune]
    #[arg(long, value_name = "FILES", conflicts_with_all = ["search", "resume", "trace", "show"])]
    pub replay: Vec<PathBuf>,
    /// Of --replay, the result of a tuning whose recommendation is measured [default: what -x sets]
    #[arg(
        long,
        value_name = "FILE",
        requires = "replay",
        hide_short_help = true,
        long_help = "Of --replay, the result of a tuning whose recommendation is measured [default: what -x sets]"
    )]
    pub with: Option<PathBuf>,
    /// What to tune for: collectives, or tests of messages [default: all_reduce; with --trace, those in it]
    #[arg(value_name = "COLLECTIVE")]
    pub benchmarks: Vec<String>,
    /// Where ranks are started (-H, --launcher), --backend, and the collectives' options (-b 1M -e 1G)
    #[arg(value_name = "OPTIONS", last = true)]
    pub bench: Vec<OsString>,
}

impl TuneArguments {
    /// Seconds for all of it.
    pub fn seconds(&self) -> f64 {
        self.time.unwrap_or(if self.search { SEARCH_S } else { LADDER_S })
    }
}

/// The command's word.
pub(super) const TUNE: &str = "tune";

/// Whether a word is something to tune for, however it is spelled.
fn is_tunable(word: &str) -> bool {
    Benchmark::from_spelling(word).is_some_and(|benchmark| !Benchmark::OTHERS.contains(&benchmark))
}

/// Puts the command's own words first, then the collectives, then `--` and the other words.
pub(super) fn sorted(words: &[OsString]) -> Vec<OsString> {
    let own = OwnWords {
        grammar: TuneArguments::augment_args(Grammar::new("")),
        is_benchmark: is_tunable,
        benchmarks: MAX_COLLECTIVES,
        assigns: true,
    };
    own.first(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_any_order() {
        for (line, expected) in [
            ("all_reduce --search -b 1M -e 1G", "--search all_reduce -- -b 1M -e 1G"),
            (
                "--search all_gather reduce_scatter -x NCCL_IB_TC=106 --time 10m -g 2",
                "--search -x NCCL_IB_TC=106 --time 10m all_gather reduce_scatter -- -g 2",
            ),
            ("-x 1 --yes", "--yes -- -x 1"),
            ("-H a:8,b:8 AllReduce --json", "--json AllReduce -- -H a:8,b:8"),
            ("--resume tune.json", "--resume tune.json"),
            ("-xNCCL_ALGO=Ring --help", "-xNCCL_ALGO=Ring --help"),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let sorted: Vec<String> =
                sorted(&words).iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(sorted.join(" "), expected, "{line}");
        }
    }
}
