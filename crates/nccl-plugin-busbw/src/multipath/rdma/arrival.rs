//! The number that comes with each chunk, by which the receiver knows its message; and messages that are arriving.
//! Not the bytes: the device has written them before the number is there.

use std::collections::VecDeque;

use busbw_multipath::NUMBER_BITS;

use crate::network::{REQUESTS, Request};

/// Messages that may be open at once are told apart by so many bits of their number; on an unreliable queue pair, which needs
/// room for the chunk's own number, by fewer.
const MESSAGE_BITS: u32 = 8;
const UNRELIABLE_MESSAGE_BITS: u32 = 7;
const COUNT_BITS: u32 = 32 - MESSAGE_BITS;
const UNRELIABLE_COUNT_BITS: u32 = 32 - UNRELIABLE_MESSAGE_BITS - NUMBER_BITS;
const _: () = assert!(REQUESTS < 1 << MESSAGE_BITS && REQUESTS < 1 << UNRELIABLE_MESSAGE_BITS);
/// Chunks of a message over unreliable queue pairs, at most: 16 GiB.
pub(super) const MOST_CHUNKS: u64 = (1 << UNRELIABLE_COUNT_BITS) - 1;

/// The number of a chunk: its message, and how many chunks that has.
pub(super) fn word(message: u64, count: u64) -> u32 {
    // A message has 2^40 bytes at most, and a chunk at least 2^16 of them but for tests'.
    (message as u32) << COUNT_BITS | (count as u32 & ((1 << COUNT_BITS) - 1))
}

/// The number of a chunk of an unreliable queue pair: its message, its own number there, and how many chunks the message has.
pub(super) fn numbered(message: u64, number: u64, count: u64) -> u32 {
    let message = (message as u32) << (UNRELIABLE_COUNT_BITS + NUMBER_BITS);
    let number = (number as u32 & ((1 << NUMBER_BITS) - 1)) << UNRELIABLE_COUNT_BITS;
    message | number | (count as u32 & MOST_CHUNKS as u32)
}

/// The number of a ping of an unreliable queue pair: every chunk was sent before that has a smaller number than this.
pub(super) fn ping(number: u64) -> u32 {
    numbered(0, number, 0)
}

/// What the number of a chunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    /// The last bits of its message's number, and how many.
    message: u32,
    bits: u32,
    /// Chunks of the message.
    count: u32,
}

impl Label {
    /// Of a reliable queue pair.
    pub(super) fn of(word: u32) -> Label {
        let count = word & ((1 << COUNT_BITS) - 1);
        Label { message: word >> COUNT_BITS, bits: MESSAGE_BITS, count }
    }

    /// Of an unreliable one: the last bits of its own number as well. Nothing but that is said by a ping.
    pub(super) fn of_numbered(word: u32) -> (u32, Option<Label>) {
        let count = word & MOST_CHUNKS as u32;
        let number = word >> UNRELIABLE_COUNT_BITS & ((1 << NUMBER_BITS) - 1);
        let message = word >> (UNRELIABLE_COUNT_BITS + NUMBER_BITS);
        let label = Label { message, bits: UNRELIABLE_MESSAGE_BITS, count };
        (number, (count > 0).then_some(label))
    }
}

/// A receive that is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Posted {
    request: Request,
    chunks: u32,
    bytes: u64,
    is_done: bool,
}

/// Receives in the order of their messages.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    posted: VecDeque<Posted>,
    /// Number of the first of them.
    first: u64,
}

/// A chunk of no message that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of no message that is expected arrived ({0:?})")]
pub(super) struct Unexpected(Label);

impl Arrivals {
    /// A receive of the next message. Its number.
    pub(super) fn post(&mut self, request: Request) -> u64 {
        self.posted.push_back(Posted { request, chunks: 0, bytes: 0, is_done: false });
        self.first + self.posted.len() as u64 - 1
    }

    /// Whether as many are open as can be told apart, from the oldest that is not done on.
    pub(super) fn is_full(&self) -> bool {
        self.posted.len() >= REQUESTS
    }

