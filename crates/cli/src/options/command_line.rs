//! Which command was meant: by the name the program was called by, and by the first word.
//! Not getopt's habits (`getopt`), nor the meaning of a benchmark's options (`arguments`, `planning`).

use busbw_core::hidden_commands::{AGENT, FINGERPRINT, LOG_FILTER, PARTNER, RANK, RULE, TIED};
use std::ffi::OsString;

use busbw_core::{Benchmark, Collective, messages::Messages, plan::Style};
use busbw_render::answer::{Colour, set_colour};
use clap::{
    ArgMatches, Args, ColorChoice, Command as Grammar, FromArgMatches,
    builder::{PossibleValuesParser, TypedValueParser, styling},
};

use super::{
    arguments::BenchArguments,
    defaults::with_defaults,
    getopt::canonical,
    help::{self, Below},
    installing::{CompletionsArguments, ManArguments},
    launching::without_launching,
    osu,
    overview::with_overview,
    pairing::PairingArguments,
    plugins::PluginArguments,
    reading_commands::{
        AlgorithmsArguments, DoctorArguments, ExplainArguments, LintArguments, ShowArguments,
        TopoArguments,
    },
    record_commands::{
        CompareArguments, ImportArguments, ListArguments, ReferencesArguments, SchemaArguments,
    },
    reporting::ReportArguments,
    sweeping::{SweepArguments, TransportsArguments},
};

/// What the program is to do.
#[derive(Debug)]
pub enum Command {
    /// Measure something.
    Bench {
        /// What.
        benchmark: Benchmark,
        /// By whose name, hence with whose defaults.
        style: Style,
        /// The name for the first and last lines.
        program: String,
        /// The options.
        arguments: Box<BenchArguments>,
    },
    /// Print this.
    Text(String),
    /// Print a record.
    Show(ShowArguments),
    /// Print, or measure, which algorithm is fastest at which size.
    Algorithms(AlgorithmsArguments),
    /// Look for mistakes in scripts and environments.
    Lint(LintArguments),
    /// Look at this node.
    Doctor(DoctorArguments),
    /// Say what logs and records hold.
    Import(ImportArguments),
    /// Say which tables of others are shipped.
    References(ReferencesArguments),
    /// The JSON schema of what a command writes.
    Schema(SchemaArguments),
    /// Print a shell's completions.
    Completions(CompletionsArguments),
    /// Print manual pages.
    Man(ManArguments),
    /// List past runs.
    List(ListArguments),
    /// Say which of several sets of runs is faster.
    Compare(CompareArguments),
    /// Say what logs and records mean.
    Explain(ExplainArguments),
    /// Write runs as a page.
    Report(ReportArguments),
    /// busbw's net plugin, or a look at any.
    Plugin(PluginArguments),
    /// Show the tree of a host's devices.
    Topo(TopoArguments),
    /// Measure one job under several environments.
    Sweep(Box<SweepArguments>),
    /// Measure one job over each transport.
    Transports(Box<TransportsArguments>),
    /// Be a rank that `doctor` asks for its fingerprint.
    Fingerprint {
        /// Which.
        rank: usize,
    },
    /// Start the processes of a host, as the busbw at the other end of stdin says.
    Agent,
    /// Read what MPI says on stdin: keep what names transports, pass on what is for the user.
    LogFilter,
    /// Walk one rule of `plugin check`.
    PluginRule {
        /// Which.
        name: String,
        /// The plugin.
        asked: String,
    },
    /// Be the other process of such a rule.
    PluginPartner {
        /// The plugin.
        asked: String,
    },
    /// Become another program, which ends with the process that started us.
    Tied(Vec<OsString>),
    /// Be a rank: started by a supervisor only.
    Rank {
        /// Which of its processes.
        process: usize,
    },
}

/// The words that every process of a launcher gets behind our program's name: those that we were started
/// with, but for what concerns the launcher.
pub fn job_words(args: &[OsString]) -> Vec<OsString> {
    without_launching(canonical(args.to_vec()).split_off(1))
}

/// Reads the command line.
///
/// # Errors
/// clap's own, which also stand for `--help` and `--version`: print and exit as it says.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let args = canonical(args.into_iter().collect());
    let called = args.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if osu::is_name(&called) {
        return osu::parse(&called, args.get(2..).unwrap_or_default());
    }
    let mut grammar = with_hidden(grammar()).color(help_colour(&args));
    if let Some((collective, program)) = old_name(&called) {
        grammar =
            grammar.subcommand(bench_grammar(collective.into(), Grammar::new(program.to_owned())));
    }
    let matches = grammar.try_get_matches_from(args)?;
    set_colour(matches.get_one(COLOR).copied().unwrap_or_default());
    let Some((name, matches)) = matches.subcommand() else {
        return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
    };
    command(name, matches)
}

