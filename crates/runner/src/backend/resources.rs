//! What was found on this machine, or named by the user, for the backend of a run.
//! Not finding it: each backend's `libraries` does that.

use super::{mpi, nccl, net, verbs};

/// The libraries and GPUs of a run; only those that its backend uses.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// The GPUs, with NCCL.
    pub gpus: Option<nccl::Gpus>,
    /// The MPI.
    pub mpi: Option<mpi::Libraries>,
    /// The net plugin.
    pub net: Option<net::Wanted>,
    /// The RDMA devices that may be used.
    pub verbs: Option<verbs::Wanted>,
    /// The tuner that NCCL asks.
    pub tuner: Option<nccl::tuner::Tuner>,
}

impl Resources {
    /// What the ranks' tuner chooses by, which is the same in every process; empty without one.
    pub(crate) fn agreement_of_tuner(&self) -> String {
        self.tuner.as_ref().map(nccl::tuner::Tuner::agreement).unwrap_or_default()
    }

    /// Whether the GPUs are AMD's.
    pub(crate) fn is_amd(&self) -> bool {
        let of_mpi = self.mpi.as_ref().and_then(|mpi| mpi.gpus.as_ref());
        self.gpus.as_ref().is_some_and(|gpus| gpus.libraries.amd)
            || of_mpi.is_some_and(|gpus| gpus.amd)
    }
}
