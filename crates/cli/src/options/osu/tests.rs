//! From words behind OSU's names to plans.

use busbw_core::{
    Benchmark, Collective, DataType,
    exit::Exit,
    plan::{BackendChoice, Blocking, Plan, RankLayout},
};

use super::*;
use crate::options::rdma::RdmaArguments;
use crate::options::{self, Environment};
use crate::options::{BadOption, HostResources};
use busbw_runner::{
    backend::nccl::{Gpus, Libraries},
    request::Request,
};

fn parsed(line: &str) -> Result<Command, clap::Error> {
    options::parse(line.split_whitespace().map(OsString::from))
}

fn request_on(line: &str, gpus: usize) -> Result<Request, BadOption> {
    let Ok(Command::Bench { benchmark, style, program, arguments }) = parsed(line) else {
        panic!("{line} does not parse");
    };
    let libraries = Libraries { amd: false, driver: "d".into(), nccl: "n".into() };
    let gpus = match gpus {
        0 => Err("there is no driver".to_owned()),
        count => Ok(Gpus { count, memory: 1 << 34, libraries }),
    };
    let host_resources =
        HostResources { cores: 8, cores_of_parent: 8, gpus, mpi: Err("none".to_owned()), seed: 1 };
    let environment = Environment::default();
    options::plan(benchmark, style, &program, &arguments, &environment, &host_resources)
}

fn request(line: &str) -> Result<Request, BadOption> {
    request_on(line, 0)
}

fn plan(line: &str) -> Plan {
    request(line).unwrap_or_else(|why| panic!("{line}: {why}")).plan
}

fn sizes(line: &str) -> Vec<u64> {
    plan(line).sizes().collect()
}

/// c/util/osu_util.h: LAT_, BW_ and COLL_LOOP_SMALL and what follows them.
#[test]
fn defaults_are_osus() {
    for (line, last, small, large) in [
        ("busbw osu_latency", 4 << 20, (10_000, 100), (1000, 10)),
        ("busbw osu_multi_lat", 4 << 20, (10_000, 100), (1000, 10)),
        ("busbw osu_bw", 4 << 20, (100, 10), (20, 2)),
        ("/usr/libexec/osu_mbw_mr", 4 << 20, (100, 10), (20, 2)),
        ("busbw osu_allreduce", 1 << 20, (1000, 100), (100, 10)),
        ("busbw osu_barrier", 0, (1000, 100), (100, 10)),
    ] {
        let plan = plan(line);
        assert_eq!((plan.max_bytes, plan.loops(8192)), (last, small), "{line}");
        assert_eq!(plan.loops(8193), large, "{line}");
        assert_eq!((plan.messaging.window, plan.sampling.min_batches), (64, 1), "{line}");
        assert_eq!((plan.datatypes.as_slice(), plan.check), (&[DataType::Int8][..], 0), "{line}");
        assert_eq!(plan.style, Style::Osu, "{line}");
        let collective = plan.benchmark.collective().is_some();
        assert_eq!(plan.latency, collective, "{line}");
        assert_eq!(plan.blocking == Blocking::Outer, collective, "{line}");
    }
    assert_eq!(plan("busbw osu_latency").ranks(), 2);
    assert_eq!(plan("busbw osu_allreduce").ranks(), 8);
    assert_eq!(plan("busbw osu_mbw_mr").messaging.pairs, Some(4));
}

#[test]
fn sizes_double_from_any_first_one() {
    assert_eq!(sizes("busbw osu_latency -m 0:4"), [1, 2, 4]);
    assert_eq!(sizes("busbw osu_latency -m 5:40"), [5, 10, 20, 40]);
    assert_eq!(sizes("busbw osu_latency -m :2"), [1, 2]);
    assert_eq!(sizes("busbw osu_latency -m 2M:"), [2 << 20, 4 << 20]);
    assert_eq!(sizes("busbw osu_barrier -m 1:8"), [0]);
    assert_eq!(sizes("busbw osu_allreduce -m 4:16").len(), 3);
}

