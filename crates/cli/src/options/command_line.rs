//! Which command was meant: by the name the program was called by, and by the first word.
//! Not getopt's habits (`getopt`), nor the meaning of a benchmark's options (`arguments`, `planning`).

use busbw_core::hidden_commands::{AGENT, FINGERPRINT, LOG_FILTER, PARTNER, RANK, RULE, TIED};
use std::ffi::OsString;

use busbw_core::{Benchmark, Collective, messages::Messages, plan::Style};
use clap::{ArgMatches, Args, Command as Grammar, FromArgMatches, builder::styling};

use super::{
    arguments::BenchArguments,
    getopt::canonical,
    help::{
        BENCH_EXAMPLES, DOCTOR_HELP, EXAMPLES, EXPLAIN_HELP, MESSAGES_EXAMPLES, PAIRS_EXAMPLES,
        SWEEP_HELP, TOPO_HELP, TRANSPORTS_HELP,
    },
    launching::without_launching,
    osu,
    pairing::PairingArguments,
    plugins::{self, PluginArguments},
    reading_commands::{
        AlgorithmsArguments, DoctorArguments, ExplainArguments, LintArguments, ShowArguments,
        TopoArguments,
    },
    record_commands::{
        CompareArguments, ImportArguments, ListArguments, ReferencesArguments, SchemaArguments,
        record_commands,
    },
    reporting::{self, ReportArguments},
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
    let mut grammar = grammar();
    if let Some((collective, program)) = old_name(&called) {
        grammar = grammar.subcommand(bench_grammar(collective.into(), program));
    }
    let matches = grammar.try_get_matches_from(args)?;
    let Some((name, matches)) = matches.subcommand() else {
        return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
    };
    command(name, matches)
}

