//! The receiving end of one path: headers and bytes come in, acknowledgements go out.
//! Not where bytes belong (`requests`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    sync::Mutex,
};

use super::requests::{Place, Requests};
use crate::{
    multipath::{
        SMALL,
        frame::{Answer, Chunk, Header, take},
        keeper::lock,
        sockets,
    },
    network::{Request, Result},
};

/// Chunks of small messages, and bytes of them, that are acknowledged together: while nothing else is to be read, and at the
/// latest.
const TOGETHER: [(u32, usize); 2] = [(16, 16 * SMALL), (32, 32 * SMALL)];
/// The same where there have long been no others: a call to the kernel for each of 16 would be a twentieth of their way.
/// Beside long ones, whose acknowledgements come at once, the sender would think that they are late.
const ALONE: [(u32, usize); 2] = [(64, 16 * SMALL), (96, 32 * SMALL)];
/// Bytes that are read beyond a header: a small message with it.
const AHEAD: usize = Header::BYTES + SMALL;

/// A path that is up.
pub(super) struct Live {
    pub(super) socket: OwnedFd,
    path: usize,
    /// How often it was connected before.
    pub(super) epoch: u32,
    /// What was read, and not looked at yet.
    ahead: Box<[u8; AHEAD]>,
    start: usize,
    end: usize,
    /// Bytes ahead that the kernel still has, too.
    left: usize,
    coming: Option<Coming>,
    /// A chunk whose request is waited for.
    pub(super) waits: Option<Chunk>,
    /// Chunks that are to be acknowledged, and their bytes.
    owed: (u32, usize),
    /// Whether that cannot wait for more.
    urgent: bool,
    /// Whether the last look found anything.
    pub(super) came: bool,
    /// Whether that was of a chunk that is not small.
    pub(super) long: bool,
    /// Small messages since.
    pub(super) small: u32,
    /// Whether the other side has asked while a message was waited for.
    asked: bool,
    answer: [u8; Answer::BYTES],
    answered: usize,
    /// The other side has said that nothing more comes.
    pub(super) bye: bool,
}

/// A chunk of which not everything was read.
struct Coming {
    chunk: Chunk,
    read: usize,
    to: To,
}

enum To {
    There(*mut u8),
    Aside(Vec<u8>),
    Nowhere,
}

// SAFETY: NCCL leaves the memory to us, whichever thread it is, until the request is done or the connection ends.
unsafe impl Send for Coming {}

/// Why a path is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nothing is there.
    Empty,
    /// A request must come first.
    Request,
    /// The other end has closed, after a farewell or without one.
    End,
}

impl Live {
    pub(super) fn new(socket: OwnedFd, path: usize, epoch: u32) -> Live {
        Live {
            socket,
            path,
            epoch,
            ahead: Box::new([0; AHEAD]),
            start: 0,
            end: 0,
            left: 0,
            coming: None,
            waits: None,
            owed: (0, 0),
            urgent: false,
            came: false,
            long: false,
            small: 0,
            asked: false,
            answer: [0; Answer::BYTES],
            answered: Answer::BYTES,
            bye: false,
        }
    }

