//! Waiting for a plugin: asking again without end, but not longer than allowed, nor when the run is over.
//! Not what is asked.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use busbw_ffi::net::NetError;
use busbw_shm::Wait;

use super::failed;
use crate::backend::BackendError;

/// Looks without giving way: a message that is on its way comes within these.
const SPINS: u32 = 64;
/// Looks between two at the clock and at the supervisor's word.
const BETWEEN: u32 = 256;

/// How long a plugin's failure may wait for the supervisor's word, and how often it is looked for.
const REASON: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// A failure of a connection as the run's. Where another rank was lost or gave up, its connections break, and
/// it is not for us to say why: the supervisor does, who hears of it a moment later.
pub(super) fn broken(stopped: &dyn Fn() -> bool, rank: usize, error: NetError) -> BackendError {
    let until = Instant::now() + REASON;
    while matches!(error, NetError::Refused { .. }) && Instant::now() < until {
        if stopped() {
            return Wait::Aborted.into();
        }
        sleep(LOOK);
    }
    failed(rank, error)
}

/// One wait.
pub(super) struct Patience<'a> {
    stopped: &'a dyn Fn() -> bool,
    until: Option<Instant>,
    idle: u32,
}

impl<'a> Patience<'a> {
    pub(super) fn new(stopped: &'a dyn Fn() -> bool, until: Option<Instant>) -> Patience<'a> {
        Patience { stopped, until, idle: 0 }
    }

    /// Something moved.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.idle = 0;
    }

    /// Nothing moved. NCCL would ask again at once; we give way to the plugin's threads and to other ranks.
    ///
    /// # Errors
    /// [`BackendError::Wait`]: the run is over, or `missing` did not do its part in time.
    #[inline]
    pub(super) fn rest(
        &mut self,
        missing: impl FnOnce() -> Vec<usize>,
    ) -> Result<(), BackendError> {
        self.idle = self.idle.wrapping_add(1);
        if self.idle < SPINS {
            std::hint::spin_loop();
            return Ok(());
        }
        std::thread::yield_now();
        if !self.idle.is_multiple_of(BETWEEN) {
            return Ok(());
        }
        if (self.stopped)() {
            return Err(Wait::Aborted.into());
        }
        match self.until {
            Some(until) if Instant::now() >= until => {
                Err(Wait::TimedOut { missing: missing() }.into())
            }
            _ => Ok(()),
        }
    }
}
