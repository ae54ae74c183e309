//! The congestion window of an unreliable path, by delay and by loss.
//! Not of a reliable one: TCP has its own, and `schedule` bounds what waits there.
//!
//! The delay part follows Swift (Kumar and others, SIGCOMM 2020): the window grows by a chunk a round trip while
//! the round trip is below its target,
//! and shrinks in proportion to the excess otherwise, once a round trip. Losses count as DCTCP counts marks (RFC 8257): the
//! window shrinks by half of the smoothed share of chunks that were lost. So random loss of 1 % costs little, and
//! a queue that
//! overflows before the delay tells costs much.

use std::time::Duration;

use crate::Time;

/// Above the least round trip, the target allows a queue of this share of it, and at least so much.
const QUEUE_SHARE: f64 = 0.5;
const MIN_QUEUE: Duration = Duration::from_micros(10);
/// How strongly an excess of the target shrinks the window, and the most that it may at a time.
const BETA: f64 = 0.8;
const MAX_DECREASE: f64 = 0.5;
/// Weight of the newest round trip in the share of losses (g of RFC 8257).
const LOSS_WEIGHT: f64 = 1.0 / 16.0;
/// Chunks in flight at first; the least window, in chunks: below one, chunks are spaced out.
const INITIAL_WINDOW: f64 = 2.0;
const MIN_WINDOW: f64 = 1.0 / 64.0;
/// By how much of a chunk a window below one chunk grows with each acknowledgement.
const SMALL_INCREASE: f64 = 1.0 / 8.0;
/// Bounds of the retransmission timeout.
const RTO: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// Before any round trip was measured.
const INITIAL_RTO: Duration = Duration::from_millis(100);

/// The window of one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Bytes of a chunk.
    chunk: f64,
    /// Bytes that may be in flight.
    bytes: f64,
    /// Nanoseconds: smoothed, its deviation, and the least; 0 while unknown.
    round_trip: f64,
    deviation: f64,
    least: f64,
    /// Whether it still doubles.
    is_starting: bool,
    /// When this round trip ends, and what was acknowledged and lost in it.
    round_ends: Time,
    acknowledged: f64,
    lost: f64,
    loss_share: f64,
    /// Retransmission timeouts in a row, and when the first of them was.
    pub(super) timeouts: u32,
    silent_since: Time,
    /// With a window below one chunk: when the next one may leave.
    next_send: Time,
}

impl Window {
    /// Of a path with chunks of so many bytes.
    pub(super) fn new(chunk: u32) -> Window {
        let chunk = f64::from(chunk.max(1));
        Window {
            chunk,
            bytes: INITIAL_WINDOW * chunk,
            round_trip: 0.0,
            deviation: 0.0,
            least: 0.0,
            is_starting: true,
            round_ends: Time::default(),
            acknowledged: 0.0,
            lost: 0.0,
            loss_share: 0.0,
            timeouts: 0,
            silent_since: Time::default(),
            next_send: Time::default(),
        }
    }

    /// Whether a chunk may be sent while so many bytes are in flight.
    pub(super) fn has_room(&self, in_flight: usize) -> bool {
        in_flight == 0 || in_flight as f64 + self.chunk <= self.bytes
    }

    /// When the next chunk may be sent at the soonest.
    pub(super) fn next_send(&self) -> Time {
        self.next_send
    }

    /// A chunk is sent.
    pub(super) fn sent(&mut self, now: Time) {
        if self.bytes < self.chunk && self.round_trip > 0.0 {
            let pause = self.round_trip * self.chunk / self.bytes;
            self.next_send = now + Duration::from_nanos(pause as u64);
        }
    }

    /// So many bytes were acknowledged; the newest of them took so long.
    pub(super) fn acknowledged(&mut self, bytes: usize, round_trip: Duration, now: Time) {
        self.measured(round_trip);
        self.timeouts = 0;
        self.acknowledged += bytes as f64;
        let target = self.least + (self.least * QUEUE_SHARE).max(MIN_QUEUE.as_nanos() as f64);
        let newest = round_trip.as_nanos() as f64;
        if newest > target {
            self.is_starting = false;
        } else if self.is_starting {
            self.bytes += bytes as f64;
        } else if self.bytes < self.chunk {
            self.bytes += SMALL_INCREASE * bytes as f64;
        } else {
            self.bytes += self.chunk * bytes as f64 / self.bytes;
        }
        if now >= self.round_ends {
            self.end_round(newest, target, now);
        }
    }

    /// Once a round trip.
    fn end_round(&mut self, newest: f64, target: f64, now: Time) {
        let all = self.acknowledged + self.lost;
        let share = if all > 0.0 { self.lost / all } else { 0.0 };
        self.loss_share += LOSS_WEIGHT * (share - self.loss_share);
        let by_delay = if newest > target { BETA * (newest - target) / newest } else { 0.0 };
        let by_loss = if self.lost > 0.0 { self.loss_share / 2.0 } else { 0.0 };
        self.shrink(by_delay.max(by_loss));
        (self.acknowledged, self.lost) = (0.0, 0.0);
        self.round_ends = now + Duration::from_nanos(self.round_trip as u64);
    }