    /// Reads until nothing is there, or to the end if there is one; `alone` where only small messages have come for long. Calls `done(request, bytes)` for messages that are complete.
    ///
    /// # Errors
    /// `Ok(Err(error))` when the path is broken; `Err` when the connection is: it says what cannot be.
    pub(super) fn read(
        &mut self,
        requests: &Mutex<Requests>,
        ended: bool,
        alone: bool,
        mut done: impl FnMut(Request, u64),
    ) -> Result<rustix::io::Result<Pause>> {
        let mut all = false;
        let limits = if alone { ALONE } else { TOGETHER };
        let mut together = limits[1];
        let waited = self.small > 0 && !self.came && self.left == 0;
        (self.came, self.long) = (false, false);
        let pause = loop {
            if let Some(chunk) = self.waits.take()
                && !self.place(requests, chunk)?
            {
                break Pause::Request;
            }
            // What was read ahead first.
            self.copy_ahead();
            if self.is_complete() {
                self.complete(requests, &mut done)?;
            } else if self.coming.is_none() && self.end - self.start >= Header::BYTES {
                self.header(requests, &mut done)?;
            } else if all {
                break Pause::Empty;
            } else {
                match self.fill(waited && !self.came) {
                    Ok(Some((0, _))) => break Pause::End,
                    Ok(Some((_, less))) => {
                        self.came = true;
                        all = less && !ended;
                    }
                    Ok(None) => {
                        together = limits[0];
                        break Pause::Empty;
                    }
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        self.long |= self.is_reading();
        if self.long {
            self.small = 0;
        }
        if let Err(error) = self.acknowledge(together) {
            return Ok(Err(error));
        }
        Ok(Ok(pause))
    }

    /// Reads from the socket, in bytes: the rest of the chunk to where it belongs, and the next header; or a
    /// header and a small message. Also whether it was less than there was room for, so that nothing is left.
    ///
    /// What was `waited` for is left to the kernel, too, until the next look: it acknowledges what is taken out of an
    /// empty socket at once, which takes longer than all else here, and who waits for the message would wait for that.
    fn fill(&mut self, waited: bool) -> rustix::io::Result<Option<(usize, bool)>> {
        self.take_out()?;
        let Some(coming) = &mut self.coming else {
            if self.start > 0 {
                self.ahead.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let room = &mut self.ahead[self.end..];
            let most = room.len();
            let read = match waited {
                true => sockets::look(&self.socket, room)?,
                false => sockets::receive(&self.socket, &mut [IoSliceMut::new(room)])?,
            };
            self.end += read.unwrap_or(0);
            self.left = if waited { read.unwrap_or(0) } else { 0 };
            return Ok(read.map(|bytes| (bytes, bytes < most)));
        };
        // Nothing is ahead: it was copied.
        (self.start, self.end) = (0, 0);
        let rest = coming.chunk.bytes() - coming.read;
        let mut nowhere;
        let place: &mut [u8] = match &mut coming.to {
            // SAFETY: so many bytes of the chunk are left of its place.
            To::There(to) => unsafe { std::slice::from_raw_parts_mut(to.add(coming.read), rest) },
            To::Aside(bytes) => &mut bytes[coming.read..],
            To::Nowhere => {
                nowhere = vec![0; rest];
                &mut nowhere
            }
        };
        let next = &mut self.ahead[..Header::BYTES];
        let read =
            sockets::receive(&self.socket, &mut [IoSliceMut::new(place), IoSliceMut::new(next)])?;
        let bytes = read.unwrap_or(0);
        coming.read += bytes.min(rest);
        self.end = bytes.saturating_sub(rest);
        Ok(read.map(|bytes| (bytes, bytes < rest + Header::BYTES)))
    }

    /// Has the kernel forget what it still has of what was read.
    fn take_out(&mut self) -> rustix::io::Result<()> {
        if self.left > 0 {
            let looked_at = &mut self.ahead[self.end - self.left..self.end];
            sockets::take_out(&self.socket, looked_at)?;
            self.left = 0;
        }
        Ok(())
    }

    fn copy_ahead(&mut self) {
        let Some(coming) = &mut self.coming else { return };
        let count = (self.end - self.start).min(coming.chunk.bytes() - coming.read);
        let bytes = &self.ahead[self.start..self.start + count];
        match &mut coming.to {
            // SAFETY: so many bytes of the chunk are left of its place.
            To::There(to) => unsafe {
                to.add(coming.read).copy_from_nonoverlapping(bytes.as_ptr(), count)
            },
            To::Aside(aside) => aside[coming.read..coming.read + count].copy_from_slice(bytes),
            To::Nowhere => {}
        }
        coming.read += count;
        self.start += count;
    }

    fn is_complete(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| coming.read == coming.chunk.bytes())
    }

    fn header(
        &mut self,
        requests: &Mutex<Requests>,
        done: &mut impl FnMut(Request, u64),
    ) -> Result<()> {
        let header = Header::decoded(&take(&self.ahead[..], self.start))?;
        self.start += Header::BYTES;
        match header {
            Header::Ping => {
                self.urgent = true;
                self.asked = lock(requests).is_waiting();
            }
            Header::Bye => self.bye = true,
            Header::Chunk(chunk) => {
                let bytes = chunk.bytes();
                let is_here = self.end - self.start >= bytes && bytes <= SMALL;
                let data = &self.ahead[self.start..];
                if is_here && lock(requests).put(&chunk, &data[..bytes], done)? {
                    self.start += bytes;
                    self.owes_for(bytes);
                    self.small = self.small.saturating_add(1);
                } else {
                    self.waits = Some(chunk);
                }
            }
        }
        Ok(())
    }

    /// Finds out where a chunk is to be written; false if that is not known yet.
    fn place(&mut self, requests: &Mutex<Requests>, chunk: Chunk) -> Result<bool> {
        let to = match lock(requests).place(&chunk, self.path)? {
            Place::There(to) => To::There(to),
            Place::Aside => To::Aside(vec![0; chunk.bytes()]),
            Place::Nowhere => To::Nowhere,
            Place::Later => {
                self.waits = Some(chunk);
                return Ok(false);
            }
        };
        self.coming = Some(Coming { chunk, read: 0, to });
        Ok(true)
    }

    fn complete(
        &mut self,
        requests: &Mutex<Requests>,
        done: &mut impl FnMut(Request, u64),
    ) -> Result<()> {
        let Some(Coming { chunk, to, .. }) = self.coming.take() else { return Ok(()) };
        let is_long = chunk.bytes() > SMALL;
        self.urgent |= is_long;
        self.long |= is_long;
        match to {
            To::There(_) => lock(requests).come(&chunk, done),
            To::Aside(bytes) => lock(requests).aside(chunk, bytes, done)?,
            To::Nowhere => {}
        }
        self.owes_for(chunk.bytes());
        Ok(())
    }

    /// Another chunk is to be acknowledged.
    fn owes_for(&mut self, bytes: usize) {
        self.owed = (self.owed.0 + 1, self.owed.1 + bytes);
    }

    /// Whether acknowledgements wait for more to come.
    pub(super) fn owes(&self) -> bool {
        self.owed.0 > 0 || self.answered < Answer::BYTES
    }

    /// Whether it has read a part of a chunk.
    pub(super) fn is_reading(&self) -> bool {
        self.coming.is_some()
    }

    /// Acknowledges what it can.
    pub(super) fn settle_up(&mut self) -> rustix::io::Result<()> {
        self.take_out()?;
        self.acknowledge((1, 0))
    }

    /// Somebody else has the chunk: if this path is writing it where it belongs, it does not any more.
    pub(super) fn give_way(&mut self, chunk: &Chunk) {
        if let Some(coming) = self.coming.as_mut().filter(|coming| coming.chunk == *chunk) {
            coming.to = To::Nowhere;
        }
    }

    /// The path is gone: what it was writing.
    pub(super) fn ended(mut self) -> Option<Chunk> {
        self.coming
            .take()
            .filter(|coming| matches!(coming.to, To::There(_)))
            .map(|coming| coming.chunk)
    }

    /// Acknowledges what is here, if that cannot wait or is so much.
    fn acknowledge(&mut self, (chunks, bytes): (u32, usize)) -> rustix::io::Result<()> {
        let owes = self.owed.0 > 0;
        let enough = self.owed.0 >= chunks || self.owed.1 >= bytes;
        if owes && enough || self.urgent && (owes || self.asked) {
            if !self.go_on_answering()? {
                return Ok(());
            }
            self.answer = Answer::Delivered(self.owed.0).encoded();
            (self.answered, self.owed, self.urgent, self.asked) = (0, (0, 0), false, false);
        }
        self.go_on_answering().map(drop)
    }

    /// Whether the last answer is on its way completely.
    fn go_on_answering(&mut self) -> rustix::io::Result<bool> {
        if self.answered < Answer::BYTES {
            let rest = IoSlice::new(&self.answer[self.answered..]);
            self.answered += sockets::send(&self.socket, &[rest])?.unwrap_or(0);
        }
        Ok(self.answered == Answer::BYTES)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        sockets::cut(&self.socket);
    }
}
