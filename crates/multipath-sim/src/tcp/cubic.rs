//! CUBIC with HyStart, as Linux has it (tcp_cubic.c; RFC 9438, RFC 9406).
//! Not loss detection.

use std::time::Duration;

use busbw_multipath::Time;

use super::control::{Ack, Window};

/// Multiplicative decrease, and the scale of the cubic function.
const BETA: f64 = 717.0 / 1024.0;
const C: f64 = 0.41;
/// HyStart: the least window, the samples of a round, and the bounds of how much longer a round trip becomes before slow
/// start ends.
const MIN_WINDOW: u32 = 16;
const SAMPLES: u32 = 8;
const DELAY: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// HyStart: acknowledgements that are closer than this are a train.
const SPACING: Duration = Duration::from_millis(2);

#[derive(Debug, Default, Clone)]
pub(super) struct Cubic {
    /// Since when it grows after a loss.
    epoch: Option<Time>,
    /// The window at the last loss, and where the cubic function is flat; segments.
    last_max: u32,
    origin: u32,
    /// Seconds until it is there.
    k: f64,
    /// What Reno's window would be.
    reno: f64,
    /// Segments acknowledged that have not made the window grow.
    credit: f64,
    min_delay: Option<Duration>,
    hystart: HyStart,
}

#[derive(Debug, Default, Clone)]
struct HyStart {
    /// The round ends when so many segments are delivered.
    end: u64,
    began: Time,
    last_ack: Time,
    samples: u32,
    delay: Duration,
}

impl Cubic {
    pub(super) fn acknowledged(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(trip) = ack.round_trip {
            self.min_delay = Some(self.min_delay.map_or(trip, |min| min.min(trip)));
            if window.cwnd < window.ssthresh && window.cwnd >= MIN_WINDOW {
                self.hystart(ack, trip, window);
            }
        }
        if !ack.is_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.cwnd < window.ssthresh {
            let grown = (window.cwnd + acked).min(window.ssthresh);
            acked -= grown - window.cwnd;
            window.cwnd = grown;
        }
        if acked > 0 {
            self.avoid(acked, ack.now, window);
        }
    }

    fn hystart(&mut self, ack: &Ack, trip: Duration, window: &mut Window) {
        let HyStart { end, began, last_ack, samples, delay } = &mut self.hystart;
        if ack.delivered > *end {
            *end = ack.delivered + u64::from(ack.in_flight);
            (*began, *last_ack, *samples, *delay) = (ack.now, ack.now, 0, Duration::MAX);
        }
        let min = self.min_delay.unwrap_or(trip);
        if ack.now.since(*last_ack) <= SPACING {
            *last_ack = ack.now;
            // Where a few packets of segmentation offload take long, that is their delay.
            let burst = (14.6 / f64::from(window.cwnd) * trip.as_secs_f64()).min(1e-3);
            if ack.now.since(*began) > (min + Duration::from_secs_f64(burst)) / 2 {
                window.ssthresh = window.cwnd;
            }
        }
        *delay = trip.min(*delay);
        if *samples < SAMPLES {
            *samples += 1;
        } else if *delay > min + (min / 8).clamp(DELAY.0, DELAY.1) {
            window.ssthresh = window.cwnd;
        }
    }

    /// Congestion avoidance.
    fn avoid(&mut self, acked: u32, now: Time, window: &mut Window) {
        let cwnd = f64::from(window.cwnd);
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.reno, self.credit) = (cwnd, 0.0);
            self.origin = self.last_max.max(window.cwnd);
            self.k = (f64::from(self.origin - window.cwnd) / C).cbrt();
            now
        });
        let time = (now + self.min_delay.unwrap_or_default()).since(epoch).as_secs_f64();
        let target = f64::from(self.origin) + C * (time - self.k).powi(3);
        let mut needed = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        if self.last_max == 0 {
            needed = needed.min(20.0);
        }
        self.reno += f64::from(acked) * 3.0 * (1.0 - BETA) / (1.0 + BETA) / cwnd;
        if self.reno > cwnd {
            needed = needed.min(cwnd / (self.reno - cwnd));
        }
        self.credit += f64::from(acked);
        let needed = needed.max(2.0);
        let more = (self.credit / needed).floor();
        self.credit -= more * needed;
        window.cwnd += more as u32;
    }

    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        let cwnd = f64::from(window.cwnd);
        // Fast convergence: somebody else may want more.
        self.last_max = if window.cwnd < self.last_max {
            (cwnd * (1.0 + BETA) / 2.0) as u32
        } else {
            window.cwnd
        };
        ((cwnd * BETA) as u32).max(2)
    }

    pub(super) fn restarts(&mut self, now: Time, pause: Duration) {
        // The pause does not count.
        self.epoch = self.epoch.map(|epoch| (epoch + pause).min(now));
    }
}
