//! Which command was meant: by the name the program was called by, by the first word, and by getopt's
//! habits that scripts rely on (prefixes of long options, the last of repeated options counts).
//! Not the meaning of a benchmark's options (`arguments`, `planning`).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, Command as Grammar, FromArgMatches, builder::styling};
use model::{Collective, plan::Style};

use super::{
    arguments::BenchArguments,
    reporting::{self, ReportArguments},
    sweeping::{SWEEPING, SweepArguments, TransportsArguments, sorted},
};

/// What the program is to do.
#[derive(Debug)]
pub enum Command {
    /// Measure a collective.
    Bench {
        /// Which.
        collective: Collective,
        /// By whose name, hence with whose defaults.
        style: Style,
        /// The name for the first and last lines.
        program: String,
        /// The options.
        arguments: Box<BenchArguments>,
    },
    /// Print a record.
    Show(ShowArguments),
    /// Print, or measure, which algorithm is fastest at which size.
    Algorithms(AlgorithmsArguments),
    /// Look for mistakes in scripts and environments.
    Lint(LintArguments),
    /// Look at this node.
    Doctor(DoctorArguments),
    /// Say what logs and records mean.
    Explain(ExplainArguments),
    /// Write runs as a page.
    Report(ReportArguments),
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
    /// Be a rank: started by a supervisor only.
    Rank {
        /// Which of its processes.
        process: usize,
    },
}

/// Options of `busbw show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArguments {
    /// A record file, or the id of a run in the data folder; without one, the newest run
    pub run: Option<PathBuf>,
    /// Print comma-separated values instead of the table
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print the record's lines instead of the table
    #[arg(long)]
    pub json: bool,
    /// Draw busbw over size, as wide as the terminal
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    pub plot: bool,
    /// Write busbw over size as a drawing for a document
    #[arg(long, value_name = "FILE", conflicts_with_all = ["csv", "json", "plot"])]
    pub svg: Option<PathBuf>,
    /// Overwrite the drawing if it is there
    #[arg(long, requires = "svg")]
    pub force: bool,
}

