//! The grammar of every command, of which help, completions and manual pages are made.
//! Not which command was meant (`command_line`), nor the texts below options (`help`).

use std::{ffi::OsString, path::PathBuf};

use busbw_core::{
    Benchmark, Collective,
    hidden_commands::{
        AGENT, FINGERPRINT, LOG_FILTER, PARTNER, PROFILER_MASK, RANK, RULE, SURVEY, TIED,
        WATCH_FILES,
    },
    messages::Messages,
    plan::Style,
};
use busbw_render::answer::Colour;
use clap::{
    Args, Command as Grammar,
    builder::{PossibleValuesParser, TypedValueParser, styling},
};

use super::{
    arguments::BenchArguments,
    checking::{CHECK, CheckingArguments},
    defaults::with_defaults,
    help::{self, Below},
    installing::{COPY_TO, CompletionsArguments, FOLDER, ManArguments},
    overview::with_overview,
    pairing::PairingArguments,
    plugins::PluginArguments,
    predicting::{self, PLAN, PlanArguments},
    reading_commands::{
        AlgorithmsArguments, DoctorArguments, ExplainArguments, LintArguments, ShowArguments,
        TopoArguments,
    },
    record_commands::{
        CompareArguments, ImportArguments, ListArguments, ReferencesArguments, SchemaArguments,
    },
    replaying::ReplayArguments,
    reporting::ReportArguments,
    sweeping::{SweepArguments, TransportsArguments},
    tuning::{TUNE, TuneArguments},
    watching::{WATCH, WatchArguments},
};

/// `busbw help`.
pub(super) const HELP: &str = "help";
/// `busbw version`.
pub(super) const VERSION: &str = "version";
/// Those two, which have no help of their own.
#[cfg(test)]
pub(super) const WORDS: [&str; 2] = [HELP, VERSION];
/// The option `--color`.
pub(super) const COLOR: &str = "color";

/// The options of a benchmark that `-h` shows, so that it fits on a screen.
const BRIEF_OPTIONS: [&str; 15] = [
    "devices",
    "hosts",
    "min_bytes",
    "max_bytes",
    "step_factor",
    "iterations",
    "precision",
    "repeat",
    "latency",
    "op",
    "datatype",
    "json",
    "units",
    "quiet",
    "backend",
];
/// Those of pairs, which has two sizes and no operator.
const BRIEF_OPTIONS_OF_PAIRS: [&str; 9] =
    ["devices", "hosts", "min_bytes", "max_bytes", "backend", "json", "rails", "only", "strict"];

/// Those of a replay, whose sizes are the trace's.
const BRIEF_OPTIONS_OF_REPLAY: [&str; 10] = [
    "words", "devices", "hosts", "batches", "backend", "json", "units", "calls", "span", "no_gaps",
];

/// All commands that people type: what completions and manual pages are made of.
pub(crate) fn grammar() -> Grammar {
    let styles = styling::Styles::styled()
        .header(styling::AnsiColor::Green.on_default().bold())
        .usage(styling::AnsiColor::Green.on_default().bold())
        .literal(styling::AnsiColor::Cyan.on_default());
    let collectives = Collective::every().map(Benchmark::from);
    let benchmarks = collectives.chain(Messages::ALL.map(Benchmark::from));
    let benchmarks = benchmarks.chain(Benchmark::OTHERS);
    // The options of a benchmark are made only if it is the one that is asked for: every start reads this grammar.
    let benchmarks = benchmarks.map(|benchmark| {
        let grammar = Grammar::new(benchmark.name()).about(about(benchmark));
        grammar.defer(|grammar| match Benchmark::from_name(grammar.get_name()) {
            Some(benchmark) => bench_grammar(benchmark, grammar),
            None => grammar,
        })
    });
    let grammar = Grammar::new("busbw")
        .version(env!("CARGO_PKG_VERSION"))
        .about("How fast your GPUs really talk, how fast they could, and what stands between")
        .styles(styles)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(colour())
        .subcommands(benchmarks)
        .subcommands(commands());
    with_overview(help::EVERYTHING.under(grammar))
}