/// One value holds for all sizes, as `-i 50` sets both of OSU's.
#[test]
fn iterations_hold_for_all_sizes() {
    let plan = plan("busbw osu_bw -i 50 -x 5");
    assert_eq!((plan.loops(1), plan.loops(1 << 20)), ((50, 5), (50, 5)));
}

#[test]
fn options_reach_the_plan() {
    let plan = plan("busbw osu_reduce -g 4 -f -c -z1,2 -k fixed:3 -l -T mpi_int -T mpi_float");
    assert_eq!(plan.datatypes, [DataType::Int32, DataType::Float]);
    assert_eq!((plan.roots.as_slice(), plan.check), (&[3][..], 1));
    assert_eq!(plan.messaging.percentiles, [1, 2]);
    assert!(plan.osu.is_some_and(|osu| osu.full && osu.in_place));
    let several = request("busbw osu_mbw_mr -g 6 -p 2 -R 0 -b multiple -W 8").unwrap().plan;
    assert_eq!(several.pairs(busbw_core::messages::Messages::MultiBandwidth), [(0, 2), (1, 3)]);
    assert_eq!((several.messaging.window, several.data_bytes()), (8, 8 * (4 << 20)));
    assert!(several.osu.is_some_and(|osu| !osu.rate));
    // An odd rank is left over, as in OSU.
    assert_eq!(request("busbw osu_multi_lat -g 5").unwrap().plan.messaging.pairs, Some(2));
    let varied = request("busbw osu_mbw_mr -V").unwrap().plan;
    assert_eq!(varied.messaging.windows().collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128]);
}

/// Every rank's buffer holds a message of each, which `-M` limits.
#[test]
fn memory_limits_what_is_gathered() {
    let request = |line| request(line).unwrap();
    let gathered = request("busbw osu_allgather -g 8 -M 4M");
    assert_eq!((gathered.plan.max_bytes, gathered.plan.data_bytes()), (512 << 10, 4 << 20));
    let said = "Warning! Limiting max message size to: 524288. Increase -M, --mem-limit for higher message sizes.";
    assert!(gathered.remarks.iter().any(|remark| remark == said), "{:?}", gathered.remarks);
    let whole = request("busbw osu_allreduce -g 8 -M 1");
    assert_eq!(whole.plan.max_bytes, 1 << 20);
    assert!(whole.remarks[0].contains("too low, using [1048576]"), "{:?}", whole.remarks);
    let reduced = request("busbw osu_allreduce -g 8 -m 8M -M 2097152");
    assert_eq!(reduced.plan.max_bytes, 2 << 20);
    assert!(reduced.remarks[0].contains("size to: 2097152."), "{:?}", reduced.remarks);
}

