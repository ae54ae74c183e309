//! What one rank has under way with one other: messages that wait for a slot, receives that wait for a
//! message, and the copying. Not the waiting.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    kernel::{self, Store},
    shm::{Address, Buffers, Inbox, Letter, Mailboxes, Offer, Outbox, WaitPolicy},
};

/// A message up to so many bytes is copied into a slot, so that its sender need not wait; a longer one is read
/// where it is. Measured (bench/README.md), as the next three: of 560 bytes to 1 KiB, a slot makes
/// one message faster by up to a quarter, and a window of them four times slower.
const SLOT_MOST: usize = Outbox::CAPACITY;

/// Both ends copy a message of so many bytes. Shorter ones are often in the receiver's own caches.
const SHARED_LEAST: usize = 256 << 10;

/// Bytes of a part that one end copies then.
const SHARED_PART: usize = 128 << 10;

/// A message of so many bytes is written past the caches.
const STREAMED_LEAST: usize = 16 << 20;

/// Looks for a message before other things are thought of: most receives end within them.
const LOOKS: u32 = 128;

/// Some bytes of our buffers, to be sent or to be received into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) at: Address,
    pub(super) len: usize,
}

/// One other rank, or ourselves.
#[derive(Debug)]
pub(super) struct Peer {
    buffers: Arc<Buffers>,
    /// World ranks.
    me: usize,
    rank: usize,
    outbox: Outbox,
    inbox: Inbox,
    /// Not announced yet.
    to_send: VecDeque<Part>,
    /// Not received yet.
    to_receive: VecDeque<Part>,
    /// The first to receive is copied but for parts that the peer copies.
    nearly_whole: bool,
    /// Whether both ends copy long messages.
    shares: bool,
    /// Kept by `Messages`: whether it is among the busy.
    pub(super) busy: bool,
}

impl Peer {
    /// `rank` as `me` sees it.
    pub(super) fn new(
        mailboxes: &Arc<Mailboxes>,
        buffers: &Arc<Buffers>,
        me: usize,
        rank: usize,
        policy: WaitPolicy,
    ) -> Peer {
        Peer {
            buffers: Arc::clone(buffers),
            me,
            rank,
            outbox: Outbox::new(Arc::clone(mailboxes), me, rank, policy),
            inbox: Inbox::new(Arc::clone(mailboxes), rank, me, policy),
            to_send: VecDeque::new(),
            to_receive: VecDeque::new(),
            nearly_whole: false,
            shares: policy.stays_awake() && rank != me,
            busy: false,
        }
    }

    /// Announces a message, or keeps it until there is room.
    #[inline]
    pub(super) fn start_send(&mut self, part: Part) {
        if !self.to_send.is_empty() || !self.announce(part) {
            // Bounds are the caller's business now, not that of some later call.
            self.buffers.at(self.me, part.at.buffer, part.at.offset, part.len);
            self.to_send.push_back(part);
        }
    }

    #[inline]
    fn announce(&mut self, part: Part) -> bool {
        let Part { at, len } = part;
        let from = self.buffers.at(self.me, at.buffer, at.offset, len);
        if len > SLOT_MOST {
            return self.outbox.lend(at, len);
        }
        // SAFETY: `from` is valid for `len` bytes (checked by `at`), the slot for as many (checked by
        // `post`), and nobody reads it until it is announced.
        self.outbox.post(len, |slot| unsafe { std::ptr::copy_nonoverlapping(from, slot, len) })
    }

    /// Notes that the next message goes there.
    #[inline]
    pub(super) fn start_receive(&mut self, part: Part) {
        self.buffers.at(self.me, part.at.buffer, part.at.offset, part.len);
        self.to_receive.push_back(part);
    }

