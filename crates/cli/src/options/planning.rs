//! From options as typed to a plan: defaults by name, checks, and what is waived on this backend.
//! Not the memory cap, which needs the machine and comes when ranks are launched.

mod backend;
mod gpus;
mod latency;
mod launcher;
mod memory;
mod messages;
mod net;
mod osu;
mod pairs;
mod request;
mod values;
mod variables;
mod waivers;

use busbw_core::{
    Benchmark, Collective, DataType, ReduceOp,
    alltoallv::Traffic,
    plan::{
        Average, Blocking, GpuOptionUse, Messaging, MovedBy, Plan, RankHolder, Sampling, Step,
        Style,
    },
};

use self::values::{
    OUR_MAX, OUR_MAX_ON_GPUS, OUR_MIN, THEIR_SIZE, blocking, count, is_on, names, per_iteration,
    roots, sizes,
};
use super::{BenchArguments, Environment, arguments::Binding};
use crate::options::suspicious_options;
use busbw_runner::{
    backend::Resources,
    request::{Output, Request},
};

pub use request::{BadOption, HostResources, record_place};

/// Six batches: the fewest from which a distribution-free 95 % interval of the median exists.
const DEFAULT_BATCHES: u32 = 6;
/// Seconds that `--precision` may take a placement without `--max-time`.
const DEFAULT_MAX_TIME_S: f64 = 30.0;

