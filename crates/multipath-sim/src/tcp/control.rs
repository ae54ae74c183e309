//! Congestion control, as connections see it: what it is told, and the window and pace that it sets.
//! Not the algorithms (`cubic`, `bbr`).

use std::time::Duration;

use busbw_multipath::Time;

use super::{bbr::Bbr, cubic::Cubic};

/// Which congestion control a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// CUBIC with HyStart (RFC 9438, Linux's tcp_cubic.c).
    Cubic,
    /// BBR, version 1 (Linux's tcp_bbr.c).
    Bbr,
}

/// What of the network's capacity a connection may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Segments that may be in flight.
    pub cwnd: u32,
    /// Slow start ends here.
    pub ssthresh: u32,
    /// Bytes a second; nothing: as fast as the window lets.
    pub pace: Option<f64>,
}

/// Segments that may be in flight first (RFC 6928).
pub(super) const INITIAL_WINDOW: u32 = 10;

impl Default for Window {
    fn default() -> Window {
        Window { cwnd: INITIAL_WINDOW, ssthresh: u32::MAX, pace: None }
    }
}

/// Whether segments were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    /// Lost segments are sent again (fast recovery).
    Recovery,
    /// After a timeout.
    Loss,
}

/// How fast segments were delivered lately (Linux's tcp_rate.c).
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Segments.
    pub delivered: u64,
    /// In this time.
    pub interval: Duration,
    /// Whether the sender had too little to send.
    pub app_limited: bool,
}

/// What an acknowledgement brings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack {
    pub now: Time,
    /// Segments that are known to have arrived now, also out of order.
    pub acked: u32,
    /// All of them so far.
    pub delivered: u64,
    /// Segments that were found lost.
    pub lost: u32,
    /// How many had been delivered when the newest of them was sent.
    pub prior_delivered: Option<u64>,
    pub prior_in_flight: u32,
    pub in_flight: u32,
    pub round_trip: Option<Duration>,
    pub rate: Option<Rate>,
    pub phase: Phase,
    /// Whether the window was what held the sender up.
    pub is_limited: bool,
    /// When the last of the delivered segments was.
    pub delivered_at: Time,
}

#[derive(Debug, Clone)]
pub(super) enum Control {
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Control {
    pub(super) fn new(
        algorithm: Algorithm,
        segment: u32,
        seed: u64,
        now: Time,
    ) -> (Control, Window) {
        let mut window = Window::default();
        let control = match algorithm {
            Algorithm::Cubic => Control::Cubic(Cubic::default()),
            Algorithm::Bbr => Control::Bbr(Box::new(Bbr::new(&mut window, segment, seed, now))),
        };
        (control, window)
    }

    /// Whether fast recovery lowers the window bit by bit (PRR), rather than the algorithm itself.
    pub(super) fn reduces_in_recovery(&self) -> bool {
        matches!(self, Control::Cubic(_))
    }

    /// How many times the window the send buffer holds.
    pub(super) fn buffered_windows(&self) -> u64 {
        match self {
            Control::Cubic(_) => 2,
            Control::Bbr(_) => 3,
        }
    }

    /// Something was acknowledged, and the connection does not reduce its window.
    pub(super) fn acknowledged(&mut self, ack: &Ack, window: &mut Window) {
        match self {
            Control::Cubic(cubic) => cubic.acknowledged(ack, window),
            Control::Bbr(bbr) => bbr.acknowledged(ack, window),
        }
    }

    /// Segments were lost: where slow start is to end.
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        match self {
            Control::Cubic(cubic) => cubic.ssthresh(window),
            Control::Bbr(bbr) => bbr.save_window(window),
        }
    }

    /// A timeout.
    pub(super) fn timed_out(&mut self) {
        match self {
            Control::Cubic(cubic) => *cubic = Cubic::default(),
            Control::Bbr(bbr) => bbr.timed_out(),
        }
    }

    /// The sender begins after a pause in which nothing was in flight.
    pub(super) fn restarts(&mut self, now: Time, pause: Duration, window: &mut Window) {
        match self {
            Control::Cubic(cubic) => cubic.restarts(now, pause),
            Control::Bbr(bbr) => bbr.restarts(now, window),
        }
    }
}
