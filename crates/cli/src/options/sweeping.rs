//! The words of `sweep` and `transports`: which of them are the command's own, and which the benchmark's.
//! Not what the values mean: see `sweep::environment` and `transports::profile`.

use std::{ffi::OsString, path::PathBuf};

use busbw_analysis::sweep::Show;
use busbw_core::{Benchmark, Collective, messages::Messages, osu::Program};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{arguments::seconds, launching::LaunchingWords};
use busbw_lint::nearest::nearest;

/// `--show`'s words.
fn show_words() -> impl TypedValueParser<Value = Show> {
    PossibleValuesParser::new(Show::ALL.map(Show::name))
        .map(|word| Show::ALL.into_iter().find(|show| show.name() == word).unwrap_or_default())
}

/// What both commands take.
#[derive(Debug, Clone, Args)]
pub struct TurnArguments {
    /// Launches of each environment, in turns, each with fresh processes
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub launches: u32,
    /// Seconds for everything: cuts batches, iterations and launches, never sizes [default: no limit;
    /// transports: 240]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// What a cell shows [default: busbw; of messages their time or bandwidth]
    #[arg(long, value_name = "WHAT", value_parser = show_words())]
    pub show: Option<Show>,
    /// Compare with this one: its number, or its name [default: none; transports: the first that runs]
    #[arg(long, value_name = "WHICH")]
    pub baseline: Option<String>,
    /// Print comma-separated values, a line a cell
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print one JSON object, with every launch's time
    #[arg(long)]
    pub json: bool,
    /// Keep the records of all launches, and the result, in this folder [default: the data folder]
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_record")]
    pub record: Option<PathBuf>,
    /// Keep no record
    #[arg(long = "no-record")]
    pub no_record: bool,
    /// A collective, or a test of messages between two ranks
    #[arg(value_name = "BENCHMARK")]
    pub benchmark: String,
    /// The benchmark's own options, such as -b 1M -e 1G -f 4 or -H a:8,b:8
    #[arg(value_name = "OPTIONS", last = true)]
    pub bench: Vec<OsString>,
}

/// Options of `busbw sweep`.
#[derive(Debug, Clone, Args)]
pub struct SweepArguments {
    /// A variable and its values: `NCCL_MAX_NCHANNELS=8,16,unset`; all combinations of several are run
    #[arg(short = 'x', value_name = "NAME=VALUE,…", required = true)]
    pub variables: Vec<String>,
    /// The rest.
    #[command(flatten)]
    pub turns: TurnArguments,
}

/// Options of `busbw transports`.
#[derive(Debug, Clone, Args)]
pub struct TransportsArguments {
    /// Only these, by name or family: p2p,shm,socket [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Present one host to NCCL as this many nodes [default: 1]
    #[arg(long = "virtual-nodes", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub virtual_nodes: Option<u16>,
    /// A net plugin to try: its library [default: none]
    #[arg(long = "net-plugin", value_name = "PATH")]
    pub net_plugin: Option<PathBuf>,
    /// The rest.
    #[command(flatten)]
    pub turns: TurnArguments,
}

/// The commands whose words are sorted.
pub(super) const SWEEPING: [&str; 2] = ["sweep", "transports"];

/// Long options of both commands that a value follows.
const VALUED: [&str; 9] = [
    "launches",
    "time",
    "show",
    "baseline",
    "record",
    "only",
    "virtual-nodes",
    "net-plugin",
    "color",
];
/// Those that stand alone.
const ALONE: [&str; 4] = ["csv", "json", "no-record", "help"];

