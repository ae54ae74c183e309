//! From options as typed to a plan: defaults by name, checks, and what is waived on this backend.
//! Not the memory cap, which needs the machine and comes when ranks are launched.

mod gpus;
mod launcher;
mod variables;

use std::path::PathBuf;

use model::{
    Collective, DataType, ReduceOp,
    exit::Exit,
    plan::{Average, BackendChoice, Blocking, Plan, Sampling, Seating, Step, Style},
    record::Waiver,
    size,
};
use thiserror::Error;

use super::{BenchArguments, Environment, Output, arguments::Binding, integer, questions};
use crate::{backend::nccl::Gpus, nearest::nearest};

/// A plan, and what else the options said.
#[derive(Debug, Clone)]
pub struct Request {
    /// What will be run.
    pub plan: Plan,
    /// Options that mean nothing on the plan's backend.
    pub waived: Vec<Waiver>,
    /// What looks like a mistake.
    pub remarks: Vec<String>,
    /// The GPUs that it runs on, if it does.
    pub gpus: Option<Gpus>,
    /// What stdout carries.
    pub output: Output,
    /// nccl-tests' JSON report.
    pub json_report: Option<PathBuf>,
    /// Where the record goes: a path of the user's, the default place, or nowhere.
    pub record: RecordPlace,
}

/// Where the record goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordPlace {
    /// The data folder.
    Default,
    /// Where the user said.
    At(PathBuf),
    /// Nowhere.
    None,
}

/// Why options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct BadOption {
    text: String,
    /// How the program ends for it: 2, or 5 for what this machine does not have.
    pub exit: Exit,
}

impl BadOption {
    fn new(text: impl Into<String>) -> BadOption {
        BadOption { text: text.into(), exit: Exit::Usage }
    }

    fn impossible(text: impl Into<String>) -> BadOption {
        BadOption { text: text.into(), exit: Exit::Impossible }
    }
}

/// What planning must know of the machine.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Cores that this process may use.
    pub cores: usize,
    /// GPUs, or why there are none to use.
    pub gpus: Result<Gpus, String>,
    /// Seed for patterns, when none is given.
    pub seed: u64,
}

/// nccl-tests' sizes where none are given: 32 MiB to 32 MiB by 1 MiB.
const THEIR_SIZE: u64 = 32 << 20;
const THEIR_STEP: u64 = 1 << 20;
/// Ours on `host`: 8 B to 128 MiB, doubling.
const OUR_MIN: u64 = 8;
const OUR_MAX: u64 = 128 << 20;
/// And on GPUs: 8 B to 8 GiB.
const OUR_MAX_ON_GPUS: u64 = 8 << 30;
/// Six batches: the fewest from which a distribution-free 95 % interval of the median exists.
const OUR_BATCHES: u32 = 6;
/// Seconds that `--precision` may take a placement without `--max-time`.
const MAX_TIME: f64 = 30.0;

