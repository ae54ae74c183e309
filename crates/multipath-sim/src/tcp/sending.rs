//! One direction of a connection at the end that sends: what is buffered, in flight, and may leave now.
//! Not what acknowledgements and timeouts mean (`recovery`).

use std::{collections::VecDeque, time::Duration};

use busbw_multipath::Time;

use super::{
    Settings,
    control::{Control, INITIAL_WINDOW, Phase, Window},
    round_trip::RoundTrip,
};

/// Memory that the kernel takes for a segment of 8948 bytes, as it sizes buffers (tcp_sndbuf_expand).
const SEGMENT_MEMORY: u64 = 16_640;
const MILLISECOND: Duration = Duration::from_millis(1);
/// What of a send buffer holds bytes; the rest is the kernel's own.
const PAYLOAD: f64 = 0.94;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Flying,
    Sacked,
    Lost,
}

/// Bytes that were sent together and are not acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub seq: u64,
    pub bytes: u32,
    pub at: Time,
    pub state: State,
    pub is_again: bool,
    /// Segments that had been delivered then, when, and when the first of those in flight was sent (tcp_rate.c).
    pub delivered: u64,
    pub delivered_at: Time,
    pub first_at: Time,
    pub app_limited: bool,
}

impl Sent {
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.bytes)
    }
}

/// Bytes that are to leave now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub seq: u64,
    pub bytes: u32,
    pub has_end: bool,
}

#[derive(Debug)]
pub(super) struct Sending {
    pub(super) segment: u32,
    most_together: u32,
    most_buffered: u64,
    /// Bytes that may be buffered: grows with the window.
    capacity: u64,
    /// The application was told to wait.
    pub(super) is_full: bool,
    /// Everything before this was acknowledged; sent; written. With the end of the stream, once that is written.
    pub(super) una: u64,
    pub(super) next: u64,
    pub(super) written: u64,
    pub(super) has_end: bool,
    /// The peer's window ends here.
    pub(super) allowed: u64,
    pub(super) sent: VecDeque<Sent>,
    /// Segments of `sent` in flight; found lost and not sent again; that have arrived out of order.
    pub(super) in_flight: u32,
    pub(super) lost: u32,
    pub(super) sacked: u32,
    pub(super) control: Control,
    pub(super) window: Window,
    pub(super) phase: Phase,
    /// A recovery ends here.
    pub(super) recovered: u64,
    /// Proportional rate reduction: segments delivered and sent in this recovery, and the window before.
    pub(super) prr: (u32, u32, u32),
    pub(super) trip: RoundTrip,
    pub(super) timeouts: u8,
    pub(super) heard: Time,
    /// When what timed out first, and was not acknowledged since, was sent.
    pub(super) stuck_since: Time,
    /// The newest sending of which anything has arrived: when, its end, and its round trip (RACK, RFC 8985).
    pub(super) rack: (Time, u64, Duration),
    pub(super) is_reordering: bool,
    pub(super) highest_sack: u64,
    pub(super) probes: u8,
    /// Whether the last segment was sent again to provoke an acknowledgement (tail loss probe).
    pub(super) is_probing: bool,
    // Delivery rate (tcp_rate.c).
    pub(super) delivered: u64,
    pub(super) delivered_at: Time,
    pub(super) first_at: Time,
    app_limited: u64,
    pub(super) is_limited: bool,
    most_in_flight: u32,
    // Timers.
    pub(super) timeout_at: Option<Time>,
    pub(super) probe_at: Option<Time>,
    pub(super) reorder_at: Option<Time>,
    pub(super) persist_at: Option<Time>,
    pace_at: Time,
    pub(super) is_paced: bool,
    last_sent: Time,
    // Counters.
    pub(super) segments: u64,
    pub(super) retransmitted: u64,
    pub(super) drops: u64,
}

