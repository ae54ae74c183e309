//! From processes that a launcher started to ranks of MPI, which must be the same ones: libraries of one MPI
//! under the launcher of another leave every process alone, and would make as many tables.
//! Not the launcher's variables themselves (`options::launched`).

use std::time::Duration;

use engine::World;
use model::{exit::Exit, plan::Plan};
use native::mpi::{Joined, Launcher, Meeting, Rank, Session, Started, Threads};

use super::Libraries;
use crate::{backend::BackendError, measure::MeasureError, options::Launched};

/// How long ranks wait for what others found when they joined, without -T.
const PATIENCE: Duration = Duration::from_secs(60);

/// Joins the others.
///
/// # Errors
/// [`MeasureError`]: a library that cannot be used, or ranks that are others than the launcher says.
pub(super) fn join(
    plan: &Plan,
    libraries: &Libraries,
    world: &mut dyn World,
) -> Result<Rank, MeasureError> {
    let refused = |text: String, exit| BackendError::Refused { text, exit };
    let mpi = libraries.open().map_err(|error| refused(error.to_string(), Exit::Library))?;
    // As MPI_Init, which OSU's programs call. We have other threads, but none of them calls MPI; asked for
    // MPI_THREAD_FUNNELED, Open MPI 4.1 takes a lock around every look for messages (22 % of the time of 8 B).
    let session = Session::join(mpi, Threads::Single)
        .map_err(|error| refused(error.to_string(), Exit::Library))?;
    let verified = plan.check > 0;
    let window = plan.messaging.window as usize;
    let rank = Rank::new(session, plan.buffer_bytes(), verified, window)
        .map_err(|error| refused(format!("cannot make buffers: {error}"), Exit::Internal))?;
    let joined = Joined {
        implementation: mpi.implementation(),
        path: mpi.path().display().to_string(),
        rank: rank.rank(),
        ranks: rank.ranks(),
    };
    let by = Launched::read(|name| std::env::var(name).ok()).map_or(Launcher::Other, |l| l.by);
    let started = Started { by, rank: world.rank(), ranks: plan.ranks() };
    let meeting = Meeting::of(Some(started), joined);
    // All of them know before any of them ends.
    let said = if meeting == Meeting::Whole { String::new() } else { meeting.to_string() };
    let deadline =
        std::time::Instant::now() + PATIENCE.max(Duration::from_secs(plan.timeout_s.unwrap_or(0)));
    let all = world.allgather(said.as_bytes(), Some(deadline))?;
    match all.iter().find(|said| !said.is_empty()) {
        None => Ok(rank),
        Some(said) => {
            let text = String::from_utf8_lossy(said).into_owned();
            Err(refused(text, Exit::Usage).into())
        }
    }
}