/// What `--color` asks of help and of messages about the command line, which clap prints before it has read the option.
fn help_colour(args: &[OsString]) -> ColorChoice {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
    let behind = words.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1].as_ref());
    let joined = words.iter().find_map(|word| word.strip_prefix("--color="));
    match behind.or(joined) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

fn command(name: &str, matches: &ArgMatches) -> Result<Command, clap::Error> {
    Ok(match name {
        "show" => Command::Show(ShowArguments::from_arg_matches(matches)?),
        "algorithms" => Command::Algorithms(AlgorithmsArguments::from_arg_matches(matches)?),
        "lint" => Command::Lint(LintArguments::from_arg_matches(matches)?),
        "schema" => Command::Schema(SchemaArguments::from_arg_matches(matches)?),
        "references" => Command::References(ReferencesArguments::from_arg_matches(matches)?),
        "completions" => Command::Completions(CompletionsArguments::from_arg_matches(matches)?),
        "man" => Command::Man(ManArguments::from_arg_matches(matches)?),
        "list" => Command::List(ListArguments::from_arg_matches(matches)?),
        "compare" => Command::Compare(CompareArguments::from_arg_matches(matches)?),
        "import" => Command::Import(ImportArguments::from_arg_matches(matches)?),
        "explain" => Command::Explain(ExplainArguments::from_arg_matches(matches)?),
        "doctor" => Command::Doctor(DoctorArguments::from_arg_matches(matches)?),
        "report" => Command::Report(ReportArguments::from_arg_matches(matches)?),
        "plugin" => Command::Plugin(PluginArguments::from_arg_matches(matches)?),
        "topo" => Command::Topo(TopoArguments::from_arg_matches(matches)?),
        "sweep" => Command::Sweep(Box::new(SweepArguments::from_arg_matches(matches)?)),
        "transports" => {
            Command::Transports(Box::new(TransportsArguments::from_arg_matches(matches)?))
        }
        FINGERPRINT => Command::Fingerprint { rank: *matches.get_one("rank").unwrap_or(&0) },
        AGENT => Command::Agent,
        LOG_FILTER => Command::LogFilter,
        RULE => Command::PluginRule { name: text(matches, "name"), asked: text(matches, "asked") },
        PARTNER => Command::PluginPartner { asked: text(matches, "asked") },
        TIED => {
            let words = matches.get_many::<OsString>("command").unwrap_or_default();
            Command::Tied(words.cloned().collect())
        }
        RANK => Command::Rank { process: *matches.get_one("process").unwrap_or(&0) },
        _ => {
            let mut arguments = Box::new(BenchArguments::from_arg_matches(matches)?);
            if name == Benchmark::Pairs.name() {
                arguments.pairing = Some(PairingArguments::from_arg_matches(matches)?);
            }
            let (benchmark, style, program) = match Benchmark::from_name(name) {
                Some(benchmark) => {
                    let theirs = benchmark.collective().and_then(|c| c.spec().nccl_tests);
                    (benchmark, Style::Busbw, theirs.unwrap_or(name).to_owned())
                }
                None => {
                    let (collective, program) = old_name(name).ok_or_else(|| {
                        clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)
                    })?;
                    (collective.into(), Style::NcclTests, program.to_owned())
                }
            };
            Command::Bench { benchmark, style, program, arguments }
        }
    })
}

/// An argument of a hidden word.
fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

/// The end of the names of nccl-tests' programs.
const SUFFIX: &str = "_perf";

/// `busbw help`.
pub(super) const HELP: &str = "help";
/// `busbw version`.
pub(super) const VERSION: &str = "version";
/// Those two, which have no help of their own.
#[cfg(test)]
pub(super) const WORDS: [&str; 2] = [HELP, VERSION];
/// The option `--color`.
const COLOR: &str = "color";

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

/// `all_reduce_perf`, with any suffix such as `_mpi`: the collective and the name itself.
pub(super) fn old_name(name: &str) -> Option<(Collective, &str)> {
    let program = &name[..name.find(SUFFIX)? + SUFFIX.len()];
    let collective = Collective::every().find(|c| c.spec().nccl_tests == Some(program));
    collective.map(|collective| (collective, name))
}

