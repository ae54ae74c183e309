//! The host's resources, for planning: read from this machine, or assumed of hosts elsewhere.
//! Not the planning (`options`).

use std::path::PathBuf;

use busbw_core::plan::MovedBy;
use busbw_host::machine;
use busbw_host::mps;
use busbw_runner::backend::{
    mpi,
    nccl::{Gpus, Libraries},
};

use crate::options::{BenchArguments, HostResources};

/// Why a backend's library was not looked for.
const NOT_LOOKED_FOR: &str = "another backend was asked for";

/// The resources of this machine.
pub fn host_resources(arguments: &BenchArguments) -> HostResources {
    let now = jiff::Timestamp::now().as_nanosecond() as u64;
    HostResources {
        cores: machine::usable_cores().len(),
        cores_of_parent: machine::cores_of_parent(),
        gpus: match moved_by(arguments) {
            None | Some(MovedBy::Nccl) => Gpus::find(arguments.nccl.as_deref()),
            Some(_) => Err(NOT_LOOKED_FOR.to_owned()),
        },
        mpi: match (moved_by(arguments), &arguments.osu) {
            (Some(MovedBy::Mpi), _) | (None, Some(_)) => {
                mpi::Libraries::find(arguments.mpi.as_deref(), arguments.wants_gpus())
            }
            _ => Err(NOT_LOOKED_FOR.to_owned()),
        },
        seed: now ^ u64::from(std::process::id()) << 32,
    }
}

/// Whose code the requested backend uses.
fn moved_by(arguments: &BenchArguments) -> Option<MovedBy> {
    arguments.backend.map(|backend| backend.spec().moved_by)
}

/// The resources that planning assumes of other hosts: whatever the options ask for.
pub fn assumed_host_resources(arguments: &BenchArguments) -> HostResources {
    /// More than any run can ask for.
    const ASSUMED_COUNT: usize = 4096;
    let (nowhere, memory) = (PathBuf::new, u64::MAX);
    let libraries = Libraries { amd: false, driver: nowhere(), nccl: nowhere() };
    let gpus = Gpus { count: ASSUMED_COUNT, memory, libraries };
    let gpus_of_mpi = mpi::Gpus { amd: false, driver: nowhere(), count: ASSUMED_COUNT, memory };
    let is_on_gpus = matches!(moved_by(arguments), None | Some(MovedBy::Nccl));
    HostResources {
        cores: ASSUMED_COUNT,
        cores_of_parent: ASSUMED_COUNT,
        gpus: if is_on_gpus { Ok(gpus) } else { Err(NOT_LOOKED_FOR.to_owned()) },
        mpi: Ok(mpi::Libraries { mpi: nowhere(), gpus: Some(gpus_of_mpi) }),
        seed: 0,
    }
}

/// What `--share-gpus` means for times here.
pub(crate) fn sharing() -> String {
    match mps::pipes() {
        Some(pipes) => format!(
            "ranks share GPUs under CUDA MPS ({}): their kernels run side by side",
            pipes.display()
        ),
        None => "ranks share GPUs without CUDA MPS: their kernels take turns, so no time counts"
            .to_owned(),
    }
}
