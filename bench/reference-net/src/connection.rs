//! Messages over a connection: ncclNetSocketIsend, Irecv and Test. The size, and all of a message up to 128 bytes, goes
//! over one socket; the rest too, or in equal pieces over the others in turn.
//! Not making the connection.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use nccl_plugin_abi::{Status, net::MAX_REQUESTS};

use super::{
    connecting::Parts,
    helper::Helper,
    socket::{Direction, Socket},
};
use nccl_plugin_busbw::network::{Failure, Receiver, Request, Result, Sender};

/// Bytes of the size field.
const SIZE_FIELD_BYTES: usize = 4;
/// Messages up to this many bytes are sent in one call with their size (NCCL_SOCKET_INLINE).
const MAX_INLINE_BYTES: usize = 128;
/// Bytes of a piece at least (NCCL_SOCKET_MIN_TASKSIZE).
const MIN_PIECE_BYTES: usize = 64 << 10;

/// The sending end.
pub(super) struct Sending(Connection);
/// The receiving end.
pub(super) struct Receiving(Connection);

impl Sending {
    pub fn new(parts: Parts) -> Sending {
        Sending(Connection::new(parts, Direction::Send))
    }
}

impl Receiving {
    pub fn new(parts: Parts) -> Receiving {
        Receiving(Connection::new(parts, Direction::Receive))
    }
}

impl Sender for Sending {
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>> {
        self.0.begin(data.cast_mut(), bytes)
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        self.0.test(request)
    }

    /// Nothing to do: only the kernel reads and writes this memory, and it answers EFAULT for memory that is gone.
    fn release(&self, _: &Range<usize>) {}
}

impl Receiver for Receiving {
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        self.0.begin(data, bytes)
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        self.0.test(request)
    }

    /// Nothing to do: only the kernel reads and writes this memory, and it answers EFAULT for memory that is gone.
    fn release(&self, _: &Range<usize>) {}
}

struct Connection {
    // The first field: it is dropped, and its threads have ended, before the sockets and the memory are.
    helpers: Vec<Option<Helper>>,
    direction: Direction,
    control: Socket,
    data: Arc<[Socket]>,
    /// Index of the socket that takes the next piece.
    turn: usize,
    requests: Vec<Asked>,
    free: Vec<Request>,
    /// Those that are open, oldest first.
    open: VecDeque<Request>,
}

// SAFETY: the memory of a request is NCCL's, and left to us, whichever thread calls.
unsafe impl Send for Connection {}

struct Asked {
    data: *mut u8,
    size: usize,
    /// Bytes of `first` that have moved.
    first_moved: usize,
    /// The size, and what goes with it.
    first: [u8; SIZE_FIELD_BYTES + MAX_INLINE_BYTES],
    /// Whether both ends know the size.
    agreed: bool,
    /// Bytes of the data that have moved over the control socket.
    offset: usize,
    /// Threads and numbers of the pieces.
    pieces: Vec<(usize, usize)>,
}

/// Bytes of a message that go with its size.
fn inline(size: usize) -> usize {
    if size <= MAX_INLINE_BYTES { size } else { 0 }
}

impl Connection {
    fn new(parts: Parts, direction: Direction) -> Connection {
        let request = |_| Asked {
            data: std::ptr::null_mut(),
            size: 0,
            first_moved: 0,
            first: [0; SIZE_FIELD_BYTES + MAX_INLINE_BYTES],
            agreed: false,
            offset: 0,
            pieces: Vec::new(),
        };
        Connection {
            helpers: (0..parts.threads).map(|_| None).collect(),
            direction,
            control: parts.control,
            data: parts.data.into(),
            turn: 0,
            requests: (0..MAX_REQUESTS).map(request).collect(),
            free: (0..MAX_REQUESTS).rev().collect(),
            open: VecDeque::with_capacity(MAX_REQUESTS),
        }
    }

    fn begin(&mut self, data: *mut u8, size: usize) -> Result<Option<Request>> {
        let Some(number) = self.free.pop() else { return Ok(None) };
        let asked = &mut self.requests[number];
        (asked.data, asked.size) = (data, size);
        (asked.first_moved, asked.offset, asked.agreed) = (0, 0, false);
        asked.pieces.clear();
        self.open.push_back(number);
        Ok(Some(number))
    }

    fn test(&mut self, number: Request) -> Result<Option<usize>> {
        if self.open.front() != Some(&number) {
            return if self.open.contains(&number) {
                Ok(None)
            } else {
                Err(Failure::new(Status::INVALID_ARGUMENT, "this request is not open"))
            };
        }
        if !self.requests[number].agreed {
            if !self.agree(number)? {
                return Ok(None);
            }
            self.cut(number)?;
        }
        if !self.moved(number)? {
            return Ok(None);
        }
        self.open.pop_front();
        self.free.push(number);
        Ok(Some(self.requests[number].size))
    }

