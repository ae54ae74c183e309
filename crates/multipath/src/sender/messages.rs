//! Messages that are being sent, in their order, cut into chunks, and what of them was acknowledged.
//! Not which path takes a chunk (`schedule`), nor what is in flight on each (`path`).

use std::{collections::VecDeque, ops::Range};

use super::Chunk;
use crate::{LOOKAHEAD, Request, Source, frame::Header};

/// Small messages that may be unacknowledged, and their bytes: the sender keeps copies.
const COPIES: (usize, usize) = (256, 512 << 10);
/// Messages from the oldest incomplete one to the newest: the receiver buffers what arrives before its receive is
/// posted, and
/// not any number.
const MESSAGES: usize = 1024;

/// A message that is not acknowledged completely.
struct Message<M> {
    /// Where it is, and whom to tell; nothing for a copy, which was reported as done at once.
    caller: Option<(M, Request)>,
    total: usize,
    chunk: u32,
    /// The first chunk that no path has taken yet.
    next: u32,
    /// Chunks that are not acknowledged.
    missing: u32,
    /// Chunks that zero-copy paths have, acknowledged or not.
    held: u32,
    /// A bit for each that is; empty where there is one chunk only.
    acknowledged: Vec<u64>,
}

/// All messages of a connection that are not acknowledged completely, the oldest first.
pub(super) struct Messages<M> {
    messages: VecDeque<Message<M>>,
    /// Number of the first of them.
    first: u64,
    /// Place among them of the first with chunks that no path has taken; their number if there is none.
    untaken: usize,
    /// Bytes that no path has taken.
    waiting: usize,
    /// Chunks that leave before all others: small messages, and what a path has lost.
    urgent: VecDeque<Chunk<M>>,
    /// Small messages that are not acknowledged, and their bytes.
    copies: usize,
    copied: usize,
}

impl<M> Default for Messages<M> {
    fn default() -> Messages<M> {
        Messages {
            messages: VecDeque::new(),
            first: 0,
            untaken: 0,
            waiting: 0,
            urgent: VecDeque::new(),
            copies: 0,
            copied: 0,
        }
    }
}

impl<M: Source> Messages<M> {
    /// Whether everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether a message is not acknowledged that is read from memory at these addresses.
    pub(super) fn reads(&self, addresses: &Range<usize>) -> bool {
        self.messages.iter().any(|message| {
            let memory = message.caller.as_ref().map(|(memory, _)| memory);
            !message.is_done() && memory.is_some_and(|memory| memory.overlaps(addresses))
        })
    }

    /// Small messages that are not acknowledged.
    pub(super) fn copies(&self) -> usize {
        self.copies
    }