#[test]
fn refused() {
    for (line, why) in [
        ("busbw osu_latency -A", "no option -A"),
        ("busbw osu_latency -D cont", "no derived types"),
        ("busbw osu_latency -P x", "no PAPI"),
        ("busbw osu_latency -m 8:4", "must not be above"),
        ("busbw osu_latency -m x", "not a size"),
        ("busbw osu_allgather -M x", "not a size"),
        ("busbw osu_latency -i 0", "between 1"),
        ("busbw osu_latency -i 5x", "whole number"),
        ("busbw osu_latency -z101", "between 0 and 100"),
        ("busbw osu_latency -z1,2,3,4,5,6", "room for 5"),
        ("busbw osu_latency -T mpi_double", "none of mpi_char"),
        ("busbw osu_latency -u 11", "between 0 and 10"),
        ("busbw osu_latency -clug", "log:FOLDER"),
        ("busbw osu_latency -b both", "neither single"),
        ("busbw osu_latency D", "one for each side"),
        ("busbw osu_latency MD H", "no managed memory"),
        ("busbw osu_latency more words", "no place of buffers"),
        ("busbw osu_allreduce D D", "-d cuda"),
        ("busbw osu_allreduce -d managed", "memory of GPUs"),
        ("busbw osu_reduce -k rotate", "in turn"),
        ("busbw osu_mbw_mr -V -W 8", "leave out -W"),
        ("busbw osu_put_bw", "no one-sided messages"),
        ("busbw osu_iallreduce -m 4", "no non-blocking collectives"),
        ("busbw osu_init", "no tests of MPI's start"),
        ("busbw osu_bw_fan_in", "no tests of congestion"),
        ("./osu_allgatherv", "counts for each rank"),
        ("busbw osu_latancy", "perhaps osu_latency"),
        ("busbw osu_latency --csv --json", "cannot be used with"),
        ("busbw osu_latency --minbytes 8", "no option --minbytes"),
    ] {
        let error = parsed(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(why), "{line}: {error}");
    }
    for (line, why, exit) in [
        ("busbw osu_latency -g 3", "between two ranks", Exit::Usage),
        ("busbw osu_latency -m 8G", "4 GiB", Exit::Usage),
        ("busbw osu_allreduce -g 1", "two ranks at least", Exit::Usage),
        ("busbw osu_mbw_mr -g 4 -p 3", "2 pairs at most", Exit::Usage),
        ("busbw osu_reduce -g 4 -k fixed:4", "0 to 3", Exit::Usage),
        ("busbw osu_latency D D", "no buffers on GPUs", Exit::Impossible),
        ("busbw osu_xccl_allreduce", "--backend nccl cannot run here", Exit::Impossible),
    ] {
        let refused = request(line).unwrap_err();
        assert!(refused.to_string().contains(why), "{line}: {refused}");
        assert_eq!(refused.exit, exit, "{line}");
    }
}

#[test]
fn waived_with_a_reason() {
    let request = request("busbw osu_bw -u 5 -G tty -I -t 4 -c").unwrap();
    let options: Vec<&str> = request.waived.iter().map(|waiver| waiver.option.as_str()).collect();
    assert_eq!(options, ["-u 5", "-G tty", "-I", "-t 4"]);
    assert!(request.waived.iter().all(|waiver| !waiver.reason.is_empty()));
    // As many operations as are timed.
    assert_eq!((request.plan.check, request.plan.checks(7)), (1, 7));
}

#[test]
fn backends() {
    let of = |line, gpus| request_on(line, gpus).unwrap();
    let host = of("busbw osu_allreduce", 8);
    assert_eq!((host.plan.backend, host.plan.ranks()), (BackendChoice::Host, 8));
    assert!(host.remarks.iter().any(|remark| remark.contains("MPI is not used")));
    let asked = of("busbw osu_allreduce --backend host", 0);
    assert!(!asked.remarks.iter().any(|remark| remark.contains("MPI")), "{:?}", asked.remarks);
    let xccl = of("busbw osu_xccl_allreduce", 4).plan;
    assert!(matches!(xccl.backend, BackendChoice::Nccl(_)));
    assert_eq!((xccl.ranks(), xccl.rank_layout), (4, RankLayout::Processes));
    assert_eq!(xccl.datatypes, [DataType::Float]);
    assert_eq!(xccl.osu.map(|osu| osu.on_gpus), Some([true; 2]));
    assert_eq!(of("busbw osu_xccl_bcast", 4).plan.datatypes, [DataType::Int8]);
    let sides = request_on("busbw osu_xccl_latency D H", 4).unwrap_err();
    assert!(sides.to_string().contains("use D D"), "{sides}");
}

/// OSU compares its number of elements with the threshold, and checks nothing (osu_xccl_allreduce.c:114).
#[test]
fn xccl_counts_bytes_and_checks() {
    let plan = request_on("busbw osu_xccl_allreduce -c", 4).unwrap().plan;
    let sweep = plan.sweeps()[0];
    let case = plan.case(Collective::AllReduce, sweep, 16_384, 4);
    assert_eq!(case.counts.param, 4096);
    assert_eq!((plan.loops(16_384), plan.check), ((100, 10), 1));
}