/// Puts the command's own words first, then the benchmark, then `--` and the benchmark's words: users
/// write them in any order. `-x` is the command's where an assignment follows; `-x 1` is nccl-tests' own.
pub(super) fn sorted(words: &[OsString]) -> Vec<OsString> {
    let (mut own, mut benchmark, mut bench) = (Vec::new(), None, Vec::new());
    let launching = LaunchingWords::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if text == "--" {
            // Users write it before or behind the benchmark; every word has its place without.
            continue;
        }
        let name = text.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long));
        let assigns = |next: Option<&&OsString>| {
            next.is_some_and(|next| next.to_string_lossy().contains('='))
        };
        let (is_own, takes_next) = match name {
            Some(name) if VALUED.contains(&name) => (true, !text.contains('=')),
            Some(name) if ALONE.contains(&name) => (true, false),
            _ if text == "-h" => (true, false),
            _ if text == "-x" => {
                let ours = benchmark.is_none() || assigns(rest.peek());
                (ours, ours)
            }
            _ if text.starts_with("-x") && text.contains('=') => (true, false),
            // Where the ranks run: the benchmark's own options, wherever they are.
            _ if let Some(takes_next) = launching.takes_next(&text) => {
                bench.push(word.clone());
                bench.extend(rest.next_if(|_| takes_next).cloned());
                continue;
            }
            // Before the benchmark there is nothing but our own: clap says what is wrong with it.
            _ => (benchmark.is_none() && text.starts_with('-'), false),
        };
        match (is_own, &benchmark) {
            (true, _) => {
                own.push(word.clone());
                own.extend(rest.next_if(|_| takes_next).cloned());
            }
            (false, None) => benchmark = Some(word.clone()),
            (false, Some(_)) => bench.push(word.clone()),
        }
    }
    own.extend(benchmark);
    if !bench.is_empty() {
        own.push("--".into());
        own.append(&mut bench);
    }
    own
}

impl TurnArguments {
    /// The benchmark of that name, with nccl-tests' `_perf` or without.
    ///
    /// # Errors
    /// The names there are, or why this one cannot be compared.
    pub fn benchmark(&self) -> Result<Benchmark, String> {
        let typed = &self.benchmark;
        let name = typed.split("_perf").next().unwrap_or("");
        match Benchmark::from_spelling(name) {
            Some(Benchmark::Pairs) => Err(format!(
                "{typed} gives a matrix, and this compares rows of sizes: run it in each environment by itself, or name latency or bw"
            )),
            Some(benchmark) => Ok(benchmark),
            None if let Some(program) = Program::find(typed) => Err(format!(
                "{typed} prints as OSU does, and this prints a table of its own: name {}, the same test",
                program.benchmark.name()
            )),
            None => {
                let names = Collective::every()
                    .map(Collective::name)
                    .chain(Messages::ALL.map(Messages::name));
                Err(match nearest(name, names.clone()) {
                    Some((_, near)) => {
                        format!("{typed} is no benchmark: did you mean {}?", near.join(" or "))
                    }
                    None => format!(
                        "{typed} is no benchmark: one of {}",
                        names.collect::<Vec<_>>().join(", ")
                    ),
                })
            }
        }
    }

    /// What cells show of a benchmark.
    ///
    /// # Errors
    /// When it has no such figure.
    pub fn shown(&self, benchmark: Benchmark) -> Result<Show, String> {
        let messages = benchmark.messages();
        let is_time = benchmark == Benchmark::Replay
            || messages.is_some_and(Messages::is_latency)
            || benchmark.collective().is_some_and(|c| !c.moves_data());
        match self.show {
            Some(Show::Algbw | Show::Busbw) if benchmark == Benchmark::Replay => {
                Err("--show: a replay has times: leave it out".to_owned())
            }
            Some(Show::Busbw) if messages.is_some() => Err(format!(
                "--show busbw: that is a figure of collectives; {} has algbw and time",
                benchmark.name()
            )),
            Some(show) => Ok(show),
            None if is_time => Ok(Show::Time),
            None if messages.is_some() => Ok(Show::Algbw),
            None => Ok(Show::Busbw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort(line: &str) -> String {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let sorted: Vec<String> =
            sorted(&words).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        sorted.join(" ")
    }

    #[test]
    fn words_in_any_order() {
        for (line, expected) in [
            ("-x A=1,2 all_reduce -b 8 -e 16", "-x A=1,2 all_reduce -- -b 8 -e 16"),
            ("all_reduce -b 8 -x A=1 --time 3s -x 1", "-x A=1 --time 3s all_reduce -- -b 8 -x 1"),
            ("all_reduce -xA=1 --json -n 2", "-xA=1 --json all_reduce -- -n 2"),
            ("--only=p2p alltoall --baseline shm", "--only=p2p --baseline shm alltoall"),
            ("-x A=1 --record x broadcast -- -d half", "-x A=1 --record x broadcast -- -d half"),
            ("-x A=1 -- all_reduce -b 8", "-x A=1 all_reduce -- -b 8"),
            ("-z 3 all_reduce", "-z 3 -- all_reduce"),
            ("--help", "--help"),
            ("-x", "-x"),
        ] {
            assert_eq!(sort(line), expected, "{line}");
        }
    }
}
