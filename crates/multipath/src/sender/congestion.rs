//! The congestion window of an unreliable path, by delay and by loss.
//! Not of a reliable one: TCP has its own, and `schedule` bounds what waits there.
//!
//! The delay part follows Swift (Kumar and others, SIGCOMM 2020): the window grows by a part of a chunk a round trip while
//! the round trip is below its target, and shrinks in proportion to the excess otherwise, once a round trip. Losses
//! count as DCTCP counts marks (RFC 8257): the window shrinks by half of the smoothed share of chunks that were lost. So
//! random loss of 1 % costs little, and a queue that overflows before the delay tells costs much.
//!
//! Where many paths share a link, each has less than a chunk in flight, and hears of the delay only as often as it sends: the
//! less often, the smaller its steps, up and down. Otherwise all of them would add for so long before they hear of a queue,
//! and take away so much before they hear that it is gone, that the link is idle half of the time.

mod rtt_probe;

use std::time::Duration;

use self::rtt_probe::RttProbes;
use crate::Time;

/// Above the least round trip, the target allows a queue of this share of it, and at least so much.
const QUEUE_SHARE: f64 = 1.0;
/// As much more where the window is far below a chunk: whoever has less grows while others shrink (Swift, 3.5).
const SMALL_QUEUE: f64 = 0.25;
const MIN_QUEUE: Duration = Duration::from_micros(10);
/// How strongly an excess of the target shrinks the window, and the most that it may at a time.
const BETA: f64 = 1.0;
const MAX_DECREASE: f64 = 0.5;
/// Weight of the newest round trip in the share of losses (g of RFC 8257).
const LOSS_WEIGHT: f64 = 1.0 / 16.0;
/// Chunks in flight at first; the least window, in chunks: below one, chunks are spaced out.
const INITIAL_WINDOW: f64 = 2.0;
const MIN_WINDOW: f64 = 1.0 / 64.0;
/// By how much of a chunk the window grows in a round trip, and by how much more after each further one of many in which there
/// was no queue; up to a chunk.
const INCREASE: f64 = 1.0 / 24.0;
const EMPTY_ROUNDS: u32 = 5;
/// There is no queue as long as the round trip is longer than the least by no more than this share.
const NO_QUEUE: f64 = 0.1;
/// Bounds of the retransmission timeout.
const RTO: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// Before any round trip was measured.
const INITIAL_RTO: Duration = Duration::from_millis(20);

/// The window of one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Bytes of a chunk.
    chunk: f64,
    /// Bytes that may be in flight, and how few these may be where nothing is lost.
    bytes: f64,
    least_bytes: f64,
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
    /// Round trips in a row in which there was no queue.
    empty_rounds: u32,
    rtt_probes: RttProbes,
    /// Retransmission timeouts in a row, and when the first of them was.
    pub(super) timeouts: u32,
    silent_since: Time,
    /// When the next chunk may leave: with a window below one chunk, or in an RTT probe.
    next_send: Time,
}

impl Window {
    /// Of a path with chunks of so many bytes.
    pub(super) fn new(chunk: u32) -> Window {
        Window::no_less_than(MIN_WINDOW, chunk)
    }

    /// Of one whose device has a congestion control of its own, as adapters have (DCQCN): but for losses, it keeps as many chunks in
    /// flight as at first. Round trips are those of two programs as well, and one that is held up for longer than a round trip says nothing of
    /// the network.
    pub(super) fn of_device(chunk: u32) -> Window {
        Window::no_less_than(INITIAL_WINDOW, chunk)
    }

    fn no_less_than(chunks: f64, chunk: u32) -> Window {
        let chunk = f64::from(chunk.max(1));
        Window {
            chunk,
            least_bytes: chunks * chunk,
            bytes: INITIAL_WINDOW * chunk,
            round_trip: 0.0,
            deviation: 0.0,
            least: 0.0,
            is_starting: true,
            round_ends: Time::default(),
            acknowledged: 0.0,
            lost: 0.0,
            loss_share: 0.0,
            empty_rounds: 0,
            rtt_probes: RttProbes::default(),
            timeouts: 0,
            silent_since: Time::default(),
            next_send: Time::default(),
        }
    }

    /// Whether a chunk may be sent while so many bytes are in flight.
    pub(super) fn has_room(&self, in_flight: usize) -> bool {
        in_flight == 0 || in_flight as f64 + self.chunk <= self.bytes
    }

    /// When a chunk may be sent at the soonest, from now on.
    pub(super) fn next_send(&self, now: Time) -> Time {
        match self.rtt_probes.at(now) {
            Some((_, ended)) => ended.max(self.next_send),
            None => self.next_send,
        }
    }

    /// The window in chunks where that is less than one; one otherwise.
    fn share(&self) -> f64 {
        (self.bytes / self.chunk).min(1.0)
    }

