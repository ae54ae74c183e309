//! The state machine of busbw's multipath transport: events and time go in, actions come out.
//! Not sockets, threads or clocks: the plugin moves the bytes, and simulated networks test the rest.
//!
//! A [`Sender`] cuts messages into chunks and chooses a path for each; a [`Receiver`] puts chunks where they belong and
//! acknowledges them. Both are generic over the [memory](Memory) of messages, which they never look into.
//! docs/plugin.md has the design.

#![forbid(unsafe_code)]

mod capabilities;
pub mod frame;
mod memory;
mod receiver;
mod sender;
mod time;

use std::time::Duration;

pub use self::{
    capabilities::Capabilities,
    memory::{Destination, Memory, Source},
    receiver::{
        Ack, Duplicate, Incoming, NUMBER_BITS, OutOfOrder, Pause, Receiver, Settled, Target,
    },
    sender::{
        Action, Chunk, ConnectError, Counts, End, Health, Loss, Notice, PathConfig, Port, Sender,
        State,
    },
    time::Time,
};

/// Paths of a connection at most.
pub const MAX_PATHS: usize = 16;
/// Messages up to so many bytes are small: they are copied, and sent at once.
pub const SMALL: usize = 8 << 10;
/// A connection whose paths are all down for so long has failed.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes behind the oldest incomplete message that may be in flight: the receiver may have to buffer what arrives
/// before its receive is posted.
pub(crate) const LOOKAHEAD: usize = 16 << 20;

pub(crate) use self::receiver::{ACK_WINDOW, SETTLED_WINDOW};

/// A request of the caller's, by its number.
pub type Request = usize;

/// Why a receiving end has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The peer sent what the protocol does not allow.
    #[error("{0}")]
    Protocol(String),
    /// A message is longer than its receive.
    #[error("a message of {bytes} bytes arrived for a receive of {room}: the two sides disagree")]
    TooLong {
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of the receive.
        room: usize,
    },
    /// The caller has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The peer has.
    #[error("the other side has closed the connection")]
    ClosedByPeer,
    /// No path has come back.
    #[error("all paths are down, and none has come back for {} s", CONNECTION_TIMEOUT.as_secs())]
    AllDown,
}
