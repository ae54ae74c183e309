//! The messages between one rank and one peer: messages that wait for a slot, receives that wait
//! for a message, and the copying.
//! Not the waiting.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    kernel::{self, Store},
    shm::{Address, Buffers, Inbox, Letter, Mailboxes, Offer, Outbox, WaitPolicy},
};

/// The largest message that is copied into a slot, so that its sender need not wait; the receiver
/// reads a longer one from the sender's buffer. Measured (bench/README.md), as the next three: at
/// 560 bytes to 1 KiB a slot makes one message faster by up to a quarter, and a window of them four
/// times slower.
const MAX_SLOT_BYTES: usize = Outbox::CAPACITY;

/// From this size on both ends copy parts of a message. Shorter ones are often in the receiver's
/// own caches.
const MIN_SHARED_BYTES: usize = 256 << 10;

/// Bytes of a part that one end copies then.
const SHARED_PART_BYTES: usize = 128 << 10;

/// From this size on a message is written past the caches.
const MIN_STREAMED_BYTES: usize = 16 << 20;

/// Polls for a message before anything else is checked: most receives end within them.
const POLLS_BEFORE_CHECKS: u32 = 128;

/// Some bytes of our buffers, to send from or to receive into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) at: Address,
    pub(super) len: usize,
}

/// One peer, or ourselves.
#[derive(Debug)]
pub(super) struct Peer {
    buffers: Arc<Buffers>,
    /// World ranks.
    me: usize,
    rank: usize,
    outbox: Outbox,
    inbox: Inbox,
    /// Messages that are not announced yet.
    to_send: VecDeque<Part>,
    /// Receives without their message.
    to_receive: VecDeque<Part>,
    /// The first receive is copied but for parts that the peer copies.
    nearly_whole: bool,
    /// Whether both ends copy long messages.
    shares: bool,
    /// Kept by `Messages`: whether it is in the list of busy peers.
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

    /// Announces a message, or queues it until there is room.
    #[inline]
    pub(super) fn start_send(&mut self, part: Part) {
        if !self.to_send.is_empty() || !self.announce(part) {
            // Check bounds in the caller's call, not in a later one.
            self.buffers.at(self.me, part.at.buffer, part.at.offset, part.len);
            self.to_send.push_back(part);
        }
    }

    #[inline]
    fn announce(&mut self, part: Part) -> bool {
        let Part { at, len } = part;
        let from = self.buffers.at(self.me, at.buffer, at.offset, len);
        if len > MAX_SLOT_BYTES {
            return self.outbox.lend(at, len);
        }
        // SAFETY: `from` is valid for `len` bytes (checked by `at`), the slot for as many (checked by
        // `post`), and nobody reads it until it is announced.
        self.outbox.post(len, |slot| unsafe { std::ptr::copy_nonoverlapping(from, slot, len) })
    }

    /// Queues a receive for the next message.
    #[inline]
    pub(super) fn start_receive(&mut self, part: Part) {
        self.buffers.at(self.me, part.at.buffer, part.at.offset, part.len);
        self.to_receive.push_back(part);
    }

    /// Polls for a while for the message of the only receive in flight. Returns whether it was
    /// received.
    #[inline]
    pub(super) fn receive_soon(&mut self) -> bool {
        for _ in 0..POLLS_BEFORE_CHECKS {
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
        self.to_send.is_empty() && (len <= MAX_SLOT_BYTES || self.outbox.has_back())
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

    /// Makes all progress that is possible now. Returns whether there was any.
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

    /// Receives the next message into the first waiting receive. Returns false when it has not
    /// arrived, or is not complete.
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

    /// The destination of a message of `len` bytes.
    fn room(&self, part: Part, len: usize) -> *mut u8 {
        assert!(len <= part.len, "a message of {len} bytes where {} are to be received", part.len);
        self.buffers.at(self.me, part.at.buffer, part.at.offset, len)
    }

    /// Copies a message of `len` bytes out of the peer's buffers, but for the parts that the peer
    /// copies.
    fn fetch(&mut self, from: Address, part: Part, len: usize) {
        let to = self.room(part, len);
        if !self.shares || len < MIN_SHARED_BYTES {
            let from = self.buffers.at(self.rank, from.buffer, from.offset, len);
            copy(from, to, len, store(len));
            return;
        }
        let offer = Offer::new(from, part.at, len, SHARED_PART_BYTES);
        let (buffers, sender, receiver) = (&self.buffers, self.rank, self.me);
        self.inbox.share(offer, |number| copy_part(buffers, sender, receiver, &offer, number));
    }

    /// Copies parts of our messages into the peer's buffers, for as long as there are any on offer.
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
    if len < MIN_STREAMED_BYTES { Store::Cached } else { Store::Streamed }
}

/// Copies `len` bytes of an announced message to the receiver's buffer; both addresses are valid
/// for as many. Sender and receiver leave both alone until then.
fn copy(from: *const u8, to: *mut u8, len: usize, store: Store) {
    if from.addr().abs_diff(to.addr()) < len {
        // SAFETY: see above; a rank may send to itself what lies where it receives.
        unsafe { std::ptr::copy(from, to, len) };
    } else {
        // SAFETY: see above; they do not overlap.
        unsafe { kernel::copy(from, to, len, store) };
    }
}