/// Whatever of our own means something here; not nccl-tests' options, whose letters and words OSU has for others.
#[test]
fn our_own_options_are_taken() {
    let theirs = [
        "minbytes",
        "maxbytes",
        "stepbytes",
        "stepfactor",
        "iters",
        "agg_iters",
        "warmup_iters",
        "window-size",
        "run_cycles",
        "average",
        "blocking",
        "check",
        "op",
        "datatype",
        "root",
        "unalign",
        "per_iter_timing",
        "per_iter_skip",
        "report_timestamps",
        "report_cputime",
        "memory",
        "output_file",
        "units",
        "nccl-tests-version",
        "cudagraph",
        "parallel_init",
        "stream_null",
        "local_register",
        "cta_policy",
        "algorithm",
        "min-ctas",
        "max-ctas",
        "device_implementation",
        "device_cta_count",
        "tuner",
        // The words D and H.
        "buffers",
        // What OSU's collectives are by themselves.
        "latency",
    ];
    let grammar = BenchArguments::augment_args(Grammar::new(""));
    let mut not_taken: Vec<&str> = grammar.get_arguments().filter_map(|a| a.get_long()).collect();
    let of_kubernetes = KubernetesArguments::augment_args(Grammar::new(""));
    not_taken.retain(|long| !OURS.contains(long));
    not_taken.retain(|long| !of_kubernetes.get_arguments().any(|a| a.get_long() == Some(long)));
    let of_rdma = RdmaArguments::augment_args(Grammar::new(""));
    not_taken.retain(|long| !of_rdma.get_arguments().any(|a| a.get_long() == Some(long)));
    assert_eq!(not_taken, theirs);
    let through_mpi = request("busbw osu_latency --mpi /x/libmpi.so").unwrap_err();
    assert!(through_mpi.to_string().starts_with("--backend mpi cannot run here"), "{through_mpi}");
    let line = "busbw osu_bw --mpi x --json --record y -H a:1,b:1 --launcher mpirun";
    let Ok(Command::Bench { arguments, .. }) = parsed(line) else { panic!("it does not parse") };
    assert_eq!(arguments.mpi.as_deref(), Some(std::path::Path::new("x")));
    assert!(arguments.json && arguments.record.is_some());
    assert_eq!(arguments.launching.hosts.map(|hosts| hosts.0.len()), Some(2));
    let line = "busbw osu_bw --launcher kubernetes --nodes 2 --image here/busbw:1 --share-nodes";
    let Ok(Command::Bench { arguments, .. }) = parsed(line) else { panic!("it does not parse") };
    assert_eq!(arguments.launching.kubernetes.image.as_deref(), Some("here/busbw:1"));
}

#[test]
fn help_and_version() {
    let text = |line: &str| match parsed(line) {
        Ok(Command::Text(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(text("busbw osu_latency -v"), "# OSU MPI Latency Test v7.4\n");
    assert_eq!(text("osu_bw -v --backend host"), "# OSU HOST Bandwidth Test v7.4\n");
    assert_eq!(text("busbw osu_xccl_bw -v D D"), "# OSU NCCL-CUDA Bandwidth Test v7.4\n");
    for program in &PROGRAMS {
        let help = text(&format!("busbw {} --help", program.name));
        assert!(help.contains(program.name) && help.contains("--tail-lat"), "{help}");
        let windows = program.takes('V').is_some();
        assert_eq!(help.contains("--vary-window"), windows, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
    }
}

#[test]
fn latency_of_our_own_collectives() {
    let plan = plan("busbw all_reduce --latency -g 2");
    assert!(plan.latency && plan.osu.is_none() && plan.style == Style::Busbw);
    assert_eq!((plan.loops(8192), plan.loops(8193)), ((200, 20), (20, 2)));
    assert_eq!(plan.sampling.min_batches, 6);
    let barrier = request("busbw barrier -c 5 -z 1 -b 8").unwrap();
    assert_eq!(barrier.plan.benchmark, Benchmark::Collective(Collective::Barrier));
    assert!(barrier.plan.latency && barrier.plan.check == 0);
    assert_eq!(barrier.plan.sizes().collect::<Vec<_>>(), [0]);
    assert_eq!(barrier.waived.len(), 3, "{:?}", barrier.waived);
    assert!(parsed("busbw barrier_perf").is_err());
}