    /// A chunk is sent.
    pub(super) fn sent(&mut self, now: Time) {
        if self.bytes < self.chunk && self.round_trip > 0.0 {
            // Not of the newest round trip: who sees a queue takes less, and need not wait longer as well.
            let pause = self.least / self.share();
            self.next_send = self.rtt_probes.behind(now + Duration::from_nanos(pause as u64));
        }
    }

    /// The round trip at which the window neither grows nor shrinks, nanoseconds.
    fn target(&self) -> f64 {
        let queue = QUEUE_SHARE + SMALL_QUEUE * (1.0 - self.share());
        self.least + (self.least * queue).max(MIN_QUEUE.as_nanos() as f64)
    }

    /// So many bytes were acknowledged; the newest of them took so long. It was this time at the receiver.
    pub(super) fn acknowledged(
        &mut self,
        bytes: usize,
        round_trip: Duration,
        receiver: Time,
        now: Time,
    ) {
        self.measured(round_trip);
        self.rtt_probes.heard(receiver, self.least as u64, self.round_trip as u64, now);
        if self.rtt_probes.at(now).is_some() {
            self.next_send = self.next_send.max(self.rtt_probes.behind(now));
        }
        self.timeouts = 0;
        self.acknowledged += bytes as f64;
        let target = self.target();
        let newest = round_trip.as_nanos() as f64;
        if newest > target {
            self.is_starting = false;
        } else if self.is_starting {
            self.bytes += bytes as f64;
        } else {
            let more = self.empty_rounds.saturating_sub(EMPTY_ROUNDS);
            let chunks = (INCREASE * f64::from(1 + more)).min(1.0) * self.share();
            self.bytes += chunks * self.chunk * bytes as f64 / self.bytes.max(self.chunk);
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
        let excess = (newest - target).max(0.0) / newest.max(1.0);
        let by_delay = BETA * excess * self.share();
        let by_loss = if self.lost > 0.0 { self.loss_share / 2.0 } else { 0.0 };
        // Delay alone makes no window smaller than its least, but losses do.
        match by_loss >= by_delay || self.bytes <= self.least_bytes {
            true => self.shrink(by_loss, MIN_WINDOW * self.chunk),
            false => self.shrink(by_delay, self.least_bytes),
        }
        let is_empty = newest <= self.least * (1.0 + NO_QUEUE);
        self.empty_rounds = if is_empty { self.empty_rounds.saturating_add(1) } else { 0 };
        (self.acknowledged, self.lost) = (0.0, 0.0);
        // What was sent before this is not counted again.
        self.round_ends = now + Duration::from_nanos(newest.max(self.round_trip) as u64);
    }

    /// So many bytes were lost.
    pub(super) fn lost(&mut self, bytes: usize) {
        self.lost += bytes as f64;
        if self.is_starting {
            self.is_starting = false;
            self.shrink(MAX_DECREASE, MIN_WINDOW * self.chunk);
        }
    }

    /// Nothing was acknowledged for the timeout.
    pub(super) fn timed_out(&mut self, now: Time) {
        self.count_timeout(now);
        self.collapse(now);
    }

    /// The same where the receiver is asked what has arrived, which one that was held up answers: the window waits for that.
    pub(super) fn asked(&mut self, now: Time) {
        self.count_timeout(now);
        if self.timeouts > 1 {
            self.collapse(now);
        }
    }

    fn count_timeout(&mut self, now: Time) {
        if self.timeouts == 0 {
            self.silent_since = now;
        }
        self.timeouts = self.timeouts.saturating_add(1);
    }

    fn collapse(&mut self, now: Time) {
        self.is_starting = false;
        let least = self.least_bytes.min(self.bytes);
        self.shrink(MAX_DECREASE, least);
        self.bytes = self.bytes.min(self.chunk).max(least);
        self.empty_rounds = 0;
        (self.acknowledged, self.lost) = (0.0, 0.0);
        self.round_ends = now + Duration::from_nanos(self.round_trip as u64);
    }

    /// The receiver has answered, and nothing has arrived.
    pub(super) fn answered(&mut self) {
        self.timeouts = 0;
    }

    /// How long retransmission timeouts have followed each other.
    pub(super) fn silence(&self, now: Time) -> Duration {
        if self.timeouts == 0 { Duration::ZERO } else { now.since(self.silent_since) }
    }

    /// Shrinks it by this share, but not below so many bytes.
    fn shrink(&mut self, share: f64, least: f64) {
        let least = least.min(self.bytes);
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

    /// After so long without an acknowledgement, what is in flight counts as lost (RFC 6298). `other` is what it is on another
    /// path of the connection, if that is known.
    pub(super) fn timeout(&self, other: Option<Duration>) -> Duration {
        let base = self.base_timeout().or(other).unwrap_or(INITIAL_RTO);
        (base.max(RTO.0) * (1 << self.timeouts.min(10))).min(RTO.1)
    }

    /// The same without what follows from timeouts; nothing before any round trip was measured.
    pub(super) fn base_timeout(&self) -> Option<Duration> {
        let time = self.round_trip + 4.0 * self.deviation;
        (self.round_trip > 0.0).then(|| Duration::from_nanos(time as u64))
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
            window.acknowledged((all * (1.0 - loss)) as usize, TRIP + delay, *now - TRIP / 2, *now);
        }
    }

    #[test]
    fn a_window_doubles_until_a_queue_builds_up_and_shrinks_by_its_excess() {
        let (mut window, mut now) = (Window::new(CHUNK as u32), Time::default());
        rounds(&mut window, 6, Duration::ZERO, 0.0, &mut now);
        assert_eq!(window.bytes, 128.0 * CHUNK as f64);
        rounds(&mut window, 1, 5 * TRIP, 0.0, &mut now);
        assert_eq!(window.bytes, 64.0 * CHUNK as f64);
        // What was sent before it shrank is on its way still.
        rounds(&mut window, 1, 2 * TRIP, 0.0, &mut now);
        assert_eq!(window.bytes, 64.0 * CHUNK as f64);
        rounds(&mut window, 3, TRIP / 2, 0.0, &mut now);
        let grown = (window.bytes / CHUNK as f64 - 64.0) / INCREASE;
        assert!((grown - 3.0).abs() < 0.1, "{grown}");
    }

    #[test]
    fn without_a_queue_a_window_grows_ever_faster() {
        let (mut window, mut now) = (Window::new(CHUNK as u32), Time::default());
        rounds(&mut window, 3, Duration::ZERO, 0.0, &mut now);
        rounds(&mut window, 1, 5 * TRIP, 0.0, &mut now);
        let grown = |window: &mut Window, count, now: &mut Time| {
            let before = window.bytes;
            rounds(window, count, Duration::ZERO, 0.0, now);
            (window.bytes - before) / CHUNK as f64
        };
        assert!(grown(&mut window, EMPTY_ROUNDS, &mut now) < 0.5);
        assert!(grown(&mut window, 50, &mut now) > 10.0);
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
    fn below_one_chunk_they_are_spaced_out_and_steps_are_small() {
        let (mut window, mut now) = (Window::new(CHUNK as u32), Time::default());
        rounds(&mut window, 1, Duration::ZERO, 0.0, &mut now);
        rounds(&mut window, 100, 20 * TRIP, 0.0, &mut now);
        let share = window.bytes / CHUNK as f64;
        assert!(share < 0.1, "{share}");
        // Outside of an RTT probe, of which there is one every 8 ms.
        now = Time(now.0.next_multiple_of(8_000_000) + 4_000_000);
        window.sent(now);
        assert!(window.has_room(0) && !window.has_room(1));
        let pause = window.next_send(now).since(now);
        assert!(pause > 9 * TRIP, "{pause:?}");
        rounds(&mut window, 1, 20 * TRIP, 0.0, &mut now);
        let less = 1.0 - window.bytes / CHUNK as f64 / share;
        assert!((0.0..0.1).contains(&less), "{less}");
    }

    #[test]
    fn nothing_is_sent_in_an_rtt_probe() {
        let (mut window, mut now) = (Window::new(CHUNK as u32), Time(9_000_000));
        assert_eq!(window.next_send(now), Time::default());
        rounds(&mut window, 1, Duration::ZERO, 0.0, &mut now);
        let probe = Time(16_000_000 + 10_000);
        assert!(window.next_send(Time(15_900_000)) <= Time(15_900_000));
        assert!(window.next_send(probe) > probe + TRIP / 2);
        // What an acknowledgement lets through then leaves as much later.
        window.acknowledged(CHUNK, TRIP, probe - TRIP / 2, probe);
        assert!(window.next_send(Time(16_100_000)) > Time(16_100_000));
        assert!(window.next_send(Time(16_300_000)) <= Time(16_300_000));
    }

    #[test]
    fn timeouts_back_off() {
        let mut window = Window::new(CHUNK as u32);
        assert_eq!(window.timeout(None), INITIAL_RTO);
        assert_eq!(window.timeout(Some(3 * TRIP)), RTO.0);
        assert_eq!(window.timeout(Some(30 * TRIP)), 30 * TRIP);
        window.acknowledged(CHUNK, Duration::from_millis(2), Time(1), Time(1));
        assert_eq!(window.timeout(None), Duration::from_millis(6));
        window.timed_out(Time(2));
        assert_eq!(window.timeout(None), Duration::from_millis(12));
        (0..20).for_each(|_| window.timed_out(Time(2)));
        assert_eq!(window.timeout(None), RTO.1);
    }
}
