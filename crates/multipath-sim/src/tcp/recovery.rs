//! What acknowledgements and timeouts mean to the end that sends: RACK (RFC 8985), proportional rate reduction (RFC 6937),
//! the retransmission timeout (RFC 6298), and the delivery rate.
//! Not how much may be in flight after that (`control`).

use std::time::Duration;

use busbw_multipath::Time;

use super::{
    control::{Ack, Phase, Rate},
    sending::{Piece, Sending, Sent, State},
};
use crate::packet::{Sacks, Segment};

/// Segments that arrive out of order before nothing is waited for (dupthresh).
const REORDERED: u32 = 3;
/// The least time of a tail loss probe beyond two round trips (two ticks of a kernel with 250 Hz).
const PROBE_MARGIN: Duration = Duration::from_millis(8);
const MIN_TIMEOUT: Duration = Duration::from_millis(200);

/// What an acknowledgement has delivered so far.
#[derive(Default)]
struct Newly {
    segments: u32,
    /// The one that was sent last.
    newest: Option<Sent>,
    first: Option<Time>,
    last: Option<Time>,
    rack: Option<(Time, u64)>,
    is_again: bool,
}

impl Newly {
    fn add(&mut self, sent: &Sent, segments: u32) {
        self.segments += segments;
        let is_newer = |newest: &Sent| (sent.at, sent.seq) > (newest.at, newest.seq);
        if self.newest.as_ref().is_none_or(is_newer) {
            self.newest = Some(sent.clone());
        }
        if !sent.is_again {
            self.first.get_or_insert(sent.at);
            self.last = Some(sent.at);
        }
        self.is_again |= sent.is_again;
        self.rack = self.rack.max(Some((sent.at, sent.end())));
    }
}

impl Sending {
    /// The peer acknowledges. Whether something new.
    pub(super) fn acknowledged(&mut self, segment: &Segment, now: Time) -> bool {
        self.heard = now;
        if segment.ack > self.next {
            return false;
        }
        self.allowed = self.allowed.max(segment.ack + segment.window);
        let prior_in_flight = self.in_flight;
        let mut newly = Newly::default();
        let is_new = segment.ack > self.una;
        self.take_acknowledged(segment.ack, &mut newly);
        self.take_sacked(&segment.sacks, &mut newly);
        self.delivered += u64::from(newly.segments);
        if newly.segments > 0 {
            self.delivered_at = now;
        }
        let round_trip = self.measure(&newly, now);
        self.update_rack(&newly, now);
        let lost = self.detect_losses(now);
        let before = self.phase;
        self.change_phase(segment.ack, lost);
        let rate = self.rate(&newly, now);
        if let Some(newest) = &newly.newest {
            self.first_at = newest.at;
        }
        self.end_app_limited();
        if is_new || newly.segments > 0 {
            self.is_probing = false;
        }
        if is_new {
            (self.timeouts, self.probes) = (0, 0);
            self.timeout_at = (!self.sent.is_empty()).then(|| now + self.trip.timeout(0));
            match self.phase {
                Phase::Open => self.set_probe(now),
                _ => self.probe_at = None,
            }
        }
        if self.sent.is_empty() {
            (self.timeout_at, self.probe_at, self.reorder_at) = (None, None, None);
        }
        self.set_persist(now);
        let ack = Ack {
            now,
            acked: newly.segments,
            delivered: self.delivered,
            lost,
            prior_delivered: newly.newest.as_ref().map(|sent| sent.delivered),
            prior_in_flight,
            in_flight: self.in_flight,
            round_trip,
            rate,
            phase: self.phase,
            is_limited: self.is_window_limited(),
            delivered_at: self.delivered_at,
        };
        if self.control.reduces_in_recovery() && self.phase == Phase::Recovery {
            if before == Phase::Recovery || newly.segments > 0 {
                self.reduce(newly.segments, is_new && lost == 0);
            }
        } else if newly.segments > 0 || !self.control.reduces_in_recovery() {
            self.control.acknowledged(&ack, &mut self.window);
        }
        is_new
    }

    fn take_acknowledged(&mut self, ack: u64, newly: &mut Newly) {
        while let Some(front) = self.sent.front()
            && front.seq < ack
        {
            if front.end() > ack {
                let bytes = (ack - front.seq) as u32;
                self.split_counted(0, bytes);
            }
            let Some(sent) = self.sent.pop_front() else { break };
            let segments = self.segments_of(sent.bytes);
            match sent.state {
                State::Flying => self.in_flight -= segments,
                State::Lost => self.lost -= segments,
                State::Sacked => self.sacked -= segments,
            }
            if sent.state != State::Sacked {
                self.is_reordering |=
                    !sent.is_again && sent.seq < self.highest_sack && self.phase == Phase::Open;
                newly.add(&sent, segments);
            }
        }
        self.una = self.una.max(ack);
    }