impl Sending {
    pub(super) fn new(settings: &Settings, seed: u64, now: Time) -> Sending {
        let segment = settings.mtu - super::HEADERS;
        let (control, window) = Control::new(settings.algorithm, segment, seed, now);
        Sending {
            segment,
            most_together: if settings.offload { 65_000 / segment * segment } else { segment },
            most_buffered: settings.send_buffer,
            capacity: 0,
            is_full: false,
            una: 0,
            next: 0,
            written: 0,
            has_end: false,
            allowed: 0,
            sent: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            sacked: 0,
            control,
            window,
            phase: Phase::Open,
            recovered: 0,
            prr: (0, 0, 0),
            trip: RoundTrip::default(),
            timeouts: 0,
            heard: now,
            stuck_since: now,
            rack: (Time::default(), 0, Duration::ZERO),
            is_reordering: false,
            highest_sack: 0,
            probes: 0,
            is_probing: false,
            delivered: 0,
            delivered_at: now,
            first_at: now,
            app_limited: 0,
            is_limited: false,
            most_in_flight: 0,
            timeout_at: None,
            probe_at: None,
            reorder_at: None,
            persist_at: None,
            pace_at: now,
            is_paced: false,
            last_sent: now,
            segments: 0,
            retransmitted: 0,
            drops: 0,
        }
    }

