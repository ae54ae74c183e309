//! Where the bytes of messages belong: requests in their order, and which of their chunks have come.
//! Not reading them (`link`).

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

use model::abi::Status;

use crate::{
    multipath::{SMALL, frame::Chunk, sender::AHEAD},
    network::{Failure, Request, Result},
};

/// Bytes that are kept before their request, at most: more than any sender of ours sends while we wait for something
/// older, so that what we wait for is never behind what we cannot keep.
const EARLY_BYTES: usize = 2 * AHEAD;

/// A request for one message.
struct Posted {
    data: *mut u8,
    room: usize,
    request: Request,
    /// The message's bytes and its chunks', once anything of it has come.
    known: Option<(u64, u32)>,
    chunks: Vec<State>,
    missing: u64,
}

// SAFETY: NCCL leaves the memory to us, whichever thread it is, until the request is done or the connection ends.
unsafe impl Send for Posted {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    /// A path is writing it where it belongs.
    Taken(usize),
    Come,
}

/// Where a path is to write a chunk.
#[derive(Debug)]
pub(super) enum Place {
    /// Where it belongs.
    There(*mut u8),
    /// Elsewhere: to be handed over with [`Requests::aside`] when it is complete.
    Aside,
    /// Nowhere: it was there before.
    Nowhere,
    /// Its request is not there yet, and nothing else is waited for: the path waits.
    Later,
}

/// A chunk that came while another path was writing the same one.
pub(super) struct Spare {
    pub chunk: Chunk,
    pub bytes: Vec<u8>,
}

/// All requests of which not everything has come, the oldest first, and what came before its request.
#[derive(Default)]
pub(super) struct Requests {
    posted: VecDeque<Posted>,
    /// Number of the first's message.
    first: u64,
    early: HashMap<(u64, u32), (Chunk, Vec<u8>)>,
    early_bytes: usize,
    /// To be looked at by whoever holds no path.
    pub spares: Vec<Spare>,
}

