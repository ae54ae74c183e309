//! A command line as clap reads it, from one as people and nccl-tests' scripts write it: the program's name as a
//! command, other spellings of it, prefixes of long options. Not what it means (`command_line`).

use std::{ffi::OsString, path::Path};

use busbw_core::Benchmark;
use clap::{Args, Command as Grammar};

use super::{
    arguments::BenchArguments,
    checking::{self, CHECK},
    command_line::old_name,
    grammar::{HELP, VERSION},
    osu,
    sweeping::{SWEEPING, sorted},
    tuning::{self, TUNE},
};

/// Puts the program's own name, when it is an old one, in front as a command, and writes prefixes
/// of nccl-tests' long options out, as getopt_long does.
pub(super) fn canonical(mut args: Vec<OsString>) -> Vec<OsString> {
    let called = args
        .first()
        .and_then(|path| Path::new(path).file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    if old_name(&called).is_some() || osu::is_name(&called) {
        args.insert(1, called.into());
    }
    if args.get(1).is_some_and(|word| word == HELP) {
        // `busbw help all_reduce` is `busbw all_reduce --help`, of any name that there is.
        args.remove(1);
        args.push("--help".into());
    }
    if args.get(1).is_some_and(|word| word == VERSION) {
        args[1] = "--version".into();
    }
    if let Some(name) = args.get(1).and_then(|word| word.to_str()).and_then(respelled) {
        args[1] = name.into();
    }
    if args.get(1).and_then(|word| word.to_str()).is_some_and(|word| SWEEPING.contains(&word)) {
        let words = sorted(&args.split_off(2));
        args.extend(words);
    }
    if args.get(1).is_some_and(|word| word == CHECK) {
        let words = checking::sorted(&args.split_off(2));
        args.extend(words);
    }
    if args.get(1).is_some_and(|word| word == TUNE) {
        let words = tuning::sorted(&args.split_off(2));
        args.extend(words);
    }
    let is_bench = args
        .get(1)
        .and_then(|word| word.to_str())
        .is_some_and(|word| Benchmark::from_name(word).is_some() || old_name(word).is_some());
    if is_bench {
        for word in args.iter_mut().skip(2).take_while(|word| *word != "--") {
            if let Some(whole) = word.to_str().and_then(write_out) {
                *word = whole.into();
            }
        }
    }
    args
}

/// The name that is meant by `AllReduce`, `all-reduce` or `allreduce_perf`; none of a name that is one.
fn respelled(word: &str) -> Option<String> {
    if Benchmark::from_name(word).is_some() || old_name(word).is_some() {
        return None;
    }
    let (name, suffix) = word.split_at(word.find("_perf").unwrap_or(word.len()));
    Some(Benchmark::from_spelling(name)?.name().to_owned() + suffix)
}

/// `--minb=8` as `--minbytes=8`: only where exactly one of nccl-tests' names begins like that and
/// no option has that very name.
fn write_out(word: &str) -> Option<String> {
    let typed = word.strip_prefix("--").filter(|rest| !rest.is_empty())?;
    let (name, value) = match typed.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (typed, None),
    };
    let grammar = BenchArguments::augment_args(Grammar::new(""));
    let names: Vec<&str> = grammar.get_arguments().filter_map(|a| a.get_long()).collect();
    if names.contains(&name) || name == "help" {
        return None;
    }
    // nccl-tests' long options have a short form; of ours only these.
    let mut theirs = grammar
        .get_arguments()
        .filter(|a| a.get_short().is_some_and(|short| !['H', 'q', 'v'].contains(&short)))
        .filter_map(|a| a.get_long())
        .chain(["help"])
        .filter(|long| long.starts_with(name));
    let (only, more) = (theirs.next()?, theirs.next());
    if more.is_some() {
        return None;
    }
    Some(value.map_or_else(|| format!("--{only}"), |value| format!("--{only}={value}")))
}
