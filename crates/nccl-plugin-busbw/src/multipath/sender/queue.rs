//! What is to be sent, and what of it has come: messages in their order, cut into pieces.
//! Not which path takes a piece (`choice`), nor how it goes (`link`).

use std::{collections::VecDeque, ops::Range, sync::Arc};

use crate::{multipath::frame::Chunk, network::Request};

/// Bytes behind the oldest message that may be on their way before that is complete: the receiver may have to keep
/// what comes before its request.
pub(in crate::multipath) const AHEAD: usize = 16 << 20;

/// A part of a message, to be sent by one path.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Where it belongs.
    pub chunk: Chunk,
    /// What it says.
    pub bytes: Bytes,
}

/// Bytes to send.
#[derive(Debug, Clone)]
pub(super) enum Bytes {
    /// NCCL's memory, there until the message is done.
    Theirs(*const u8),
    /// A copy.
    Ours(Arc<[u8]>),
}

// SAFETY: NCCL's memory may be read from any thread until its message is done, or the connection has ended; who
// holds a piece beyond that has `Ours` (`link::Live::double`).
unsafe impl Send for Piece {}

impl Piece {
    pub(super) fn length(&self) -> usize {
        self.chunk.bytes()
    }

    /// The bytes themselves.
    ///
    /// # Safety
    /// The message is not done, if the bytes are NCCL's.
    pub(super) unsafe fn slice(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Ours(copy) => copy,
            // A slice begins somewhere even if it is empty.
            Bytes::Theirs(_) if self.length() == 0 => &[],
            // SAFETY: as the caller says.
            Bytes::Theirs(data) => unsafe { std::slice::from_raw_parts(*data, self.length()) },
        }
    }

    /// The same with a copy of the bytes.
    ///
    /// # Safety
    /// As [`Piece::slice`].
    pub(super) unsafe fn copied(&self) -> Piece {
        let copy = match &self.bytes {
            Bytes::Ours(copy) => copy.clone(),
            // SAFETY: as the caller says.
            Bytes::Theirs(_) => unsafe { self.slice() }.into(),
        };
        Piece { chunk: self.chunk, bytes: Bytes::Ours(copy) }
    }
}

/// A message of which not everything has come.
struct Message {
    data: *const u8,
    total: usize,
    chunk: u32,
    /// Chunks that no path has taken yet begin here.
    next: u32,
    /// Chunks that have not come.
    missing: u32,
    /// A bit for each that has; nothing where there is one only.
    came: Vec<u64>,
    /// Whom to tell, unless the copy made that needless.
    request: Option<Request>,
}

// SAFETY: as for `Piece`.
unsafe impl Send for Message {}

/// All messages of a connection of which not everything has come, the oldest first.
#[derive(Default)]
pub(super) struct Queue {
    messages: VecDeque<Message>,
    /// Number of the first of them.
    first: u64,
    /// Place among them of the first with chunks that no path has taken; their number if there is none.
    untaken: usize,
    /// Bytes that no path has taken.
    waiting: usize,
    /// Before all others: small messages, and what a path has lost.
    urgent: VecDeque<Piece>,
    /// Small messages that have not come, and their bytes.
    copies: usize,
    copied: usize,
}

impl Queue {
    /// Whether everything has come.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Messages from the oldest that has not come on.
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Whether a message there has not come that is read from this memory.
    pub(super) fn reads(&self, memory: &Range<usize>) -> bool {
        self.messages.iter().any(|message| {
            let from = message.data.addr();
            let bytes = if message.request.is_some() { message.total } else { 0 };
            message.missing > 0 && from < memory.end && memory.start < from + bytes
        })
    }

    /// Small messages that have not come.
    pub(super) fn copies(&self) -> usize {
        self.copies
    }

    /// Their bytes.
    pub(super) fn copied(&self) -> usize {
        self.copied
    }

    /// Whether anything waits for a path.
    pub(super) fn has_work(&self) -> bool {
        !self.urgent.is_empty() || self.untaken < self.messages.len()
    }