    /// As [`Sending::split`]; the halves may be more segments than the whole.
    fn split_counted(&mut self, at: usize, bytes: u32) {
        let (whole, state) = (self.sent[at].bytes, self.sent[at].state);
        if whole <= bytes {
            return;
        }
        self.split(at, bytes);
        let more =
            self.segments_of(bytes) + self.segments_of(whole - bytes) - self.segments_of(whole);
        match state {
            State::Flying => self.in_flight += more,
            State::Lost => self.lost += more,
            State::Sacked => self.sacked += more,
        }
    }

    fn take_sacked(&mut self, sacks: &Sacks, newly: &mut Newly) {
        for &(from, to) in sacks.iter().filter(|(from, to)| from < to) {
            let begin = self.sent.partition_point(|sent| sent.end() <= from);
            let mut at = begin;
            while let Some(sent) = self.sent.get(at)
                && sent.seq < to
            {
                if sent.seq < from {
                    let bytes = (from - sent.seq) as u32;
                    self.split_counted(at, bytes);
                    at += 1;
                    continue;
                }
                if sent.end() > to {
                    let bytes = (to - sent.seq) as u32;
                    self.split_counted(at, bytes);
                }
                let sent = &self.sent[at];
                let segments = self.segments_of(sent.bytes);
                match sent.state {
                    State::Sacked => {
                        at += 1;
                        continue;
                    }
                    State::Flying => self.in_flight -= segments,
                    State::Lost => self.lost -= segments,
                }
                self.is_reordering |= !sent.is_again && sent.seq < self.highest_sack;
                newly.add(sent, segments);
                self.highest_sack = self.highest_sack.max(sent.end());
                self.sent[at].state = State::Sacked;
                self.sacked += segments;
                at += 1;
            }
        }
    }

    fn measure(&mut self, newly: &Newly, now: Time) -> Option<Duration> {
        let (first, last) = (newly.first?, newly.last?);
        if newly.is_again {
            return None;
        }
        let round_trip = now.since(last);
        self.trip.measured(now.since(first));
        self.trip.min = self.trip.min.min(round_trip.max(Duration::from_micros(1)));
        Some(round_trip)
    }

    fn update_rack(&mut self, newly: &Newly, now: Time) {
        let Some((at, end)) = newly.rack else { return };
        let trip = now.since(at);
        // Sent again a moment ago: it is the first sending that has arrived.
        if newly.is_again && trip < self.trip.min {
            return;
        }
        if (at, end) > (self.rack.0, self.rack.1) {
            self.rack = (at, end, trip);
        }
    }

