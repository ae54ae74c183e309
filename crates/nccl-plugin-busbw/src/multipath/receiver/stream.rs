//! The receiving end of one path over TCP: headers and bytes are read, acknowledgements are written.
//! Not where bytes belong (`busbw_multipath::Receiver`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
};

use busbw_multipath::{Error, Incoming, Pause, Receiver, Target, frame::Answer};

use crate::{
    multipath::{
        memory::Place,
        sockets::{self, CutOnDrop},
        state_machine::StateMachine,
    },
    network::Request,
};

type Io<T> = rustix::io::Result<T>;

/// A path that is up.
pub(super) struct Stream {
    pub(super) socket: CutOnDrop,
    /// What has arrived.
    pub(super) incoming: Incoming<Place>,
    /// Bytes of it that the kernel still has, too.
    left: usize,
    /// Whether the last read found anything.
    pub(super) is_fresh: bool,
    answer: [u8; Answer::BYTES],
    answered: usize,
}

/// Why a path is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing is there.
    Empty,
    /// A receive must be posted first.
    Request,
    /// The other end has closed, after a fin or without one.
    End,
}

impl Stream {
    pub(super) fn new(socket: OwnedFd, incoming: Incoming<Place>) -> Stream {
        Stream {
            socket: CutOnDrop::new(socket),
            incoming,
            left: 0,
            is_fresh: false,
            answer: [0; Answer::BYTES],
            answered: Answer::BYTES,
        }
    }

    /// Reads until nothing is there, or to the end of the connection where it has `ended`. Calls
    /// `done(request, bytes)` for messages that are complete.
    ///
    /// # Errors
    /// `Ok(Err(error))` when the path is broken; `Err` when the connection has failed: the peer says what it may not.
    pub(super) fn read(
        &mut self,
        core: &StateMachine<Receiver<Place>>,
        ended: bool,
        mut done: impl FnMut(Request, u64),
    ) -> Result<Io<Stop>, Error> {
        let (mut is_all, mut is_empty) = (false, false);
        let waited = self.incoming.small() > 0 && !self.is_fresh && self.left == 0;
        self.is_fresh = false;
        self.incoming.begin();
        let stop = loop {
            if self.incoming.is_ready()
                && core.lock().advance(&mut self.incoming, &mut done)? == Pause::Request
            {
                break Stop::Request;
            }
            if is_all {
                break Stop::Empty;
            }
            match self.fill(waited && !self.is_fresh) {
                Ok(Some((0, _))) => break Stop::End,
                Ok(Some((_, is_less))) => {
                    self.is_fresh = true;
                    is_all = is_less && !ended;
                }
                Ok(None) => {
                    is_empty = true;
                    break Stop::Empty;
                }
                Err(error) => return Ok(Err(error)),
            }
        };
        let due = self.incoming.acknowledgement(is_empty);
        Ok(self.acknowledge(due).map(|()| stop))
    }

    /// Reads from the socket, in bytes: the rest of a chunk to where it belongs, and the next header; or a
    /// header and a small message. Also whether it was less than there was room for, so that nothing is left.
    ///
    /// What was `waited` for is left to the kernel, too, until the next read: it acknowledges what is taken out of an
    /// empty socket at once, which takes longer than all else here, and whoever waits for the message would wait for that.
    fn fill(&mut self, waited: bool) -> Io<Option<(usize, bool)>> {
        self.take_out()?;
        let mut nowhere;
        let (place, frame): (&mut [u8], &mut [u8]) = match self.incoming.target() {
            Target::Ahead(room) => {
                let most = room.len();
                let read = match waited {
                    true => sockets::look(&self.socket, room)?,
                    false => sockets::receive(&*self.socket, &mut [IoSliceMut::new(room)])?,
                };
                let bytes = read.unwrap_or(0);
                self.incoming.filled(bytes);
                self.left = if waited { bytes } else { 0 };
                return Ok(read.map(|bytes| (bytes, bytes < most)));
            }
            // SAFETY: the chunk is placed there for this path alone, in a receive that is not done.
            Target::Memory { memory, offset, frame, .. } => (unsafe { memory.rest(offset) }, frame),
            Target::Buffer(buffer, frame) => (buffer, frame),
            Target::Nowhere(rest, frame) => {
                nowhere = vec![0; rest];
                (&mut nowhere, frame)
            }
        };
        let most = place.len() + frame.len();
        let room = &mut [IoSliceMut::new(place), IoSliceMut::new(frame)];
        let read = sockets::receive(&*self.socket, room)?;
        self.incoming.filled(read.unwrap_or(0));
        Ok(read.map(|bytes| (bytes, bytes < most)))
    }

    /// Has the kernel forget what it still has of what was read.
    fn take_out(&mut self) -> Io<()> {
        if self.left > 0 {
            sockets::take_out(&self.socket, self.left)?;
            self.left = 0;
        }
        Ok(())
    }

    /// Whether acknowledgements wait for more to arrive, or for the kernel.
    pub(super) fn owes(&self) -> bool {
        self.incoming.owes() || self.answered < Answer::BYTES
    }

    /// Acknowledges what it can.
    pub(super) fn acknowledge_all(&mut self) -> Io<()> {
        self.take_out()?;
        self.acknowledge(self.incoming.last_acknowledgement())
    }

    /// Acknowledges so many chunks, if any.
    fn acknowledge(&mut self, due: Option<u32>) -> Io<()> {
        if let Some(count) = due {
            if !self.write_answer()? {
                return Ok(());
            }
            self.answer = Answer::Delivered(count).encoded();
            self.answered = 0;
            self.incoming.acknowledged();
        }
        self.write_answer().map(drop)
    }

    /// Whether the kernel has the last answer completely.
    fn write_answer(&mut self) -> Io<bool> {
        if self.answered < Answer::BYTES {
            let rest = IoSlice::new(&self.answer[self.answered..]);
            self.answered += sockets::send(&*self.socket, &[rest])?.unwrap_or(0);
        }
        Ok(self.answered == Answer::BYTES)
    }

    /// The path is lost: what has arrived on it.
    pub(super) fn ended(self) -> Incoming<Place> {
        self.incoming
    }
}
