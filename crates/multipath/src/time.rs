//! Points in time, as the transport is told them.
//! Not a clock: whoever drives the state machine reads one, or makes time up.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// Nanoseconds since the driver's own beginning of time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// How long after `earlier` this is; zero if it is before.
    #[must_use]
    #[inline]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    #[inline]
    fn add(self, after: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    #[inline]
    fn sub(self, before: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX)))
    }
}