    /// Whether any receive is not done.
    pub(super) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Whether nothing of a message has arrived, whose receive is posted.
    pub(super) fn is_untouched(&self, message: u64) -> bool {
        let at = message.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.posted.get(at)).is_some_and(|posted| posted.chunks == 0)
    }

    /// A chunk of so many bytes has arrived: the request and the bytes of its message, if that is complete.
    ///
    /// # Errors
    /// No receive of its message is posted.
    pub(super) fn arrived(
        &mut self,
        label: Label,
        bytes: u32,
    ) -> Result<Option<(Request, u64)>, Unexpected> {
        let Label { message, bits, count } = label;
        let at = u64::from(message).wrapping_sub(self.first) % (1 << bits);
        let posted = self.posted.get_mut(at as usize).filter(|posted| !posted.is_done);
        let posted = posted.ok_or(Unexpected(label))?;
        posted.chunks += 1;
        posted.bytes += u64::from(bytes);
        if posted.chunks < count {
            return Ok(None);
        }
        posted.is_done = true;
        let done = (posted.request, posted.bytes);
        while self.posted.pop_front_if(|posted| posted.is_done).is_some() {
            self.first += 1;
        }
        Ok(Some(done))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn label(is_reliable: bool, message: u64, count: u64) -> Label {
        match is_reliable {
            true => Label::of(word(message, count)),
            false => Label::of_numbered(numbered(message, 3, count)).1.unwrap(),
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(message: u64, number: u64, count in 1..=MOST_CHUNKS) {
            let (low, label) = Label::of_numbered(numbered(message, number, count));
            prop_assert_eq!(u64::from(low), number % 128);
            prop_assert_eq!(label, Some(Label { message: (message % 128) as u32, bits: 7, count: count as u32 }));
            prop_assert_eq!(Label::of_numbered(ping(number)), (low, None));
        }

        /// Messages of any number of chunks, whose chunks arrive in any order while up to so many receives are open.
        #[test]
        fn messages_are_complete_with_their_last_chunk(counts in prop::collection::vec(1u64..6, 1..600), open in 1..=REQUESTS, is_reliable: bool, seed: u64) {
            let (mut arrivals, mut random) = (Arrivals::default(), seed | 1);
            let mut waiting: Vec<(u64, u64)> = Vec::new();
            let (mut next, mut done, mut missing) = (0, 0, vec![]);
            while done < counts.len() {
                let is_open = |message: u64, missing: &[u64]| missing[message as usize] > 0;
                let opened = (0..next as u64).filter(|message| is_open(*message, &missing)).count();
                // As NCCL: the oldest open one is not more than so many behind.
                let oldest = (0..next as u64).find(|message| is_open(*message, &missing)).unwrap_or(next as u64);
                if next < counts.len() && opened < open && next as u64 - oldest < REQUESTS as u64 {
                    prop_assert_eq!(arrivals.post(next % REQUESTS), next as u64);
                    missing.push(counts[next]);
                    waiting.extend((0..counts[next]).map(|_| (next as u64, counts[next])));
                    next += 1;
                    continue;
                }
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (message, count) = waiting.swap_remove((random >> 33) as usize % waiting.len());
                missing[message as usize] -= 1;
                let outcome = arrivals.arrived(label(is_reliable, message, count), 7).unwrap();
                if missing[message as usize] == 0 {
                    prop_assert_eq!(outcome, Some((message as usize % REQUESTS, 7 * count)));
                    done += 1;
                } else {
                    prop_assert_eq!(outcome, None);
                }
            }
            prop_assert!(!arrivals.is_waiting());
        }
    }

    #[test]
    fn what_nobody_waits_for_is_refused() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.arrived(label(true, 0, 1), 8).is_err());
        assert_eq!(arrivals.post(3), 0);
        assert!(arrivals.is_untouched(0) && !arrivals.is_untouched(1));
        assert!(arrivals.arrived(label(true, 1, 1), 8).is_err());
        assert_eq!(arrivals.arrived(label(true, 0, 1), 0), Ok(Some((3, 0))));
        assert!(arrivals.arrived(label(true, 0, 1), 8).is_err());
    }
}
