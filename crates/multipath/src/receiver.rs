//! The end of a connection that receives: chunks arrive over many paths, and go straight to where they belong.
//! Not reading sockets, nor accepting paths.

mod datagrams;
mod incoming;
mod requests;
mod settled;
#[cfg(test)]
mod tests;

use std::{ops::Range, time::Duration};

pub(crate) use self::{datagrams::ACK_WINDOW, settled::WINDOW as SETTLED_WINDOW};
pub use self::{
    datagrams::Ack,
    incoming::{Incoming, Pause, Target},
    requests::Duplicate,
    settled::{NUMBER_BITS, OutOfOrder, Settled},
};
use self::{datagrams::Arrived, requests::Requests};
use crate::{CONNECTION_TIMEOUT, Destination, Error, MAX_PATHS, Request, Time, frame::Header};

/// After so many small messages without a long one on any path, long ones are not reckoned with.
const ALONE: u32 = 64;

/// The receiving end of a connection.
///
/// Each path has an [`Incoming`], which belongs to whoever reads that path. He fills it, and has
/// [`advance`](Receiver::advance) look at
/// what was read.
pub struct Receiver<M> {
    requests: Requests<M>,
    /// For each path that is up, how often it was connected before.
    epochs: [Option<u32>; MAX_PATHS],
    up: usize,
    /// Since when no path is up; nothing while one is, or before the first.
    down_since: Option<Time>,
    /// The sender has said that nothing more follows.
    has_fin: bool,
    failure: Option<Error>,
    /// Looks that found small messages since the last long one, up to `ALONE`.
    small: u32,
    /// Duplicates that are being handed over.
    settling: usize,
    /// What has arrived on each unreliable path.
    arrived: Vec<Arrived>,
}

impl<M: Destination> Default for Receiver<M> {
    fn default() -> Receiver<M> {
        Receiver {
            requests: Requests::default(),
            epochs: [None; MAX_PATHS],
            up: 0,
            down_since: None,
            has_fin: false,
            failure: None,
            small: 0,
            settling: 0,
            arrived: Vec::new(),
        }
    }
}

impl<M: Destination> Receiver<M> {
    // What the caller begins, and what becomes of it.

    /// A receive of the next message into memory of so many bytes. Calls `done(request, bytes)` if that
    /// message is there already.
    ///
    /// # Errors
    /// When the message does not fit, or breaks the protocol: the memory is the caller's again, and the
    /// connection has failed.
    pub fn post(
        &mut self,
        memory: M,
        room: usize,
        request: Request,
        done: impl FnMut(Request, u64),
    ) -> Result<(), Error> {
        self.requests.post(memory, room, request, done).inspect_err(|error| {
            self.fail(error.clone());
        })
    }

