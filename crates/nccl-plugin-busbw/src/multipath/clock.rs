//! What time it is for a connection manager and its connections.
//! Not the transport's time (`busbw_multipath::Time`), which counts from where its driver says.

use std::time::Instant;

use busbw_multipath::Time;
use rustix::time::{ClockId, clock_gettime};

/// What time it is for all processes of this host.
pub(super) fn of_host() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    // It counts from the host's start.
    Time((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
}

/// The system's clock; in tests of this crate also one that is moved by hand.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    #[cfg(test)]
    virtual_time: Option<std::sync::Arc<std::sync::Mutex<Instant>>>,
}

impl Clock {
    pub(super) fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some(now) = &self.virtual_time {
            return *super::locks::lock(now);
        }
        Instant::now()
    }
}

#[cfg(test)]
impl Clock {
    /// One that stands still.
    pub(super) fn standing() -> Clock {
        Clock { virtual_time: Some(std::sync::Arc::new(Instant::now().into())) }
    }

    /// Moves it on.
    pub(super) fn set(&self, to: Instant) {
        let now = self.virtual_time.as_ref().unwrap();
        let mut now = super::locks::lock(now);
        *now = to.max(*now);
    }
}
