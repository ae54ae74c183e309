//! perftest's names: `busbw ib_write_bw` and five others, with its letters and words (perftest 6.29). Both ends are
//! started by one command, so that there is no server to start and no host to connect to.
//! Not its loops (`busbw_runner`'s backend `verbs`), and not its bytes.

use std::{ffi::OsString, path::PathBuf};

use busbw_core::{
    fault::Fault,
    messages::Messages,
    plan::{BackendChoice, Style, Verb, VerbsOptions},
};
use busbw_render::Units;
use clap::{Args, Command as Grammar, FromArgMatches, error::ErrorKind};

use super::{BenchArguments, Command, launching::LaunchingArguments, rdma::RdmaArguments};

/// A program: its name, its verb, and whether it measures latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Program {
    name: &'static str,
    verb: Verb,
    latency: bool,
}

const fn program(name: &'static str, verb: Verb, latency: bool) -> Program {
    Program { name, verb, latency }
}

const PROGRAMS: [Program; 6] = [
    program("ib_write_bw", Verb::Write, false),
    program("ib_write_lat", Verb::Write, true),
    program("ib_read_bw", Verb::Read, false),
    program("ib_read_lat", Verb::Read, true),
    program("ib_send_bw", Verb::Send, false),
    program("ib_send_lat", Verb::Send, true),
];

/// perftest_parameters.h:103-106.
const DEFAULT_SIZE: [u64; 2] = [65_536, 2];
const DEFAULT_ITERATIONS: [u32; 2] = [5000, 1000];
/// The sizes of `-a` (perftest_parameters.c, usage).
const ALL_SIZES: (u64, u64) = (2, 1 << 23);

/// Its options that busbw has, and some of busbw's own.
#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
struct PerftestArguments {
    /// Not needed: both ends are started by this command (-H a,b)
    #[arg(value_name = "HOST", hide = true)]
    host: Option<String>,
    /// Sizes from 2 B to 8 MiB
    #[arg(short = 'a', long, conflicts_with = "size")]
    all: bool,
    /// Messages both ways at once
    #[arg(short = 'b', long)]
    bidirectional: bool,
    /// Repeat batches until so many seconds have passed [default: 5 batches]
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    duration: Option<u32>,
    /// Nothing: busbw says what the processors' frequency does
    #[arg(short = 'F', long = "CPU-freq", hide = true)]
    cpu_freq: bool,
    /// Messages of a batch, 5 to 65536 [default: 5000, or 1000 where latency is measured]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=65_536))]
    iters: Option<u32>,
    /// Nothing: the two ends meet by themselves
    #[arg(short = 'p', long, value_name = "PORT", hide = true)]
    port: Option<u32>,
    /// Bytes of a message [default: 65536, or 2 where latency is measured]
    #[arg(short = 's', long, value_name = "SIZE")]
    size: Option<String>,
    /// Gb/s in the table instead of GB/s
    #[arg(long = "report_gbits")]
    report_gbits: bool,
    /// Write perftest's JSON to perftest_out.json
    #[arg(long = "out_json")]
    out_json: bool,
    /// File of perftest's JSON [default: none]
    #[arg(long = "out_json_file", value_name = "FILE")]
    out_json_file: Option<PathBuf>,
    /// Batches of -n messages; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..), help_heading = "busbw's own")]
    batches: u32,
    /// Timeout of one wait, in seconds [default: none]
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32), help_heading = "busbw's own")]
    timeout: Option<u32>,
    /// Ranks, where no launcher says how many [default: 2]
    #[arg(short = 'g', long = "ngpus", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "busbw's own")]
    ranks: Option<u32>,
    /// Print comma-separated values instead of the table
    #[arg(long, conflicts_with = "json", help_heading = "busbw's own")]
    csv: bool,
    /// Print the record's lines instead of the table
    #[arg(long, help_heading = "busbw's own")]
    json: bool,
    /// Write the record here [default: the data folder; see busbw list]
    #[arg(long, value_name = "PATH", conflicts_with = "no_record", help_heading = "busbw's own")]
    record: Option<PathBuf>,
    /// Write no record
    #[arg(long = "no-record", help_heading = "busbw's own")]
    no_record: bool,
    /// Print the table and errors, and nothing else
    #[arg(long, conflicts_with = "verbose", help_heading = "busbw's own")]
    quiet: bool,
    /// Say on stderr what was chosen, and how each row was measured
    #[arg(long, help_heading = "busbw's own")]
    verbose: bool,
    #[arg(long, hide = true)]
    fault: Option<Fault>,
    #[arg(long, hide = true)]
    seed: Option<u64>,
    /// Its words that busbw's own commands have, too; [`LETTERS`] are its letters for them.
    #[command(flatten)]
    rdma: RdmaArguments,
    /// Where ranks are started.
    #[command(flatten)]
    launching: LaunchingArguments,
}

