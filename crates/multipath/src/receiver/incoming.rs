//! One path of a receiver: headers and bytes come in, acknowledgements become due.
//! Not reading the socket: it says where the next bytes belong.

use super::requests::{Place, Requests};
use crate::{
    Destination, Error, Request, SMALL,
    frame::{Frame, Header, take},
};

/// Chunks of small messages, and bytes of them, that are acknowledged together: while nothing else is to be read, and at the
/// latest.
const TOGETHER: [(u32, usize); 2] = [(16, 16 * SMALL), (32, 32 * SMALL)];
/// The same where there have long been no others: a call to the kernel for each of 16 would be a twentieth of their way.
/// Beside long ones, whose acknowledgements come at once, the sender would think that they are late.
const TOGETHER_ALONE: [(u32, usize); 2] = [(64, 16 * SMALL), (96, 32 * SMALL)];
/// Bytes that are read beyond a header: a small message with it.
const AHEAD: usize = Frame::BYTES + SMALL;

/// What has arrived on one path, as far as it was looked at.
pub struct Incoming<M> {
    path: usize,
    /// What was read, and not looked at yet.
    ahead: Box<[u8; AHEAD]>,
    start: usize,
    end: usize,
    coming: Option<Coming<M>>,
    /// A chunk whose receive is not posted.
    waits: Option<Header>,
    /// Chunks that are to be acknowledged, and their bytes.
    unacknowledged: (u32, usize),
    /// Whether that cannot wait for more.
    is_urgent: bool,
    /// Whether anything of a long message arrived since [`Incoming::begin`].
    is_long: bool,
    /// Small messages since the last long one.
    small: u32,
    /// Whether the sender has asked while a message was missing.
    is_asked: bool,
    /// The sender has said that nothing more follows.
    has_fin: bool,
    /// Whether only small messages have arrived on any path for long.
    pub(super) is_alone: bool,
}

/// A chunk of which not everything was read.
struct Coming<M> {
    chunk: Header,
    read: usize,
    to: To<M>,
}

enum To<M> {
    There(M),
    Buffer(Vec<u8>),
    Nowhere,
}

/// Where the next bytes are to be read to, in this order.
pub enum Target<'a, M> {
    /// A frame, and what follows it.
    Ahead(&'a mut [u8]),
    /// The rest of a chunk: to its memory from this offset on. And the next frame behind it.
    Memory {
        /// The chunk's memory.
        memory: &'a M,
        /// Bytes of it that are there.
        offset: usize,
        /// Bytes that are missing.
        rest: usize,
        /// Behind them.
        frame: &'a mut [u8],
    },
    /// The same into a buffer.
    Buffer(&'a mut [u8], &'a mut [u8]),
    /// So many bytes are of no use. And the next frame behind them.
    Nowhere(usize, &'a mut [u8]),
}

/// Why no more of what was read can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// More bytes are needed.
    Empty,
    /// A receive must be posted first.
    Request,
}

impl<M: Destination> Incoming<M> {
    /// A path of this number that has just come up.
    #[must_use]
    pub fn new(path: usize) -> Incoming<M> {
        Incoming {
            path,
            ahead: Box::new([0; AHEAD]),
            start: 0,
            end: 0,
            coming: None,
            waits: None,
            unacknowledged: (0, 0),
            is_urgent: false,
            is_long: false,
            small: 0,
            is_asked: false,
            has_fin: false,
            is_alone: false,
        }
    }

    /// Whoever reads begins to.
    pub fn begin(&mut self) {
        self.is_long = false;
    }

