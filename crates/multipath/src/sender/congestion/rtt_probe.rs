//! When everybody who sends to a host pauses for a round trip, so that queues on the way empty.
//! Not what is measured then (`congestion`).
//!
//! A window by delay needs the round trip without any queue. Who begins while others fill a queue never sees it, has a higher
//! target than they, and takes their share. BBR's ProbeRTT (draft-ietf-ccwg-bbr, section 5.3.4) has a flow send little for a
//! while, which helps where all flows do it at once. Here the receiving host's clock, which every acknowledgement tells, says
//! when: all of its senders know it, to about a round trip.

use std::time::Duration;

use crate::Time;

/// One round trip of so many, at most, is a probe.
const ROUND_TRIPS: u64 = 64;
/// The shortest time from one probe to the next. Longer ones are twice, four times, … as long, so that senders with other
/// round trips pause together with this one.
const SHORTEST: Duration = Duration::from_millis(1);

/// The probes of one path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RttProbes {
    /// What to add to our time for the receiver's, in nanoseconds, modulo 2^64.
    ahead: u64,
    /// Nanoseconds from one to the next, and how long each takes; 0 while unknown.
    period: u64,
    length: u64,
}

impl RttProbes {
    /// An acknowledgement says what time it was at the receiver; the least round trip and the present one, nanoseconds.
    pub(super) fn heard(&mut self, receiver: Time, least: u64, present: u64, now: Time) {
        // The acknowledgement is as old as half of it.
        self.ahead = receiver.0.wrapping_add(least / 2).wrapping_sub(now.0);
        let shortest = SHORTEST.as_nanos() as u64;
        let times = least.saturating_mul(ROUND_TRIPS).div_ceil(shortest).max(1);
        self.period = shortest.saturating_mul(times.checked_next_power_of_two().unwrap_or(1 << 40));
        // Until everything has arrived that is on its way, also what waits.
        self.length = present.clamp(1, self.period / 8);
    }

    /// Since when there is one at this time, and until when.
    pub(super) fn at(&self, now: Time) -> Option<(Time, Time)> {
        if self.period == 0 {
            return None;
        }
        let since = now.0.wrapping_add(self.ahead) % self.period;
        (since < self.length).then(|| {
            let began = now - Duration::from_nanos(since);
            (began, began + Duration::from_nanos(self.length))
        })
    }

    /// The soonest time from this one on that is outside of probes; what would have left in one leaves as long after it as it
    /// would have after its beginning, so that not everybody sends at once.
    pub(super) fn behind(&self, time: Time) -> Time {
        self.at(time).map_or(time, |(began, ended)| ended + time.since(began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_with_other_clocks_and_round_trips_pause_together() {
        let (mut one, mut other) = (RttProbes::default(), RttProbes::default());
        assert_eq!(one.at(Time(0)), None);
        // 100 us: every 8 ms. 1 ms: every 64 ms. The other's clock is 8 ms behind.
        one.heard(Time(64_000_000 - 50_000), 100_000, 100_000, Time(64_000_000));
        let late = 8_000_000;
        other.heard(Time(64_000_000 - 500_000), 1_000_000, 1_000_000, Time(64_000_000 - late));
        for (at, pauses) in
            [(64, [true, true]), (72, [true, false]), (68, [false, false]), (128, [true, true])]
        {
            let at = Time(at * 1_000_000 + 20_000);
            let there = Time(at.0 - late);
            assert_eq!([one.at(at).is_some(), other.at(there).is_some()], pauses, "{at:?}");
        }
        let (began, ended) = one.at(Time(72_030_000)).unwrap();
        assert_eq!((began, ended), (Time(72_000_000), Time(72_100_000)));
        assert_eq!(one.behind(Time(72_030_000)), Time(72_130_000));
        assert_eq!(one.behind(Time(72_100_000)), Time(72_100_000));
    }
}