    /// Whether anything must go before everything else.
    pub(super) fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    fn number(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// A message of NCCL's, in chunks.
    pub(super) fn push(&mut self, data: *const u8, total: usize, chunk: u32, request: Request) {
        let head = Chunk { message: self.number(), total: total as u64, chunk, index: 0 };
        // MESSAGE_BYTES over the smallest chunk fits.
        let count = head.count() as u32;
        let came = if count == 1 { Vec::new() } else { vec![0; count.div_ceil(64) as usize] };
        self.waiting += total;
        self.messages.push_back(Message {
            data,
            total,
            chunk,
            next: 0,
            missing: count,
            came,
            request: Some(request),
        });
    }

    /// A small message that was copied, to be sent at once.
    pub(super) fn push_copy(&mut self, copy: Arc<[u8]>, chunk: u32) {
        let total = copy.len();
        let head = Chunk { message: self.number(), total: total as u64, chunk, index: 0 };
        if self.untaken == self.messages.len() {
            self.untaken += 1;
        }
        self.messages.push_back(Message {
            data: std::ptr::null(),
            total,
            chunk,
            next: 1,
            missing: 1,
            came: Vec::new(),
            request: None,
        });
        self.copies += 1;
        self.copied += total;
        self.urgent.push_back(Piece { chunk: head, bytes: Bytes::Ours(copy) });
    }

    /// What must go before everything else, if it has at most so many bytes.
    pub(super) fn take_urgent(&mut self, most: usize) -> Option<Piece> {
        while let Some(piece) = self.urgent.pop_front_if(|piece| piece.length() <= most) {
            if self.message(&piece.chunk).is_some_and(|message| message.lacks(piece.chunk.index)) {
                return Some(piece);
            }
        }
        None
    }

    /// The next piece behind so many bytes as `skipped(the oldest's bytes, all bytes that wait)` says.
    pub(super) fn take(
        &mut self,
        skipped: impl FnOnce(usize, usize) -> Option<usize>,
    ) -> Option<Piece> {
        let oldest = self.next_of(self.untaken)?;
        let mut skipped = skipped(oldest.bytes(), self.waiting)?;
        let mut place = self.untaken;
        // A message behind others may be taken completely.
        while let Some(message) = self.messages.get(place)
            && (message.is_taken() || skipped >= message.waiting())
        {
            skipped -= message.waiting().min(skipped);
            place += 1;
        }
        let chunk = self.next_of(place)?;
        let between: usize =
            self.messages.range(1.min(place)..place).map(|message| message.total).sum();
        if place > 0 && between + chunk.offset() as usize + chunk.bytes() > AHEAD {
            return None;
        }
        let message = self.messages.get_mut(place)?;
        // SAFETY: the offset is within the message.
        let data = unsafe { message.data.add(chunk.offset() as usize) };
        message.next += 1;
        self.waiting -= chunk.bytes();
        while self.messages.get(self.untaken).is_some_and(Message::is_taken) {
            self.untaken += 1;
        }
        Some(Piece { chunk, bytes: Bytes::Theirs(data) })
    }

    /// The first chunk of a message that no path has taken.
    fn next_of(&self, place: usize) -> Option<Chunk> {
        let Message { total, chunk, next, .. } = self.messages.get(place)?;
        let message = self.first + place as u64;
        Some(Chunk { message, total: *total as u64, chunk: *chunk, index: *next })
    }

    /// What a path had taken, and has lost: it goes before everything else.
    pub(super) fn again(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        self.urgent.extend(pieces);
    }

    /// A chunk has come. Calls `done(request, bytes)` for a message that is complete so. Whether it had not come before,
    /// by another path.
    pub(super) fn came(&mut self, chunk: &Chunk, done: impl FnOnce(Request, usize)) -> bool {
        let Some(message) = self.message(chunk).filter(|message| message.lacks(chunk.index)) else {
            return false;
        };
        if let Some(word) = message.came.get_mut(chunk.index as usize / 64) {
            *word |= 1 << (chunk.index % 64);
        }
        message.missing -= 1;
        if message.missing > 0 {
            return true;
        }
        match message.request {
            Some(request) => done(request, message.total),
            None => {
                let bytes = message.total;
                self.copies -= 1;
                self.copied -= bytes;
            }
        }
        while self.messages.front().is_some_and(|message| message.missing == 0) {
            self.messages.pop_front();
            self.first += 1;
            // What is complete was taken.
            self.untaken -= 1;
        }
        true
    }

    fn message(&mut self, chunk: &Chunk) -> Option<&mut Message> {
        let place = chunk.message.checked_sub(self.first)?;
        self.messages.get_mut(usize::try_from(place).ok()?)
    }
}

impl Message {
    /// Whether a chunk has not come yet.
    fn lacks(&self, index: u32) -> bool {
        let came =
            self.came.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 != 0);
        self.missing > 0 && !came
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

    proptest! {
        /// Whatever is taken, lost and doubled in whatever order: every message completes once, when all of it came.
        #[test]
        fn every_message_completes_once(
            sizes in prop::collection::vec(0usize..200_000, 1..12),
            fates in prop::collection::vec(0u8..4, 1..400),
        ) {
            let data = vec![0u8; 200_000];
            let mut queue = Queue::default();
            let mut expected = Vec::new();
            for (request, &size) in sizes.iter().enumerate() {
                if size < 8192 {
                    queue.push_copy(data[..size].into(), 1 << 14);
                } else {
                    queue.push(data.as_ptr(), size, 1 << 14, request);
                    expected.push((request, size));
                }
            }
            let mut flying: Vec<Piece> = Vec::new();
            let mut done = Vec::new();
            let mut fates = fates.into_iter().cycle();
            let (mut steps, mut came) = (0, 0);
            while !queue.is_empty() {
                steps += 1;
                prop_assert!(steps < 100_000);
                let fate = if steps > 2000 { 3 } else { fates.next().unwrap() };
                match fate {
                    0 if !flying.is_empty() => { let lost = flying.remove(0); queue.again([lost]); }
                    1 if !flying.is_empty() => { let twin = flying[0].clone(); queue.again([twin]); }
                    2 => flying.extend(queue.take_urgent(usize::MAX).or_else(|| queue.take(|_, waiting| Some(waiting / 3)))),
                    _ => match flying.pop() {
                        Some(piece) => {
                            let first = queue.came(&piece.chunk, |request, bytes| done.push((request, bytes)));
                            came += if first { piece.length() } else { 0 };
                        }
                        None => flying.extend(queue.take_urgent(usize::MAX).or_else(|| queue.take(|_, waiting| Some(waiting / 3)))),
                    },
                }
            }
            done.sort_unstable();
            prop_assert_eq!(done, expected);
            prop_assert_eq!(came, sizes.iter().sum::<usize>());
            prop_assert_eq!((queue.waiting, queue.copies, queue.copied), (0, 0, 0));
            prop_assert!(!queue.has_work() || queue.take_urgent(usize::MAX).is_none());
        }
    }

    #[test]
    fn pieces_from_behind() {
        let data = vec![0u8; 100_000];
        let mut queue = Queue::default();
        (0..3).for_each(|request| queue.push(data.as_ptr(), data.len(), 1 << 16, request));
        let mut taken = |skipped| {
            queue.take(|_, _| skipped).map(|piece| (piece.chunk.message, piece.chunk.index))
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