fn command(name: &str, matches: &ArgMatches) -> Result<Command, clap::Error> {
    Ok(match name {
        "show" => Command::Show(ShowArguments::from_arg_matches(matches)?),
        "algorithms" => Command::Algorithms(AlgorithmsArguments::from_arg_matches(matches)?),
        "lint" => Command::Lint(LintArguments::from_arg_matches(matches)?),
        "schema" => Command::Schema(SchemaArguments::from_arg_matches(matches)?),
        "references" => Command::References(ReferencesArguments::from_arg_matches(matches)?),
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

/// `all_reduce_perf`, with any suffix such as `_mpi`: the collective and the name itself.
pub(super) fn old_name(name: &str) -> Option<(Collective, &str)> {
    let program = &name[..name.find(SUFFIX)? + SUFFIX.len()];
    let collective = Collective::every().find(|c| c.spec().nccl_tests == Some(program));
    collective.map(|collective| (collective, name))
}

fn grammar() -> Grammar {
    let styles = styling::Styles::styled()
        .header(styling::AnsiColor::Green.on_default().bold())
        .usage(styling::AnsiColor::Green.on_default().bold())
        .literal(styling::AnsiColor::Cyan.on_default());
    let collectives = Collective::every().map(Benchmark::from);
    let benchmarks = collectives.chain(Messages::ALL.map(Benchmark::from));
    let benchmarks = benchmarks.chain([Benchmark::Pairs]);
    let benchmarks = benchmarks.map(|benchmark| bench_grammar(benchmark, benchmark.name()));
    let show = ShowArguments::augment_args(Grammar::new("show"))
        .about("Print a run's table again, from its record alone");
    let lint = LintArguments::augment_args(Grammar::new("lint"))
        .about("Find mistakes in NCCL_* and UCX_* settings of scripts, YAML and environments")
        .after_help("Examples:\n  busbw lint job.sh\n  env | busbw lint --nccl 2.28.9 -\nExit codes: 0 nothing found, 1 something found, 2 a file cannot be read");
    let algorithms = AlgorithmsArguments::augment_args(Grammar::new("algorithms"))
        .about("Which algorithm the host backend takes at which size on this machine")
        .after_help("Examples:\n  busbw algorithms\n  busbw algorithms --measure -g 4");
    let doctor = DoctorArguments::augment_args(Grammar::new("doctor"))
        .about("Look at this node, in seconds and without a benchmark: what is wrong, its cost, its remedy")
        .after_help(DOCTOR_HELP);
    let explain = ExplainArguments::augment_args(Grammar::new("explain"))
        .about("Say what a log or record means: how fast, how fast the hardware allows, what sets that")
        .after_help(EXPLAIN_HELP);
    let topo = TopoArguments::augment_args(Grammar::new("topo"))
        .about(
            "Show how GPUs and NICs are joined, how fast each link is, and what is wrong with it",
        )
        .after_help(TOPO_HELP);
    let sweep = SweepArguments::augment_args(Grammar::new("sweep"))
        .about("Measure one job under several environments, in turns, as one table")
        .after_help(SWEEP_HELP);
    let transports = TransportsArguments::augment_args(Grammar::new("transports"))
        .about("Measure one job over each transport of this machine, and prove which one ran")
        .after_help(TRANSPORTS_HELP);
    let required = |name: &'static str| clap::Arg::new(name).required(true);
    let rank = clap::Arg::new("rank").value_parser(clap::value_parser!(usize)).required(true);
    let process = clap::Arg::new("process").value_parser(clap::value_parser!(usize)).required(true);
    let command = clap::Arg::new("command")
        .num_args(1..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .value_parser(clap::value_parser!(OsString))
        .required(true);
    Grammar::new("busbw")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "How fast your GPUs really talk, how fast the hardware allows, and what stands between",
        )
        .after_help(EXAMPLES)
        .styles(styles)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands(benchmarks)
        .subcommand(show)
        .subcommand(lint)
        .subcommand(algorithms)
        .subcommands(record_commands())
        .subcommand(doctor)
        .subcommand(explain)
        .subcommand(reporting::grammar())
        .subcommand(plugins::grammar())
        .subcommand(topo)
        .subcommand(sweep)
        .subcommand(transports)
        .subcommand(Grammar::new(FINGERPRINT).hide(true).arg(rank))
        .subcommand(Grammar::new(AGENT).hide(true))
        .subcommand(Grammar::new(LOG_FILTER).hide(true))
        .subcommand(Grammar::new(RULE).hide(true).args([required("name"), required("asked")]))
        .subcommand(Grammar::new(PARTNER).hide(true).arg(required("asked")))
        .subcommand(Grammar::new(TIED).hide(true).arg(command))
        .subcommand(Grammar::new(RANK).hide(true).arg(process))
}

fn bench_grammar(benchmark: Benchmark, name: &str) -> Grammar {
    let (about, examples) = match benchmark {
        Benchmark::Collective(collective) => {
            (format!("Measure {}", collective.name()), BENCH_EXAMPLES)
        }
        Benchmark::Messages(test) => (about_messages(test).to_owned(), MESSAGES_EXAMPLES),
        Benchmark::Pairs => (
            "Measure every pair of ranks, and name the slow ranks, links and hosts".to_owned(),
            PAIRS_EXAMPLES,
        ),
    };
    let mut grammar = BenchArguments::augment_args(Grammar::new(name.to_owned()));
    if benchmark == Benchmark::Pairs {
        grammar = PairingArguments::augment_args(grammar);
    }
    // Augmenting sets `about` to the struct's own, so ours comes after.
    grammar.about(about).after_help(examples).disable_version_flag(true)
}

fn about_messages(test: Messages) -> &'static str {
    match test {
        Messages::Latency => "Measure the latency of messages between two ranks",
        Messages::Bandwidth => "Measure the bandwidth of messages from one rank to another",
        Messages::BiBandwidth => {
            "Measure the bandwidth of messages between two ranks, both ways at once"
        }
        Messages::MultiBandwidth => {
            "Measure the bandwidth and message rate of several pairs at once"
        }
        Messages::MultiLatency => "Measure the latency of messages of several pairs at once",
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
            "busbw all_reduce -q",
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
        grammar().debug_assert();
    }
}
