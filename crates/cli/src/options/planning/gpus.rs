//! Options of GPUs, and whether there are enough of them.
//! Not finding them: that was done before.

use busbw_core::{
    Collective,
    environment::BACKEND,
    plan::{CheckedBy, GpuOptions, Plan, RankLayout, Registration, Style, Sweep},
};

use super::{
    Asked, BenchArguments,
    values::{count, is_on},
};
use crate::options::BadOption;
use crate::options::arguments::Proof;
use busbw_runner::backend::nccl::{Gpus, is_within_tolerance};

/// The options that only GPUs have.
pub(super) fn options(a: &BenchArguments) -> Result<GpuOptions, BadOption> {
    let register = match count("-R", a.local_register, 0, 0, 2)? {
        0 => Registration::None,
        1 => Registration::Local,
        _ => Registration::Symmetric,
    };
    // -1 is nccl-tests' own word for leaving it to NCCL.
    // Several are policies of calls (`variants`), and leave the communicator's to NCCL.
    let policy = a.cta_policy.as_ref().filter(|all| all.len() == 1).map(|all| all[0]);
    let cta_policy = count("-x", policy, -1, -1, 2)? as i32;
    Ok(GpuOptions {
        register,
        cta_policy: (cta_policy >= 0).then_some(cta_policy),
        default_stream: is_on(a.stream_null),
        checked_by: match a.proof {
            None => CheckedBy::Gpu,
            Some(Proof::HostFills) => CheckedBy::HostFills,
            Some(Proof::HostVerifies) => CheckedBy::HostVerifies,
        },
    })
}

/// What no graph can hold.
pub(super) fn capturable(a: &BenchArguments, graph: u32, waits: bool) -> Result<(), BadOption> {
    if graph > 0 && waits {
        return Err(BadOption::new(
            "-z 1 and -z 2 wait within what -G captures, which CUDA refuses: use one of them",
        ));
    }
    if graph > 0 && is_on(a.stream_null) {
        return Err(BadOption::new(
            "-y 1 uses the default stream, which CUDA does not capture into a graph (-G): use one of them",
        ));
    }
    Ok(())
}

/// Options of kernels on NCCL's device API: the remark about a number that is not used.
pub(super) fn kernels(a: &BenchArguments) -> Result<Option<String>, BadOption> {
    if a.device_implementation.is_some_and(|d| d > 0) && a.local_register != Some(2) {
        return Err(BadOption::new(
            "-D selects a device-API kernel, which needs symmetric registration: add -R 2",
        ));
    }
    let wrong = a.device_cta_count.filter(|cta| !(1..=128).contains(cta));
    Ok(wrong.map(|cta| format!("-V {cta}: CTAs of a device kernel are 1 to 128; 16 is used")))
}

/// Whether the plan can run on the GPUs, if it is for GPUs: the remark about what is not verified.
pub(super) fn checked(
    a: &BenchArguments,
    plan: &Plan,
    gpus: Option<&Gpus>,
) -> Result<Option<String>, BadOption> {
    let Some(gpus) = gpus else { return Ok(None) };
    enough(plan, gpus, a.share_gpus)?;
    divisible(plan, a.share_gpus)?;
    Ok(unproven(plan))
}

/// Whether there are GPUs for all ranks (nccl-tests src/common.cu:1569).
fn enough(plan: &Plan, gpus: &Gpus, share: bool) -> Result<(), BadOption> {
    let needed = plan.first_device + plan.ranks_each();
    if share && plan.processes() < plan.ranks() {
        let text = match plan.rank_layout {
            RankLayout::Processes => "leave out -t",
            RankLayout::Threads if plan.launched == 1 => "leave out _perf",
            _ => "leave out -t and -g, and let the launcher start one for each",
        };
        return Err(BadOption::new(format!("--share-gpus needs a process for each rank: {text}")));
    }
    if needed <= gpus.count || share {
        return Ok(());
    }
    let from = match plan.first_device {
        0 => String::new(),
        first if plan.launched > 1 => format!(
            " from GPU {first} on, where this process's place on its host or NCCL_TESTS_DEVICE puts them"
        ),
        first => format!(" from GPU {first} on (NCCL_TESTS_DEVICE)"),
    };
    Err(BadOption::impossible(format!(
        "Invalid number of GPUs: {needed} requested but only {} were found. {} ranks need as many GPUs{from}: lower -g or -t, look at CUDA_VISIBLE_DEVICES, or let ranks share GPUs with --share-gpus",
        gpus.count,
        plan.ranks_each()
    )))
}