impl Requests {
    /// Whether any request is not done.
    pub(super) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Whether anything has come before its request.
    pub(super) fn is_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// A request for the next message. Calls `done(request, bytes)` if it is there already.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn post(
        &mut self,
        data: *mut u8,
        room: usize,
        request: Request,
        mut done: impl FnMut(Request, u64),
    ) -> Result<()> {
        let message = self.first + self.posted.len() as u64;
        self.posted.push_back(Posted {
            data,
            room,
            request,
            known: None,
            chunks: Vec::new(),
            missing: 1,
        });
        if self.early.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> =
            self.early.keys().filter(|(number, _)| *number == message).copied().collect();
        for key in keys {
            let Some((chunk, bytes)) = self.early.remove(&key) else { continue };
            self.early_bytes -= bytes.len();
            self.put(&chunk, &bytes, &mut done)?;
        }
        Ok(())
    }

    /// Where `path` is to write a chunk that it is about to read.
    ///
    /// # Errors
    /// When the chunk does not fit its request, or the rest of its message.
    pub(super) fn place(&mut self, chunk: &Chunk, path: usize) -> Result<Place> {
        let waited = self.is_waiting();
        let Some(place) = chunk.message.checked_sub(self.first) else { return Ok(Place::Nowhere) };
        let Some(posted) = self.posted.get_mut(place as usize) else {
            let bytes = chunk.bytes();
            if self.early.contains_key(&(chunk.message, chunk.index)) {
                return Ok(Place::Nowhere);
            }
            let kept = self.early_bytes + bytes <= EARLY_BYTES;
            // What it hides may be what we wait for. Small ones hide much for little.
            return match waited || chunk.total <= SMALL as u64 {
                true if kept => Ok(Place::Aside),
                true if waited => {
                    let text = format!("{} bytes came before their request", self.early_bytes);
                    Err(Failure::new(Status::REMOTE, text))
                }
                _ => Ok(Place::Later),
            };
        };
        posted.accept(chunk)?;
        let state = &mut posted.chunks[chunk.index as usize];
        Ok(match *state {
            State::Come => Place::Nowhere,
            State::Taken(_) => Place::Aside,
            State::Missing => {
                *state = State::Taken(path);
                // SAFETY: `accept` saw that it is within the request's memory.
                Place::There(unsafe { posted.data.add(chunk.offset() as usize) })
            }
        })
    }

    /// A chunk is completely where [`Requests::place`] said.
    pub(super) fn come(&mut self, chunk: &Chunk, mut done: impl FnMut(Request, u64)) {
        let Some(place) = chunk.message.checked_sub(self.first) else { return };
        let Some(posted) = self.posted.get_mut(place as usize) else { return };
        let state = &mut posted.chunks[chunk.index as usize];
        if *state == State::Come {
            return;
        }
        *state = State::Come;
        posted.missing -= 1;
        if posted.missing > 0 {
            return;
        }
        done(posted.request, chunk.total);
        while self.posted.front().is_some_and(|posted| posted.missing == 0) {
            self.posted.pop_front();
            self.first += 1;
        }
    }

    /// A chunk was read completely, but not to where it belongs.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn aside(
        &mut self,
        chunk: Chunk,
        bytes: Vec<u8>,
        done: impl FnMut(Request, u64),
    ) -> Result<()> {
        let Some(place) = chunk.message.checked_sub(self.first) else { return Ok(()) };
        match self.posted.get_mut(place as usize) {
            None => {
                self.early_bytes += bytes.len();
                if let Some((_, old)) =
                    self.early.insert((chunk.message, chunk.index), (chunk, bytes))
                {
                    self.early_bytes -= old.len();
                }
            }
            Some(posted) => {
                posted.accept(&chunk)?;
                match posted.chunks[chunk.index as usize] {
                    State::Come => {}
                    State::Taken(_) => self.spares.push(Spare { chunk, bytes }),
                    State::Missing => self.put(&chunk, &bytes, done)?,
                }
            }
        }
        Ok(())
    }

    /// The path that is writing a chunk where it belongs, if any is.
    pub(super) fn writer(&self, chunk: &Chunk) -> Option<usize> {
        match self.state(chunk)? {
            State::Taken(path) => Some(path),
            State::Missing | State::Come => None,
        }
    }

    /// Nobody is writing it any more.
    pub(super) fn let_go(&mut self, chunk: &Chunk) {
        let Some(place) = chunk.message.checked_sub(self.first) else { return };
        let Some(posted) = self.posted.get_mut(place as usize) else { return };
        if let Some(state @ State::Taken(_)) = posted.chunks.get_mut(chunk.index as usize) {
            *state = State::Missing;
        }
    }

    /// Writes a chunk to where it belongs, if nobody else is writing it.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn put(
        &mut self,
        chunk: &Chunk,
        bytes: &[u8],
        done: impl FnMut(Request, u64),
    ) -> Result<()> {
        match self.place(chunk, usize::MAX)? {
            Place::There(to) => {
                let Range { start, end } = bytes.as_ptr_range();
                debug_assert_eq!(end as usize - start as usize, chunk.bytes());
                // SAFETY: the place has so many bytes, which are nobody else's.
                unsafe { to.copy_from_nonoverlapping(start, chunk.bytes()) };
                self.come(chunk, done);
            }
            Place::Nowhere => {}
            Place::Aside | Place::Later => return self.aside(*chunk, bytes.to_vec(), done),
        }
        Ok(())
    }

    fn state(&self, chunk: &Chunk) -> Option<State> {
        let place = chunk.message.checked_sub(self.first)?;
        self.posted.get(place as usize)?.chunks.get(chunk.index as usize).copied()
    }
}

impl Posted {
    /// Takes what the first of a message's chunks says of all of it, and holds the others against that.
    fn accept(&mut self, chunk: &Chunk) -> Result<()> {
        match self.known {
            Some(known) if known == (chunk.total, chunk.chunk) => Ok(()),
            Some(known) => {
                let text = format!(
                    "a message has {known:?} bytes in all and in a chunk, and then {chunk:?}"
                );
                Err(Failure::new(Status::REMOTE, text))
            }
            None if chunk.total > self.room as u64 => {
                let text = format!(
                    "a message of {} bytes came for a receive of {}: the two sides disagree",
                    chunk.total, self.room
                );
                Err(Failure::new(Status::INVALID_USAGE, text))
            }
            None => {
                self.known = Some((chunk.total, chunk.chunk));
                self.missing = chunk.count();
                // It fits memory: a chunk has at least 16 KiB of the room.
                self.chunks = vec![State::Missing; chunk.count() as usize];
                Ok(())
            }
        }
    }
}
