//! Where the bytes of messages belong: receives in their order, and which of their chunks have arrived.
//! Not reading them (`incoming`).

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use crate::{Destination, Error, LOOKAHEAD, Request, SMALL, frame::Header};

/// Bytes that are buffered before their receive is posted, at most: more than any sender of ours sends while we
/// wait for something
/// older, so that what we wait for is never behind what we cannot buffer.
const BUFFERED_BYTES: usize = 2 * LOOKAHEAD;
/// Chunks that are buffered so, at most: each costs a place, however short it is. A sender of ours has at most
/// 1024 messages,
/// and 16 MiB of long ones in at most as many chunks, behind what we wait for.
const BUFFERED_CHUNKS: usize = BUFFERED_BYTES / SMALL;

/// A receive of one message.
struct Posted<M> {
    memory: M,
    room: usize,
    request: Request,
    /// The message's bytes and its chunks', once anything of it has arrived.
    known: Option<(u64, u32)>,
    chunks: Vec<State>,
    missing: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    /// A path is writing it where it belongs.
    Taken(usize),
    Arrived,
}

/// Where a path is to write a chunk.
#[derive(Debug)]
pub(super) enum Place<M> {
    /// Where it belongs.
    There(M),
    /// Into a buffer: to be handed over with [`Requests::buffered`] when it is complete.
    Buffer,
    /// Nowhere: it was there before.
    Nowhere,
    /// Its receive is not posted yet, and nothing else is waited for: the path waits.
    Later,
}

/// A chunk that arrived while another path was writing the same one.
pub struct Duplicate {
    pub(super) chunk: Header,
    bytes: Vec<u8>,
}

/// All receives that are not done, the oldest first, and what arrived before its receive was posted.
pub(super) struct Requests<M> {
    posted: VecDeque<Posted<M>>,
    /// Number of the first's message.
    first: u64,
    buffered: BTreeMap<(u64, u32), (Header, Vec<u8>)>,
    buffered_bytes: usize,
    /// To be seen to by whoever holds no path.
    pub(super) duplicates: Vec<Duplicate>,
}

impl<M> Default for Requests<M> {
    fn default() -> Requests<M> {
        Requests {
            posted: VecDeque::new(),
            first: 0,
            buffered: BTreeMap::new(),
            buffered_bytes: 0,
            duplicates: Vec::new(),
        }
    }
}

impl<M: Destination> Requests<M> {
    /// Whether any receive is not done.
    pub(super) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Whether anything has arrived before its receive was posted.
    pub(super) fn is_early(&self) -> bool {
        !self.buffered.is_empty()
    }

