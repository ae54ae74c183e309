//! A TCP connection that was accepted, until its handshake has said which connection's path it is.
//! Not accepting it (`thread`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use busbw_multipath::frame::{Answer, Hello, SECRET_BYTES};

use super::{CLOSE_TIMEOUT, Manager};
use crate::multipath::{locks::lock, sockets};

/// One that has not said its handshake after so long gives way to others where there are too many. A path of ours says it at
/// once.
const SLOW: Duration = Duration::from_millis(500);

/// A connection that was accepted.
pub(super) struct Handshake {
    pub socket: OwnedFd,
    hello: [u8; Hello::BYTES],
    bytes: usize,
    pub until: Instant,
}

impl Handshake {
    /// Nothing if the socket cannot be tuned: it has ended already.
    pub(super) fn new(socket: OwnedFd, now: Instant) -> Option<Handshake> {
        sockets::tune(&socket).and_then(|()| sockets::give_up_acknowledging(&socket)).ok()?;
        Some(Handshake { socket, hello: [0; Hello::BYTES], bytes: 0, until: now + CLOSE_TIMEOUT })
    }

    /// Whether it has said nothing for long enough to make room for another.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.until.saturating_duration_since(now) + SLOW <= CLOSE_TIMEOUT
    }

    /// What it has said so far; it comes back as long as that is not everything.
    pub(super) fn read(mut self, manager: &Manager, came: bool, now: Instant) -> Option<Handshake> {
        if !came {
            return (now < self.until).then_some(self);
        }
        let rest = &mut self.hello[self.bytes..];
        match sockets::receive(&self.socket, &mut [IoSliceMut::new(rest)]) {
            Ok(Some(0)) | Err(_) => return None,
            Ok(Some(bytes)) => self.bytes += bytes,
            Ok(None) => {}
        }
        if self.bytes < Hello::BYTES {
            return Some(self);
        }
        let hello =
            Hello::decoded(&self.hello).filter(|hello| same(&hello.secret, &manager.secret))?;
        let acceptor = lock(&manager.acceptors).get(&hello.listener).cloned();
        let answer = if acceptor.is_some() { Answer::Accepted } else { Answer::Gone };
        // A new connection's buffer takes eight bytes.
        let _ = sockets::send(&self.socket, &[IoSlice::new(&answer.encoded())]);
        if let Some(acceptor) = acceptor {
            acceptor.accepted(&hello, self.socket);
        }
        None
    }
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(one: &[u8; SECRET_BYTES], other: &[u8; SECRET_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}
