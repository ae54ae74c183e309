//! Which variables each launcher sets, and whose count among several.
//! Not the coordinator's address (`coordinator`).

use busbw_core::environment::PODS;
use busbw_ffi::mpi::Launcher;

use super::pods;

/// A launcher's variables. A name is empty where the launcher has none.
pub(super) struct LauncherVariables {
    pub(super) by: Launcher,
    /// Without this one the others come from elsewhere, such as somebody's profile.
    pub(super) shown_by: &'static str,
    pub(super) size: &'static str,
    pub(super) rank: &'static str,
    pub(super) local_size: &'static str,
    pub(super) local_rank: &'static str,
    /// Together they identify a job.
    pub(super) job: &'static [&'static str],
    /// The coordinator's host and port, besides MASTER_ADDR and MASTER_PORT.
    pub(super) address: &'static str,
    pub(super) port: &'static str,
    /// Whether the numbers are those of pods, with one process in each.
    pub(super) pod: bool,
}

/// A launcher that sets nothing.
const NOTHING: LauncherVariables = LauncherVariables {
    by: Launcher::Other,
    shown_by: "",
    size: "",
    rank: "",
    local_size: "",
    local_rank: "",
    job: &[],
    address: "",
    port: "",
    pod: false,
};

/// Set by torch's launchers, and by hand.
const TORCH: LauncherVariables = LauncherVariables {
    size: "WORLD_SIZE",
    rank: "RANK",
    local_size: "LOCAL_WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    job: &["MASTER_ADDR", "MASTER_PORT"],
    ..NOTHING
};

/// The innermost launcher first: torchrun is started by others, mpirun and mpiexec by Slurm, and all of them in pods.
pub(super) const LAUNCHERS: [LauncherVariables; 11] = [
    LauncherVariables {
        // torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers.
        shown_by: "TORCHELASTIC_RUN_ID",
        job: &["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"],
        ..TORCH
    },
    LauncherVariables {
        by: Launcher::OpenMpi,
        size: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        job: &["PMIX_NAMESPACE"],
        ..NOTHING
    },
    LauncherVariables {
        // Hydra; Slurm with --mpi=pmi2 sets PMI_JOBID, too.
        by: Launcher::Hydra,
        size: "PMI_SIZE",
        rank: "PMI_RANK",
        local_size: "MPI_LOCALNRANKS",
        local_rank: "MPI_LOCALRANKID",
        job: &["PMI_JOBID"],
        ..NOTHING
    },
    LauncherVariables {
        by: Launcher::Slurm,
        size: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        local_rank: "SLURM_LOCALID",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        ..NOTHING
    },
    LauncherVariables {
        by: Launcher::Hydra,
        size: "MV2_COMM_WORLD_SIZE",
        rank: "MV2_COMM_WORLD_RANK",
        local_size: "MV2_COMM_WORLD_LOCAL_SIZE",
        local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
        ..NOTHING
    },
    LauncherVariables {
        size: "PALS_SIZE",
        rank: "PALS_RANKID",
        local_rank: "PALS_LOCAL_RANKID",
        job: &["PALS_APID"],
        ..NOTHING
    },
    // Several processes of a host by hand, or by another framework, in a pod, too.
    LauncherVariables { shown_by: "LOCAL_RANK", ..TORCH },
    LauncherVariables {
        // Kubeflow Trainer (pkg/runtime/framework/plugins/torch) and its training-operator
        // (pkg/controller.v1/pytorch/envvar.go), whose WORLD_SIZE counts processes where its RANK counts pods.
        size: "PET_NNODES",
        rank: "PET_NODE_RANK",
        job: &["PET_MASTER_ADDR", "PET_MASTER_PORT"],
        address: "PET_MASTER_ADDR",
        port: "PET_MASTER_PORT",
        pod: true,
        ..NOTHING
    },
    // By hand, or another framework.
    TORCH,
    LauncherVariables {
        // LeaderWorkerSet (lws, pkg/utils/pod/pod_utils.go, AddLWSVariables).
        size: "LWS_GROUP_SIZE",
        rank: "LWS_WORKER_INDEX",
        job: &["LWS_LEADER_ADDRESS"],
        address: "LWS_LEADER_ADDRESS",
        pod: true,
        ..NOTHING
    },
    LauncherVariables {
        // An indexed Job, a JobSet's among them (kubernetes, pkg/controller/job/indexed_job_utils.go). Nothing tells
        // its completions to a pod.
        size: PODS,
        rank: "JOB_COMPLETION_INDEX",
        pod: true,
        ..NOTHING
    },
];

/// A process's number among several, and who tells it.
pub(super) struct Numbers {
    pub(super) size: usize,
    pub(super) rank: usize,
    /// The variables that tell, for messages.
    pub(super) variables: String,
    pub(super) names: &'static LauncherVariables,
    /// The host of process 0, where a list of hosts tells it.
    pub(super) host: Option<String>,
}

impl Numbers {
    /// Of the innermost launcher that tells both; else what follows from a pod's name.
    pub(super) fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<Numbers> {
        let number = |name: &str| lookup(name)?.trim().parse::<usize>().ok();
        let told = LAUNCHERS.iter().find_map(|names| {
            let is_shown = names.shown_by.is_empty() || lookup(names.shown_by).is_some();
            let (size, rank) = (number(names.size)?, number(names.rank)?);
            let variables = format!("{}={size}, {}={rank}", names.size, names.rank);
            is_shown.then_some(Numbers { size, rank, variables, names, host: None })
        });
        told.or_else(|| pods::numbers(lookup))
    }
}

/// The variables of a pod whose numbers follow from its name.
pub(super) const NAMED_POD: &LauncherVariables =
    &LauncherVariables { size: PODS, rank: "HOSTNAME", pod: true, ..NOTHING };