/// Its letters for options of [`RdmaArguments`], by their identifiers.
const LETTERS: [(&str, char); 15] = [
    ("connection", 'c'),
    ("ib_dev", 'd'),
    ("ib_port", 'i'),
    ("inline_size", 'I'),
    ("post_list", 'l'),
    ("mtu", 'm'),
    ("outs", 'o'),
    ("qp", 'q'),
    ("cq_mod", 'Q'),
    ("rx_depth", 'r'),
    ("rdma_cm", 'R'),
    ("sl", 'S'),
    ("tx_depth", 't'),
    ("qp_timeout", 'u'),
    ("gid_index", 'x'),
];

/// Whether a name is one of perftest's, whether we have it or not.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with("ib_")
}

/// The grammar of a program.
fn grammar(program: Program) -> Grammar {
    let about = format!(
        "{} of messages over RDMA ({}), as perftest's {} measures it",
        if program.latency { "Latency" } else { "Bandwidth" },
        program.verb.name(),
        program.name
    );
    let examples = format!(
        "Examples:\n  busbw {0} -H a,b                       two hosts, both ends started from here\n  busbw {0} -H a,b -d mlx5_0 -x 3 -a      one device, its address, all sizes\n\nDifferences from perftest: docs/verbs.md",
        program.name
    );
    let grammar = PerftestArguments::augment_args(Grammar::new(program.name));
    let lettered = LETTERS.into_iter().fold(grammar, |grammar, (name, letter)| {
        grammar.mut_arg(name, |arg| arg.short(letter).hide_short_help(false))
    });
    // The program's name says it.
    lettered.mut_arg("verb", |arg| arg.hide(true)).about(about).after_help(examples)
}

/// Reads the words behind one of perftest's names.
pub(super) fn parse(name: &str, words: &[OsString]) -> Result<Command, clap::Error> {
    let refuse = |why: String| clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n"));
    let Some(program) = PROGRAMS.iter().find(|program| program.name == name).copied() else {
        let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        return Err(refuse(format!(
            "there is no {name}; of perftest's programs busbw has {}",
            names.join(", ")
        )));
    };
    let words = [OsString::from(name)].into_iter().chain(words.iter().cloned());
    let matches = grammar(program).try_get_matches_from(words)?;
    let asked = PerftestArguments::from_arg_matches(&matches)?;
    if let Some(host) = &asked.host {
        return Err(refuse(format!(
            "'{host}': both ends are started by this command: use -H {host},OTHER, or any launcher (docs/launchers.md)"
        )));
    }
    if asked.rdma.verb.is_some_and(|verb| verb != program.verb) {
        return Err(refuse(format!("--verb: {name} is the program of {}", program.verb.name())));
    }
    if program.latency && asked.bidirectional {
        return Err(refuse(
            "-b is for bandwidth: a latency test goes back and forth anyway".to_owned(),
        ));
    }
    Ok(Command::Bench {
        benchmark: test(program, asked.bidirectional).into(),
        style: Style::Busbw,
        program: name.to_owned(),
        arguments: Box::new(arguments(program, asked)),
    })
}

fn test(program: Program, both_ways: bool) -> Messages {
    match (program.latency, both_ways) {
        (true, _) => Messages::Latency,
        (false, true) => Messages::BiBandwidth,
        (false, false) => Messages::Bandwidth,
    }
}

