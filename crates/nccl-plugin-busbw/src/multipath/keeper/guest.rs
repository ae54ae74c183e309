//! Who comes to the door, until it has said which connection's path it is.
//! Not the door (`thread`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::{FAREWELL, Keeper, lock};
use crate::multipath::{
    frame::{Answer, Hello, SECRET_BYTES},
    sockets,
};

/// Who has not said who he is after so long gives way to others where there are too many. A path of ours says it at once.
const SLOW: Duration = Duration::from_millis(500);

/// A connection that has come.
pub(super) struct Guest {
    pub socket: OwnedFd,
    said: [u8; Hello::BYTES],
    bytes: usize,
    pub until: Instant,
}

impl Guest {
    /// Nothing if the socket cannot be tuned: it has ended already.
    pub(super) fn new(socket: OwnedFd, now: Instant) -> Option<Guest> {
        sockets::tune(&socket).and_then(|()| sockets::give_up_acknowledging(&socket)).ok()?;
        Some(Guest { socket, said: [0; Hello::BYTES], bytes: 0, until: now + FAREWELL })
    }

    /// Whether it has said nothing for long enough to make room for another.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.until.saturating_duration_since(now) + SLOW <= FAREWELL
    }

    /// What a guest has said so far; it comes back as long as that is not everything.
    pub(super) fn heard(mut self, keeper: &Keeper, came: bool, now: Instant) -> Option<Guest> {
        if !came {
            return (now < self.until).then_some(self);
        }
        let rest = &mut self.said[self.bytes..];
        match sockets::receive(&self.socket, &mut [IoSliceMut::new(rest)]) {
            Ok(Some(0)) | Err(_) => return None,
            Ok(Some(bytes)) => self.bytes += bytes,
            Ok(None) => {}
        }
        if self.bytes < Hello::BYTES {
            return Some(self);
        }
        let hello =
            Hello::decoded(&self.said).filter(|hello| same(&hello.secret, &keeper.secret))?;
        let room = lock(&keeper.rooms).get(&hello.listener).cloned();
        let answer = if room.is_some() { Answer::Welcome } else { Answer::Gone };
        // A new connection's buffer takes eight bytes.
        let _ = sockets::send(&self.socket, &[IoSlice::new(&answer.encoded())]);
        if let Some(room) = room {
            room.arrived(&hello, self.socket);
        }
        None
    }
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(one: &[u8; SECRET_BYTES], other: &[u8; SECRET_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}