    pub(super) fn segments_of(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.segment).max(1)
    }

    /// Bytes that are written and not acknowledged.
    pub(super) fn buffered(&self) -> u64 {
        self.written - self.una
    }

    /// Bytes that the application may write now.
    pub(super) fn room(&mut self) -> u64 {
        let windows = u64::from(self.window.cwnd.max(INITIAL_WINDOW));
        let scale = (f64::from(self.segment) / 8948.0).max(0.1);
        let wanted = (self.control.buffered_windows() * windows * SEGMENT_MEMORY) as f64 * scale;
        let bytes = (wanted.min(self.most_buffered as f64) * PAYLOAD) as u64;
        self.capacity = self.capacity.max(bytes);
        self.capacity.saturating_sub(self.buffered())
    }

    /// Whether an application that was told to wait may write again: a third of the buffer is free.
    pub(super) fn is_writable_again(&mut self) -> bool {
        let is_free = self.is_full && self.room() * 3 >= self.capacity;
        self.is_full &= !is_free;
        is_free
    }

    /// Whether everything was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.una == self.written
    }

    /// So many bytes more are to be sent.
    pub(super) fn write(&mut self, bytes: u64, now: Time) {
        // Rates of a sender that has too little to send say nothing of the network.
        if self.next == self.written && self.in_flight < self.window.cwnd && self.lost == 0 {
            self.app_limited = (self.delivered + u64::from(self.in_flight)).max(1);
        }
        self.written += bytes;
        if self.sent.is_empty() {
            let pause = now.since(self.last_sent);
            if self.app_limited > 0 {
                self.control.restarts(now, pause, &mut self.window);
            }
            self.restart(pause);
        }
    }

    /// After a pause, the window is what it was at first (tcp_slow_start_after_idle).
    fn restart(&mut self, pause: Duration) {
        if !self.control.reduces_in_recovery() {
            return;
        }
        let timeout = self.trip.timeout(0);
        let mut left = pause;
        while left > timeout && self.window.cwnd > INITIAL_WINDOW {
            self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd * 3 / 4);
            self.window.cwnd = (self.window.cwnd / 2).max(INITIAL_WINDOW);
            left -= timeout;
        }
    }

    /// The next bytes that may leave now, if any may.
    pub(super) fn next_piece(&mut self, now: Time) -> Option<Piece> {
        self.is_paced = false;
        let unsent = self.next < self.written.min(self.allowed);
        if self.lost == 0 && !unsent {
            self.set_persist(now);
            self.is_limited = self.in_flight >= self.window.cwnd;
            return None;
        }
        let room = self.window.cwnd.saturating_sub(self.in_flight);
        if room == 0 {
            self.is_limited = true;
            return None;
        }
        if self.window.pace.is_some() && now < self.pace_at {
            self.is_paced = true;
            return None;
        }
        let half = (self.window.cwnd / 2).max(1);
        let piece = if self.lost > 0 {
            self.lost_piece(room, now)
        } else {
            // One packet of the kernel (GSO) has at most half the window (tcp_cwnd_test).
            self.new_piece(room.min(half), now)
        }?;
        self.pace(piece.bytes, now);
        self.last_sent = now;
        self.segments += u64::from(self.segments_of(piece.bytes));
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        if self.timeout_at.is_none() {
            self.timeout_at = Some(now + self.trip.timeout(self.timeouts));
        }
        self.persist_at = None;
        Some(piece)
    }

    fn new_piece(&mut self, room: u32, now: Time) -> Option<Piece> {
        let left = self.written.min(self.allowed) - self.next;
        let most = left.min(self.most_together.into());
        let bytes = most.min(u64::from(room) * u64::from(self.segment)) as u32;
        // Not a few segments now and a few soon, where many could travel together, something was sent within a millisecond, and an
        // acknowledgement is to come within one and half a round trip (tcp_tso_should_defer, Linux 6.18); nor a short one while the peer's window holds the rest up.
        let trip = self.trip.smoothed;
        let is_soon = self.sent.front().is_some_and(|sent| {
            sent.at + trip <= now + MILLISECOND.min(trip / 2)
                && now.since(self.last_sent) <= MILLISECOND
        });
        let waits = u64::from(bytes) < most
            && room < self.window.cwnd / 3
            && self.phase < Phase::Recovery
            && is_soon;
        let is_short = bytes < self.segment && self.written > self.allowed;
        if (waits || is_short) && self.in_flight > 0 {
            self.is_limited |= waits;
            return None;
        }
        if self.sent.is_empty() {
            self.first_at = now;
            self.delivered_at = now;
        }
        let piece = Piece { seq: self.next, bytes, has_end: self.ends(self.next, bytes) };
        let sent = Sent {
            seq: self.next,
            bytes,
            at: now,
            state: State::Flying,
            is_again: false,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            app_limited: self.app_limited > 0,
        };
        self.sent.push_back(sent);
        self.next += u64::from(bytes);
        let segments = self.segments_of(bytes);
        self.in_flight += segments;
        self.prr.1 += segments;
        if self.phase == Phase::Open {
            self.set_probe(now);
        }
        Some(piece)
    }

    fn lost_piece(&mut self, room: u32, now: Time) -> Option<Piece> {
        let at = self.sent.iter().position(|sent| sent.state == State::Lost)?;
        self.split(at, room.saturating_mul(self.segment));
        let segments = self.segments_of(self.sent[at].bytes);
        self.lost -= segments;
        Some(self.again(at, now))
    }

    /// Sends something again.
    pub(super) fn again(&mut self, at: usize, now: Time) -> Piece {
        let segments = self.segments_of(self.sent[at].bytes);
        self.in_flight += segments;
        self.retransmitted += u64::from(segments);
        self.prr.1 += segments;
        let (delivered, delivered_at, first_at) =
            (self.delivered, self.delivered_at, self.first_at);
        let app_limited = self.app_limited > 0;
        let sent = &mut self.sent[at];
        *sent = Sent {
            at: now,
            state: State::Flying,
            is_again: true,
            delivered,
            delivered_at,
            first_at,
            app_limited,
            ..*sent
        };
        let (seq, bytes) = (sent.seq, sent.bytes);
        Piece { seq, bytes, has_end: self.ends(seq, bytes) }
    }

    /// Whether these bytes include the end of the stream.
    pub(super) fn ends(&self, seq: u64, bytes: u32) -> bool {
        self.has_end && seq + u64::from(bytes) == self.written
    }

    /// What was sent together and is longer than this becomes two.
    pub(super) fn split(&mut self, at: usize, bytes: u32) {
        let sent = &mut self.sent[at];
        if sent.bytes <= bytes {
            return;
        }
        let rest =
            Sent { seq: sent.seq + u64::from(bytes), bytes: sent.bytes - bytes, ..sent.clone() };
        sent.bytes = bytes;
        self.sent.insert(at + 1, rest);
    }

    /// So many bytes have left: when the next may.
    fn pace(&mut self, bytes: u32, now: Time) {
        let Some(pace) = self.window.pace else { return };
        let time = Duration::from_secs_f64((f64::from(bytes) / pace).min(10.0));
        // Who is late may catch up by half.
        let credit = now.since(self.pace_at).min(time / 2);
        self.pace_at = now + (time - credit);
    }

    /// When to wake up, if the pace holds it up.
    pub(super) fn paced_until(&self) -> Option<Time> {
        self.is_paced.then_some(self.pace_at)
    }

    /// Until segments that were in flight are delivered, rates count as limited by the application.
    pub(super) fn end_app_limited(&mut self) {
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
    }

    /// Whether the window is what holds the sender up (tcp_is_cwnd_limited).
    pub(super) fn is_window_limited(&mut self) -> bool {
        if self.window.cwnd < self.window.ssthresh {
            let most = std::mem::replace(&mut self.most_in_flight, self.in_flight);
            return self.is_limited || self.window.cwnd < 2 * most;
        }
        self.is_limited
    }
}
