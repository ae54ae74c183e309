//! Waits for what completes, and failures as errors of the run.
//! Not what is waited for.

use std::time::{Duration, Instant};

use busbw_core::{exit::Exit, plan::Plan};
use busbw_verbs::{Device, VerbsError};

use crate::backend::{
    BackendError,
    patience::{Patience, abort_of_lost_rank},
};

/// Polls without a pause or a yield, some hundred microseconds, where each rank has a core for itself. perftest never yields.
pub(super) const OWN_CORE_POLLS: u32 = 20_000;
/// The same where ranks share cores.
pub(super) const SHARED_CORE_POLLS: u32 = 64;
/// Time between two looks of an end that takes no part: the other one's messages need its core, if the device is software.
const IDLE_LOOK: Duration = Duration::from_millis(1);
/// Polls between two looks at the device's events.
pub(super) const POLLS_PER_EVENT_CHECK: u32 = 4096;
/// Silence after which a message of an unreliable connection is lost: the other end would have answered long ago.
const LOST: Duration = Duration::from_secs(5);
/// Silence after the other end has sent everything, after which what has not come is lost.
pub(super) const SETTLED: Duration = Duration::from_millis(200);

/// What waits need to know.
#[derive(Clone, Copy)]
pub(super) struct Waits<'a> {
    pub(super) plan: &'a Plan,
    pub(super) device: &'a Device,
    /// Whether the supervisor has aborted the run.
    pub(super) stopped: &'a dyn Fn() -> bool,
    /// Our world rank.
    pub(super) rank: usize,
    /// Polls without a pause or a yield.
    pub(super) polls: u32,
}

impl<'a> Waits<'a> {
    /// A wait that starts now.
    pub(super) fn patience(&self) -> Patience<'a> {
        let timeout = self.plan.timeout_s.map(Duration::from_secs);
        Patience::new(self.stopped, timeout.map(|timeout| Instant::now() + timeout))
            .spinning(self.polls)
    }

    /// Polls until `done`, which depends on rank `peer`.
    ///
    /// # Errors
    /// A request failed, the device did, the run was stopped, or `-T` passed.
    #[inline]
    pub(super) fn until(
        &self,
        peer: usize,
        done: impl FnMut() -> Result<bool, VerbsError>,
    ) -> Result<(), BackendError> {
        self.poll(peer, false, done)
    }

    /// As [`Waits::until`], for an end that takes no part meanwhile: it sleeps, as perftest's does.
    pub(super) fn asleep_until(
        &self,
        peer: usize,
        mut done: impl FnMut() -> Result<bool, VerbsError>,
    ) -> Result<(), BackendError> {
        let mut patience = self.patience();
        while !done().map_err(|error| self.failed(error))? {
            self.device.events().map_err(|error| self.failed(error))?;
            patience.look_up(|| vec![peer])?;
            std::thread::sleep(IDLE_LOOK);
        }
        Ok(())
    }

    /// As [`Waits::until`], for a message that may be lost.
    #[inline]
    pub(super) fn until_or_lost(
        &self,
        peer: usize,
        done: impl FnMut() -> Result<bool, VerbsError>,
    ) -> Result<(), BackendError> {
        self.poll(peer, true, done)
    }

    #[inline]
    fn poll(
        &self,
        peer: usize,
        may_be_lost: bool,
        mut done: impl FnMut() -> Result<bool, VerbsError>,
    ) -> Result<(), BackendError> {
        let mut patience = self.patience();
        let (mut polls, mut waited_since): (u32, Option<Instant>) = (0, None);
        while !done().map_err(|error| self.failed(error))? {
            patience.rest(|| vec![peer])?;
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_EVENT_CHECK) {
                self.device.events().map_err(|error| self.failed(error))?;
                let since = waited_since.get_or_insert_with(Instant::now);
                if may_be_lost && since.elapsed() > LOST {
                    return Err(self.refused(format!(
                        "a message to or from rank {peer} was lost: this kind of queue pair sends nothing again (use --connection RC)"
                    )));
                }
            }
        }
        Ok(())
    }

    /// A failure as an error of the run. An event of the device says more than what completes with an error because of
    /// it, and the supervisor more than a broken connection.
    pub(super) fn failed(&self, error: VerbsError) -> BackendError {
        if matches!(error, VerbsError::Misuse(_)) {
            let text = format!("rank {}: {error}", self.rank);
            return BackendError::Refused { text, exit: Exit::Internal };
        }
        let completed = matches!(error, VerbsError::Completed { .. });
        if completed && let Err(aborted) = abort_of_lost_rank(self.stopped) {
            return aborted.into();
        }
        match self.device.events() {
            Err(event) if completed => self.refused(event.to_string()),
            _ => self.refused(error.to_string()),
        }
    }

    /// A text as an error of the run.
    pub(super) fn refused(&self, text: String) -> BackendError {
        let text = format!("rank {}: {text}", self.rank);
        BackendError::Refused { text, exit: Exit::Library }
    }
}
