//! What a sender asks of whoever drives it, and what it is told.
//! Not when it asks (`recovery`, `reconnect`).

use std::{fmt, time::Duration};

use crate::CONNECTION_TIMEOUT;

/// A source port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port(pub u16);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect a path, and say [`connected`](super::Sender::connected) or [`not_connected`](super::Sender::not_connected).
    Connect {
        /// The path.
        path: usize,
        /// How often it was connected before.
        epoch: u32,
        /// The source port to connect from; any if there is none.
        port: Option<Port>,
        /// How long that may take; the driver's usual time if it is not said.
        timeout: Option<Duration>,
    },
    /// Probe the peer's host over the addresses of this path, and say [`probe_answered`](super::Sender::probe_answered) or
    /// [`probe_unanswered`](super::Sender::probe_unanswered).
    Probe(usize),
    /// Send a ping on this path, unless it is in the middle of a chunk.
    Ping(usize),
    /// Call [`inspected`](super::Sender::inspected) with what is known of this path's connection.
    Inspect(usize),
    /// Call [`hedge`](super::Sender::hedge) for this path.
    Hedge(usize),
    /// Call [`lost`](super::Sender::lost) for this path, and connect it as is asked for then: an unreliable one, or one that
    /// places what it carries in the receiver's memory, which both ends stop before that.
    GiveUp {
        /// The path.
        path: usize,
        /// Why.
        loss: Loss,
    },
    /// Tell people.
    Notify(Notice),
}

/// What people may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A path was lost: why, and how it is now.
    Lost {
        /// The path.
        path: usize,
        /// Why it was lost, and what became of its chunks.
        why: String,
        /// What has become of it.
        now: String,
    },
    /// A path does not come up: why.
    NotConnected {
        /// The path.
        path: usize,
        /// Why.
        why: String,
    },
}

/// What the layer below knows of a path's connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether packets are in flight there.
    pub is_in_flight: bool,
    /// Retransmission timeouts in a row.
    pub timeouts: u8,
    /// How long no acknowledgement has arrived there.
    pub silence: Duration,
    /// Bytes that it was given, and those that it would still be given of a chunk, and that the peer's host has not
    /// acknowledged; nothing if it does not say.
    pub undelivered: Option<usize>,
    /// Its source port.
    pub port: Option<Port>,
    /// Its time there and back, if that is known; else zero.
    pub round_trip: Duration,
}

/// Why a path is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// Its connection has ended.
    Ended {
        /// What the system says.
        why: String,
        /// Whether it was given up after timeouts.
        timed_out: bool,
    },
    /// No acknowledgement for so long, and so many retransmission timeouts.
    Silent {
        /// How long.
        silence: Duration,
        /// How many timeouts.
        timeouts: u8,
    },
    /// The peer's host has answered no probe for so long.
    Unreachable(Duration),
}

impl fmt::Display for Loss {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Ended { why, .. } => to.write_str(why),
            Loss::Silent { silence, timeouts } => {
                let silence = silence.as_secs_f64();
                write!(to, "no acknowledgement for {silence:.1} s, {timeouts} timeouts")
            }
            Loss::Unreachable(time) => {
                write!(to, "the other host has not answered for {:.1} s", time.as_secs_f64())
            }
        }
    }
}

/// Why a path did not come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// The peer's host refuses it.
    Refused,
    /// Another connection has its source port.
    PortTaken,
    /// Anything else.
    Other,
}

/// Why a connection has ended. [`Display`](fmt::Display) says it behind "paths to ADDRESS".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The caller has closed it.
    Closed,
    /// The peer has closed it.
    ClosedByPeer,
    /// The peer refuses connections: its process has ended.
    Refused,
    /// All of so many paths were down for [`CONNECTION_TIMEOUT`].
    AllDown(usize),
    /// Paths connect, and so many of them deliver nothing: packets may be longer than the MTU on the way.
    Blackholed(usize),
}

impl End {
    /// Whether one of the ends has wanted it.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        matches!(self, End::Closed | End::ClosedByPeer)
    }

    /// What is said of it, of a connection to this address.
    #[must_use]
    pub fn told(&self, peer: &dyn fmt::Display) -> String {
        let seconds = CONNECTION_TIMEOUT.as_secs();
        match self {
            End::Closed => "the connection was closed".to_owned(),
            End::ClosedByPeer => "the other side has closed the connection".to_owned(),
            End::Refused => {
                format!("the other side, {peer}, refuses connections: its process has ended")
            }
            End::AllDown(paths) => {
                format!("none of {paths} paths to {peer} has come up for {seconds} s")
            }
            End::Blackholed(paths) => format!(
                "none of {paths} paths to {peer} has delivered anything for {seconds} s, although they connect: can \
                 packets be as large as this host's everywhere on the way (MTU)?"
            ),
        }
    }
}

/// The state of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It takes chunks.
    Up,
    /// Acknowledgements are late: it takes none.
    Suspected,
    /// It has no connection.
    Down,
}