/// Those that nobody types: busbw starts itself with them, or a manifest says them.
pub(super) fn with_hidden(grammar: Grammar) -> Grammar {
    let hidden = |name: &'static str| Grammar::new(name).hide(true);
    let required = |name: &'static str| clap::Arg::new(name).required(true);
    let rank = clap::Arg::new("rank").value_parser(clap::value_parser!(usize)).required(true);
    let process = clap::Arg::new("process").value_parser(clap::value_parser!(usize)).required(true);
    let command = clap::Arg::new("command")
        .num_args(1..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .value_parser(clap::value_parser!(OsString))
        .required(true);
    let mask = clap::Arg::new("mask").value_parser(clap::value_parser!(u64)).required(true);
    let folder = clap::Arg::new(FOLDER).value_parser(clap::value_parser!(PathBuf)).required(true);
    let follow = clap::Arg::new("follow").long("follow").action(clap::ArgAction::SetTrue);
    let sources =
        clap::Arg::new("sources").num_args(0..).value_parser(clap::value_parser!(PathBuf));
    grammar
        .subcommand(hidden(FINGERPRINT).arg(rank))
        .subcommand(hidden(AGENT))
        .subcommand(hidden(SURVEY))
        .subcommand(hidden(WATCH_FILES).args([follow, sources]))
        .subcommand(hidden(PROFILER_MASK).args([required("address"), mask]))
        .subcommand(hidden(COPY_TO).arg(folder))
        .subcommand(hidden(LOG_FILTER))
        .subcommand(hidden(RULE).args([required("name"), required("asked")]))
        .subcommand(hidden(PARTNER).arg(required("asked")))
        .subcommand(hidden(TIED).arg(command))
        .subcommand(hidden(RANK).arg(process))
}

/// The commands that are no benchmarks.
fn commands() -> Vec<Grammar> {
    // Augmenting sets `about` to the struct's own, so ours comes after.
    let with =
        |grammar: Grammar, about: &'static str, below: &Below| below.under(grammar.about(about));
    vec![
        with(
            SweepArguments::augment_args(Grammar::new("sweep")),
            "Measure one job under several environments, as one table",
            &help::SWEEP,
        ),
        with(
            TransportsArguments::augment_args(Grammar::new("transports")),
            "Measure one job over each transport; prove which one ran",
            &help::TRANSPORTS,
        ),
        with(
            TuneArguments::augment_args(Grammar::new(TUNE)),
            "What to set: each change measured against what was before it",
            &help::TUNE,
        ),
        with(
            brief(PlanArguments::augment_args(Grammar::new(PLAN)), &predicting::BRIEF),
            "What to expect of machines and networks, before any run",
            &help::PLAN,
        ),
        with(
            WatchArguments::augment_args(Grammar::new(WATCH)),
            "How a running job's collectives are, and which rank is late",
            &help::WATCH,
        ),
        with(
            CheckingArguments::augment_args(Grammar::new(CHECK)),
            "Say whether a set of hosts is fit for a job, and who is not",
            &help::CHECK,
        ),
        with(
            ExplainArguments::augment_args(Grammar::new("explain")),
            "Say how good a log or record is, and what limits it",
            &help::EXPLAIN,
        ),
        with(
            CompareArguments::augment_args(Grammar::new("compare")),
            "Say which set of runs is faster, or what is missing to tell",
            &help::COMPARE,
        ),
        with(
            ReportArguments::augment_args(Grammar::new("report")),
            "Put results, checks and jobs on one page, to be sent",
            &help::REPORT,
        ),
        with(
            ShowArguments::augment_args(Grammar::new("show")),
            "Print a run's table again, from its record alone",
            &help::SHOW,
        ),
        with(
            ListArguments::augment_args(Grammar::new("list")),
            "List past runs: when, on what, how fast, and how they ended",
            &help::LIST,
        ),
        with(
            ImportArguments::augment_args(Grammar::new("import")),
            "Read logs and records of any benchmark: what is in them",
            &help::IMPORT,
        ),
        with(
            DoctorArguments::augment_args(Grammar::new("doctor")),
            "Look at this node: what is wrong, its cost, its remedy",
            &help::DOCTOR,
        ),
        with(
            TopoArguments::augment_args(Grammar::new("topo")),
            "Show how GPUs and NICs are joined, how fast, and what is wrong",
            &help::TOPO,
        ),
        with(
            LintArguments::augment_args(Grammar::new("lint")),
            "Find mistakes in NCCL_*, RCCL_* and UCX_* settings of scripts",
            &help::LINT,
        ),
        with(
            PluginArguments::augment_args(Grammar::new("plugin")),
            "busbw's net plugin for NCCL and RCCL; a check of any",
            &help::PLUGIN,
        ),
        with(
            AlgorithmsArguments::augment_args(Grammar::new("algorithms")),
            "Which algorithm the host backend takes at which size",
            &help::ALGORITHMS,
        ),
        with(
            ReferencesArguments::augment_args(Grammar::new("references")),
            "List tables of known systems that runs can be compared with",
            &help::REFERENCES,
        ),
        with(
            SchemaArguments::augment_args(Grammar::new("schema")),
            "Print the JSON schema of what a command writes",
            &help::SCHEMA,
        ),
        with(
            CompletionsArguments::augment_args(Grammar::new("completions")),
            "Print completions for bash, zsh, fish, elvish or powershell",
            &help::COMPLETIONS,
        ),
        with(
            ManArguments::augment_args(Grammar::new("man")),
            "Print the manual page of a command, or write all of them",
            &help::MAN,
        ),
        // Read before the grammar is asked (`getopt`); here for the list and for completions.
        Grammar::new(HELP).about("Print the help of a command").arg(clap::Arg::new("command")),
        Grammar::new(VERSION).about("Print the version"),
    ]
}

/// `--color`, of every command.
fn colour() -> clap::Arg {
    let words = [("auto", Colour::Auto), ("always", Colour::Always), ("never", Colour::Never)];
    clap::Arg::new(COLOR)
        .long(COLOR)
        .value_name("WHEN")
        .global(true)
        .hide_short_help(true)
        .default_value("auto")
        .hide_possible_values(true)
        .value_parser(PossibleValuesParser::new(words.map(|(word, _)| word)).map(move |word| {
            words.iter().find(|(name, _)| *name == word).map_or(Colour::Auto, |(_, colour)| *colour)
        }))
        .long_help(
            "Colours: always, never, or auto: where stdout is a terminal and NO_COLOR is not set",
        )
}

/// `grammar` with the options and the help of a benchmark.
pub(super) fn bench_grammar(benchmark: Benchmark, grammar: Grammar) -> Grammar {
    let is_old = Benchmark::from_name(grammar.get_name()).is_none();
    let below = match benchmark {
        Benchmark::Collective(_) if is_old => &help::NCCL_TESTS,
        Benchmark::Collective(Collective::Barrier) => &help::BARRIER,
        Benchmark::Collective(_) => &help::COLLECTIVES,
        Benchmark::Messages(_) => &help::MESSAGES,
        Benchmark::Pairs => &help::PAIRS,
        Benchmark::Replay => &help::REPLAY,
    };
    let mut grammar = BenchArguments::augment_args(grammar);
    if benchmark == Benchmark::Pairs {
        grammar = PairingArguments::augment_args(grammar);
    }
    if benchmark == Benchmark::Replay {
        grammar = of_replay(ReplayArguments::augment_args(grammar));
    }
    let style = if is_old { Style::NcclTests } else { Style::Busbw };
    // nccl-tests has neither letter, and rccl-tests has another -q.
    let grammar = match is_old {
        true => grammar
            .mut_arg("quiet", |quiet| quiet.short(None))
            .mut_arg("verbose", |verbose| verbose.short(None)),
        false => grammar,
    };
    let brief: &[&str] = match benchmark {
        Benchmark::Pairs => &BRIEF_OPTIONS_OF_PAIRS,
        Benchmark::Replay => &BRIEF_OPTIONS_OF_REPLAY,
        _ => &BRIEF_OPTIONS,
    };
    let grammar = self::brief(with_defaults(grammar, benchmark, style), brief);
    // Augmenting sets `about` to the struct's own, so ours comes after.
    below.under(grammar.about(about(benchmark))).disable_version_flag(true)
}

/// A benchmark's grammar as a replay has it: its words are files, and what the trace decides is not offered.
fn of_replay(grammar: Grammar) -> Grammar {
    const DECIDED: [&str; 16] = [
        "min_bytes",
        "max_bytes",
        "step_bytes",
        "step_factor",
        "datatype",
        "op",
        "root",
        "iterations",
        "aggregated",
        "blocking",
        "graph",
        "per_iteration",
        "per_iteration_skip",
        "cpu_time",
        "average",
        "latency",
    ];
    let grammar = DECIDED
        .into_iter()
        .fold(grammar, |grammar, name| grammar.mut_arg(name, |argument| argument.hide(true)));
    let passes = "Least number of passes over the calls";
    let grammar = grammar.mut_arg("batches", |batches| batches.help(passes));
    grammar.mut_arg("words", |words| {
        let help = "Files of a trace, or a folder of them";
        let words = words.value_name("TRACE").hide(false).required(true);
        words.help(help).long_help(help).help_heading("Trace")
    })
}

/// `grammar`, of whose options the short help shows these alone.
fn brief(grammar: Grammar, shown: &[&str]) -> Grammar {
    grammar.mut_args(|argument| {
        if shown.contains(&argument.get_id().as_str()) {
            return argument;
        }
        // Manual pages show the long help of what the short help hides.
        let long = argument.get_long_help().or(argument.get_help()).cloned();
        argument.hide_short_help(true).long_help(long.unwrap_or_default())
    })
}

fn about(benchmark: Benchmark) -> String {
    match benchmark {
        Benchmark::Collective(collective) => format!("Measure {}", collective.name()),
        Benchmark::Messages(test) => about_messages(test).to_owned(),
        Benchmark::Pairs => "Measure every pair of ranks; name slow links and hosts".to_owned(),
        Benchmark::Replay => {
            "Run a job's own collectives in their order, without the job".to_owned()
        }
    }
}

fn about_messages(test: Messages) -> &'static str {
    match test {
        Messages::Latency => "Measure the latency of messages between two ranks",
        Messages::Bandwidth => "Measure the bandwidth of messages from one rank to another",
        Messages::BiBandwidth => "Measure the bandwidth of messages, both ways at once",
        Messages::MultiBandwidth => "Measure bandwidth and message rate of several pairs at once",
        Messages::MultiLatency => "Measure the latency of several pairs at once",
    }
}
