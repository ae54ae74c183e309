//! From processes that a launcher started to ranks of MPI. Both must be the same: one MPI's library
//! under another MPI's launcher leaves every process alone, and each would print a table of its
//! own.
//! Not the launcher's variables themselves (`busbw_job::launched`).

use std::{sync::Arc, time::Duration};

use busbw_core::{exit::Exit, plan::Plan};
use busbw_ffi::{
    gpu::Context,
    mpi::{Joined, Launcher, Meeting, Rank, RankError, Session, Started, Threads},
};
use busbw_job::world::World;

use super::{Gpu, Libraries};
use crate::backend::{BackendError, RunError, nccl};
use busbw_job::launched::Launched;

/// How long ranks wait for the results of each other's start, without `-T`.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Initialises MPI together with the other ranks.
///
/// # Errors
/// The library cannot be used, or MPI has other ranks than the launcher says.
pub(super) fn join(
    plan: &Plan,
    libraries: &Libraries,
    gpu: Option<&Gpu>,
    world: &mut dyn World,
) -> Result<Rank, RunError> {
    let refused = |text: String, exit| BackendError::Refused { text, exit };
    let mpi = libraries.open().map_err(|error| refused(error.to_string(), Exit::Library))?;
    let take = |gpu: &Gpu| Context::take(gpu.runtime, gpu.facts.ordinal as usize).map(Arc::new);
    let context = gpu.map(take).transpose().map_err(|error| nccl::gpu(world.rank(), error))?;
    // MPI_Init, as in OSU's programs. This process has other threads, but none of them calls MPI.
    // With MPI_THREAD_FUNNELED, Open MPI 4.1 takes a lock around every poll for messages (22 % of
    // the time of 8 B).
    let session = Session::join(mpi, Threads::Single)
        .map_err(|error| refused(error.to_string(), Exit::Library))?;
    let (rank, ranks) = session
        .world()
        .map(|of_mpi| (of_mpi.rank(), of_mpi.ranks()))
        .map_err(|error| refused(error.to_string(), Exit::Library))?;
    let path = mpi.path().display().to_string();
    let joined = Joined { implementation: mpi.implementation(), path, rank, ranks };
    let by = Launched::read(|name| std::env::var(name).ok()).map_or(Launcher::Other, |l| l.by);
    let started = Started { by, rank: world.rank(), ranks: plan.ranks() };
    let meeting = Meeting::of(Some(started), joined);
    // All ranks learn it before any of them ends.
    let said = if meeting == Meeting::Whole { String::new() } else { meeting.to_string() };
    let deadline = std::time::Instant::now()
        + JOIN_TIMEOUT.max(Duration::from_secs(plan.timeout_s.unwrap_or(0)));
    let all = world.allgather(said.as_bytes(), Some(deadline))?;
    if let Some(said) = all.iter().find(|said| !said.is_empty()) {
        let text = String::from_utf8_lossy(said).into_owned();
        return Err(refused(text, Exit::Usage).into());
    }
    let (check, window) = (plan.has_check_buffer(), plan.messaging.window as usize);
    Rank::new(session, plan.buffer_bytes(), check, window, context.as_ref()).map_err(|error| {
        match error {
            RankError::Gpu(error) => nccl::gpu(rank, error).into(),
            RankError::NotAware(_) => {
                refused(format!("rank {rank}: {error}"), Exit::Impossible).into()
            }
            other => refused(format!("rank {rank}: {other}"), Exit::Internal).into(),
        }
    })
}