    /// Marks what is lost. How many segments that is.
    pub(super) fn detect_losses(&mut self, now: Time) -> u32 {
        self.reorder_at = None;
        let (newest, end, trip) = self.rack;
        if self.in_flight == 0 || self.sacked == 0 && self.phase == Phase::Open {
            return 0;
        }
        let is_certain =
            !self.is_reordering && (self.phase >= Phase::Recovery || self.sacked >= REORDERED);
        let patience =
            if is_certain { Duration::ZERO } else { (self.trip.min / 4).min(self.trip.smoothed) };
        let (mut lost, mut next) = (0, None::<Time>);
        let segment = self.segment;
        for sent in &mut self.sent {
            if sent.state != State::Flying || (sent.at, sent.end()) >= (newest, end) {
                continue;
            }
            let due = sent.at + trip + patience;
            if due <= now {
                sent.state = State::Lost;
                lost += sent.bytes.div_ceil(segment).max(1);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        self.reorder_at = next;
        self.in_flight -= lost;
        self.lost += lost;
        self.drops += u64::from(lost);
        lost
    }

    fn change_phase(&mut self, ack: u64, lost: u32) {
        if self.phase != Phase::Open && ack >= self.recovered {
            if self.phase == Phase::Recovery && self.control.reduces_in_recovery() {
                self.window.cwnd = self.window.ssthresh;
            }
            self.phase = Phase::Open;
        }
        if self.phase == Phase::Open && lost > 0 {
            self.enter_recovery();
        }
    }

    fn enter_recovery(&mut self) {
        self.window.ssthresh = self.control.ssthresh(&self.window);
        self.prr = (0, 0, self.window.cwnd.max(1));
        self.phase = Phase::Recovery;
        self.recovered = self.next;
        self.probe_at = None;
    }

    /// Proportional rate reduction (tcp_cwnd_reduction).
    fn reduce(&mut self, delivered: u32, is_clean: bool) {
        let (acked, out, prior) = &mut self.prr;
        *acked += delivered;
        let ssthresh = self.window.ssthresh;
        let mut more = if self.in_flight > ssthresh {
            let due = (u64::from(ssthresh) * u64::from(*acked)).div_ceil((*prior).into());
            u32::try_from(due).unwrap_or(u32::MAX).saturating_sub(*out)
        } else {
            let more = acked.saturating_sub(*out).max(delivered) + u32::from(is_clean);
            more.min(ssthresh - self.in_flight)
        };
        more = more.max(u32::from(*out == 0));
        self.window.cwnd = self.in_flight + more;
    }

    fn rate(&self, newly: &Newly, now: Time) -> Option<Rate> {
        let sent = newly.newest.as_ref()?;
        let interval = sent.at.since(sent.first_at).max(now.since(sent.delivered_at));
        let delivered = self.delivered - sent.delivered;
        (delivered > 0 && !interval.is_zero() && interval >= self.trip.min).then_some(Rate {
            delivered,
            interval,
            app_limited: sent.app_limited,
        })
    }

    /// When nothing was heard of for so long, the last segment is sent again.
    pub(super) fn set_probe(&mut self, now: Time) {
        if self.sent.is_empty() || self.sacked > 0 {
            self.probe_at = None;
            return;
        }
        let only_one = self.in_flight == 1;
        let margin = if only_one { MIN_TIMEOUT } else { PROBE_MARGIN };
        let at = match self.trip.smoothed {
            Duration::ZERO => now + Duration::from_secs(1),
            smoothed => now + 2 * smoothed + margin,
        };
        self.probe_at = Some(self.timeout_at.map_or(at, |timeout| at.min(timeout)));
    }

    /// Where the peer's window is closed and nothing is in flight, it is asked now and then.
    fn set_persist(&mut self, now: Time) {
        let is_held_up =
            self.sent.is_empty() && self.next < self.written && self.next >= self.allowed;
        if !is_held_up {
            self.persist_at = None;
        } else if self.persist_at.is_none() {
            self.persist_at = Some(now + self.trip.timeout(self.probes));
        }
    }

    /// Timers that are due. What is to leave at once, besides what [`Sending::next_piece`] gives; true: the peer's window is
    /// asked for.
    pub(super) fn timers(&mut self, now: Time) -> (Option<Piece>, bool) {
        if self.reorder_at.is_some_and(|at| at <= now) {
            self.reorder_at = None;
            if self.detect_losses(now) > 0 && self.phase == Phase::Open {
                self.enter_recovery();
                if self.control.reduces_in_recovery() {
                    self.reduce(1, false);
                }
            }
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            return (self.timed_out(now), false);
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            return (self.probe(now), false);
        }
        if self.persist_at.is_some_and(|at| at <= now) {
            self.probes = self.probes.saturating_add(1);
            self.persist_at = Some(now + self.trip.timeout(self.probes));
            return (None, true);
        }
        (None, false)
    }

    /// Nothing was heard of for long: sends the last segment again, or a new one (tail loss probe).
    fn probe(&mut self, now: Time) -> Option<Piece> {
        if self.is_probing {
            return None;
        }
        let last = self.sent.len().checked_sub(1)?;
        let rest = self.sent[last].bytes.saturating_sub(1) / self.segment * self.segment;
        if rest > 0 {
            self.split_counted(last, rest);
        }
        let last = self.sent.len() - 1;
        if self.sent[last].state != State::Flying {
            return None;
        }
        self.is_probing = true;
        self.in_flight -= 1;
        let head = self.sent[0].at;
        self.timeout_at = Some((head + self.trip.timeout(0)).max(now + Duration::from_millis(4)));
        self.segments += 1;
        Some(self.again(last, now))
    }

    /// The retransmission timeout: everything counts as lost.
    fn timed_out(&mut self, now: Time) -> Option<Piece> {
        (self.probe_at, self.reorder_at) = (None, None);
        if self.sent.is_empty() {
            self.timeout_at = None;
            return None;
        }
        if self.phase != Phase::Loss || self.una >= self.recovered {
            self.window.ssthresh = self.control.ssthresh(&self.window);
        }
        self.control.timed_out();
        self.phase = Phase::Loss;
        self.recovered = self.next;
        self.timeouts = self.timeouts.saturating_add(1);
        let segment = self.segment;
        for sent in self.sent.iter_mut().filter(|sent| sent.state == State::Flying) {
            sent.state = State::Lost;
            let segments = sent.bytes.div_ceil(segment).max(1);
            self.in_flight -= segments;
            self.lost += segments;
            self.drops += u64::from(segments);
        }
        self.window.cwnd = 1;
        self.timeout_at = Some(now + self.trip.timeout(self.timeouts));
        let at = self.sent.iter().position(|sent| sent.state == State::Lost)?;
        self.split(at, segment);
        self.lost -= 1;
        self.segments += 1;
        Some(self.again(at, now))
    }
}
