//! What a launcher means for a plan: which backends its processes can use, and which GPUs each takes.
//! Not how they meet (`launch::party`).

use model::plan::BackendChoice;

use super::{BadOption, BenchArguments, Surroundings, variables};
use crate::{
    backend::nccl::Gpus,
    options::{Environment, Launched},
};

/// Refuses what processes of a launcher cannot do.
pub(super) fn possible(
    launched: &Launched,
    a: &BenchArguments,
    backend: &BackendChoice,
    surroundings: &Surroundings,
) -> Result<(), BadOption> {
    let said = &launched.said;
    if a.repeat.is_some_and(|launches| launches > 1) {
        return Err(BadOption::new(format!(
            "--repeat starts ranks afresh, which only their launcher can ({said}): start busbw so often, or without a launcher"
        )));
    }
    match backend {
        BackendChoice::Fake(_) => Err(BadOption::new(format!(
            "--backend fake has no ranks, and would print a table for each process of the launcher ({said}): start busbw without it, with -g for the number of ranks"
        ))),
        BackendChoice::Host if !launched.one_host => {
            let why = match &surroundings.gpus {
                Err(why) if a.backend.is_none() => format!(", and no GPU is used, since {why}"),
                _ => String::new(),
            };
            Err(BadOption::new(format!(
                "--backend host measures the memory of one machine, and not all processes of the launcher are known to be on this one ({said}){why}"
            )))
        }
        BackendChoice::Host | BackendChoice::Nccl(_) => Ok(()),
    }
}

/// Ranks on this host, as far as the launcher says, at `each` a process.
pub(super) fn ranks_here(launched: Option<&Launched>, each: usize) -> usize {
    each * launched.map_or(1, |launched| if launched.one_host { launched.size } else { 1 })
}

/// The first GPU of this process, or core on `host`: NCCL_TESTS_DEVICE, else its place among those of its
/// host with `each` GPUs a process (nccl-tests src/common.cu:1565-1568). Where it sees no more than `each`,
/// the launcher has dealt them out already.
pub(super) fn first_device(
    environment: &Environment,
    gpus: Option<&Gpus>,
    share: bool,
    each: usize,
) -> Result<usize, BadOption> {
    let (Some(gpus), Some(launched), None) = (gpus, &environment.launched, &environment.device)
    else {
        return variables::first_device(environment);
    };
    if gpus.count == each && !share {
        return Ok(0);
    }
    let Some(place) = launched.local_rank else {
        return Err(BadOption::new(format!(
            "the launcher says which of all processes this is ({}), but not which of this host: set LOCAL_RANK, or NCCL_TESTS_DEVICE to its first GPU",
            launched.said
        )));
    };
    Ok(place * each)
}
