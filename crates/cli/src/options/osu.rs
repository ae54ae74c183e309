//! The grammar of OSU's names: `busbw osu_latency …`, and links named so. Options are theirs, read as they
//! read them; our own long options are taken, too.
//! Not defaults and not the plan (`planning::osu`).

mod help;
mod settings;
mod words;

use std::ffi::OsString;

use busbw_core::{
    osu::{PROGRAMS, Program},
    plan::{BackendChoice, Style},
};
use clap::{Args, Command as Grammar, FromArgMatches, error::ErrorKind};

pub use settings::OsuArguments;

use super::{BenchArguments, Command, kubernetes::KubernetesArguments};
use busbw_lint::nearest::nearest;

/// Our own long options that OSU's names take, beside those of `--launcher kubernetes`.
const OURS: [&str; 33] = [
    "ngpus",
    "nthreads",
    "timeout",
    "batches",
    "precision",
    "max-time",
    "row-time",
    "repeat",
    "csv",
    "json",
    "quiet",
    "verbose",
    "record",
    "no-record",
    "backend",
    "nccl",
    "mpi",
    "net",
    "reference",
    "bind",
    "share-gpus",
    "virtual-nodes",
    "interface",
    "proof",
    "fault",
    "seed",
    "launcher",
    "hosts",
    "hostfile",
    "np",
    "launcher-command",
    "dry-run",
    "yes",
];

/// Whether a name is one of OSU's, whether we have it or not.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with("osu_")
}

/// Reads the words behind one of OSU's names.
pub(super) fn parse(name: &str, words: &[OsString]) -> Result<Command, clap::Error> {
    let refuse = |why: String| clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n"));
    let program = Program::find(name).ok_or_else(|| refuse(absent(name)))?;
    let grammar = BenchArguments::augment_args(Grammar::new(name.to_owned()));
    let of_kubernetes = KubernetesArguments::augment_args(Grammar::new(""));
    let ours: Vec<(String, bool)> = grammar
        .get_arguments()
        .filter_map(|argument| Some((argument.get_long()?, argument.get_action().takes_values())))
        .filter(|(long, _)| {
            OURS.contains(long) || of_kubernetes.get_arguments().any(|a| a.get_long() == Some(long))
        })
        .map(|(long, takes)| (long.to_owned(), takes))
        .collect();
    let sorted = words::sort(program, words, &ours).map_err(refuse)?;
    let asked = |option| sorted.theirs.iter().any(|(letter, _)| *letter == option);
    if asked('h') {
        return Ok(Command::Text(help::text(program)));
    }
    let own = [OsString::from(name)].into_iter().chain(sorted.ours.iter().cloned());
    let own = BenchArguments::from_arg_matches(&grammar.try_get_matches_from(own)?)?;
    let settings = settings::read(program, &sorted).map_err(refuse)?;
    if asked('v') {
        let on_gpus = settings.accelerator.is_some() || settings.sides.contains(&true);
        let gpus = on_gpus.then(|| settings.accelerator.unwrap_or_default());
        let library = library(program, own.backend);
        return Ok(Command::Text(format!("{}\n", program.title_line(library, gpus))));
    }
    let text = |size: u64| Some(size.to_string());
    let arguments = BenchArguments {
        min_bytes: settings.sizes[0].and_then(text),
        max_bytes: settings.sizes[1].and_then(text),
        iterations: settings.iterations,
        warmup: settings.warmup,
        window: settings.window,
        osu: Some(Box::new(settings)),
        ..own
    };
    Ok(Command::Bench {
        benchmark: program.benchmark,
        style: Style::Osu,
        program: name.to_owned(),
        arguments: Box::new(arguments),
    })
}

/// The library that a title speaks of before anything has run.
fn library(program: &Program, backend: Option<BackendChoice>) -> &'static str {
    match backend {
        Some(backend) => backend.name(),
        None if program.is_xccl() => "nccl",
        None => "mpi",
    }
}

/// Why there is no program of that name.
fn absent(name: &str) -> String {
    let rest = name.trim_start_matches("osu_").trim_start_matches("xccl_");
    let any = |words: &[&str]| words.iter().any(|word| rest.starts_with(word));
    let ends = |words: &[&str]| words.iter().any(|word| rest.ends_with(word));
    let what = if any(&["put_", "get_", "acc_", "cas_", "fop_"]) {
        "one-sided messages"
    } else if any(&["neighbor_", "ineighbor_"]) {
        "neighborhood collectives"
    } else if ends(&["_persistent"]) {
        "persistent requests"
    } else if any(&["iall", "ibarrier", "ibcast", "igather", "ireduce", "iscatter"]) {
        "non-blocking collectives"
    } else if any(&["init", "hello"]) {
        "tests of MPI's start"
    } else if any(&["bw_fan_"]) {
        "tests of congestion: see busbw alltoall"
    } else if ends(&["latency_mt", "latency_mp"]) {
        "tests with several threads or processes a rank"
    } else if ends(&["allgatherv", "alltoallw", "gatherv", "scatterv"]) {
        "this collective with counts for each rank; the one without them is there"
    } else if any(&["oshm_", "upc"]) {
        "OpenSHMEM, UPC and UPC++"
    } else {
        let names = PROGRAMS.map(|program| program.name);
        return match nearest(name, names.into_iter()) {
            Some((_, near)) => format!("there is no {name}, perhaps {}", near.join(" or ")),
            None => format!("there is no {name}; there are {}", names.join(", ")),
        };
    };
    format!("{name}: busbw has no {what}")
}

#[cfg(test)]
mod tests;