    /// Whether any receive is not done.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.requests.is_waiting()
    }

    /// Whether a message, or a part of one, is there whose receive is not posted.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.requests.is_early()
    }

    /// Whether a receive that is not done writes to memory at these addresses.
    #[must_use]
    pub fn writes(&self, addresses: &Range<usize>) -> bool {
        self.requests.writes(addresses)
    }

    /// The caller does not want the connection any more: nothing is written to its memory by what is placed from now on.
    pub fn abort(&mut self) {
        self.fail(Error::Closed);
        self.requests = Requests::default();
    }

    /// Why the connection has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Chunks that are buffered before their receive, and their bytes; and duplicates.
    #[must_use]
    pub fn kept(&self) -> (usize, usize, usize) {
        self.requests.kept()
    }

    // Paths.

    /// Whether a path that was connected so often is to take the place of the one that is there, which is to
    /// be [lost](Receiver::lost) first.
    #[must_use]
    pub fn accepts(&self, path: usize, epoch: u32) -> bool {
        self.epochs[path].is_none_or(|there| there < epoch)
    }

    /// A path is up.
    pub fn connected(&mut self, path: usize, epoch: u32) -> Incoming<M> {
        if self.epochs[path].replace(epoch).is_none() {
            self.up += 1;
        }
        self.down_since = None;
        Incoming::new(path)
    }

    /// Paths that are up.
    #[must_use]
    pub fn paths_up(&self) -> usize {
        self.up
    }

    /// A path is lost, whose peer was not heard of for `silence`.
    pub fn lost(&mut self, path: usize, incoming: Incoming<M>, silence: Duration, now: Time) {
        if self.epochs[path].take().is_some() {
            self.up -= 1;
        }
        if self.up == 0 {
            // The other host may have vanished before.
            self.down_since = Some(now - silence);
        }
        self.has_fin |= incoming.has_fin();
        if let Some(chunk) = incoming.ended() {
            self.requests.release(&chunk);
        }
    }

    /// The sender says, not on a path, that it has ended in the middle of a message.
    pub fn aborted(&mut self) {
        self.has_fin = true;
    }

    /// Whether the sender has said that nothing more follows.
    #[must_use]
    pub fn has_fin(&self) -> bool {
        self.has_fin
    }

    /// Looks at what was read of a path, as far as that goes. Calls `done(request, bytes)` for messages that are complete.
    ///
    /// # Errors
    /// When the peer says what it may not: the connection has failed.
    pub fn advance(
        &mut self,
        incoming: &mut Incoming<M>,
        mut done: impl FnMut(Request, u64),
    ) -> Result<Pause, Error> {
        let before = incoming.small();
        let pause = incoming.advance(&mut self.requests, &mut done).inspect_err(|error| {
            self.failure.get_or_insert(error.clone());
        })?;
        if incoming.is_long() {
            self.small = 0;
        } else if incoming.small() > before && self.small < ALONE {
            self.small += 1;
        }
        incoming.is_alone = self.small >= ALONE;
        Ok(pause)
    }

    /// A whole chunk arrived on an unreliable path, where it has this number. `now` is by a clock that all connections of this
    /// host share: their senders pause together by it, to measure the round trip without a queue. Calls `done(request, bytes)`
    /// for a message that is complete. What to acknowledge;
    /// nothing where the chunk must be sent again, since its receive is not posted.
    ///
    /// # Errors
    /// When the peer says what it may not: the connection has failed.
    pub fn datagram(
        &mut self,
        path: usize,
        number: u64,
        chunk: &Header,
        bytes: &[u8],
        now: Time,
        done: impl FnMut(Request, u64),
    ) -> Result<Option<Ack>, Error> {
        let is_there = self.requests.put(chunk, bytes, done).inspect_err(|error| {
            self.failure.get_or_insert(error.clone());
        })?;
        if !is_there {
            return Ok(None);
        }
        if self.arrived.len() <= path {
            self.arrived.resize(path + 1, Arrived::default());
        }
        Ok(Some(self.arrived[path].add(path, number, now)))
    }

    // Chunks that arrived while another path was writing the same one.

    /// Whether there are any.
    #[must_use]
    pub fn has_duplicates(&self) -> bool {
        !self.requests.duplicates.is_empty()
    }

    /// All of them, to be [settled](Receiver::settle).
    pub fn duplicates(&mut self) -> Vec<Duplicate> {
        let duplicates = std::mem::take(&mut self.requests.duplicates);
        self.settling += duplicates.len();
        duplicates
    }

    /// The path that is writing the same chunk where it belongs, if any is.
    #[must_use]
    pub fn writer(&self, duplicate: &Duplicate) -> Option<usize> {
        self.requests.writer(&duplicate.chunk)
    }

    /// The duplicate goes where it belongs; [the path that was writing there](Receiver::writer) does not any more.
    pub fn settle(
        &mut self,
        duplicate: Duplicate,
        writer: Option<&mut Incoming<M>>,
        done: impl FnMut(Request, u64),
    ) {
        if let Some(incoming) = writer {
            incoming.give_way(&duplicate.chunk);
        }
        self.settling -= 1;
        if let Err(error) = self.requests.settle(duplicate, done) {
            self.fail(error);
        }
    }

    /// The connection has failed once the peer has ended it, or has had no path for too long.
    pub fn check(&mut self, now: Time) {
        let Some(since) = self.down_since.filter(|_| self.up == 0) else { return };
        // What has arrived twice is about to be handed over.
        if self.has_duplicates() || self.settling > 0 {
            return;
        }
        if self.has_fin {
            self.fail(Error::ClosedByPeer);
        } else if now.since(since) > CONNECTION_TIMEOUT {
            self.fail(Error::AllDown);
        }
    }
}