/// Makes the plan.
///
/// # Errors
/// The first option that cannot be used, with what to write instead.
pub fn plan(
    collective: Collective,
    style: Style,
    program: &str,
    arguments: &BenchArguments,
    environment: &Environment,
    surroundings: &Surroundings,
) -> Result<Request, BadOption> {
    let a = arguments;
    let ours = style == Style::Busbw;
    let backend = gpus::backend(a, surroundings)?;
    let gpus =
        surroundings.gpus.as_ref().ok().filter(|_| matches!(backend, BackendChoice::Nccl(_)));
    let threads = count("-t", a.threads, 1, 1, 4096)? as usize;
    let there = gpus.map_or(surroundings.cores.max(2), |gpus| gpus.count);
    let launched = environment.launched.as_ref();
    // Whoever starts several processes has said how many ranks there are to be.
    let all = ours && launched.is_none();
    let default_devices = if all { there / threads.min(there.max(1)) } else { 1 };
    let devices = count("-g", a.devices, default_devices.max(1) as i64, 1, 4096)? as usize;
    let processes = launched.map_or(1, |launched| launched.size);
    let ranks = processes.saturating_mul(threads * devices);
    if ranks > 4096 {
        return Err(BadOption::new(format!(
            "{processes} × -t {threads} × -g {devices} is {ranks} ranks; 4096 are the most"
        )));
    }
    if let Some(launched) = launched {
        launcher::possible(launched, a, &backend, surroundings)?;
    }

    let largest = if gpus.is_some() { OUR_MAX_ON_GPUS } else { OUR_MAX };
    let (min_bytes, max_bytes, step) = sizes(a, ours, largest)?;
    let iterations = count("-n", a.iterations, 20, 1, 1 << 30)? as u32;
    let traffic = variables::traffic(collective, environment, ranks, min_bytes, max_bytes)?;
    let mut remarks = questions::ask(
        a,
        collective,
        &traffic,
        ranks,
        gpus::crowding(gpus, surroundings.cores, launcher::ranks_here(launched, threads * devices)),
        min_bytes,
        max_bytes,
        step,
    );
    remarks.extend(gpus::absence(a, surroundings));
    let graph = count("-G", a.graph, 0, 0, 1 << 20)? as u32;
    let graph = if matches!(backend, BackendChoice::Host) { 0 } else { graph };
    let blocking = blocking(a, graph, &mut remarks)?;
    let waits = matches!(blocking, Blocking::Inner | Blocking::InnerBarrier);
    if gpus.is_some() {
        gpus::capturable(a, graph, waits)?;
    }
    let (per_iteration, per_iteration_skip) = per_iteration(a, graph, iterations, &mut remarks);
    let cta = a.device_cta_count.unwrap_or(16);
    if !(1..=128).contains(&cta) {
        remarks.push(format!("-V {cta}: CTAs of a device kernel are 1 to 128; 16 is used"));
    }
    if a.device_implementation.is_some_and(|d| d > 0) && a.local_register != Some(2) {
        return Err(BadOption::new(
            "-D selects a device-API kernel, which needs symmetric registration: add -R 2",
        ));
    }

    let sampling = Sampling {
        min_batches: a.batches.unwrap_or(if ours { OUR_BATCHES } else { 1 }).max(1),
        precision: a.precision,
        max_time: a.max_time.unwrap_or(MAX_TIME),
        launches: a.repeat.unwrap_or(1).max(1),
        row_time: a.row_time,
    };
    if per_iteration && a.row_time.is_some() {
        return Err(BadOption::new(
            "--row-time lowers iterations, -I reports each of them: use one of them",
        ));
    }
    let cycles = a.cycles.unwrap_or(1).max(0) as u64;
    if sampling.launches > 1 && cycles != 1 {
        return Err(BadOption::new(
            "--repeat launches the ranks afresh, -N repeats within a launch: use one of them",
        ));
    }
    let colours = variables::colours(environment, ranks)?;
    if !colours.is_empty() && matches!(backend, BackendChoice::Fake(_)) {
        let text = "the cost model has one communicator: NCCL_TESTS_SPLIT cannot be used with it";
        return Err(BadOption::new(text));
    }
    if let Some(fault) = a.fault.filter(|fault| fault.rank >= ranks) {
        return Err(BadOption::new(format!("--fault {fault}: there are only {ranks} ranks")));
    }
    let seating = match backend {
        BackendChoice::Fake(_) => Seating::Alone,
        BackendChoice::Nccl(_) if !ours => Seating::Threads,
        BackendChoice::Host | BackendChoice::Nccl(_) if launched.is_some() => Seating::Launched,
        BackendChoice::Host | BackendChoice::Nccl(_) => Seating::Processes,
    };
    let plan = Plan {
        collective,
        program: program.to_owned(),
        style,
        backend,
        threads,
        devices,
        launched: processes,
        seating,
        bind: gpus.is_some() && a.bind == Binding::Numa,
        first_device: launcher::first_device(environment, gpus, a.share_gpus, threads * devices)?,
        min_bytes,
        max_bytes,
        step,
        iterations,
        aggregated: count("-m", a.aggregated, 1, 1, 1 << 20)? as u32,
        warmup: count("-w", a.warmup, 1, 0, 1 << 30)? as u32,
        cycles,
        check: count("-c", a.check, 1, 0, 1 << 30)? as u32,
        datatypes: names(
            "-d",
            a.datatype.as_deref(),
            DataType::Float,
            &DataType::ALL,
            DataType::name,
        )?,
        ops: names("-o", a.op.as_deref(), ReduceOp::Sum, &ReduceOp::ALL, ReduceOp::name)?,
        roots: roots(a.root.as_deref(), variables::smallest_group(&colours, ranks))?,
        blocking,
        average: match count("-a", a.average, 1, 0, 3)? {
            0 => Average::Rank0,
            1 => Average::Mean,
            2 => Average::Min,
            _ => Average::Max,
        },
        timeout_s: Some(count("-T", a.timeout, 0, 0, 1 << 30)? as u64).filter(|t| *t > 0),
        graph,
        cpu_time: is_on(a.cpu_time),
        timestamps: is_on(a.timestamps),
        per_iteration,
        per_iteration_skip,
        parallel_init: is_on(a.parallel_init),
        memory_report: is_on(a.memory),
        unalign: count("-u", a.unalign, 0, 0, 1 << 20)? as usize,
        sampling,
        colours,
        min_bandwidth: variables::min_bandwidth(environment)?,
        traffic,
        traffic_summary: environment
            .traffic_summary
            .as_deref()
            .is_some_and(|v| !matches!(v.trim(), "" | "0")),
        seed: a.seed.unwrap_or(surroundings.seed),
        fault: a.fault,
        virtual_nodes: count("--virtual-nodes", a.virtual_nodes, 1, 1, 4096)? as usize,
    };
    if let Some(driver) = plan.torn_driver() {
        return Err(BadOption::new(format!(
            "NCCL_TESTS_SPLIT puts GPUs of thread {driver} into different communicators, whose times one thread cannot tell apart: use -t {ranks} -g 1, or {} without _perf, which starts a process for each GPU",
            plan.program.trim_end_matches("_perf")
        )));
    }
    if let Some(gpus) = gpus {
        gpus::enough(&plan, gpus, a.share_gpus)?;
        gpus::divisible(&plan, a.share_gpus)?;
        remarks.extend(gpus::unproven(&plan));
    }
    let waived = match plan.backend {
        BackendChoice::Host => waived_on_host(a),
        BackendChoice::Nccl(_) => gpus::waived(a),
        BackendChoice::Fake(_) => Vec::new(),
    };
    let record = match (&a.record, a.no_record || environment.no_record) {
        (Some(path), _) => RecordPlace::At(path.clone()),
        (None, true) => RecordPlace::None,
        (None, false) => RecordPlace::Default,
    };
    Ok(Request {
        plan,
        waived,
        remarks,
        gpus: gpus.cloned(),
        output: a.output(),
        json_report: a.json_report.clone(),
        record,
    })
}

