//! The backend of a run, and what it refuses of the other options.
//! Not what it ignores (`waivers`), and not looking for its libraries: that was done before.

use busbw_core::{
    Benchmark,
    plan::{BackendChoice, GpuOptions, MovedBy},
};
use busbw_runner::backend::collectives;

use super::{Asked, gpus, osu, rdma};
use crate::options::BadOption;

/// Who moves the bytes: what was asked for, else GPUs if there are some, else memory of this machine.
///
/// # Errors
/// What it needs is not here, or the options of another backend are given.
pub(super) fn chosen(asked: &Asked<'_>) -> Result<BackendChoice, BadOption> {
    let (a, host_resources) = (asked.arguments, asked.host_resources);
    let has_mpi =
        asked.environment.launched.is_some() && (host_resources.mpi.is_ok() || a.wants_gpus());
    let wanted = match &a.osu {
        Some(osu) => Some(osu::backend(osu, a, has_mpi)),
        None => a.backend,
    };
    let backend = match (wanted, &host_resources.gpus) {
        (Some(backend), _) => backend,
        // Who names a library means GPUs: another backend would hide the mistake.
        (None, Err(why)) if a.nccl.is_some() && a.mpi.is_none() => {
            return Err(BadOption::impossible(format!("--nccl cannot be used here: {why}")));
        }
        (None, Err(_)) => BackendChoice::Host,
        (None, Ok(_)) => BackendChoice::Nccl(GpuOptions::default()),
    };
    let moved_by = backend.spec().moved_by;
    if let Some(option) = a.rdma.first_given().filter(|_| moved_by != MovedBy::Verbs) {
        let name = backend.name();
        return Err(BadOption::new(format!(
            "{option} is for RDMA devices: --backend {name} uses none by itself (--backend verbs)"
        )));
    }
    if a.mpi.is_some() && !matches!(moved_by, MovedBy::Mpi | MovedBy::Nothing) {
        return Err(BadOption::new("--mpi names the library of --backend mpi: add that, too"));
    }
    let lacking = match moved_by {
        MovedBy::Nccl => host_resources.gpus.as_ref().err(),
        MovedBy::Mpi => host_resources.mpi.as_ref().err(),
        MovedBy::Nothing | MovedBy::Busbw | MovedBy::NetPlugin | MovedBy::Verbs => None,
    };
    if let Some(why) = lacking {
        let name = backend.name();
        return Err(BadOption::impossible(format!("--backend {name} cannot run here: {why}")));
    }
    Ok(match backend {
        BackendChoice::Nccl(_) => BackendChoice::Nccl(gpus::options(a)?),
        BackendChoice::Verbs(_) => BackendChoice::Verbs(rdma::options(&a.rdma, a.wants_gpus())?),
        other => other,
    })
}

/// Refuses a collective of which the backend says beforehand that it has it not.
pub(super) fn has(backend: &BackendChoice, benchmark: Benchmark) -> Result<(), BadOption> {
    let (Some(collective), Some(all)) = (benchmark.collective(), collectives(backend)) else {
        return Ok(());
    };
    if all.contains(&collective) {
        return Ok(());
    }
    if all.is_empty() {
        return Err(BadOption::impossible(format!(
            "--backend {} has no {}: it moves messages between ranks (latency, bw, bibw, mbw_mr, multi_lat, pairs)",
            backend.name(),
            collective.name(),
        )));
    }
    let names: Vec<&str> = all.iter().map(|collective| collective.name()).collect();
    Err(BadOption::impossible(format!(
        "--backend {} has no {}: its collectives are {}, and it has all tests of messages between ranks",
        backend.name(),
        collective.name(),
        names.join(" and ")
    )))
}