/// All commands that people type: what completions and manual pages are made of.
pub(crate) fn grammar() -> Grammar {
    let styles = styling::Styles::styled()
        .header(styling::AnsiColor::Green.on_default().bold())
        .usage(styling::AnsiColor::Green.on_default().bold())
        .literal(styling::AnsiColor::Cyan.on_default());
    let collectives = Collective::every().map(Benchmark::from);
    let benchmarks = collectives.chain(Messages::ALL.map(Benchmark::from));
    let benchmarks = benchmarks.chain([Benchmark::Pairs]);
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

/// Those that busbw starts itself with.
fn with_hidden(grammar: Grammar) -> Grammar {
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
    grammar
        .subcommand(hidden(FINGERPRINT).arg(rank))
        .subcommand(hidden(AGENT))
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
            "Put runs, sweeps and pairs on one page, to be sent",
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
            "Find mistakes in NCCL_* and UCX_* settings of scripts and jobs",
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
fn bench_grammar(benchmark: Benchmark, grammar: Grammar) -> Grammar {
    let is_old = Benchmark::from_name(grammar.get_name()).is_none();
    let below = match benchmark {
        Benchmark::Collective(_) if is_old => &help::NCCL_TESTS,
        Benchmark::Collective(Collective::Barrier) => &help::BARRIER,
        Benchmark::Collective(_) => &help::COLLECTIVES,
        Benchmark::Messages(_) => &help::MESSAGES,
        Benchmark::Pairs => &help::PAIRS,
    };
    let mut grammar = BenchArguments::augment_args(grammar);
    if benchmark == Benchmark::Pairs {
        grammar = PairingArguments::augment_args(grammar);
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
        _ => &BRIEF_OPTIONS,
    };
    let grammar = with_defaults(grammar, benchmark, style).mut_args(|argument| {
        if brief.contains(&argument.get_id().as_str()) {
            return argument;
        }
        // Manual pages show the long help of what the short help hides.
        let long = argument.get_long_help().or(argument.get_help()).cloned();
        argument.hide_short_help(true).long_help(long.unwrap_or_default())
    });
    // Augmenting sets `about` to the struct's own, so ours comes after.
    below.under(grammar.about(about(benchmark))).disable_version_flag(true)
}

fn about(benchmark: Benchmark) -> String {
    match benchmark {
        Benchmark::Collective(collective) => format!("Measure {}", collective.name()),
        Benchmark::Messages(test) => about_messages(test).to_owned(),
        Benchmark::Pairs => "Measure every pair of ranks; name slow links and hosts".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(line: &str) -> (Benchmark, Style, String, BenchArguments) {
        let words = line.split_whitespace().map(OsString::from);
        match parse(words) {
            Ok(Command::Bench { benchmark, style, program, arguments }) => {
                (benchmark, style, program, *arguments)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn names_decide_the_style() {
        for (line, style, program) in [
            ("busbw all_reduce", Style::Busbw, "all_reduce_perf"),
            ("busbw all_reduce_perf", Style::NcclTests, "all_reduce_perf"),
            ("./all_reduce_perf", Style::NcclTests, "all_reduce_perf"),
            ("/opt/x/alltoallv_perf_mpi -g 2", Style::NcclTests, "alltoallv_perf_mpi"),
        ] {
            let (_, got, name, _) = bench(line);
            assert_eq!((got, name.as_str()), (style, program), "{line}");
        }
    }

    #[test]
    fn names_as_people_write_them() {
        for (line, name, program) in [
            ("busbw allreduce", "all_reduce", "all_reduce_perf"),
            ("busbw All-Reduce", "all_reduce", "all_reduce_perf"),
            ("busbw AllReduce_perf", "all_reduce", "all_reduce_perf"),
            ("busbw reducescatter_perf_mpi", "reduce_scatter", "reduce_scatter_perf_mpi"),
            ("busbw mbw-mr", "mbw_mr", "mbw_mr"),
        ] {
            let (benchmark, _, called, _) = bench(line);
            assert_eq!((benchmark.name(), called.as_str()), (name, program), "{line}");
        }
        assert_eq!(bench("busbw all_reduce -d float16").3.datatype.as_deref(), Some("float16"));
    }

    #[test]
    fn getopt_habits() {
        let (_, _, _, a) = bench("busbw reduce -b8 -e 1K --stepf 2 --ngpus=2 -g 4 -r -1 -n 0x10");
        assert_eq!(a.min_bytes.as_deref(), Some("8"));
        assert_eq!(a.step_factor, Some(2));
        assert_eq!(a.devices, Some(4));
        assert_eq!(a.root.as_deref(), Some("-1"));
        assert_eq!(a.iterations, Some(16));
        let (_, _, _, a) = bench("all_reduce_perf extra -V 16 words --maxb=1K");
        assert_eq!(a.words, ["extra", "words"]);
        assert_eq!(a.max_bytes.as_deref(), Some("1K"));
    }

    #[test]
    fn refused() {
        for line in [
            "busbw all_reduce --bogus",
            "busbw all_reduce -q -v",
            "busbw all_reduce --units GB",
            "busbw all_reduce -n x",
            "busbw all_reduce --m 8",
            "busbw no_such_thing",
            "busbw all_reduce --csv --json",
            "busbw all_reduce --precision 0",
        ] {
            let words = line.split_whitespace().map(OsString::from);
            assert_eq!(parse(words).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn grammar_is_consistent() {
        with_hidden(grammar()).debug_assert();
    }
}