    /// The size, from the end that sends to the other, and the bytes that go with it.
    fn agree(&mut self, number: Request) -> Result<bool> {
        let asked = &mut self.requests[number];
        match self.direction {
            Direction::Send => {
                let with = inline(asked.size);
                // It fits: `isend` refuses longer messages.
                asked.first[..SIZE_FIELD_BYTES].copy_from_slice(&(asked.size as u32).to_le_bytes());
                if with > 0 {
                    // SAFETY: the message is there.
                    let data = unsafe { std::slice::from_raw_parts(asked.data, with) };
                    asked.first[SIZE_FIELD_BYTES..SIZE_FIELD_BYTES + with].copy_from_slice(data);
                }
                if self.control.more(self.direction, asked, SIZE_FIELD_BYTES + with)? {
                    (asked.agreed, asked.offset) = (true, with);
                }
            }
            Direction::Receive => {
                if asked.first_moved < SIZE_FIELD_BYTES {
                    if !self.control.more(self.direction, asked, SIZE_FIELD_BYTES)? {
                        return Ok(false);
                    }
                    let [a, b, c, d, ..] = asked.first;
                    let size = u32::from_le_bytes([a, b, c, d]) as usize;
                    if size > asked.size {
                        let text = format!(
                            "{} sent {size} bytes where {} were expected: the ranks' sizes or settings \
                             (NCCL_PROTO, NCCL_ALGO) differ",
                            self.control.peer, asked.size
                        );
                        return Err(Failure::new(Status::INVALID_USAGE, text));
                    }
                    asked.size = size;
                }
                let with = inline(asked.size);
                if asked.offset < with {
                    // SAFETY: the place has room for the size that was asked for.
                    asked.offset += unsafe {
                        self.control.progress(self.direction, asked.data, with, asked.offset)?
                    };
                }
                asked.agreed = asked.offset == with;
            }
        }
        Ok(asked.agreed)
    }

    /// Cuts the rest of a message into pieces for the sockets in turn.
    fn cut(&mut self, number: Request) -> Result<()> {
        let Connection { helpers, data: sockets, requests, turn, direction, .. } = self;
        let threads = helpers.len();
        let asked = &mut requests[number];
        if sockets.is_empty() {
            return Ok(());
        }
        let piece = MIN_PIECE_BYTES.max((asked.size - asked.offset).div_ceil(sockets.len()));
        let mut from = asked.offset;
        while from < asked.size {
            let bytes = piece.min(asked.size - from);
            let thread = *turn % threads;
            let helper = match &mut helpers[thread] {
                Some(helper) => helper,
                none => none.insert(Helper::started(*direction, sockets, threads)?),
            };
            // SAFETY: the memory is there until the request is done, or the connection has ended.
            let place = unsafe { helper.add(asked.data.wrapping_add(from), bytes, *turn)? };
            asked.pieces.push((thread, place));
            *turn = (*turn + 1) % sockets.len();
            from += bytes;
        }
        Ok(())
    }

    /// Whether all of it has moved.
    fn moved(&mut self, number: Request) -> Result<bool> {
        let asked = &mut self.requests[number];
        if asked.pieces.is_empty() {
            if asked.offset < asked.size {
                // SAFETY: the memory is there until the request is done.
                asked.offset += unsafe {
                    self.control.progress(self.direction, asked.data, asked.size, asked.offset)?
                };
            }
            return Ok(asked.offset == asked.size);
        }
        let helpers = &self.helpers;
        let helper = |thread: usize| helpers[thread].as_ref();
        for &(thread, place) in &asked.pieces {
            if !helper(thread).map_or(Ok(true), |helper| helper.is_done(place))? {
                return Ok(false);
            }
        }
        for (thread, place) in asked.pieces.drain(..) {
            if let Some(helper) = helper(thread) {
                helper.forget(place);
            }
        }
        Ok(true)
    }
}

impl Socket {
    /// Continues with the first bytes of a message. Returns whether `bytes` of them have moved.
    fn more(&self, direction: Direction, asked: &mut Asked, bytes: usize) -> Result<bool> {
        // SAFETY: the first bytes' place is the request's own.
        asked.first_moved += unsafe {
            self.progress(direction, asked.first.as_mut_ptr(), bytes, asked.first_moved)?
        };
        Ok(asked.first_moved == bytes)
    }
}