/// The same as busbw's own options.
fn arguments(program: Program, asked: PerftestArguments) -> BenchArguments {
    let kind = usize::from(program.latency);
    let iterations = asked.iters.unwrap_or(DEFAULT_ITERATIONS[kind]);
    let (first, last) = match (asked.all, &asked.size) {
        (true, _) => (ALL_SIZES.0.to_string(), ALL_SIZES.1.to_string()),
        (false, Some(size)) => (size.clone(), size.clone()),
        (false, None) => (DEFAULT_SIZE[kind].to_string(), DEFAULT_SIZE[kind].to_string()),
    };
    // A batch of bandwidth is one stream of -n messages.
    let (window, iterations) =
        if program.latency { (None, iterations) } else { (Some(i64::from(iterations)), 1) };
    let report = asked.out_json_file.or_else(|| asked.out_json.then(|| "perftest_out.json".into()));
    BenchArguments {
        backend: Some(BackendChoice::Verbs(VerbsOptions::default())),
        rdma: RdmaArguments { verb: Some(program.verb), ..asked.rdma },
        min_bytes: Some(first),
        max_bytes: Some(last),
        step_factor: Some(2),
        iterations: Some(i64::from(iterations)),
        warmup: Some(0),
        window,
        batches: Some(if asked.duration.is_some() { 1 } else { asked.batches }),
        // No sample is that precise: the time decides.
        precision: asked.duration.map(|_| f64::MIN_POSITIVE),
        max_time: asked.duration.map(f64::from),
        timeout: asked.timeout.map(i64::from),
        devices: asked.ranks.map(i64::from),
        units: asked.report_gbits.then_some(Units::Gigabits),
        json_report: report,
        csv: asked.csv,
        json: asked.json,
        record: asked.record,
        no_record: asked.no_record,
        quiet: asked.quiet,
        verbose: asked.verbose,
        fault: asked.fault,
        seed: asked.seed,
        launching: asked.launching,
        ..BenchArguments::default()
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::plan::Connection;

    use super::*;

    fn parsed(line: &str) -> Result<BenchArguments, clap::Error> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match parse(&words[0].to_string_lossy(), &words[1..])? {
            Command::Bench { arguments, .. } => Ok(*arguments),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn letters_are_perftests() {
        let line = "ib_write_bw -d mlx5_0 -i 1 -x 3 -s 4096 -n 1000 -q 4 -t 64 -Q 10 -m 4096 -c UC -F --report_gbits -l 8";
        let a = parsed(line).unwrap();
        assert_eq!(
            (a.min_bytes.as_deref(), a.window, a.iterations),
            (Some("4096"), Some(1000), Some(1))
        );
        assert_eq!(a.rdma.ib_dev.as_deref(), Some("mlx5_0"));
        assert_eq!((a.rdma.qp, a.rdma.tx_depth, a.rdma.cq_mod), (Some(4), Some(64), Some(10)));
        assert_eq!(
            (a.rdma.gid_index, a.rdma.mtu, a.rdma.post_list),
            (Some(3), Some(4096), Some(8))
        );
        assert_eq!(a.rdma.connection, Some(Connection::Uc));
        let a = parsed("ib_send_lat -a --out_json -H a,b").unwrap();
        assert_eq!((a.min_bytes.as_deref(), a.max_bytes.as_deref()), (Some("2"), Some("8388608")));
        assert_eq!((a.window, a.iterations), (None, Some(1000)));
        assert_eq!(a.json_report, Some("perftest_out.json".into()));
        assert!(a.launching.hosts.is_some());
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (line, why) in [
            ("ib_write_bw otherhost", "use -H otherhost,OTHER"),
            ("ib_atomic_bw", "of perftest's programs busbw has ib_write_bw"),
            ("ib_read_lat -b", "-b is for bandwidth"),
            ("ib_read_lat --verb write", "is the program of read"),
            ("ib_write_bw -n 4", "5..=65536"),
        ] {
            let refused = parsed(line).unwrap_err().to_string();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }

    #[test]
    fn help_names_every_option() {
        for program in PROGRAMS {
            let help = grammar(program).render_long_help().to_string();
            assert!(help.contains("--out_json_file") && help.contains("docs/verbs.md"), "{help}");
        }
    }
}