/// Options of `busbw algorithms`.
#[derive(Debug, Clone, Args)]
pub struct AlgorithmsArguments {
    /// Ranks; with --measure one per core when left out, otherwise all that were measured
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub ranks: Option<u16>,
    /// Measure every collective anew (seconds; needs 64 MiB a rank)
    #[arg(long)]
    pub measure: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw lint`.
#[derive(Debug, Clone, Args)]
pub struct LintArguments {
    /// Files to read: scripts, mpirun lines, YAML, env dumps; `-` or nothing is stdin
    pub files: Vec<PathBuf>,
    /// NCCL version in use, such as 2.28.9, to name variables that it does not read
    #[arg(long, value_name = "VERSION")]
    pub nccl: Option<String>,
    /// Print findings as JSON Lines
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArguments {
    /// Have N ranks, one a GPU, say what they see, and print what differs between them
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub ranks: Option<u16>,
    /// NCCL library to use (also BUSBW_NCCL)
    #[arg(long, value_name = "PATH")]
    pub nccl: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArguments {
    /// Logs of nccl-tests, rccl-tests or OSU, NCCL_DEBUG=INFO logs, records; `-` or nothing is stdin
    #[arg(value_name = "LOG|RECORD")]
    pub sources: Vec<PathBuf>,
    /// The machine: a ready machine's name, a machine file (TOML), NCCL's topology (XML), or the text
    /// of nvidia-smi topo -m
    #[arg(long, value_name = "FILE|NAME|XML")]
    pub machine: Option<String>,
    /// Hosts, where neither the log nor the machine says how many there were
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub nodes: Option<usize>,
    /// Print each explanation as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `busbw topo`.
#[derive(Debug, Clone, Args)]
pub struct TopoArguments {
    /// NCCL's or RCCL's topology or graph XML, the text of nvidia-smi topo -m, a machine file, or the name
    /// of a ready machine; `-` is stdin; without one, this machine
    pub file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "xml")]
    pub json: bool,
    /// Write the XML that NCCL reads with NCCL_TOPO_FILE, to a file or to stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub xml: Option<PathBuf>,
    /// Read /sys and /proc below DIR instead, as of a recorded machine; no driver is asked
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub root: Option<PathBuf>,
}

/// The hidden word that `doctor` starts its ranks with.
pub const FINGERPRINT_WORD: &str = "__fingerprint";

/// The hidden word that a supervisor starts its ranks with.
pub const RANK_WORD: &str = "__rank";

const EXAMPLES: &str = "Examples:
  busbw all_reduce                           every GPU, or every core where there is none
  busbw all_reduce -b 8 -e 128M -f 2 -g 2    two ranks, 8 B to 128 MiB
  busbw alltoall -d bfloat16 --precision 2%  sample until the interval is within 2 %
  busbw all_reduce_perf -b 8 -e 64M -f 2 -g 4   nccl-tests' defaults and output
  busbw show                                 the newest run again
  busbw lint job.sh                          mistakes in NCCL_* and UCX_* settings
  busbw explain run.log --machine dgx-h100   how good a result is, and what limits it
  busbw report -o report.html                the newest run as a page, to be sent
  busbw doctor                               what is wrong with this node, its cost, its remedy
  busbw topo                                 switches, GPUs, NICs, their links, and what is wrong
  busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce   one job under several environments
  busbw transports all_reduce                the same job over each transport, each proven
  busbw algorithms                           which algorithm is fastest here at which size
Exit codes: 0 ok, 1 gate missed or internal, 2 usage, 3 library, 4 timeout, 5 not possible here,
            6 rank lost, 7 wrong data or NCCL_TESTS_MIN_BW missed, 130 interrupted";

const DOCTOR_HELP: &str = "Verdicts: fine; absent (not here, not needed); note; unknown (cannot be read here); slow (costs
performance); broken (something fails). Nothing on the machine is changed.
Examples:
  busbw doctor
  sudo busbw doctor          reads what the kernel keeps for root: ACS, XIDs
  busbw doctor -g 8 --json
Exit codes: 0 nothing slow or broken, 1 something is, 2 usage, 5 more ranks than GPUs";

const EXPLAIN_HELP: &str =
    "Measured, limit and percent; what sets the limit; a sentence; then what stands out, each
finding with its evidence, how sure it is, what to do, and the command that would confirm it.
What is missing to tell more is named. The machine is taken from --machine, a record, or the
log as far as it names it.
Examples:
  busbw explain all_reduce.log --machine dgx-h100
  busbw explain all_reduce.log --machine topo.xml --nodes 2
  busbw explain table.txt nccl-debug.log        a table and NCCL's lines from another file
  busbw explain osu_latency-device.txt osu_latency-host.txt
  kubectl logs job/nccl-test | busbw explain - --json
Exit codes: 0 explained, 2 a source is no log or cannot be read, or --machine describes none";

const TOPO_HELP: &str = "Prints the tree, the way between each two devices in nvidia-smi's words, every link with its line
rate, payload and what NCCL expects (GB/s one way), and what is wrong. Nothing is measured.
Examples:
  busbw topo                      this machine
  busbw topo nccl-topo.xml        what NCCL_TOPO_DUMP_FILE wrote
  nvidia-smi topo -m | busbw topo -
  busbw topo dgx-h100             a machine that one has only read about
  busbw topo --xml=topo.xml       this machine, for NCCL_TOPO_FILE
Exit codes: 0 read, whatever was found; 2 the file is none of these";

const SWEEP_HELP: &str = "Every launch is a run of its own with a record; rows are sizes, columns environments.
`unset`, or nothing, among the values means that the variable is not set; `\\,` is a comma within a value.
Examples:
  busbw sweep -x NCCL_IB_QPS_PER_CONNECTION=1,4,16 -x NCCL_MAX_NCHANNELS=8,16 all_reduce -b 1M -e 1G -f 4
  busbw sweep -x NCCL_ALGO=unset,Ring,Tree all_reduce -b 8 -e 64K -f 2 --show time --baseline 1 --time 120s
Exit codes: 0 every environment ran, else that of the first that failed; 2 usage, 130 interrupted";

const TRANSPORTS_HELP: &str = "Each transport is the environment that selects it, and the evidence that it ran: NCCL's log, and bytes that
devices counted. One that NCCL replaced by another says so; one that cannot run here is waived.
Examples:
  busbw transports all_reduce -b 1M -e 1G -f 4
  busbw transports all_reduce -b 1M -e 1G -f 4 --only p2p,shm,socket --baseline p2p --virtual-nodes 2
Exit codes: 0 all that can run here ran, else that of the first that failed; 2 usage, 5 none can run here,
            130 interrupted";

const BENCH_EXAMPLES: &str = "Every option of nccl-tests 2.19.6 is taken, with its meaning.
Examples:
  -b 8 -e 128M -f 2 -g 2     sizes 8 B to 128 MiB, doubling, on two ranks
  -n 100 --precision 2%      100 iterations a batch, until the interval is within 2 %
  -d half -o max -c 5        another type and operator, five checked operations a row
  -J out.json                nccl-tests' JSON report as well";

/// Reads the command line.
///
/// # Errors
/// clap's own, which also stand for `--help` and `--version`: print and exit as it says.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let args = canonical(args.into_iter().collect());
    let called = args.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let mut grammar = grammar();
    if let Some((collective, program)) = old_name(&called) {
        grammar = grammar.subcommand(bench_grammar(collective, program));
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
        "explain" => Command::Explain(ExplainArguments::from_arg_matches(matches)?),
        "doctor" => Command::Doctor(DoctorArguments::from_arg_matches(matches)?),
        "report" => Command::Report(ReportArguments::from_arg_matches(matches)?),
        "topo" => Command::Topo(TopoArguments::from_arg_matches(matches)?),
        "sweep" => Command::Sweep(Box::new(SweepArguments::from_arg_matches(matches)?)),
        "transports" => {
            Command::Transports(Box::new(TransportsArguments::from_arg_matches(matches)?))
        }
        FINGERPRINT_WORD => Command::Fingerprint { rank: *matches.get_one("rank").unwrap_or(&0) },
        RANK_WORD => Command::Rank { process: *matches.get_one("process").unwrap_or(&0) },
        _ => {
            let arguments = Box::new(BenchArguments::from_arg_matches(matches)?);
            let (collective, style, program) = match Collective::from_name(name) {
                Some(collective) => (collective, Style::Busbw, format!("{name}_perf")),
                None => {
                    let (collective, program) = old_name(name).ok_or_else(|| {
                        clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)
                    })?;
                    (collective, Style::NcclTests, program.to_owned())
                }
            };
            Command::Bench { collective, style, program, arguments }
        }
    })
}

/// `all_reduce_perf`, with any suffix such as `_mpi`: the collective and the name itself.
fn old_name(name: &str) -> Option<(Collective, &str)> {
    let at = name.find("_perf")?;
    Collective::from_name(&name[..at]).map(|collective| (collective, name))
}

fn grammar() -> Grammar {
    let styles = styling::Styles::styled()
        .header(styling::AnsiColor::Green.on_default().bold())
        .usage(styling::AnsiColor::Green.on_default().bold())
        .literal(styling::AnsiColor::Cyan.on_default());
    let collectives =
        Collective::ALL.map(|collective| bench_grammar(collective, collective.name()));
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
    let rank = clap::Arg::new("rank").value_parser(clap::value_parser!(usize)).required(true);
    let process = clap::Arg::new("process").value_parser(clap::value_parser!(usize)).required(true);
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
        .subcommands(collectives)
        .subcommand(show)
        .subcommand(lint)
        .subcommand(algorithms)
        .subcommand(doctor)
        .subcommand(explain)
        .subcommand(reporting::grammar())
        .subcommand(topo)
        .subcommand(sweep)
        .subcommand(transports)
        .subcommand(Grammar::new(FINGERPRINT_WORD).hide(true).arg(rank))
        .subcommand(Grammar::new(RANK_WORD).hide(true).arg(process))
}

fn bench_grammar(collective: Collective, name: &str) -> Grammar {
    let about = format!("Measure {}", collective.name());
    // Augmenting sets `about` to the struct's own, so ours comes after.
    BenchArguments::augment_args(Grammar::new(name.to_owned()))
        .about(about)
        .after_help(BENCH_EXAMPLES)
        .disable_version_flag(true)
}

/// Puts the program's own name, when it is an old one, in front as a command, and writes prefixes
/// of nccl-tests' long options out, as getopt_long does.
fn canonical(mut args: Vec<OsString>) -> Vec<OsString> {
    let called = args
        .first()
        .and_then(|path| Path::new(path).file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    if old_name(&called).is_some() {
        args.insert(1, called.into());
    }
    if args.get(1).and_then(|word| word.to_str()).is_some_and(|word| SWEEPING.contains(&word)) {
        let words = sorted(&args.split_off(2));
        args.extend(words);
    }
    let is_bench = args
        .get(1)
        .and_then(|word| word.to_str())
        .is_some_and(|word| Collective::from_name(word).is_some() || old_name(word).is_some());
    if is_bench {
        for word in args.iter_mut().skip(2).take_while(|word| *word != "--") {
            if let Some(whole) = word.to_str().and_then(write_out) {
                *word = whole.into();
            }
        }
    }
    args
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
    // nccl-tests' long options have a short form; ours have none.
    let mut theirs = grammar
        .get_arguments()
        .filter(|a| a.get_short().is_some())
        .filter_map(|a| a.get_long())
        .chain(["help"])
        .filter(|long| long.starts_with(name));
    let (only, more) = (theirs.next()?, theirs.next());
    if more.is_some() {
        return None;
    }
    Some(value.map_or_else(|| format!("--{only}"), |value| format!("--{only}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(line: &str) -> (Collective, Style, String, BenchArguments) {
        let words = line.split_whitespace().map(OsString::from);
        match parse(words) {
            Ok(Command::Bench { collective, style, program, arguments }) => {
                (collective, style, program, *arguments)
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