fn is_on(value: Option<i64>) -> bool {
    value.is_some_and(|v| v != 0)
}

fn count(
    option: &str,
    value: Option<i64>,
    default: i64,
    least: i64,
    most: i64,
) -> Result<i64, BadOption> {
    let value = value.unwrap_or(default);
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(BadOption::new(format!("{option} {value}: it must be between {least} and {most}")))
}

fn sizes(a: &BenchArguments, ours: bool, largest: u64) -> Result<(u64, u64, Step), BadOption> {
    let read = |option: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => {
            size::parse(text).map(Some).map_err(|e| BadOption::new(format!("{option}: {e}")))
        }
    };
    let min = read("-b", &a.min_bytes)?.unwrap_or(if ours { OUR_MIN } else { THEIR_SIZE });
    let max = read("-e", &a.max_bytes)?.unwrap_or(if ours { largest.max(min) } else { THEIR_SIZE });
    let by = read("-i", &a.step_bytes)?;
    let factor = count("-f", a.step_factor, 0, 0, 1 << 40)? as u64;
    if min > max {
        return Err(BadOption::new(format!(
            "-b is {min} bytes and -e {max}: the first size must not be above the last"
        )));
    }
    let step = match (factor, by) {
        (2.., _) => Step::Factor(factor),
        (_, Some(by)) => Step::Bytes(by),
        (1, None) => Step::Bytes(THEIR_STEP),
        (_, None) if ours => Step::Factor(2),
        _ => Step::Bytes(THEIR_STEP),
    };
    match step {
        Step::Factor(f) if min == 0 && max > 0 => Err(BadOption::new(format!(
            "-b 0 with the factor {f} never grows: use -b 8, or steps of bytes with -i"
        ))),
        Step::Bytes(0) if min < max => Err(BadOption::new(
            "-i 0 never grows: give the bytes from one size to the next, or a factor with -f",
        )),
        _ => Ok((min, max, step)),
    }
}