    /// Whether a small message of so many bytes may be sent now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let copies = self.copies < COPIES.0 && self.copied + bytes <= COPIES.1;
        copies && self.messages.len() < MESSAGES
    }

    /// Whether anything waits for a path.
    pub(super) fn has_work(&self) -> bool {
        !self.urgent.is_empty() || self.untaken < self.messages.len()
    }

    /// Whether anything must leave before everything else.
    pub(super) fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    fn number(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// A message of the caller's, in chunks of so many bytes.
    pub(super) fn push(&mut self, memory: M, total: usize, chunk: u32, request: Request) {
        let header = Header { message: self.number(), total: total as u64, chunk, index: 0 };
        // The longest message in the smallest chunks fits.
        let count = header.count() as u32;
        let words = if count == 1 { 0 } else { count.div_ceil(64) as usize };
        self.waiting += total;
        self.messages.push_back(Message {
            caller: Some((memory, request)),
            total,
            chunk,
            next: 0,
            missing: count,
            held: 0,
            acknowledged: vec![0; words],
        });
    }

    /// A small message that was copied, to be sent at once.
    pub(super) fn push_copy(&mut self, copy: M, total: usize, chunk: u32) {
        let header = Header { message: self.number(), total: total as u64, chunk, index: 0 };
        if self.untaken == self.messages.len() {
            self.untaken += 1;
        }
        self.messages.push_back(Message {
            caller: None,
            total,
            chunk,
            next: 1,
            missing: 1,
            held: 0,
            acknowledged: Vec::new(),
        });
        self.copies += 1;
        self.copied += total;
        self.urgent.push_back(Chunk { header, memory: copy });
    }

    /// What must leave before everything else, if it has at most so many bytes.
    pub(super) fn take_urgent(&mut self, most: usize) -> Option<Chunk<M>> {
        while let Some(chunk) = self.urgent.pop_front_if(|chunk| chunk.header.bytes() <= most) {
            if self.lacks(&chunk.header) {
                return Some(chunk);
            }
        }
        None
    }

    /// The next chunk behind so many bytes as `skipped(the oldest's bytes, all bytes that wait)` says.
    pub(super) fn take(
        &mut self,
        skipped: impl FnOnce(usize, usize) -> Option<usize>,
    ) -> Option<Chunk<M>> {
        let oldest = self.next_of(self.untaken)?;
        let mut skipped = skipped(oldest.bytes(), self.waiting)?;
        let mut place = self.untaken;
        // A message behind others may be taken completely.
        while let Some(message) = self.messages.get(place)
            && (message.is_taken() || skipped > 0 && skipped >= message.waiting())
        {
            skipped -= message.waiting().min(skipped);
            place += 1;
        }
        let header = self.next_of(place)?;
        let between: usize =
            self.messages.range(1.min(place)..place).map(|message| message.total).sum();
        if place > 0 && between + header.offset() as usize + header.bytes() > LOOKAHEAD {
            return None;
        }
        let message = self.messages.get_mut(place)?;
        let memory = message.caller.as_ref()?.0.part(header.offset() as usize, header.bytes());
        message.next += 1;
        self.waiting -= header.bytes();
        while self.messages.get(self.untaken).is_some_and(Message::is_taken) {
            self.untaken += 1;
        }
        Some(Chunk { header, memory })
    }

    /// The first chunk of a message that no path has taken.
    fn next_of(&self, place: usize) -> Option<Header> {
        let Message { total, chunk, next, .. } = self.messages.get(place)?;
        let message = self.first + place as u64;
        Some(Header { message, total: *total as u64, chunk: *chunk, index: *next })
    }

    /// Chunks that a path had taken, and has lost, or that are late there: they leave before everything else.
    pub(super) fn requeue(&mut self, chunks: impl IntoIterator<Item = Chunk<M>>) {
        self.urgent.extend(chunks);
    }

    /// A chunk was acknowledged. Calls `done(request, bytes)` for a message that is complete so. Whether it is the first
    /// acknowledgement of this chunk.
    pub(super) fn acknowledged(
        &mut self,
        chunk: &Header,
        done: impl FnOnce(Request, usize),
    ) -> bool {
        let Some(message) = self.message(chunk).filter(|message| message.lacks(chunk.index)) else {
            return false;
        };
        if let Some(word) = message.acknowledged.get_mut(chunk.index as usize / 64) {
            *word |= 1 << (chunk.index % 64);
        }
        message.missing -= 1;
        if message.missing == 0 {
            if message.caller.is_none() {
                let bytes = message.total;
                self.copies -= 1;
                self.copied -= bytes;
            }
            self.finish(chunk, done);
        }
        true
    }

    /// A zero-copy path has a chunk: its message is not done before the path lets go of it.
    pub(super) fn hold(&mut self, chunk: &Header) {
        if let Some(message) = self.message(chunk) {
            message.held += 1;
        }
    }

    /// A zero-copy path lets go of a chunk. Calls `done(request, bytes)` where the message only waited for that.
    pub(super) fn release(&mut self, chunk: &Header, done: impl FnOnce(Request, usize)) {
        let Some(message) = self.message(chunk) else { return };
        message.held = message.held.saturating_sub(1);
        if message.missing == 0 {
            self.finish(chunk, done);
        }
    }

    /// A message is acknowledged: it is done unless a path holds its memory.
    fn finish(&mut self, chunk: &Header, done: impl FnOnce(Request, usize)) {
        let Some(message) = self.message(chunk).filter(|message| message.held == 0) else { return };
        if let Some((_, request)) = message.caller.take() {
            done(request, message.total);
        }
        while self.messages.front().is_some_and(Message::is_done) {
            self.messages.pop_front();
            self.first += 1;
            // A complete message was taken.
            self.untaken -= 1;
        }
    }

    /// Whether a chunk is not acknowledged.
    pub(super) fn lacks(&self, chunk: &Header) -> bool {
        let place = chunk.message.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let message = place.and_then(|place| self.messages.get(place));
        message.is_some_and(|message| message.lacks(chunk.index))
    }

    fn message(&mut self, chunk: &Header) -> Option<&mut Message<M>> {
        let place = chunk.message.checked_sub(self.first)?;
        self.messages.get_mut(usize::try_from(place).ok()?)
    }
}

