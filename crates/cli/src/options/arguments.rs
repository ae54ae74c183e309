//! The options of a benchmark as typed: nccl-tests' thirty and busbw's own.
//! Not defaults: they depend on the program's name (`planning`).

use std::path::PathBuf;

use busbw_core::{
    environment::BACKEND,
    fault::Fault,
    plan::{BackendChoice, Memory, NcclTestsRelease},
};
use busbw_render::Units;
use busbw_runner::request::{Output, Talk};
use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

use super::{
    BadOption, Environment, calls,
    calls::CallArguments,
    integer,
    launching::LaunchingArguments,
    osu::OsuArguments,
    pairing::PairingArguments,
    rdma::RdmaArguments,
    replaying::ReplayArguments,
    table_form::{releases, units_words},
};

/// `--buffers`: of the ranks that begin, and of those that answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers(pub [Memory; 2]);

/// `--bind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Binding {
    /// To the processors of the GPU's NUMA node.
    #[default]
    Numa,
    /// Nowhere.
    None,
}

/// `--proof`, to hold the GPU's work against the host's; without it the GPU does both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Proof {
    /// The host fills, the GPU verifies.
    HostFills,
    /// The GPU fills, the host verifies.
    HostVerifies,
}

/// Options of a benchmark.
#[derive(Debug, Clone, Default, Args)]
#[command(args_override_self = true)]
pub struct BenchArguments {
    /// Threads a process
    #[arg(short = 't', long = "nthreads", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Ranks")]
    pub threads: Option<i64>,
    /// GPUs a thread; on `host`, processes, one a core
    #[arg(short = 'g', long = "ngpus", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Ranks")]
    pub devices: Option<i64>,

    /// Where rank processes are started.
    #[command(flatten)]
    pub launching: LaunchingArguments,