fn names<T: Copy>(
    option: &str,
    text: Option<&str>,
    default: T,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, BadOption> {
    let Some(text) = text else { return Ok(vec![default]) };
    if text == "all" {
        return Ok(all.to_vec());
    }
    if let Some(found) = all.iter().find(|t| name(**t) == text) {
        return Ok(vec![*found]);
    }
    let known: Vec<&str> = all.iter().map(|t| name(*t)).chain(["all"]).collect();
    let hint = nearest(text, known.iter().copied())
        .map_or(String::new(), |(_, near)| format!(", perhaps {}", near.join(" or ")));
    Err(BadOption::new(format!("{option} {text} is none of {}{hint}", known.join(", "))))
}

fn roots(text: Option<&str>, ranks: usize) -> Result<Vec<usize>, BadOption> {
    let text = text.unwrap_or("0");
    if text == "all" {
        return Ok((0..ranks).collect());
    }
    let root = integer::parse(text)
        .map_err(|_| BadOption::new(format!("-r {text} is no rank: write its number, or all")))?;
    match usize::try_from(root) {
        _ if root == -1 => Ok((0..ranks).collect()),
        Ok(root) if root < ranks => Ok(vec![root]),
        _ => Err(BadOption::new(format!(
            "-r {root}: with {ranks} ranks in a communicator the root is 0 to {}, or all",
            ranks - 1
        ))),
    }
}

fn blocking(
    a: &BenchArguments,
    graph: u32,
    remarks: &mut Vec<String>,
) -> Result<Blocking, BadOption> {
    Ok(match count("-z", a.blocking, 0, 0, 3)? {
        0 => Blocking::None,
        1 => Blocking::InnerBarrier,
        2 => Blocking::Inner,
        _ if graph > 0 => {
            remarks.push("-z 3 and -G exclude each other: -z 3 is ignored".to_owned());
            Blocking::None
        }
        _ => Blocking::Outer,
    })
}

/// `-I` and `-K`, lowered with a remark where nccl-tests lowers them with one.
fn per_iteration(
    a: &BenchArguments,
    graph: u32,
    iterations: u32,
    remarks: &mut Vec<String>,
) -> (bool, u32) {
    let mut on = is_on(a.per_iteration);
    if let Some(value) = a.per_iteration.filter(|v| !(0..=1).contains(v)) {
        remarks
            .push(format!("-I {value}: the report of iterations is on (1) or off (0); it is off"));
        on = false;
    }
    if on && graph > 0 {
        remarks.push("-I and -G exclude each other: -I is ignored".to_owned());
        on = false;
    }
    let skip = a.per_iteration_skip.unwrap_or(0);
    if !(0..i64::from(iterations)).contains(&skip) {
        remarks.push(format!(
            "-K {skip}: it leaves out leading iterations, 0 to {}; none are left out",
            iterations - 1
        ));
        return (on, 0);
    }
    if skip > 0 && !on {
        remarks.push(format!("-K {skip} belongs to -I 1, which is off: ignored"));
        return (on, 0);
    }
    (on, skip as u32)
}

/// Options that only mean something on a GPU.
fn waived_on_host(a: &BenchArguments) -> Vec<Waiver> {
    let graphs = "there are no CUDA graphs on the host backend";
    let streams = "there are no streams on the host backend";
    let memory = "host buffers are shared memory already: nothing is registered";
    let kernels = "the host backend runs no device kernels";
    waived([
        ("-G", a.graph, graphs),
        ("-y", a.stream_null, streams),
        ("-R", a.local_register, memory),
        ("-x", a.cta_policy, kernels),
        ("-D", a.device_implementation, kernels),
        ("-V", a.device_cta_count, kernels),
        ("--virtual-nodes", a.virtual_nodes, "the host backend knows no nodes: it moves memory"),
    ])
}

fn waived<const N: usize>(options: [(&str, Option<i64>, &str); N]) -> Vec<Waiver> {
    let waived = options.into_iter().filter_map(|(option, value, reason)| {
        let value = value.filter(|v| *v != 0)?;
        Some(Waiver { option: format!("{option} {value}"), reason: reason.to_owned() })
    });
    waived.collect()
}

#[cfg(test)]
mod tests;
