//! The round trip of a connection, and its retransmission timeout (RFC 6298, with Linux's least).
//! Not what happens after a timeout.

use std::time::Duration;

/// The least retransmission timeout is that of a round trip whose variation is this (TCP_RTO_MIN).
const MIN_VARIATION: Duration = Duration::from_millis(200);
/// The most it becomes by backing off (TCP_RTO_MAX).
const MOST: Duration = Duration::from_secs(120);
/// While nothing is known (TCP_TIMEOUT_INIT).
const INITIAL: Duration = Duration::from_secs(1);

/// What is known of the round trip.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RoundTrip {
    pub(super) smoothed: Duration,
    variation: Duration,
    /// The shortest ever; zero while there was none.
    pub(super) min: Duration,
}

impl RoundTrip {
    /// One was measured.
    pub(super) fn measured(&mut self, time: Duration) {
        let time = time.max(Duration::from_micros(1));
        self.min = if self.min.is_zero() { time } else { self.min.min(time) };
        if self.smoothed.is_zero() {
            (self.smoothed, self.variation) = (time, time / 2);
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(time)) / 4;
            self.smoothed = (7 * self.smoothed + time) / 8;
        }
    }

    /// The timeout after so many in a row.
    pub(super) fn timeout(&self, in_a_row: u8) -> Duration {
        let first = match self.smoothed {
            Duration::ZERO => INITIAL,
            smoothed => smoothed + (4 * self.variation).max(MIN_VARIATION),
        };
        first.saturating_mul(1 << in_a_row.min(16)).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_has_a_least_and_doubles() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.timeout(0), INITIAL);
        (0..50).for_each(|_| trip.measured(Duration::from_millis(1)));
        let milliseconds = [0, 1, 2].map(|row| trip.timeout(row).as_millis());
        assert_eq!(milliseconds, [201, 402, 804]);
        assert_eq!(trip.timeout(60), MOST);
    }
}