/// Whether the processes can be presented to NCCL as several nodes: each holds one rank, and each node as many of them.
fn divisible(plan: &Plan, share: bool) -> Result<(), BadOption> {
    let nodes = plan.virtual_nodes;
    if nodes == 1 {
        return Ok(());
    }
    let why = if share {
        "--share-gpus already presents each rank to NCCL as a node of its own".to_owned()
    } else if plan.launched > 1 {
        "a launcher's processes may be on several hosts already".to_owned()
    } else if plan.processes() < plan.ranks() {
        "each rank needs a process: leave out -t and _perf".to_owned()
    } else if !plan.ranks().is_multiple_of(nodes) {
        format!("{} ranks cannot be dealt out evenly: change -g", plan.ranks())
    } else {
        return Ok(());
    };
    Err(BadOption::new(format!("--virtual-nodes {nodes}: {why}")))
}

/// What to say when averages cannot be verified.
fn unproven(plan: &Plan) -> Option<String> {
    let unproven =
        |sweep: &Sweep, ranks: usize| !is_within_tolerance(sweep.datatype, sweep.op, ranks);
    let groups = plan.groups();
    let some = plan.benchmark.collective().is_some_and(Collective::reduces)
        && plan.check > 0
        && plan.sweeps().iter().any(|s| groups.iter().any(|g| unproven(s, g.len())));
    some.then(|| {
        "-o avg of floats of so few bits is not verified (N/A) over so many ranks: NCCL multiplies each input by 1/n, which is no normal number of the type, and rounding that may change it by a third"
            .to_owned()
    })
}

/// Why no GPU is used, where no backend was asked for.
pub(super) fn absence<'a>(asked: &Asked<'a>) -> Option<&'a str> {
    let is_open = asked.arguments.backend.is_none() && asked.style != Style::Osu;
    asked.host_resources.gpus.as_ref().err().filter(|_| is_open).map(String::as_str)
}

/// Refuses to measure memory of the host in the place of GPUs under nccl-tests' names: who calls them checks GPUs, and
/// may look at the exit code alone.
///
/// # Errors
/// There is no GPU to use, and no backend was asked for.
pub(super) fn needed(asked: &Asked<'_>) -> Result<(), BadOption> {
    match absence(asked) {
        Some(why) if asked.style == Style::NcclTests => Err(BadOption::impossible(format!(
            "{} measures GPUs, and none is used, since {why}; to measure memory of this machine, add --backend host or set {BACKEND}=host",
            asked.program
        ))),
        _ => Ok(()),
    }
}

/// What to say when ranks share what they run on; `is_bound` where a launcher has given this process its cores.
pub(super) fn crowding(
    gpus: Option<&Gpus>,
    cores: usize,
    is_bound: bool,
    ranks: usize,
) -> Option<String> {
    match gpus {
        Some(gpus) => (ranks > gpus.count).then(|| {
            format!(
                "{ranks} ranks share {} of this machine: that tries out NCCL, and measures no hardware",
                match gpus.count {
                    1 => "the one GPU".to_owned(),
                    count => format!("the {count} GPUs"),
                }
            )
        }),
        None => (ranks > cores).then(|| {
            let cores = if cores == 1 { "one core".to_owned() } else { format!("{cores} cores") };
            let whose = if is_bound { "to which the launcher binds them" } else { "of this machine" };
            format!("{ranks} ranks share the {cores} {whose}: times include waiting for a core")
        }),
    }
}