    /// Chunks that are buffered before their receive, and their bytes; and chunks that arrived twice at once.
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        (self.buffered.len(), self.buffered_bytes, self.duplicates.len())
    }

    /// A receive of the next message. Calls `done(request, bytes)` if that is there already.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn post(
        &mut self,
        memory: M,
        room: usize,
        request: Request,
        mut done: impl FnMut(Request, u64),
    ) -> Result<(), Error> {
        let message = self.first + self.posted.len() as u64;
        self.posted.push_back(Posted {
            memory,
            room,
            request,
            known: None,
            chunks: Vec::new(),
            missing: 1,
        });
        // Nothing older is there: that has its receive.
        while let Some(entry) = self.buffered.first_entry()
            && entry.key().0 <= message
        {
            let (chunk, bytes) = entry.remove();
            self.buffered_bytes -= bytes.len();
            if let Err(error) = self.put(&chunk, &bytes, &mut done) {
                // Who is told of an error has the memory back.
                self.posted.pop_back();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a receive that is not done writes to memory at these addresses.
    pub(super) fn writes(&self, addresses: &Range<usize>) -> bool {
        self.posted.iter().any(|posted| posted.missing > 0 && posted.memory.overlaps(addresses))
    }

    /// Where `path` is to write a chunk that it is about to read.
    ///
    /// # Errors
    /// When the chunk does not fit its receive, or the rest of its message.
    pub(super) fn place(&mut self, chunk: &Header, path: usize) -> Result<Place<M>, Error> {
        let waited = self.is_waiting();
        let Some(place) = chunk.message.checked_sub(self.first) else { return Ok(Place::Nowhere) };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let Some(posted) = self.posted.get_mut(place) else {
            let bytes = chunk.bytes();
            if self.buffered.contains_key(&(chunk.message, chunk.index)) {
                return Ok(Place::Nowhere);
            }
            let kept = self.buffered_bytes + bytes <= BUFFERED_BYTES
                && self.buffered.len() < BUFFERED_CHUNKS;
            // What it hides may be what we wait for. Small ones hide much for little.
            return match waited || chunk.total <= SMALL as u64 {
                true if kept => Ok(Place::Buffer),
                true if waited => Err(Error::Protocol(format!(
                    "{} bytes in {} chunks arrived before their receive",
                    self.buffered_bytes,
                    self.buffered.len()
                ))),
                _ => Ok(Place::Later),
            };
        };
        posted.accept(chunk)?;
        let state = &mut posted.chunks[chunk.index as usize];
        Ok(match *state {
            State::Arrived => Place::Nowhere,
            State::Taken(_) => Place::Buffer,
            State::Missing => {
                *state = State::Taken(path);
                // `accept` saw that it is within the receive.
                Place::There(posted.memory.part(chunk.offset() as usize, chunk.bytes()))
            }
        })
    }

    /// A chunk is completely where [`Requests::place`] said.
    pub(super) fn arrived(&mut self, chunk: &Header, mut done: impl FnMut(Request, u64)) {
        let Some(posted) = self.posted(chunk) else { return };
        let Some(state) = posted.chunks.get_mut(chunk.index as usize) else { return };
        if *state == State::Arrived {
            return;
        }
        *state = State::Arrived;
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

    /// A chunk was read completely into a buffer.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn buffered(
        &mut self,
        chunk: Header,
        bytes: Vec<u8>,
        done: impl FnMut(Request, u64),
    ) -> Result<(), Error> {
        let Some(place) = chunk.message.checked_sub(self.first) else { return Ok(()) };
        match self.posted.get_mut(usize::try_from(place).unwrap_or(usize::MAX)) {
            None => {
                self.buffered_bytes += bytes.len();
                let key = (chunk.message, chunk.index);
                if let Some((_, old)) = self.buffered.insert(key, (chunk, bytes)) {
                    self.buffered_bytes -= old.len();
                }
            }
            Some(posted) => {
                posted.accept(&chunk)?;
                match posted.chunks[chunk.index as usize] {
                    State::Arrived => {}
                    // One is enough, however often it arrives.
                    State::Taken(_) if self.duplicates.iter().any(|one| one.chunk == chunk) => {}
                    State::Taken(_) => self.duplicates.push(Duplicate { chunk, bytes }),
                    State::Missing => {
                        self.put(&chunk, &bytes, done)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A duplicate goes where it belongs, since the path that was writing there does not any more.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn settle(
        &mut self,
        duplicate: Duplicate,
        done: impl FnMut(Request, u64),
    ) -> Result<(), Error> {
        self.release(&duplicate.chunk);
        self.put(&duplicate.chunk, &duplicate.bytes, done).map(drop)
    }

    /// The path that is writing a chunk where it belongs, if any is.
    pub(super) fn writer(&self, chunk: &Header) -> Option<usize> {
        let place = usize::try_from(chunk.message.checked_sub(self.first)?).ok()?;
        match self.posted.get(place)?.chunks.get(chunk.index as usize)? {
            State::Taken(path) => Some(*path),
            State::Missing | State::Arrived => None,
        }
    }

    /// Nobody is writing it any more.
    pub(super) fn release(&mut self, chunk: &Header) {
        let Some(posted) = self.posted(chunk) else { return };
        if let Some(state @ State::Taken(_)) = posted.chunks.get_mut(chunk.index as usize) {
            *state = State::Missing;
        }
    }

    /// Writes a chunk to where it belongs, if nobody else is writing it; false if it must wait for its receive.
    ///
    /// # Errors
    /// As [`Requests::place`].
    pub(super) fn put(
        &mut self,
        chunk: &Header,
        bytes: &[u8],
        done: impl FnMut(Request, u64),
    ) -> Result<bool, Error> {
        match self.place(chunk, usize::MAX)? {
            Place::There(memory) => {
                memory.write(bytes);
                self.arrived(chunk, done);
            }
            Place::Nowhere => {}
            Place::Buffer => self.buffered(*chunk, bytes.to_vec(), done)?,
            Place::Later => return Ok(false),
        }
        Ok(true)
    }

    /// The receive of a chunk's message, if it is not done.
    fn posted(&mut self, chunk: &Header) -> Option<&mut Posted<M>> {
        let place = chunk.message.checked_sub(self.first)?;
        self.posted.get_mut(usize::try_from(place).ok()?)
    }
}

impl<M> Posted<M> {
    /// Takes what the first of a message's chunks says of all of it, and holds the others against that.
    fn accept(&mut self, chunk: &Header) -> Result<(), Error> {
        match self.known {
            Some(known) if known == (chunk.total, chunk.chunk) => Ok(()),
            Some((total, bytes)) => Err(Error::Protocol(format!(
                "a message of {total} bytes in chunks of {bytes} continues as {chunk:?}"
            ))),
            None if chunk.total > self.room as u64 => {
                Err(Error::TooLong { bytes: chunk.total, room: self.room })
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
    use crate::memory::fake::Fake;

    fn small(message: u64) -> Header {
        Header { message, total: 0, chunk: 1 << 14, index: 0 }
    }

    #[test]
    fn what_arrives_before_its_receive_is_bounded() {
        let mut requests = Requests::default();
        let put = |requests: &mut Requests<Fake>, message| {
            requests.put(&small(message), &[], |_, _| panic!("no receive is posted")).unwrap()
        };
        let kept = (1..100_000).take_while(|message| put(&mut requests, *message)).count();
        assert_eq!(kept, BUFFERED_CHUNKS);
        // What is there already costs nothing more.
        assert!(put(&mut requests, 1));
        assert_eq!(requests.kept(), (kept, 0, 0));
        // Message 0 is missing: now it waits for something older.
        requests.post(Fake::new(0), 0, 0, |_, _| panic!("it has not arrived")).unwrap();
        requests.put(&small(1 << 40), &[], |_, _| {}).unwrap_err();
        // Each finds its own.
        let mut done = Vec::new();
        requests.put(&small(0), &[], |request, _| done.push(request)).unwrap();
        for request in 1..=kept {
            requests.post(Fake::new(0), 0, request, |request, _| done.push(request)).unwrap();
        }
        assert_eq!(done, (0..=kept).collect::<Vec<_>>());
        assert!(!requests.is_early() && !requests.is_waiting());
    }

    #[test]
    fn an_error_gives_the_memory_back() {
        let mut requests = Requests::default();
        let chunk = |message| Header { message, total: 100, chunk: 1 << 14, index: 0 };
        requests.put(&chunk(0), &[7; 100], |_, _| {}).unwrap();
        let post = requests.post(Fake::new(50), 50, 0, |_, _| panic!("it does not fit"));
        assert_eq!(post, Err(Error::TooLong { bytes: 100, room: 50 }));
        assert!(!requests.is_waiting() && !requests.writes(&(0..50)));
    }

    #[test]
    fn of_what_arrives_while_another_path_writes_it_one_is_kept() {
        let chunk = Header { message: 0, total: 1 << 14, chunk: 1 << 14, index: 0 };
        let mut requests = Requests::default();
        requests.post(Fake::new(1 << 14), 1 << 14, 0, |_, _| {}).unwrap();
        assert!(matches!(requests.place(&chunk, 1), Ok(Place::There(_))));
        for _ in 0..3 {
            assert!(matches!(requests.place(&chunk, 2), Ok(Place::Buffer)));
            requests.buffered(chunk, vec![7; 1 << 14], |_, _| {}).unwrap();
        }
        assert_eq!(requests.kept(), (0, 0, 1));
    }
}
