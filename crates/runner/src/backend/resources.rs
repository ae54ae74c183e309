//! What was found on this machine, or named by the user, for the backend of a run.
//! Not finding it: each backend's `libraries` does that.

use super::{mpi, nccl, net};

/// The libraries and GPUs of a run; only those that its backend uses.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// The GPUs, with NCCL.
    pub gpus: Option<nccl::Gpus>,
    /// The MPI.
    pub mpi: Option<mpi::Libraries>,
    /// The net plugin.
    pub net: Option<net::Wanted>,
}

impl Resources {
    /// Whether the GPUs are AMD's.
    pub(crate) fn is_amd(&self) -> bool {
        let of_mpi = self.mpi.as_ref().and_then(|mpi| mpi.gpus.as_ref());
        self.gpus.as_ref().is_some_and(|gpus| gpus.libraries.amd)
            || of_mpi.is_some_and(|gpus| gpus.amd)
    }
}
