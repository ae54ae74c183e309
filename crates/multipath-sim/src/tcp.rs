//! A model of Linux's TCP: connections whose goodput, timeouts and kernel information are near the real ones.
//! Not links (`link`), nor the bytes (`content`): segments carry numbers only.

mod bbr;
mod control;
mod cubic;
mod receiving;
mod recovery;
mod round_trip;
mod sending;

use std::time::Duration;

use busbw_multipath::Time;

pub use self::control::Algorithm;
use self::{receiving::Receiving, sending::Sending};
use crate::packet::{Kind, Segment};

/// Bytes of the IP and TCP headers, with time stamps.
pub(crate) const HEADERS: u32 = 52;
/// A connection request is sent again after so long, then twice as long each time.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);
/// Timeouts in a row after which a connection is given up: while an application has it, and after (tcp_retries2 and
/// tcp_orphan_retries).
const MOST_TIMEOUTS: (u8, u8) = (15, 8);

/// How a connection is.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes of a packet with its IP header.
    pub mtu: u32,
    /// Whether segments travel together, up to 64 KiB (segmentation offload).
    pub offload: bool,
    /// The congestion control.
    pub algorithm: Algorithm,
    /// Bytes that a receiver buffers, at first and at most.
    pub receive_buffer: (u64, u64),
    /// Bytes that a sender buffers at most; what it buffers grows with the congestion window.
    pub send_buffer: u64,
    /// When a silent connection is asked for, and how often, each a second after the other.
    pub keep_alive: Option<(Duration, u32)>,
    /// The end that was connected to gives up when what it sends is not acknowledged for so long (TCP_USER_TIMEOUT).
    pub acceptor_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mtu: 9000,
            offload: true,
            algorithm: Algorithm::Cubic,
            receive_buffer: (64 << 10, 6 << 20),
            send_buffer: 4 << 20,
            keep_alive: Some((Duration::from_secs(5), 5)),
            acceptor_timeout: Some(Duration::from_secs(10)),
        }
    }
}

/// Why a connection has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens there.
    Refused,
    /// The peer has reset it.
    Reset,
    /// Nothing was heard of the peer for too long.
    TimedOut,
}

/// What the kernel knows of a connection (TCP_INFO, SIOCOUTQ).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Segments in flight, lost ones included.
    pub unacknowledged: u32,
    /// Bytes that were written and not acknowledged.
    pub unacknowledged_bytes: u64,
    /// Timeouts in a row.
    pub timeouts: u8,
    /// Since the last acknowledgement.
    pub silence: Duration,
    /// The smoothed round trip.
    pub round_trip: Duration,
    /// The shortest.
    pub min_round_trip: Duration,
    /// Segments sent, those sent again included.
    pub segments: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Segments that may be in flight.
    pub window: u32,
}

/// Where a connection's end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing has come from the peer: it was asked so often, and is again then.
    Connecting(u32, Time),
    /// The peer has asked.
    Accepting,
    Up,
    Over(Option<Failure>),
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) stage: Stage,
    sending: Sending,
    receiving: Receiving,
    /// Nobody has it any more.
    pub(crate) is_orphan: bool,
    keep_alive: Option<(Duration, u32)>,
    user_timeout: Option<Duration>,
    /// When anything was heard of the peer, and how often it was asked since.
    heard: Time,
    asked: u32,
    began: Time,
    /// The timer that is set.
    pub(crate) timer: Option<Time>,
    /// What is to leave.
    pub(crate) out: Vec<Segment>,
}

/// What a segment or a timer has changed for the application.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) connected: bool,
    pub(crate) accepted: bool,
    pub(crate) ready: bool,
}

const READY: News = News { connected: false, accepted: false, ready: true };

impl End {
    pub(crate) fn new(settings: &Settings, connects: bool, seed: u64, now: Time) -> End {
        let mut end = End {
            stage: if connects {
                Stage::Connecting(0, now + CONNECT_AGAIN)
            } else {
                Stage::Accepting
            },
            sending: Sending::new(settings, seed, now),
            receiving: Receiving::new(settings),
            is_orphan: false,
            keep_alive: settings.keep_alive,
            user_timeout: settings.acceptor_timeout.filter(|_| !connects),
            heard: now,
            asked: 0,
            began: now,
            timer: None,
            out: Vec::new(),
        };
        let kind = if connects { Kind::Syn } else { Kind::SynAck };
        end.say(kind);
        end
    }

