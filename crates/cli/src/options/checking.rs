//! The words of `busbw check`: which of them are its own, and which the collective's or the launcher's.
//! Not what is checked (`check`), and not the words of `plugin check` (`plugins`).

use std::{ffi::OsString, path::PathBuf};

use busbw_analysis::check::Check;
use busbw_core::Benchmark;
use clap::{
    Arg, Args, Command as Grammar,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{
    arguments::BenchArguments, kubernetes::HEADING as KUBERNETES, own_words::OwnWords,
    rdma::HEADING as RDMA, record_commands::share,
};

/// `--only`'s words.
fn check_words() -> impl TypedValueParser<Value = Check> {
    // Limit and baseline are asked for by options of their own.
    const NAMED: [Check; 5] =
        [Check::Doctor, Check::Settings, Check::Collective, Check::Pairs, Check::Transports];
    PossibleValuesParser::new(NAMED.map(Check::name))
        .map(|word| NAMED.into_iter().find(|check| check.name() == word).unwrap_or(Check::Doctor))
}

/// Options of `busbw check`.
#[derive(Debug, Clone, Args)]
pub struct CheckingArguments {
    /// Time for all of it: 60s, 10m, 1h
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub within: f64,
    /// Only these: doctor,settings,collective,pairs,transports [default: all]
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = check_words(), hide_possible_values = true)]
    pub only: Vec<Check>,
    /// An earlier run of the same collective: records, a folder of them, or a run's id [default: none]
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// The collective must reach this share of what the hardware allows, such as 80% [default: no gate]
    #[arg(long = "fail-below-limit", value_name = "SHARE", value_parser = share)]
    pub fail_below_limit: Option<f64>,
    /// The machine, for its limit: a name or file that busbw topo reads [default: the record's]
    #[arg(
        long,
        value_name = "NAME|FILE",
        hide_short_help = true,
        long_help = "The machine, for its limit: a name or file that busbw topo reads [default: the record's]"
    )]
    pub machine: Option<String>,
    /// Exit with 1 where something cannot be told, too
    #[arg(long = "fail-closed")]
    pub fail_closed: bool,
    /// Load GPUs and networks although others use them
    #[arg(long)]
    pub shared: bool,
    /// Ask nothing: load them as if the answer were yes
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write JUnit XML to this file, too [default: none]
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write OpenMetrics text to this file, too [default: none]
    #[arg(
        long,
        value_name = "FILE",
        hide_short_help = true,
        long_help = "Write OpenMetrics text to this file, too [default: none]"
    )]
    pub openmetrics: Option<PathBuf>,
    /// Keep the records of all launches, and the result, in this folder [default: none is kept]
    #[arg(
        long,
        value_name = "FOLDER",
        hide_short_help = true,
        long_help = "Keep the records of all launches, and the result, in this folder [default: none is kept]"
    )]
    pub record: Option<PathBuf>,
    /// The collective
    #[arg(value_name = "COLLECTIVE", default_value = "all_reduce")]
    pub benchmark: String,
    /// Where ranks are started (-H, --launcher), --backend, and the collective's options (-e 64M)
    #[arg(value_name = "OPTIONS", last = true)]
    pub bench: Vec<OsString>,
}

/// The command's word.
pub(super) const CHECK: &str = "check";

/// `60s`, `10m`, `1h`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    match number.trim_end().parse::<f64>() {
        Ok(value) if value > 0.0 && (value * unit).is_finite() => Ok(value * unit),
        _ => Err(format!("'{text}' is no time such as 60s, 10m or 1h")),
    }
}

/// Whether a word is a collective, however it is spelled.
fn is_collective(word: &str) -> bool {
    Benchmark::from_spelling(word).is_some_and(|benchmark| benchmark.collective().is_some())
}

/// Puts the command's own words first, then the collective, then `--` and the other words; the collective may be left out.
pub(super) fn sorted(words: &[OsString]) -> Vec<OsString> {
    let own = OwnWords {
        grammar: CheckingArguments::augment_args(Grammar::new("")),
        is_benchmark: is_collective,
        benchmarks: 1,
        assigns: false,
    };
    own.first(words)
}

/// The words that a launch of pairs shares with the collective's: where ranks are started, and on what.
pub fn words_of_pairs(words: &[OsString]) -> Vec<OsString> {
    let shared = |argument: &Arg| {
        let heading = argument.get_help_heading();
        matches!(heading, None | Some("Ranks" | "Libraries and devices" | KUBERNETES | RDMA))
            && argument.get_id() != "proof"
    };
    let grammar = BenchArguments::augment_args(Grammar::new(""));
    let mut kept = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let found = grammar.get_arguments().find(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let is_long = long.is_some_and(|long| text.split('=').next() == Some(long.as_str()));
            is_long || short.is_some_and(|s| text.starts_with(&s) && !text.starts_with("--"))
        });
        let Some(argument) = found else { continue };
        let whole = text.contains('=') || (!text.starts_with("--") && text.len() > 2);
        let value = match argument.get_action().takes_values() && !whole {
            true => rest.next(),
            false => None,
        };
        if shared(argument) {
            kept.push(word.clone());
            kept.extend(value.cloned());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn joined(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_in_any_order() {
        for (line, expected) in [
            ("-H a:8,b:8 --within 10m", "--within 10m -- -H a:8,b:8"),
            (
                "--within=60s all_gather -H a,b -e 1G --json",
                "--within=60s --json all_gather -- -H a,b -e 1G",
            ),
            ("--launcher ssh --yes AllReduce --np 4", "--yes AllReduce -- --launcher ssh --np 4"),
            ("-o sum --shared -- -g 2", "--shared -- -o sum -g 2"),
            ("--help", "--help"),
            ("--color never", "--color never"),
            ("", ""),
        ] {
            assert_eq!(joined(&sorted(&words(line))), expected, "{line}");
        }
    }

    #[test]
    fn pairs_have_the_ranks_and_the_backend_alone() {
        for (line, expected) in [
            ("-H a:8,b:8 -e 1G --backend net", "-H a:8,b:8 --backend net"),
            ("-b8 -e 64M -f2 -g 4 -o sum -c 1", "-g 4"),
            (
                "--launcher=ssh --minbytes 8 --interface=eth0 -T 5",
                "--launcher=ssh --interface=eth0 -T 5",
            ),
            ("--fault rank=1,do=slow:2 --row-time 2 --latency", "--fault rank=1,do=slow:2"),
        ] {
            assert_eq!(joined(&words_of_pairs(&words(line))), expected, "{line}");
        }
    }

    #[test]
    fn times_as_people_write_them() {
        let read = |text| duration(text).ok();
        assert_eq!(read("60s"), Some(60.0));
        assert_eq!(read("10m"), Some(600.0));
        assert_eq!(read("1.5h"), Some(5400.0));
        assert_eq!(read("90"), Some(90.0));
        for wrong in ["", "s", "-1s", "1d", "0", "inf", "NaN"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