    /// First size, such as 8, 1K, 1.5M
    #[arg(
        short = 'b',
        long = "minbytes",
        value_name = "SIZE",
        allow_negative_numbers = true,
        help_heading = "Sizes"
    )]
    pub min_bytes: Option<String>,
    /// Last size
    #[arg(
        short = 'e',
        long = "maxbytes",
        value_name = "SIZE",
        allow_negative_numbers = true,
        help_heading = "Sizes"
    )]
    pub max_bytes: Option<String>,
    /// Bytes from one size to the next, without -f
    #[arg(
        short = 'i',
        long = "stepbytes",
        value_name = "SIZE",
        allow_negative_numbers = true,
        help_heading = "Sizes"
    )]
    pub step_bytes: Option<String>,
    /// Factor from one size to the next
    #[arg(short = 'f', long = "stepfactor", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Sizes")]
    pub step_factor: Option<i64>,

    /// Iterations a batch
    #[arg(short = 'n', long = "iters", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub iterations: Option<i64>,
    /// Operations fused into one iteration
    #[arg(short = 'm', long = "agg_iters", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub aggregated: Option<i64>,
    /// Untimed operations a size before the sweep
    #[arg(short = 'w', long = "warmup_iters", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub warmup: Option<i64>,
    /// Messages of a pair in flight at once, in bw, bibw and mbw_mr
    #[arg(short = 'W', long = "window-size", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub window: Option<i64>,
    /// Passes over all sizes, each printed; 0 = until interrupted
    #[arg(short = 'N', long = "run_cycles", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub cycles: Option<i64>,
    /// Whose time counts: 0 rank 0, 1 mean, 2 fastest, 3 slowest
    #[arg(short = 'a', long = "average", value_name = "0-3", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub average: Option<i64>,
    /// Wait for completion: 0 at the end, 1 after each operation with a barrier, 2 after each operation, 3 after each iteration with an untimed barrier
    #[arg(short = 'z', long = "blocking", value_name = "0-3", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Measurement")]
    pub blocking: Option<i64>,
    /// Least number of batches of -n iterations for every row
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    pub batches: Option<u32>,
    /// Sample until within, such as 2% [default: none]
    ///
    /// Sample until half the 95 % interval is within this, such as 2% [default: none, --batches decides]
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Measurement")]
    pub precision: Option<f64>,
    /// Longest time of --precision, in seconds for each placement (in or out of place)
    #[arg(long = "max-time", value_name = "SECONDS", value_parser = seconds, help_heading = "Measurement")]
    pub max_time: Option<f64>,
    /// Reduce batches, then -n, for sizes that would take longer than this many seconds [default: none]
    #[arg(long = "row-time", value_name = "SECONDS", value_parser = seconds, help_heading = "Measurement")]
    pub row_time: Option<f64>,
    /// Launches; the table shows medians
    ///
    /// Launches, each with new rank processes; the table shows medians over them
    #[arg(long, value_name = "K", help_heading = "Measurement")]
    pub repeat: Option<u32>,

    /// Checked operations a row; 0 = none
    #[arg(short = 'c', long = "check", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Data")]
    pub check: Option<i64>,
    /// Operator, such as max, avg, or all
    ///
    /// Operator: sum, prod, max, min, avg, mulsum or all
    #[arg(short = 'o', long = "op", value_name = "OP", help_heading = "Data")]
    pub op: Option<String>,
    /// Type, such as bf16, fp16, or all
    ///
    /// int8, uint8, int32, uint32, int64, uint64, half (fp16), float (fp32), double (fp64), bfloat16 (bf16), f8e4m3
    /// (fp8_e4m3), f8e5m2 (fp8_e5m2), or all
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", help_heading = "Data")]
    pub datatype: Option<String>,
    /// Root rank; -1 or all = each in turn
    #[arg(
        short = 'r',
        long = "root",
        value_name = "RANK",
        allow_negative_numbers = true,
        help_heading = "Data"
    )]
    pub root: Option<String>,
    /// Start buffers this many elements after an aligned address
    #[arg(short = 'u', long = "unalign", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Data")]
    pub unalign: Option<i64>,

    /// Report the time of every iteration
    #[arg(short = 'I', long = "per_iter_timing", value_name = "0|1", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Output")]
    pub per_iteration: Option<i64>,
    /// Leave this many leading iterations out of that report
    #[arg(short = 'K', long = "per_iter_skip", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Output")]
    pub per_iteration_skip: Option<i64>,
    /// Time stamps behind rows
    #[arg(short = 'S', long = "report_timestamps", value_name = "0|1", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Output")]
    pub timestamps: Option<i64>,
    /// Time of enqueueing instead of completion in the time column
    #[arg(short = 'C', long = "report_cputime", value_name = "0|1", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Output")]
    pub cpu_time: Option<i64>,
    /// Memory line at the end
    #[arg(short = 'M', long = "memory", value_name = "0|1", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Output")]
    pub memory: Option<i64>,
    /// nccl-tests' JSON report, any extension [default: none]
    #[arg(short = 'J', long = "output_file", value_name = "FILE", help_heading = "Output")]
    pub json_report: Option<PathBuf>,
    /// Print comma-separated values instead of the table
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub csv: bool,
    /// Print the record's lines instead of the table
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write the record here [default: the data folder; see busbw list]
    #[arg(long, value_name = "PATH", conflicts_with = "no_record", help_heading = "Output")]
    pub record: Option<PathBuf>,
    /// Write no record
    #[arg(long = "no-record", help_heading = "Output")]
    pub no_record: bool,
    /// GB/s, GiB/s or Gb/s in the table
    ///
    /// The unit of bandwidths in the table and its header: GB/s (1e9 bytes a second, as nccl-tests prints), GiB/s (2^30)
    /// or Gb/s (1e9 bits, as links are sold). Records, CSV and JSON have GB/s always
    #[arg(long, value_name = "UNIT", value_parser = units_words(), hide_possible_values = true, conflicts_with_all = ["csv", "json"], help_heading = "Output")]
    pub units: Option<Units>,
    /// The release of nccl-tests whose form the table has: 2.19.6 or 2.20.0
    #[arg(long = "nccl-tests-version", value_name = "VERSION", value_parser = releases(), hide_possible_values = true, help_heading = "Output")]
    pub nccl_tests_version: Option<NcclTestsRelease>,
    /// Print the table and errors, and nothing else
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Say on stderr what was chosen, and how each row was measured
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,

    /// Timeout of one wait, in seconds; 0 = none
    #[arg(short = 'T', long = "timeout", value_name = "SECONDS", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub timeout: Option<i64>,
    /// Launches of a captured CUDA graph
    #[arg(short = 'G', long = "cudagraph", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub graph: Option<i64>,
    /// Threads initialise concurrently
    #[arg(short = 'p', long = "parallel_init", value_name = "0|1", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub parallel_init: Option<i64>,
    /// Use the NULL stream
    #[arg(short = 'y', long = "stream_null", value_name = "0|1", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub stream_null: Option<i64>,
    /// Register buffers: 1 local, 2 symmetric
    #[arg(short = 'R', long = "local_register", value_name = "0-2", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub local_register: Option<i64>,
    /// CTA policy; several, such as auto,1,2, are policies of calls, a row each
    #[arg(short = 'x', long = "cta_policy", value_name = "0-2", value_parser = calls::policy, value_delimiter = ',', allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub cta_policy: Option<Vec<i64>>,
    /// How messages go over RDMA devices.
    #[command(flatten)]
    pub rdma: RdmaArguments,
    /// What NCCL's calls are given.
    #[command(flatten)]
    pub calls: CallArguments,
    /// Device-API kernel; needs -R 2
    #[arg(short = 'D', long = "device_implementation", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub device_implementation: Option<i64>,
    /// CTAs of that kernel, 1 to 128
    #[arg(short = 'V', long = "device_cta_count", value_name = "N", value_parser = integer::parse, allow_negative_numbers = true, help_heading = "Libraries and devices")]
    pub device_cta_count: Option<i64>,
    /// nccl, host, mpi, net, verbs [default: nccl on GPUs]
    ///
    /// Who moves the bytes: nccl (NCCL or RCCL), host (shared memory), mpi, net (a net plugin, without GPUs), verbs (RDMA
    /// devices, messages alone)
    /// [default: BUSBW_BACKEND, then nccl where there are GPUs, otherwise host, but for X_perf, which exits with 5 then]
    #[arg(long, value_name = "NAME", value_parser = backends(), hide_possible_values = true, help_heading = "Libraries and devices")]
    pub backend: Option<BackendChoice>,
    /// NCCL to use: a file, its folder, or a name for the loader [default: BUSBW_NCCL, then what `busbw
    /// doctor` lists]
    #[arg(long, value_name = "PATH", help_heading = "Libraries and devices")]
    pub nccl: Option<PathBuf>,
    /// MPI to use with --backend mpi: a file, or a name for the loader [default: BUSBW_MPI, then the first that
    /// is found]
    #[arg(long, value_name = "PATH", help_heading = "Libraries and devices")]
    pub mpi: Option<PathBuf>,
    /// Net plugin to use with --backend net, or by NCCL: busbw (its own), or what NCCL_NET_PLUGIN takes, a file or
    /// the word in libnccl-net-WORD.so [default: busbw with --backend net, else what NCCL finds]
    #[arg(long, value_name = "PLUGIN", help_heading = "Libraries and devices")]
    pub net: Option<String>,
    /// File of a tuner, by which NCCL takes algorithm, protocol and channels for each size; `busbw tune --show FILE` prints
    /// what it chooses [default: BUSBW_TUNER, if NCCL_TUNER_PLUGIN names busbw's tuner]
    #[arg(long, value_name = "FILE", help_heading = "Libraries and devices")]
    pub tuner: Option<PathBuf>,
    /// Memory of the buffers with --backend mpi or verbs: host, gpu, or one for each end of a pair, such as
    /// gpu,host. gpu needs an MPI that reports support for GPU buffers, or an RDMA device that reaches them [default: host]
    #[arg(long, value_name = "WHERE", value_parser = buffers, help_heading = "Libraries and devices")]
    pub buffers: Option<Buffers>,
    /// Bind each rank to the processors of its GPU's NUMA node, or do not bind
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "numa",
        help_heading = "Libraries and devices"
    )]
    pub bind: Binding,
    /// Allow more ranks than GPUs: each process gets a host identity of its own (NCCL_HOSTID). For tests of a
    /// setup; results do not measure hardware
    #[arg(long = "share-gpus", help_heading = "Libraries and devices")]
    pub share_gpus: bool,
    /// Present this host to NCCL as N nodes (NCCL_HOSTID), to use inter-node transports within one host
    #[arg(
        long = "virtual-nodes",
        value_name = "N",
        value_parser = integer::parse,
        help_heading = "Libraries and devices"
    )]
    pub virtual_nodes: Option<i64>,

    /// Interface for busbw's own control connections between hosts: a name, a CIDR such as 10.0.0.0/16, or an
    /// address. NCCL's data path is chosen by NCCL_SOCKET_IFNAME [default: BUSBW_INTERFACE, then the route to
    /// MASTER_ADDR]
    #[arg(long, value_name = "INTERFACE", help_heading = "Ranks")]
    pub interface: Option<String>,

    /// Time every iteration by itself; print percentiles
    ///
    /// Time every iteration of a collective by itself; print the mean, the fastest and the slowest rank, and
    /// percentiles over all ranks
    #[arg(long, help_heading = "Measurement")]
    pub latency: bool,

    /// Where GPU buffers are filled and verified
    #[arg(long, value_name = "WHO", hide = true)]
    pub proof: Option<Proof>,
    /// Inject a fault
    #[arg(long, value_name = "SPEC", hide = true)]
    pub fault: Option<Fault>,
    /// Pattern seed
    #[arg(long, value_name = "N", hide = true)]
    pub seed: Option<u64>,
    /// Words that nccl-tests would ignore
    #[arg(value_name = "WORDS", hide = true)]
    pub words: Vec<String>,
    /// Options of OSU's names.
    #[arg(skip)]
    pub osu: Option<Box<OsuArguments>>,
    /// Options of `pairs`.
    #[arg(skip)]
    pub pairing: Option<PairingArguments>,
    /// Options of `replay`.
    #[arg(skip)]
    pub replaying: Option<ReplayArguments>,
}