impl<M> Message<M> {
    /// Whether it is acknowledged, and no path holds its memory.
    fn is_done(&self) -> bool {
        self.missing == 0 && self.held == 0
    }

    fn lacks(&self, index: u32) -> bool {
        let word = self.acknowledged.get(index as usize / 64);
        self.missing > 0 && word.is_none_or(|word| word >> (index % 64) & 1 == 0)
    }

    /// Bytes that no path has taken.
    fn waiting(&self) -> usize {
        self.total.saturating_sub(self.next as usize * self.chunk as usize)
    }

    fn is_taken(&self) -> bool {
        // An empty message has one chunk.
        self.next > 0 && u64::from(self.next) * u64::from(self.chunk) >= self.total as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::fake::Fake;

    proptest! {
        /// Whatever is taken, lost and hedged in whatever order: every message completes once, when all
        /// of it is acknowledged.
        #[test]
        fn every_message_completes_once(
            sizes in prop::collection::vec(0usize..200_000, 1..12),
            fates in prop::collection::vec(0u8..4, 1..400),
        ) {
            let mut messages = Messages::<Fake>::default();
            let mut expected = Vec::new();
            for (request, &size) in sizes.iter().enumerate() {
                if size < 8192 {
                    messages.push_copy(Fake::new(size), size, 1 << 14);
                } else {
                    messages.push(Fake::new(size), size, 1 << 14, request);
                    expected.push((request, size));
                }
            }
            let mut flying: Vec<Chunk<Fake>> = Vec::new();
            let mut done = Vec::new();
            let mut fates = fates.into_iter().cycle();
            let (mut steps, mut bytes) = (0, 0);
            while !messages.is_empty() {
                steps += 1;
                prop_assert!(steps < 100_000);
                let fate = if steps > 2000 { 3 } else { fates.next().unwrap() };
                match fate {
                    0 if !flying.is_empty() => { let lost = flying.remove(0); messages.requeue([lost]); }
                    1 if !flying.is_empty() => { let twin = flying[0].clone(); messages.requeue([twin]); }
                    2 => flying.extend(messages.take_urgent(usize::MAX).or_else(|| messages.take(|_, waiting| Some(waiting / 3)))),
                    _ => match flying.pop() {
                        Some(chunk) => {
                            let first = messages.acknowledged(&chunk.header, |request, bytes| done.push((request, bytes)));
                            bytes += if first { chunk.header.bytes() } else { 0 };
                        }
                        None => flying.extend(messages.take_urgent(usize::MAX).or_else(|| messages.take(|_, waiting| Some(waiting / 3)))),
                    },
                }
            }
            done.sort_unstable();
            prop_assert_eq!(done, expected);
            prop_assert_eq!(bytes, sizes.iter().sum::<usize>());
            prop_assert_eq!((messages.waiting, messages.copies, messages.copied), (0, 0, 0));
            prop_assert!(!messages.has_work() || messages.take_urgent(usize::MAX).is_none());
        }
    }

    #[test]
    fn chunks_from_behind() {
        let mut messages = Messages::<Fake>::default();
        (0..3).for_each(|request| {
            messages.push(Fake::new(100_000), 100_000, 1 << 16, request);
        });
        let mut taken = |skipped| {
            let chunk = messages.take(|_, _| skipped);
            chunk.map(|chunk| (chunk.header.message, chunk.header.index))
        };
        assert_eq!(taken(None), None);
        assert_eq!(taken(Some(0)), Some((0, 0)));
        assert_eq!(taken(Some(34_463)), Some((0, 1)));
        assert_eq!(taken(Some(100_000)), Some((2, 0)));
        assert_eq!(taken(Some(100_000)), Some((2, 1)));
        assert_eq!(taken(Some(0)), Some((1, 0)));
        assert_eq!(taken(Some(50_000)), None);
        assert_eq!(taken(Some(0)), Some((1, 1)));
        assert_eq!(taken(Some(0)), None);
    }
}