    /// A segment without bytes.
    fn say(&mut self, kind: Kind) {
        let seq = self.sending.next;
        let segment = self.segment(kind, seq, 0, false);
        self.out.push(segment);
    }

    fn segment(&mut self, kind: Kind, seq: u64, bytes: u32, has_end: bool) -> Segment {
        let (ack, window, sacks) = self.receiving.acknowledgement();
        Segment { kind, seq, bytes, has_end, asks: false, ack, window, sacks }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    pub(crate) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Bytes that the application may write now.
    pub(crate) fn room(&mut self) -> u64 {
        if self.stage != Stage::Up || self.sending.has_end {
            return 0;
        }
        let room = self.sending.room();
        self.sending.is_full = room == 0;
        room
    }

    /// The application writes so many bytes, which there is room for.
    pub(crate) fn write(&mut self, bytes: u64, is_cut_short: bool, now: Time) {
        self.sending.write(bytes, now);
        self.sending.is_full |= is_cut_short;
        self.flush(now);
    }

    pub(crate) fn readable(&self) -> u64 {
        self.receiving.readable()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.receiving.is_at_end()
    }

    pub(crate) fn was_read(&mut self, bytes: u64, now: Time) {
        self.receiving.was_read(bytes);
        self.flush(now);
    }

    /// The application writes no more.
    pub(crate) fn shut(&mut self, now: Time) {
        if self.stage == Stage::Up && !self.sending.has_end {
            self.sending.has_end = true;
            self.sending.write(1, now);
            self.flush(now);
        }
    }

    /// The application has no use for it any more.
    pub(crate) fn close(&mut self, now: Time) {
        if self.stage != Stage::Up || self.readable() > 0 {
            return self.reset();
        }
        self.shut(now);
        self.is_orphan = true;
    }

    pub(crate) fn reset(&mut self) {
        if !self.is_over() {
            self.say(Kind::Reset);
            self.stage = Stage::Over(None);
        }
        self.is_orphan = true;
    }

    pub(crate) fn info(&self, now: Time) -> Info {
        let sending = &self.sending;
        Info {
            unacknowledged: sending.in_flight + sending.lost + sending.sacked,
            unacknowledged_bytes: sending.buffered(),
            timeouts: sending.timeouts,
            silence: now.since(sending.heard),
            round_trip: sending.trip.smoothed,
            min_round_trip: sending.trip.min,
            segments: sending.segments,
            retransmitted: sending.retransmitted,
            window: sending.window.cwnd,
        }
    }

    /// A segment arrives.
    pub(crate) fn arrived(&mut self, segment: &Segment, now: Time) -> News {
        (self.heard, self.asked) = (now, 0);
        match (self.stage, segment.kind) {
            (Stage::Over(_), Kind::Reset) => return News::default(),
            (Stage::Over(_), _) => {
                self.say(Kind::Reset);
                return News::default();
            }
            (Stage::Connecting(..), Kind::Reset) => return self.fail(Failure::Refused),
            (_, Kind::Reset) => return self.fail(Failure::Reset),
            (Stage::Connecting(tries, _), Kind::SynAck) => {
                self.stage = Stage::Up;
                if tries == 0 {
                    self.sending.trip.measured(now.since(self.began));
                }
                self.sending.acknowledged(segment, now);
                self.say(Kind::Data);
                return News { connected: true, accepted: false, ready: true };
            }
            (Stage::Connecting(..), _) => return News::default(),
            (Stage::Accepting, Kind::Syn) => {
                self.say(Kind::SynAck);
                return News::default();
            }
            (Stage::Up, Kind::Syn | Kind::SynAck) => {
                self.say(Kind::Data);
                return News::default();
            }
            (Stage::Accepting | Stage::Up, _) => {}
        }
        let mut news = News { accepted: self.stage == Stage::Accepting, ..News::default() };
        if news.accepted {
            self.stage = Stage::Up;
            self.sending.trip.measured(now.since(self.began));
        }
        let is_new = self.sending.acknowledged(segment, now);
        news.ready = is_new && self.sending.is_writable_again();
        if segment.bytes > 0 {
            let end = segment.seq + u64::from(segment.bytes) - u64::from(segment.has_end);
            if self.is_orphan && end > self.receiving.next {
                // New bytes, which nobody reads (tcp_rcv_state_process); what was there before is acknowledged again.
                self.reset();
                return News::default();
            }
            news.ready |= self.receiving.arrived(segment, now);
        } else if segment.asks {
            self.receiving.is_due = true;
        }
        let is_done = self.sending.has_end && self.sending.is_done() && self.receiving.is_at_end();
        if self.is_orphan && is_done {
            self.flush(now);
            self.stage = Stage::Over(None);
            return news;
        }
        self.flush(now);
        news
    }

    fn fail(&mut self, failure: Failure) -> News {
        self.stage = Stage::Over(Some(failure));
        READY
    }

    /// Everything that may leave now.
    pub(crate) fn flush(&mut self, now: Time) {
        if self.stage != Stage::Up {
            return;
        }
        while let Some(piece) = self.sending.next_piece(now) {
            let segment = self.segment(Kind::Data, piece.seq, piece.bytes, piece.has_end);
            self.out.push(segment);
        }
        if self.receiving.is_due {
            self.say(Kind::Data);
        }
    }

    /// A timer is due, or one that was set before.
    pub(crate) fn timers(&mut self, now: Time) -> News {
        match self.stage {
            Stage::Over(_) | Stage::Accepting => return News::default(),
            Stage::Connecting(tries, at) => {
                if at <= now {
                    let tries = tries + 1;
                    self.stage =
                        Stage::Connecting(tries, now + CONNECT_AGAIN * (1 << tries.min(6)));
                    self.say(Kind::Syn);
                }
                return News::default();
            }
            Stage::Up => {}
        }
        let (piece, asks) = self.sending.timers(now);
        if self.is_hopeless(now) {
            return self.fail(Failure::TimedOut);
        }
        if let Some(piece) = piece {
            let segment = self.segment(Kind::Data, piece.seq, piece.bytes, piece.has_end);
            self.out.push(segment);
        }
        self.receiving.timers(now);
        let is_asking = self.ask_at().is_some_and(|at| at <= now);
        if is_asking {
            self.asked += 1;
        }
        if asks || is_asking {
            let segment = self.segment(Kind::Data, self.sending.next, 0, false);
            self.out.push(Segment { asks: true, ..segment });
        }
        self.flush(now);
        News::default()
    }

    fn is_hopeless(&self, now: Time) -> bool {
        let most = if self.is_orphan { MOST_TIMEOUTS.1 } else { MOST_TIMEOUTS.0 };
        let sending = &self.sending;
        let times = self.keep_alive.map_or(u32::MAX, |(_, times)| times);
        let is_unheard = |time: Duration| now.since(self.heard) >= time;
        sending.timeouts > most
            || sending.probes > most && is_unheard(Duration::from_secs(120))
            || self.stuck_until().is_some_and(|until| until <= now)
            || self.asked > 0 && self.user_timeout.is_some_and(is_unheard)
            || self.asked >= times && self.ask_at().is_some_and(|at| at <= now)
    }

    /// When the connection is given up, if what timed out is not acknowledged before (TCP_USER_TIMEOUT).
    fn stuck_until(&self) -> Option<Time> {
        let Sending { timeouts, stuck_since, .. } = self.sending;
        self.user_timeout.filter(|_| timeouts > 0).map(|time| stuck_since + time)
    }

    /// When the peer is asked whether it is there: only while nothing is in flight.
    fn ask_at(&self) -> Option<Time> {
        let (idle, _) = self.keep_alive?;
        let is_idle = self.sending.sent.is_empty() && self.sending.next == self.sending.written;
        is_idle.then(|| self.heard + idle + Duration::from_secs(1) * self.asked)
    }

    /// When [`End::timers`] is to be called next.
    pub(crate) fn due(&self) -> Option<Time> {
        match self.stage {
            Stage::Over(_) | Stage::Accepting => None,
            Stage::Connecting(_, at) => Some(at),
            Stage::Up => {
                let sending = &self.sending;
                let timers = [
                    sending.timeout_at,
                    sending.probe_at,
                    sending.reorder_at,
                    sending.persist_at,
                    sending.paced_until(),
                    self.receiving.due_at,
                    self.ask_at(),
                    self.stuck_until(),
                ];
                timers.into_iter().flatten().min()
            }
        }
    }
}