/// Makes the plan.
///
/// # Errors
/// The first option that cannot be used, with what to write instead.
pub fn plan(
    benchmark: Benchmark,
    style: Style,
    program: &str,
    arguments: &BenchArguments,
    environment: &Environment,
    host_resources: &HostResources,
) -> Result<Request, BadOption> {
    let asked = arguments.backend;
    let has_mpi =
        environment.launched.is_some() && (host_resources.mpi.is_ok() || arguments.wants_gpus());
    let arguments = match &arguments.osu {
        Some(osu) => BenchArguments {
            backend: Some(osu::backend(osu, arguments, has_mpi)),
            ..arguments.clone()
        },
        None => arguments.clone(),
    };
    let (a, osu) = (&arguments, arguments.osu.as_deref());
    let ours = style != Style::NcclTests;
    let latency = latency::is_asked(benchmark, style, a);
    let backend = backend::chosen(a, host_resources)?;
    let spec = backend.spec();
    let gpus = host_resources.gpus.as_ref().ok().filter(|_| spec.moved_by == MovedBy::Nccl);
    let mpi = host_resources.mpi.as_ref().ok().filter(|_| spec.moved_by == MovedBy::Mpi);
    let threads = count("-t", a.threads, 1, 1, 4096)? as usize;
    let there = gpus.map_or(host_resources.cores.max(2), |gpus| gpus.count);
    let launched = environment.launched.as_ref();
    // Whoever starts several processes has said how many ranks there are to be.
    let all = ours && launched.is_none();
    let wanted = benchmark.messages().map_or(there, |test| messages::default_ranks(test, there));
    let default_devices = if all { wanted / threads.min(wanted.max(1)) } else { 1 };
    let devices = count("-g", a.devices, default_devices.max(1) as i64, 1, 4096)? as usize;
    let processes = launched.map_or(1, |launched| launched.size);
    let ranks = processes.saturating_mul(threads * devices);
    if ranks > 4096 {
        return Err(BadOption::new(format!(
            "{processes} × -t {threads} × -g {devices} is {ranks} ranks; 4096 are the most"
        )));
    }
    let net = net::wanted(a, &backend)?;
    backend::has(&backend, benchmark)?;
    launcher::held(launched, spec, threads, devices)?;
    let buffers = memory::buffers(a, benchmark, &backend)?;
    let on_gpus = mpi.and_then(|mpi| mpi.gpus.as_ref());
    if let Some(launched) = launched {
        launcher::possible(launched, a, &backend, host_resources)?;
    }

    let largest = if gpus.is_some() { OUR_MAX_ON_GPUS } else { OUR_MAX };
    let range = match benchmark {
        Benchmark::Messages(_) => messages::DEFAULT_SIZES,
        Benchmark::Pairs => pairs::DEFAULT_SIZES,
        Benchmark::Collective(_) if ours => (OUR_MIN, largest),
        Benchmark::Collective(_) => (THEIR_SIZE, THEIR_SIZE),
    };
    let mut remarks = osu.map_or_else(Vec::new, |osu| osu.remarks.clone());
    let (min_bytes, max_bytes, step) = match osu {
        Some(osu) => osu::sizes(osu, ranks, &mut remarks)?,
        None if benchmark == Benchmark::Collective(Collective::Barrier) => (0, 0, Step::Factor(2)),
        None => sizes(a, ours, range)?,
    };
    let step = if benchmark == Benchmark::Pairs { pairs::step(min_bytes, max_bytes) } else { step };
    let (iterations, warmup, messaging) = match benchmark {
        _ if let Some(osu) = osu => osu::loops(osu, ranks)?,
        Benchmark::Messages(test) => {
            messages::possible(test, ranks, max_bytes)?;
            messages::loops(test, a)?
        }
        Benchmark::Pairs => {
            messages::not_too_large(max_bytes)?;
            pairs::loops(a)?
        }
        Benchmark::Collective(_) if latency => latency::loops(a)?,
        Benchmark::Collective(_) => (
            count("-n", a.iterations, 20, 1, 1 << 30)? as u32,
            count("-w", a.warmup, 1, 0, 1 << 30)? as u32,
            Messaging::default(),
        ),
    };
    let traffic = match benchmark.collective() {
        _ if osu.is_some() => Traffic::default(),
        None => Traffic::default(),
        Some(collective) => {
            variables::traffic(collective, environment, ranks, min_bytes, max_bytes)?
        }
    };
    let here = launcher::ranks_here(launched, threads * devices);
    let crowding =
        gpus::crowding(gpus, host_resources.cores, here).filter(|_| !spec.needs_launcher);
    match osu {
        Some(_) => {
            let unasked = osu::unasked(asked, &backend, host_resources);
            remarks.extend(crowding.into_iter().chain(unasked));
        }
        None => {
            let (min, max) = (min_bytes, max_bytes);
            let asked = suspicious_options::suspicious_options(
                a, benchmark, &traffic, ranks, crowding, min, max, step,
            );
            remarks.extend(asked);
        }
    }
    remarks.extend(gpus::absence(a, host_resources));
    let pairing = match benchmark {
        Benchmark::Pairs => {
            remarks.extend(pairs::drawn(a, ranks));
            Some(pairs::pairing(a, &backend, ranks)?)
        }
        _ => None,
    };
    let graph = count("-G", a.graph, 0, 0, 1 << 20)? as u32;
    let graph = match spec.gpu_options {
        GpuOptionUse::Waived { .. } => 0,
        _ if latency => 0,
        _ => graph,
    };
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
        min_batches: a
            .batches
            .unwrap_or(if style == Style::Busbw { DEFAULT_BATCHES } else { 1 })
            .max(1),
        precision: a.precision,
        max_time: a.max_time.unwrap_or(DEFAULT_MAX_TIME_S),
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
    if !colours.is_empty() && benchmark.collective().is_none() {
        let text = "NCCL_TESTS_SPLIT makes communicators of collectives: unset it for messages between pairs";
        return Err(BadOption::new(text));
    }
    if !colours.is_empty() && spec.rank_holder == RankHolder::Simulated {
        return Err(BadOption::new(format!(
            "--backend {} has one communicator: NCCL_TESTS_SPLIT cannot be used with it",
            spec.name
        )));
    }
    if let Some(fault) = a.fault.filter(|f| f.rank.max(f.peer.unwrap_or(0)) >= ranks) {
        return Err(BadOption::new(format!("--fault {fault}: there are only {ranks} ranks")));
    }
    let plan = Plan {
        benchmark,
        program: program.to_owned(),
        style,
        backend,
        buffers,
        threads,
        devices,
        launched: processes,
        rank_layout: spec.rank_layout(style, launched.is_some()),
        bind: gpus.is_some() && a.bind == Binding::Numa,
        first_device: launcher::first_device(
            environment,
            gpus.map(|gpus| gpus.count).or(on_gpus.map(|gpus| gpus.count)),
            a.share_gpus,
            threads * devices,
        )?,
        min_bytes,
        max_bytes,
        step,
        iterations,
        aggregated: count("-m", a.aggregated, 1, 1, 1 << 20)? as u32,
        warmup,
        cycles,
        check: match benchmark {
            Benchmark::Collective(Collective::Barrier) => 0,
            _ => count("-c", a.check, 1, 0, 1 << 30)? as u32,
        },
        datatypes: names(
            "-d",
            a.datatype.as_deref(),
            if benchmark.collective().is_none() { DataType::Int8 } else { DataType::Float },
            &DataType::ALL,
            DataType::name,
        )?,
        ops: names("-o", a.op.as_deref(), ReduceOp::Sum, &ReduceOp::ALL, ReduceOp::name)?,
        roots: roots(a.root.as_deref(), variables::smallest_group(&colours, ranks))?,
        blocking: if latency { Blocking::Outer } else { blocking },
        average: match count("-a", a.average, 1, 0, 3)? {
            _ if latency => Average::Mean,
            0 => Average::Rank0,
            1 => Average::Mean,
            2 => Average::Min,
            _ => Average::Max,
        },
        timeout_s: Some(count("-T", a.timeout, 0, 0, 1 << 30)? as u64).filter(|t| *t > 0),
        graph,
        cpu_time: is_on(a.cpu_time) && !latency,
        timestamps: is_on(a.timestamps),
        per_iteration: per_iteration && !latency,
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
        seed: a.seed.unwrap_or(host_resources.seed),
        fault: a.fault,
        messaging,
        virtual_nodes: count("--virtual-nodes", a.virtual_nodes, 1, 1, 4096)? as usize,
        latency,
        pairing,
        osu: None,
    };
    let plan = match osu {
        Some(osu) => osu::complete(osu, plan)?,
        None => plan,
    };
    if let Some(driver) = plan.thread_spanning_communicators() {
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
    let mut waived = waivers::of_backend(a, spec);
    waived.extend(match osu {
        Some(osu) => osu.waived.clone(),
        None => messages::waived(benchmark, a),
    });
    waived.extend(launcher::waived(launched, a));
    if benchmark == Benchmark::Pairs {
        waived.extend(pairs::waived(a));
    }
    if latency && osu.is_none() {
        waived.extend(latency::waived(benchmark, a));
    }
    Ok(Request {
        ranks_here: launched
            .and_then(|launched| launched.local_size)
            .map_or(plan.ranks(), |processes| processes * plan.ranks_each()),
        plan,
        waived,
        remarks,
        resources: Resources { gpus: gpus.cloned(), mpi: mpi.cloned(), net },
        output: if environment.relayed { Output::Json } else { a.output() },
        json_report: a.json_report.clone().filter(|_| !environment.relayed),
        record: record_place(a, environment),
    })
}

#[cfg(test)]
mod tests;
