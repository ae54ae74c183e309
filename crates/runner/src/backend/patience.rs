//! Waits that poll a library without a pause, until the deadline passes or the run is aborted.
//! Not what is polled.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use busbw_shm::Wait;

use super::BackendError;

/// Polls without a yield: a message that is on its way arrives within these.
const POLLS_BEFORE_YIELD: u32 = 64;
/// Polls between two checks of the clock and of the abort flag.
const POLLS_PER_CLOCK_CHECK: u32 = 256;

/// How long a failure of a connection waits for the supervisor's abort, which names the real cause.
const ABORT_REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks for that abort.
const ABORT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits a moment for the supervisor's abort after a connection failed. When another rank is lost, its connections
/// break everywhere; only the supervisor knows the cause, and its abort arrives a moment later.
///
/// # Errors
/// The run was aborted: the failure has no other cause.
pub(super) fn abort_of_lost_rank(stopped: &dyn Fn() -> bool) -> Result<(), Wait> {
    let until = Instant::now() + ABORT_REASON_TIMEOUT;
    while Instant::now() < until {
        if stopped() {
            return Err(Wait::Aborted);
        }
        sleep(ABORT_POLL_INTERVAL);
    }
    Ok(())
}

/// One wait.
pub(super) struct Patience<'a> {
    stopped: &'a dyn Fn() -> bool,
    until: Option<Instant>,
    idle: u32,
    /// Polls without a yield, and whether the processor pauses between them.
    spins: u32,
    pauses: bool,
}

impl<'a> Patience<'a> {
    pub(super) fn new(stopped: &'a dyn Fn() -> bool, until: Option<Instant>) -> Patience<'a> {
        Patience { stopped, until, idle: 0, spins: POLLS_BEFORE_YIELD, pauses: true }
    }

    /// With so many polls before the first yield, and no pause of the processor between them: where what is waited for takes a
    /// microsecond, the pause would be measured.
    pub(super) fn spinning(self, spins: u32) -> Patience<'a> {
        Patience { spins, pauses: false, ..self }
    }

    /// There was progress.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.idle = 0;
    }

    /// There was no progress. NCCL would poll again at once; this yields to the plugin's threads
    /// and to other ranks.
    ///
    /// # Errors
    /// [`BackendError::Wait`]: the run was aborted, or `missing` did not do its part in time.
    #[inline]
    pub(super) fn rest(
        &mut self,
        missing: impl FnOnce() -> Vec<usize>,
    ) -> Result<(), BackendError> {
        self.idle = self.idle.wrapping_add(1);
        if self.idle < self.spins {
            if self.pauses {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        std::thread::yield_now();
        if !self.idle.is_multiple_of(POLLS_PER_CLOCK_CHECK) {
            return Ok(());
        }
        self.look_up(missing)
    }

    /// Looks whether to go on waiting.
    ///
    /// # Errors
    /// As [`Patience::rest`].
    pub(super) fn look_up(
        &mut self,
        missing: impl FnOnce() -> Vec<usize>,
    ) -> Result<(), BackendError> {
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
