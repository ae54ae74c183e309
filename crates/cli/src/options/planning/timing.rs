//! How the iterations of a batch are started and timed, and how often batches, launches and passes repeat.
//! Not how many iterations there are: the kind of benchmark decides that.

use busbw_core::plan::{Average, Blocking, GpuOptionUse, Sampling, Style};

use super::{
    Asked, BadOption, gpus,
    part::Part,
    ranks::Ranks,
    values::{blocking, count, is_on, per_iteration},
};

/// Six batches: the fewest from which a distribution-free 95 % interval of the median exists.
const DEFAULT_BATCHES: u32 = 6;
/// Seconds that `--precision` may take a placement without `--max-time`.
const DEFAULT_MAX_TIME_S: f64 = 30.0;

/// How a plan is timed; the fields are the plan's.
pub(super) struct Timing {
    pub(super) graph: u32,
    pub(super) blocking: Blocking,
    pub(super) average: Average,
    pub(super) cpu_time: bool,
    pub(super) per_iteration: bool,
    pub(super) per_iteration_skip: u32,
    pub(super) cycles: u64,
    pub(super) sampling: Sampling,
}

/// Reads it from the options; what is ignored becomes a remark.
///
/// # Errors
/// Options that exclude each other, or that CUDA refuses.
pub(super) fn of(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    part: &mut Part,
) -> Result<Timing, BadOption> {
    let (a, latency) = (asked.arguments, part.latency);
    let graph = count("-G", a.graph, 0, 0, 1 << 20)? as u32;
    let graph = match ranks.backend.spec().gpu_options {
        GpuOptionUse::Waived { .. } => 0,
        _ if latency => 0,
        GpuOptionUse::Used | GpuOptionUse::Modelled => graph,
    };
    let blocking = blocking(a, graph, &mut part.remarks)?;
    if ranks.gpus.is_some() {
        gpus::capturable(a, graph, matches!(blocking, Blocking::Inner | Blocking::InnerBarrier))?;
    }
    let (per_iteration, per_iteration_skip) =
        per_iteration(a, graph, part.loops.0, &mut part.remarks);
    if per_iteration && a.row_time.is_some() {
        return Err(BadOption::new(
            "--row-time lowers iterations, -I reports each of them: use one of them",
        ));
    }
    let average = match count("-a", a.average, 1, 0, 3)? {
        _ if latency => Average::Mean,
        0 => Average::Rank0,
        1 => Average::Mean,
        2 => Average::Min,
        _ => Average::Max,
    };
    let (cycles, sampling) = repeated(asked)?;
    Ok(Timing {
        graph,
        blocking: if latency { Blocking::Outer } else { blocking },
        average,
        cpu_time: is_on(a.cpu_time) && !latency,
        per_iteration: per_iteration && !latency,
        per_iteration_skip,
        cycles,
        sampling,
    })
}

/// Passes over all sizes, and batches and launches.
fn repeated(asked: &Asked<'_>) -> Result<(u64, Sampling), BadOption> {
    let a = asked.arguments;
    let batches = if asked.style == Style::Busbw { DEFAULT_BATCHES } else { 1 };
    let sampling = Sampling {
        min_batches: a.batches.unwrap_or(batches).max(1),
        precision: a.precision,
        max_time: a.max_time.unwrap_or(DEFAULT_MAX_TIME_S),
        launches: a.repeat.unwrap_or(1).max(1),
        row_time: a.row_time,
    };
    let cycles = a.cycles.unwrap_or(1).max(0) as u64;
    if sampling.launches > 1 && cycles != 1 {
        return Err(BadOption::new(
            "--repeat launches the ranks afresh, -N repeats within a launch: use one of them",
        ));
    }
    Ok((cycles, sampling))
}
