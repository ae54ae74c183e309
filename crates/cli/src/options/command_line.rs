//! Which command was meant: by the name the program was called by, and by the first word.
//! Not getopt's habits (`getopt`), nor the meaning of a benchmark's options (`arguments`, `planning`).

use std::{ffi::OsString, path::PathBuf};

use busbw_core::{
    Benchmark, Collective,
    exit::{Exit, ExitError},
    hidden_commands::{
        AGENT, FINGERPRINT, LOG_FILTER, PARTNER, PROFILER_MASK, RANK, RULE, SURVEY, TIED,
        WATCH_FILES,
    },
    plan::Style,
};
use busbw_render::answer::set_colour;
use clap::{ArgMatches, ColorChoice, Command as Grammar, FromArgMatches};

use super::{
    arguments::BenchArguments,
    checking::{CHECK, CheckingArguments},
    getopt::canonical,
    grammar::{COLOR, bench_grammar, grammar, with_hidden},
    installing::{COPY_TO, CompletionsArguments, FOLDER, ManArguments},
    launching::without_launching,
    osu,
    pairing::PairingArguments,
    perftest,
    plugins::PluginArguments,
    predicting::{PLAN, PlanArguments},
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
    /// Find out what to set.
    Tune(Box<TuneArguments>),
    /// Say what to expect before anything is run.
    Plan(Box<PlanArguments>),
    /// Say how a running job's collectives are.
    Watch(Box<WatchArguments>),
    /// Say whether a set of hosts is fit for a job.
    Check(Box<CheckingArguments>),
    /// Be a rank that `doctor` asks for its fingerprint.
    Fingerprint {
        /// Which.
        rank: usize,
    },
    /// Start the processes of a host, as the busbw at the other end of stdin says.
    Agent,
    /// A process of a job that describes its host before the job runs.
    Survey,
    /// Sets a job's profilers back at the end of its stdin.
    ProfilerMask {
        /// Of RAS.
        address: String,
        /// NCCL's bits.
        mask: u64,
    },
    /// A host's part of `watch -H`.
    WatchFiles {
        /// Folders and files of the profiler; none for the newest job's.
        sources: Vec<PathBuf>,
        /// Whether what is added is printed, too.
        follows: bool,
    },
    /// Copy the program into this folder.
    CopyTo(PathBuf),
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

/// What is wrong with the words, if the error is a mistake in them.
pub fn mistake(error: &anyhow::Error) -> Option<String> {
    if let Some(known) = error.downcast_ref::<ExitError>() {
        return (known.exit() == Exit::Usage).then(|| known.to_string());
    }
    let text = error.downcast_ref::<clap::Error>()?.to_string();
    Some(text.trim().trim_start_matches("error: ").to_owned())
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
    if perftest::is_name(&called) {
        return perftest::parse(&called, args.get(2..).unwrap_or_default());
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
        TUNE => Command::Tune(Box::new(TuneArguments::from_arg_matches(matches)?)),
        PLAN => Command::Plan(Box::new(PlanArguments::from_arg_matches(matches)?)),
        WATCH => Command::Watch(Box::new(WatchArguments::from_arg_matches(matches)?)),
        CHECK => Command::Check(Box::new(CheckingArguments::from_arg_matches(matches)?)),
        FINGERPRINT => Command::Fingerprint { rank: *matches.get_one("rank").unwrap_or(&0) },
        AGENT => Command::Agent,
        SURVEY => Command::Survey,
        PROFILER_MASK => Command::ProfilerMask {
            address: text(matches, "address"),
            mask: *matches.get_one("mask").unwrap_or(&0),
        },
        WATCH_FILES => Command::WatchFiles {
            sources: matches.get_many("sources").unwrap_or_default().cloned().collect(),
            follows: matches.get_flag("follow"),
        },
        COPY_TO => Command::CopyTo(matches.get_one(FOLDER).cloned().unwrap_or_default()),
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
            if name == Benchmark::Replay.name() {
                arguments.replaying = Some(ReplayArguments::from_arg_matches(matches)?);
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
