//! From processes that a launcher started to ranks of MPI, which must be the same ones: libraries of one MPI
//! under the launcher of another leave every process alone, and would make as many tables.
//! Not the launcher's variables themselves (`options::launched`).

use std::{sync::Arc, time::Duration};

use busbw_core::{exit::Exit, plan::Plan};
use busbw_ffi::{
    gpu::Context,
    mpi::{Joined, Launcher, Meeting, Rank, RankError, Session, Started, Threads},
};
use busbw_job::world::World;

use super::{Gpu, Libraries};
use crate::{
    backend::{BackendError, nccl},
    measure::MeasureError,
};
use busbw_job::launched::Launched;

/// How long ranks wait for what others found when they joined, without -T.
const PATIENCE: Duration = Duration::from_secs(60);

/// Joins the others.
///
/// # Errors
/// [`MeasureError`]: a library that cannot be used, or ranks that are others than the launcher says.
pub(super) fn join(
    plan: &Plan,
    libraries: &Libraries,
    gpu: Option<&Gpu>,
    world: &mut dyn World,
) -> Result<Rank, MeasureError> {
    let refused = |text: String, exit| BackendError::Refused { text, exit };
    let mpi = libraries.open().map_err(|error| refused(error.to_string(), Exit::Library))?;
    let take = |gpu: &Gpu| Context::take(gpu.runtime, gpu.facts.ordinal as usize).map(Arc::new);
    let context = gpu.map(take).transpose().map_err(|error| nccl::gpu(world.rank(), error))?;
    // As MPI_Init, which OSU's programs call. We have other threads, but none of them calls MPI; asked for
    // MPI_THREAD_FUNNELED, Open MPI 4.1 takes a lock around every look for messages (22 % of the time of 8 B).
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
    // All of them know before any of them ends.
    let said = if meeting == Meeting::Whole { String::new() } else { meeting.to_string() };
    let deadline =
        std::time::Instant::now() + PATIENCE.max(Duration::from_secs(plan.timeout_s.unwrap_or(0)));
    let all = world.allgather(said.as_bytes(), Some(deadline))?;
    if let Some(said) = all.iter().find(|said| !said.is_empty()) {
        let text = String::from_utf8_lossy(said).into_owned();
        return Err(refused(text, Exit::Usage).into());
    }
    let (proof, window) = (plan.has_proof(), plan.messaging.window as usize);
    Rank::new(session, plan.buffer_bytes(), proof, window, context.as_ref()).map_err(|error| {
        match error {
            RankError::Gpu(error) => nccl::gpu(rank, error).into(),
            RankError::NotAware(_) => {
                refused(format!("rank {rank}: {error}"), Exit::Impossible).into()
            }
            other => refused(format!("rank {rank}: {other}"), Exit::Internal).into(),
        }
    })
}