    /// So many bytes were lost.
    pub(super) fn lost(&mut self, bytes: usize) {
        self.lost += bytes as f64;
        if self.is_starting {
            self.is_starting = false;
            self.shrink(MAX_DECREASE);
        }
    }

    /// Nothing was acknowledged for the timeout.
    pub(super) fn timed_out(&mut self, now: Time) {
        if self.timeouts == 0 {
            self.silent_since = now;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.is_starting = false;
        self.shrink(MAX_DECREASE);
        self.bytes = self.bytes.min(self.chunk);
        (self.acknowledged, self.lost) = (0.0, 0.0);
        self.round_ends = now + Duration::from_nanos(self.round_trip as u64);
    }

    /// How long retransmission timeouts have followed each other.
    pub(super) fn silence(&self, now: Time) -> Duration {
        if self.timeouts == 0 { Duration::ZERO } else { now.since(self.silent_since) }
    }

    fn shrink(&mut self, share: f64) {
        let least = MIN_WINDOW * self.chunk;
        self.bytes = (self.bytes * (1.0 - share.min(MAX_DECREASE))).max(least);
    }

    fn measured(&mut self, round_trip: Duration) {
        let newest = round_trip.as_nanos() as f64;
        if self.round_trip == 0.0 {
            (self.round_trip, self.deviation, self.least) = (newest, newest / 2.0, newest);
        } else {
            self.deviation += ((self.round_trip - newest).abs() - self.deviation) / 4.0;
            self.round_trip += (newest - self.round_trip) / 8.0;
            self.least = self.least.min(newest);
        }
    }

    /// After so long without an acknowledgement, what is in flight counts as lost (RFC 6298).
    pub(super) fn timeout(&self) -> Duration {
        let base = match self.round_trip {
            0.0 => INITIAL_RTO,
            known => Duration::from_nanos((known + 4.0 * self.deviation) as u64),
        };
        (base.max(RTO.0) * (1 << self.timeouts.min(10))).min(RTO.1)
    }

    /// Smoothed round trip, once any was measured.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        (self.round_trip > 0.0).then(|| Duration::from_nanos(self.round_trip as u64))
    }

    /// Nanoseconds for a KiB at this window, once that is known.
    pub(super) fn pace(&self) -> Option<u32> {
        let pace = self.round_trip * 1024.0 / self.bytes;
        (self.round_trip > 0.0).then(|| (pace as u32).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 4096;
    const TRIP: Duration = Duration::from_micros(100);

    /// Round trips of a window's worth of chunks each, with so much delay and such a share of losses.
    fn rounds(window: &mut Window, count: u32, delay: Duration, loss: f64, now: &mut Time) {
        for _ in 0..count {
            let all = window.bytes.max(window.chunk);
            *now = *now + TRIP + delay;
            if loss > 0.0 {
                window.lost((all * loss) as usize);
            }
            window.acknowledged((all * (1.0 - loss)) as usize, TRIP + delay, *now);
        }
    }

    #[test]
    fn a_window_doubles_until_a_queue_builds_up_and_shrinks_by_its_excess() {
        let (mut window, mut now) = (Window::new(CHUNK as u32), Time::default());
        rounds(&mut window, 6, Duration::ZERO, 0.0, &mut now);
        assert_eq!(window.bytes, 128.0 * CHUNK as f64);
        rounds(&mut window, 1, 4 * TRIP, 0.0, &mut now);
        let shrunk = window.bytes;
        assert_eq!(shrunk, 64.0 * CHUNK as f64);
        rounds(&mut window, 4, Duration::ZERO, 0.0, &mut now);
        assert!((window.bytes - shrunk - 4.0 * CHUNK as f64).abs() < 1.0, "{}", window.bytes);
    }

    #[test]
    fn a_little_random_loss_costs_little_and_an_overflow_much() {
        for (loss, least, most) in [(0.01, 120.0, 260.0), (0.3, 1.0, 12.0)] {
            let (mut window, mut now) = (Window::new(CHUNK as u32), Time::default());
            rounds(&mut window, 3, Duration::ZERO, 0.0, &mut now);
            rounds(&mut window, 2000, Duration::ZERO, loss, &mut now);
            let chunks = window.bytes / CHUNK as f64;
            assert!((least..most).contains(&chunks), "{loss}: {chunks}");
        }
    }

    #[test]
    fn below_one_chunk_they_are_spaced_out() {
        let (mut window, mut now) = (Window::new(CHUNK as u32), Time::default());
        rounds(&mut window, 1, Duration::ZERO, 0.0, &mut now);
        rounds(&mut window, 100, 20 * TRIP, 0.0, &mut now);
        assert!(window.bytes < CHUNK as f64);
        window.sent(now);
        assert!(window.has_room(0) && !window.has_room(1));
        assert!(window.next_send() > now + 20 * TRIP);
    }

    #[test]
    fn timeouts_back_off() {
        let mut window = Window::new(CHUNK as u32);
        assert_eq!(window.timeout(), INITIAL_RTO);
        window.acknowledged(CHUNK, Duration::from_millis(2), Time(1));
        assert_eq!(window.timeout(), Duration::from_millis(6));
        window.timed_out(Time(2));
        assert_eq!(window.timeout(), Duration::from_millis(12));
        (0..20).for_each(|_| window.timed_out(Time(2)));
        assert_eq!(window.timeout(), RTO.1);
    }
}