impl BenchArguments {
    /// The memory of each end's buffers, as either grammar asks for it.
    pub fn wanted_buffers(&self) -> Option<[Memory; 2]> {
        let memory = |gpu| if gpu { Memory::Gpu } else { Memory::Host };
        let theirs = self.osu.as_ref().and_then(|osu| osu.on_gpus());
        let ours = self.buffers.map(|Buffers(each)| each);
        let perftests = || self.rdma.use_cuda.map(|_| [Memory::Gpu; 2]);
        theirs.map(|sides| sides.map(memory)).or(ours).or_else(perftests)
    }

    /// Whether buffers on GPUs are asked for.
    pub fn wants_gpus(&self) -> bool {
        self.wanted_buffers().is_some_and(|each| each.contains(&Memory::Gpu))
    }

    /// Takes BUSBW_BACKEND where `--backend` is not given.
    ///
    /// # Errors
    /// No backend has that name.
    pub fn complete(&mut self, environment: &Environment) -> Result<(), BadOption> {
        if let (None, Some(name)) = (self.backend, &environment.backend) {
            let named = BackendChoice::all().into_iter().find(|b| b.name() == name.trim());
            self.backend = Some(named.ok_or_else(|| {
                let names = BackendChoice::all().map(|backend| backend.name());
                BadOption::new(format!(
                    "{BACKEND}={name}: there is no such backend; the names are {}",
                    names.join(", ")
                ))
            })?);
        }
        Ok(())
    }