    /// Looks for a while for the message of the only receive that is under way. Whether it was received.
    #[inline]
    pub(super) fn receive_soon(&mut self) -> bool {
        for _ in 0..LOOKS {
            if self.inbox.has_letter() {
                return self.receive() && self.to_receive.is_empty();
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Whether the message sent last, of `len` bytes, may be overwritten.
    #[inline]
    pub(super) fn may_overwrite_last(&mut self, len: usize) -> bool {
        self.to_send.is_empty() && (len <= SLOT_MOST || self.outbox.has_back())
    }

    /// Whether receives wait for messages.
    #[inline]
    pub(super) fn is_receiving(&self) -> bool {
        !self.to_receive.is_empty()
    }

    /// Whether everything that was started is complete.
    #[inline]
    pub(super) fn is_idle(&mut self) -> bool {
        self.to_send.is_empty() && self.to_receive.is_empty() && self.outbox.has_back()
    }

    /// Does what can be done now. Whether there was anything.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        let mut moved = false;
        while let Some(&part) = self.to_send.front() {
            if !self.announce(part) {
                break;
            }
            self.to_send.pop_front();
            moved = true;
        }
        while !self.to_receive.is_empty() && self.receive() {
            moved = true;
        }
        moved | self.help()
    }

    /// Receives the next message into the first place that waits for one. False when it is not there, or
    /// not whole.
    #[inline]
    fn receive(&mut self) -> bool {
        let Some(&part) = self.to_receive.front() else { return false };
        if !self.nearly_whole {
            let Some(letter) = self.inbox.letter() else { return false };
            match letter {
                Letter::Here { at, len } => {
                    let to = self.room(part, len);
                    // SAFETY: the message is valid for `len` bytes until it is taken, `to` for as many
                    // (checked by `at`), ours, and no slot.
                    unsafe { std::ptr::copy_nonoverlapping(at, to, len) };
                }
                Letter::There { from, len } => self.fetch(from, part, len),
            }
        }
        self.nearly_whole = !self.inbox.is_whole();
        if self.nearly_whole {
            return false;
        }
        self.inbox.take();
        self.to_receive.pop_front();
        true
    }

    /// Where a message of `len` bytes goes.
    fn room(&self, part: Part, len: usize) -> *mut u8 {
        assert!(len <= part.len, "a message of {len} bytes where {} are to be received", part.len);
        self.buffers.at(self.me, part.at.buffer, part.at.offset, len)
    }

    /// Copies a message of `len` bytes out of the peer's buffers, or what of it the peer does not.
    fn fetch(&mut self, from: Address, part: Part, len: usize) {
        let to = self.room(part, len);
        if !self.shares || len < SHARED_LEAST {
            let from = self.buffers.at(self.rank, from.buffer, from.offset, len);
            copy(from, to, len, store(len));
            return;
        }
        let offer = Offer::new(from, part.at, len, SHARED_PART);
        let (buffers, sender, receiver) = (&self.buffers, self.rank, self.me);
        self.inbox.share(offer, |number| copy_part(buffers, sender, receiver, &offer, number));
    }

    /// Copies parts of our messages into the peer's buffers, for as long as some are on offer.
    #[inline]
    fn help(&mut self) -> bool {
        let mut helped = false;
        if self.shares && !self.outbox.has_back() {
            let (buffers, sender, receiver) = (&self.buffers, self.me, self.rank);
            let part = |offer: &Offer, number| copy_part(buffers, sender, receiver, offer, number);
            while self.outbox.help(part) {
                helped = true;
            }
        }
        helped
    }
}

/// Copies one part of an offer.
fn copy_part(buffers: &Buffers, sender: usize, receiver: usize, offer: &Offer, number: u32) {
    let (part, from, into) = (offer.part(number), offer.source(), offer.destination());
    let from = buffers.at(sender, from.buffer, from.offset + part.start, part.len());
    let to = buffers.at(receiver, into.buffer, into.offset + part.start, part.len());
    copy(from, to, part.len(), store(offer.len()));
}

fn store(len: usize) -> Store {
    if len < STREAMED_LEAST { Store::Cached } else { Store::Streamed }
}

/// Copies `len` bytes of a message that was announced to where its receiver wants it; both addresses are
/// valid for as many. Sender and receiver leave both alone until then.
fn copy(from: *const u8, to: *mut u8, len: usize, store: Store) {
    if from.addr().abs_diff(to.addr()) < len {
        // SAFETY: see above; a rank may send to itself what lies where it receives.
        unsafe { std::ptr::copy(from, to, len) };
    } else {
        // SAFETY: see above; they do not overlap.
        unsafe { kernel::copy(from, to, len, store) };
    }
}
