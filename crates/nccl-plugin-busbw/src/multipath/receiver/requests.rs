//! Where the bytes of messages belong: requests in their order, and which of their chunks have come.
//! Not reading them (`link`).

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use nccl_plugin_abi::Status;

use crate::{
    multipath::{SMALL, frame::Chunk, sender::AHEAD},
    network::{Failure, Request, Result},
};

/// Bytes that are kept before their request, at most: more than any sender of ours sends while we wait for something
/// older, so that what we wait for is never behind what we cannot keep.
const EARLY_BYTES: usize = 2 * AHEAD;
/// Chunks that are kept so, at most: each costs a place, however short it is. A sender of ours has at most 1024 messages,
/// and 16 MiB of long ones in at most as many chunks, behind what we wait for.
const EARLY_CHUNKS: usize = EARLY_BYTES / SMALL;

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
    early: BTreeMap<(u64, u32), (Chunk, Vec<u8>)>,
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

    /// Chunks that are kept before their request, and their bytes; and chunks that came twice at once. For the fuzz
    /// target only.
    #[cfg(fuzzing)]
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        assert_eq!(
            self.early_bytes,
            self.early.values().map(|(_, bytes)| bytes.len()).sum::<usize>()
        );
        (self.early.len(), self.early_bytes, self.spares.len())
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
        // Nothing older is there: that has its request.
        while let Some(entry) = self.early.first_entry()
            && entry.key().0 <= message
        {
            let (chunk, bytes) = entry.remove();
            self.early_bytes -= bytes.len();
            if let Err(failure) = self.put(&chunk, &bytes, &mut done) {
                // Who is told of a failure has the memory back.
                self.posted.pop_back();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Whether a request that is not done is for this memory.
    pub(super) fn writes(&self, memory: &Range<usize>) -> bool {
        self.posted.iter().any(|posted| {
            let from = posted.data.addr();
            posted.missing > 0 && from < memory.end && memory.start < from + posted.room
        })
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
            let kept = self.early_bytes + bytes <= EARLY_BYTES && self.early.len() < EARLY_CHUNKS;
            // What it hides may be what we wait for. Small ones hide much for little.
            return match waited || chunk.total <= SMALL as u64 {
                true if kept => Ok(Place::Aside),
                true if waited => {
                    let text = format!(
                        "{} bytes in {} chunks came before their request",
                        self.early_bytes,
                        self.early.len()
                    );
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
        let Some(posted) = self.posted(chunk) else { return };
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
                    // One is enough, however often it comes.
                    State::Taken(_) if self.spares.iter().any(|spare| spare.chunk == chunk) => {}
                    State::Taken(_) => self.spares.push(Spare { chunk, bytes }),
                    State::Missing => {
                        self.put(&chunk, &bytes, done)?;
                    }
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
        let Some(posted) = self.posted(chunk) else { return };
        if let Some(state @ State::Taken(_)) = posted.chunks.get_mut(chunk.index as usize) {
            *state = State::Missing;
        }
    }

    /// Writes a chunk to where it belongs, if nobody else is writing it; false if it must wait for its request.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn put(
        &mut self,
        chunk: &Chunk,
        bytes: &[u8],
        done: impl FnMut(Request, u64),
    ) -> Result<bool> {
        match self.place(chunk, usize::MAX)? {
            Place::There(to) => {
                debug_assert_eq!(bytes.len(), chunk.bytes());
                // SAFETY: the place has as many bytes as the chunk, which are nobody else's.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), chunk.bytes()) };
                self.come(chunk, done);
            }
            Place::Nowhere => {}
            Place::Aside => self.aside(*chunk, bytes.to_vec(), done)?,
            Place::Later => return Ok(false),
        }
        Ok(true)
    }

    /// The request for a chunk's message, if it is not done.
    fn posted(&mut self, chunk: &Chunk) -> Option<&mut Posted> {
        let place = chunk.message.checked_sub(self.first)?;
        self.posted.get_mut(usize::try_from(place).ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn small(message: u64) -> Chunk {
        Chunk { message, total: 0, chunk: 1 << 14, index: 0 }
    }

    #[test]
    fn what_comes_before_its_request_is_bounded() {
        let mut requests = Requests::default();
        let put = |requests: &mut Requests, message| {
            requests.put(&small(message), &[], |_, _| panic!("nobody has asked")).unwrap()
        };
        let kept = (1..100_000).take_while(|message| put(&mut requests, *message)).count();
        assert_eq!(kept, EARLY_CHUNKS);
        // What is there already is no more.
        assert!(put(&mut requests, 1));
        assert_eq!(requests.early.len(), kept);
        // Message 0 is missing: now it waits for something older.
        requests.post(std::ptr::null_mut(), 0, 0, |_, _| panic!("it has not come")).unwrap();
        requests.put(&small(1 << 40), &[], |_, _| {}).unwrap_err();
        // Each finds its own.
        let mut done = Vec::new();
        requests.put(&small(0), &[], |request, _| done.push(request)).unwrap();
        for request in 1..=kept {
            requests
                .post(std::ptr::null_mut(), 0, request, |request, _| done.push(request))
                .unwrap();
        }
        assert_eq!(done, (0..=kept).collect::<Vec<_>>());
        assert!(!requests.is_early() && !requests.is_waiting());
    }

    #[test]
    fn who_is_told_of_a_failure_has_the_memory_back() {
        let mut requests = Requests::default();
        let chunk = |message| Chunk { message, total: 100, chunk: 1 << 14, index: 0 };
        requests.put(&chunk(0), &[7; 100], |_, _| {}).unwrap();
        let mut place = [0u8; 50];
        let at = place.as_mut_ptr();
        requests.post(at, 50, 0, |_, _| panic!("it does not fit")).unwrap_err();
        assert!(!requests.is_waiting() && !requests.writes(&(at.addr()..at.addr() + 50)));
    }

    #[test]
    fn of_what_comes_while_another_path_writes_it_one_is_kept() {
        let mut place = vec![0u8; 1 << 14];
        let chunk = Chunk { message: 0, total: 1 << 14, chunk: 1 << 14, index: 0 };
        let mut requests = Requests::default();
        requests.post(place.as_mut_ptr(), place.len(), 0, |_, _| {}).unwrap();
        assert!(matches!(requests.place(&chunk, 1), Ok(Place::There(_))));
        for _ in 0..3 {
            assert!(matches!(requests.place(&chunk, 2), Ok(Place::Aside)));
            requests.aside(chunk, vec![7; 1 << 14], |_, _| {}).unwrap();
        }
        assert_eq!(requests.spares.len(), 1);
    }
}