    /// What stdout carries.
    pub fn output(&self) -> Output {
        match (self.csv, self.json) {
            (true, _) => Output::Csv,
            (_, true) => Output::Json,
            _ => Output::Table(self.units.unwrap_or_default()),
        }
    }

    /// How much is said on stderr.
    pub fn talk(&self) -> Talk {
        match (self.quiet, self.verbose) {
            (true, _) => Talk::Quiet,
            (_, true) => Talk::Verbose,
            _ => Talk::Usual,
        }
    }
}

/// A backend's name, which stands for it with the defaults of its own options.
fn backends() -> impl TypedValueParser<Value = BackendChoice> {
    let values = BackendChoice::all().map(|backend| {
        let spec = backend.spec();
        PossibleValue::new(spec.name).help(spec.help.unwrap_or_default()).hide(spec.help.is_none())
    });
    let named = |name: String| BackendChoice::all().into_iter().find(|b| b.name() == name);
    PossibleValuesParser::new(values)
        .try_map(move |name| named(name).ok_or("no backend has this name"))
}

/// `gpu`, or `gpu,host`.
fn buffers(text: &str) -> Result<Buffers, String> {
    let one = |word: &str| match word.trim() {
        "host" => Ok(Memory::Host),
        "gpu" => Ok(Memory::Gpu),
        _ => Err(format!("'{text}' is neither host nor gpu, nor two of them, such as gpu,host")),
    };
    Ok(Buffers(match text.split_once(',') {
        None => [one(text)?; 2],
        Some((first, second)) => [one(first)?, one(second)?],
    }))
}

/// `2%` or `0.02`, as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text.trim(), 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value * unit > 0.0 && value * unit < 1.0 => Ok(value * unit),
        _ => Err(format!("'{text}' is not between 0 % and 100 %, such as 2%")),
    }
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('s').parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("'{text}' is not a number of seconds")),
    }
}
