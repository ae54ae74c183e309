//! Waiting for a plugin: asking again without end, but not longer than allowed, nor when the run is over.
//! Not what is asked.

use std::time::Instant;

use engine::Wait;

use crate::backend::BackendError;

/// Looks without giving way: a message that is on its way comes within these.
const SPINS: u32 = 64;
/// Looks between two at the clock and at the supervisor's word.
const BETWEEN: u32 = 256;

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
