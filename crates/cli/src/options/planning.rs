//! From options as typed to a plan: defaults by name, checks, and what is waived on this backend.
//! Not the memory cap, which needs the machine and comes when ranks are launched.
//!
//! `ranks` and their backend come first, then the `part` that the kind of benchmark decides, then `timing`; the
//! rest is the same for all.

mod backend;
mod calls;
mod collectives;
mod gpus;
mod latency;
mod launcher;
mod memory;
mod messages;
mod net;
mod osu;
mod pairs;
mod part;
mod ranks;
mod rdma;
mod request;
mod timing;
mod tuner;
mod values;
mod variables;
mod variants;
mod waivers;

use busbw_core::{
    Benchmark, ReduceOp,
    plan::{Plan, Style},
    record::Waiver,
};
pub(crate) use pairs::selection as pair_selection;

use self::{
    part::Part,
    ranks::Ranks,
    timing::Timing,
    values::{count, is_on, names},
};
use super::{
    BenchArguments, Environment,
    arguments::Binding,
    table_form::{release_of, units_of},
};
use busbw_runner::{
    backend::{Resources, nccl::tuner::Tuner},
    request::{Output, Request},
};

pub use request::{BadOption, HostResources, record_place};

/// What is planned for: the options, and where they are given.
struct Asked<'a> {
    benchmark: Benchmark,
    style: Style,
    program: &'a str,
    arguments: &'a BenchArguments,
    environment: &'a Environment,
    host_resources: &'a HostResources,
}

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
    let asked = Asked { benchmark, style, program, arguments, environment, host_resources };
    let ranks = Ranks::of(&asked)?;
    let mut part = part::of(&asked, &ranks)?;
    let timing = timing::of(&asked, &ranks, &mut part)?;
    part.remarks.extend(gpus::kernels(arguments)?);
    let waived = waived(&asked, &ranks, &mut part);
    let mut remarks = std::mem::take(&mut part.remarks);
    let tuner = tuner::wanted(&asked, &ranks)?;
    remarks.extend(tuner.as_ref().and_then(Tuner::remark));
    let plan = assemble(&asked, &ranks, part, timing)?;
    units_of(benchmark, style, plan.latency, arguments.units).map_err(BadOption::new)?;
    remarks.extend(gpus::checked(arguments, &plan, ranks.gpus)?);
    gpus::needed(&asked)?;
    let launched = environment.launched.as_ref();
    Ok(Request {
        ranks_here: launched
            .and_then(|launched| launched.local_size)
            .map_or(plan.ranks(), |processes| processes * plan.ranks_each()),
        plan,
        waived,
        remarks,
        preamble: gpus::absence(&asked).map(|_| "# host memory, no GPU".to_owned()),
        resources: Resources { tuner, ..ranks.resources() },
        output: if environment.relayed { Output::Json } else { arguments.output() },
        talk: arguments.talk(),
        json_report: arguments.json_report.clone().filter(|_| !environment.relayed),
        record: record_place(arguments, environment),
        summary: None,
    })
}

/// Options that mean nothing here: on the backend, for the kind of benchmark, and without a launcher.
fn waived(asked: &Asked<'_>, ranks: &Ranks<'_>, part: &mut Part) -> Vec<Waiver> {
    let mut waived = waivers::of_backend(asked.arguments, ranks.backend.spec());
    waived.append(&mut part.waived);
    waived.extend(launcher::waived(asked.environment.launched.as_ref(), asked.arguments));
    waived
}

/// Puts the parts together with what is the same for every kind of benchmark.
fn assemble(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    part: Part,
    timing: Timing,
) -> Result<Plan, BadOption> {
    let (a, environment) = (asked.arguments, asked.environment);
    let (min_bytes, max_bytes, step) = part.sizes;
    let (iterations, warmup, messaging) = part.loops;
    let nccl_tests_version =
        release_of(asked.benchmark, asked.style, part.latency, a.nccl_tests_version)
            .map_err(BadOption::new)?;
    let plan = Plan {
        benchmark: asked.benchmark,
        program: asked.program.to_owned(),
        style: asked.style,
        backend: ranks.backend,
        buffers: ranks.buffers,
        threads: ranks.threads,
        devices: ranks.devices,
        launched: ranks.processes,
        rank_layout: ranks.backend.spec().rank_layout(asked.style, environment.launched.is_some()),
        bind: (ranks.gpus.is_some() || ranks.backend.verbs_options().is_some())
            && a.bind == Binding::Numa,
        first_device: ranks.first_device(asked)?,
        min_bytes,
        max_bytes,
        step,
        iterations,
        aggregated: count("-m", a.aggregated, 1, 1, 1 << 20)? as u32,
        warmup,
        cycles: timing.cycles,
        check: part.check,
        datatypes: part.datatypes,
        ops: names(
            "-o",
            a.op.as_deref(),
            ReduceOp::Sum,
            &ReduceOp::ALL,
            ReduceOp::name,
            ReduceOp::from_name,
        )?,
        roots: part.roots,
        blocking: timing.blocking,
        average: timing.average,
        timeout_s: Some(count("-T", a.timeout, 0, 0, 1 << 30)? as u64).filter(|t| *t > 0),
        graph: timing.graph,
        cpu_time: timing.cpu_time,
        timestamps: is_on(a.timestamps),
        per_iteration: timing.per_iteration,
        per_iteration_skip: timing.per_iteration_skip,
        parallel_init: is_on(a.parallel_init),
        memory_report: is_on(a.memory),
        unalign: count("-u", a.unalign, 0, 0, 1 << 20)? as usize,
        sampling: timing.sampling,
        colours: ranks.colours.clone(),
        min_bandwidth: variables::min_bandwidth(environment)?,
        traffic: part.traffic,
        traffic_summary: variables::traffic_summary(environment),
        seed: a.seed.unwrap_or(asked.host_resources.seed),
        fault: a.fault,
        messaging,
        virtual_nodes: count("--virtual-nodes", a.virtual_nodes, 1, 1, 4096)? as usize,
        latency: part.latency,
        pairing: part.pairing,
        calls: part.calls,
        osu: part.osu,
        nccl_tests_version,
        variants: variants::of(asked, ranks)?,
    };
    ranks.checked(&plan, a.fault)?;
    Ok(plan)
}

#[cfg(test)]
mod tests;