    /// Whether anything of a long message arrived since.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.is_long || self.is_reading()
    }

    /// Small messages since the last long one.
    #[must_use]
    pub fn small(&self) -> u32 {
        self.small
    }

    /// Begins to count small messages anew.
    pub fn forget_small(&mut self) {
        self.small = 0;
    }

    /// Whether it has read a part of a chunk.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.coming.is_some()
    }

    /// Whether it waits for a receive.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waits.is_some()
    }

    /// Whether the sender has said that nothing more follows.
    #[must_use]
    pub fn has_fin(&self) -> bool {
        self.has_fin
    }

    /// Whether [`Receiver::advance`](super::Receiver::advance) has anything to look at.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.waits.is_some() || self.end - self.start >= Frame::BYTES || self.coming.is_some()
    }

    /// As [`Receiver::advance`](super::Receiver::advance).
    pub(super) fn advance(
        &mut self,
        requests: &mut Requests<M>,
        done: &mut impl FnMut(Request, u64),
    ) -> Result<Pause, Error> {
        let pause = loop {
            if let Some(chunk) = self.waits.take()
                && !self.place(requests, chunk)?
            {
                break Pause::Request;
            }
            self.copy_ahead();
            if self.is_complete() {
                self.complete(requests, done)?;
            } else if self.coming.is_none() && self.end - self.start >= Frame::BYTES {
                self.frame(requests, done)?;
            } else {
                break Pause::Empty;
            }
        };
        if self.is_long() {
            self.small = 0;
        }
        Ok(pause)
    }

    /// Where the next bytes are to be read to. [`Incoming::filled`] says how many were.
    pub fn target(&mut self) -> Target<'_, M> {
        let Some(Coming { chunk, read, to }) = &mut self.coming else {
            if self.start > 0 {
                self.ahead.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            return Target::Ahead(&mut self.ahead[self.end..]);
        };
        // Nothing is ahead: it was copied.
        (self.start, self.end) = (0, 0);
        let frame = &mut self.ahead[..Frame::BYTES];
        let rest = chunk.bytes() - *read;
        match to {
            To::There(memory) => Target::Memory { memory, offset: *read, rest, frame },
            To::Buffer(bytes) => Target::Buffer(&mut bytes[*read..], frame),
            To::Nowhere => Target::Nowhere(rest, frame),
        }
    }

    /// So many bytes were read to where [`Incoming::target`] said.
    pub fn filled(&mut self, bytes: usize) {
        match &mut self.coming {
            None => self.end += bytes,
            Some(coming) => {
                let rest = coming.chunk.bytes() - coming.read;
                coming.read += bytes.min(rest);
                self.end = bytes.saturating_sub(rest);
            }
        }
    }

    fn copy_ahead(&mut self) {
        let Some(coming) = &mut self.coming else { return };
        let count = (self.end - self.start).min(coming.chunk.bytes() - coming.read);
        if count == 0 {
            return;
        }
        let bytes = &self.ahead[self.start..self.start + count];
        match &mut coming.to {
            To::There(memory) => memory.part(coming.read, count).write(bytes),
            To::Buffer(buffer) => buffer[coming.read..coming.read + count].copy_from_slice(bytes),
            To::Nowhere => {}
        }
        coming.read += count;
        self.start += count;
    }

    fn is_complete(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| coming.read == coming.chunk.bytes())
    }

    fn frame(
        &mut self,
        requests: &mut Requests<M>,
        done: &mut impl FnMut(Request, u64),
    ) -> Result<(), Error> {
        let frame = Frame::decoded(&take(&self.ahead[..], self.start))?;
        self.start += Frame::BYTES;
        match frame {
            Frame::Ping => {
                self.is_urgent = true;
                self.is_asked = requests.is_waiting();
            }
            Frame::Fin => self.has_fin = true,
            Frame::Chunk(chunk) => {
                let bytes = chunk.bytes();
                let is_here = self.end - self.start >= bytes && bytes <= SMALL;
                let data = &self.ahead[self.start..];
                if is_here && requests.put(&chunk, &data[..bytes], done)? {
                    self.start += bytes;
                    self.arrived(bytes);
                    self.small = self.small.saturating_add(1);
                } else {
                    self.waits = Some(chunk);
                }
            }
        }
        Ok(())
    }

    /// Finds out where a chunk is to be written; false if that is not known yet.
    fn place(&mut self, requests: &mut Requests<M>, chunk: Header) -> Result<bool, Error> {
        let to = match requests.place(&chunk, self.path)? {
            Place::There(memory) => To::There(memory),
            Place::Buffer => To::Buffer(vec![0; chunk.bytes()]),
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
        requests: &mut Requests<M>,
        done: &mut impl FnMut(Request, u64),
    ) -> Result<(), Error> {
        let Some(Coming { chunk, to, .. }) = self.coming.take() else { return Ok(()) };
        let is_long = chunk.bytes() > SMALL;
        self.is_urgent |= is_long;
        self.is_long |= is_long;
        match to {
            To::There(_) => requests.arrived(&chunk, done),
            To::Buffer(bytes) => requests.buffered(chunk, bytes, done)?,
            To::Nowhere => {}
        }
        self.arrived(chunk.bytes());
        Ok(())
    }

    /// Another chunk is to be acknowledged.
    fn arrived(&mut self, bytes: usize) {
        let (chunks, all) = self.unacknowledged;
        self.unacknowledged = (chunks + 1, all + bytes);
    }

    /// Whether acknowledgements wait for more to arrive.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.unacknowledged.0 > 0
    }

    /// How many chunks are to be acknowledged now, if any are: what cannot wait, or is enough. `is_empty` where nothing
    /// else can be read.
    #[must_use]
    pub fn acknowledgement(&self, is_empty: bool) -> Option<u32> {
        let limits = if self.is_alone { TOGETHER_ALONE } else { TOGETHER };
        let (chunks, bytes) = limits[usize::from(!is_empty)];
        let owed = self.unacknowledged;
        let enough = owed.0 > 0 && (owed.0 >= chunks || owed.1 >= bytes);
        let asked = self.is_urgent && (owed.0 > 0 || self.is_asked);
        (enough || asked).then_some(owed.0)
    }

    /// How many chunks are to be acknowledged, if any are, whether or not that can wait.
    #[must_use]
    pub fn last_acknowledgement(&self) -> Option<u32> {
        let is_due = self.owes() || self.is_urgent && self.is_asked;
        is_due.then_some(self.unacknowledged.0)
    }

    /// They are acknowledged: that is on its way.
    pub fn acknowledged(&mut self) {
        (self.unacknowledged, self.is_urgent, self.is_asked) = ((0, 0), false, false);
    }

    /// Another path has the chunk: if this one is writing it where it belongs, it does not any more.
    pub(super) fn give_way(&mut self, chunk: &Header) {
        if let Some(coming) = self.coming.as_mut().filter(|coming| coming.chunk == *chunk) {
            coming.to = To::Nowhere;
        }
    }

    /// The path is gone: what it was writing.
    pub(super) fn ended(self) -> Option<Header> {
        let coming = self.coming.filter(|coming| matches!(coming.to, To::There(_)));
        coming.map(|coming| coming.chunk)
    }
}
