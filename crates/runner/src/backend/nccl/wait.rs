//! Waits for streams, and checks meanwhile for a failed communicator, an aborted run and a passed
//! deadline.
//! Not what was enqueued.

use std::time::Instant;

use busbw_ffi::nccl::{Nccl as Library, Progress};
use busbw_shm::Wait;

use super::{gpu, nccl};
use crate::backend::BackendError;
use crate::backend::nccl::gpu_rank::GpuRank;

/// Polls of a stream between two checks of NCCL's errors, the abort flag and the clock.
const POLLS_PER_ERROR_CHECK: u32 = 64;

/// What a wait checks.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    pub(super) library: &'static Library,
    /// Whether the supervisor has aborted the run.
    pub(super) stopped: &'a (dyn Fn() -> bool + 'a),
    /// Other rank threads of the communicator.
    pub(super) peers: &'a [usize],
}

impl Watch<'_> {
    /// Waits until the streams of all ranks of this thread are idle.
    pub(super) fn wait(
        &self,
        gpu_ranks: &[GpuRank],
        deadline: Option<Instant>,
    ) -> Result<(), BackendError> {
        let mut looks = 0;
        for gpu_rank in gpu_ranks {
            while !gpu_rank.stream.is_done().map_err(|error| gpu(gpu_rank.rank, error))? {
                looks += 1;
                if looks % POLLS_PER_ERROR_CHECK == 0 {
                    self.check(gpu_ranks, deadline)?;
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Whether something has failed here or elsewhere.
    fn check(&self, gpu_ranks: &[GpuRank], deadline: Option<Instant>) -> Result<(), BackendError> {
        if (self.stopped)() {
            return Err(BackendError::Wait(Wait::Aborted));
        }
        for gpu_rank in gpu_ranks {
            let refused = |error| nccl(gpu_rank.rank, self.library, error);
            if let Progress::Failed(error) = gpu_rank.communicator.progress().map_err(refused)? {
                return Err(refused(error));
            }
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let missing = self.peers.to_vec();
            return Err(BackendError::Wait(Wait::TimedOut { missing }));
        }
        Ok(())
    }
}
