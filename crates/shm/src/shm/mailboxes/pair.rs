//! The two ends of a mailbox: the steps of its sender and its receiver, and their order.
//! Not waiting: every step either is possible now, or reports that it is not.

use std::sync::Arc;

use super::{
    super::{
        buffers::Address,
        slots::take_for_writing,
        sync::{Ordering, Reads},
        wait::{WaitPolicy, reached},
    },
    CAPACITY, Content, DEPTH, Mailbox, Mailboxes, Slot,
    offer::{self, Offer, claim},
};

/// Bits of `Content::head` below the length: 0 when the bytes are in the slot, else the buffer that
/// holds them.
const TAG_BITS: u32 = 2;

/// An announced message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Letter {
    /// Its bytes are in the slot.
    Here {
        /// The address of the first byte.
        at: *const u8,
        /// The length in bytes.
        len: usize,
    },
    /// Its bytes are in the sender's buffers.
    There {
        /// The offset of the first byte.
        from: Address,
        /// The length in bytes.
        len: usize,
    },
}

fn slot(mailbox: &Mailbox, number: u32) -> &Slot {
    &mailbox.slots[number as usize % DEPTH]
}

/// A sender's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    mailboxes: Arc<Mailboxes>,
    from: usize,
    to: usize,
    policy: WaitPolicy,
    /// The last message announced.
    sent: u32,
    /// The last one that the receiver is known to have copied.
    taken: u32,
    /// The last message that the receiver reads from our buffers, unless it is known to be copied.
    lent: Option<u32>,
    /// Parts that we have copied since the beginning.
    copied: u32,
    /// The offer that we may be reading.
    reads: Reads<Offer>,
}

impl Outbox {
    /// The largest message in a slot, in bytes.
    pub(crate) const CAPACITY: usize = CAPACITY;

    /// From world rank `from` to world rank `to`.
    pub(crate) fn new(
        mailboxes: Arc<Mailboxes>,
        from: usize,
        to: usize,
        policy: WaitPolicy,
    ) -> Outbox {
        let (sent, taken, copied) = (0, 0, 0);
        Outbox { mailboxes, from, to, policy, sent, taken, lent: None, copied, reads: Reads::new() }
    }

    /// The same with counters that start at `first`.
    #[cfg(all(test, loom))]
    pub(super) fn starting_at(self, first: u32) -> Outbox {
        Outbox { sent: first, taken: first, copied: first, ..self }
    }

    fn mailbox(&self) -> &Mailbox {
        self.mailboxes.mailbox(self.from, self.to)
    }

    /// Announces a message of `len` bytes, which `write` puts into a slot. Returns false when no
    /// slot is free.
    ///
    /// # Panics
    /// It is longer than [`Outbox::CAPACITY`]: a bug of the caller.
    #[inline]
    pub(crate) fn post(&mut self, len: usize, write: impl FnOnce(*mut u8)) -> bool {
        assert!(len <= CAPACITY, "a message of {len} bytes in a slot");
        self.announce((len as u64) << TAG_BITS, write)
    }

    /// Announces a message of `len` bytes that the receiver reads from our buffers. They must not
    /// change until [`Outbox::has_back`] returns true. Returns false when no slot is free.
    pub(crate) fn lend(&mut self, from: Address, len: usize) -> bool {
        let head = (len as u64) << TAG_BITS | u64::from(offer::tag(from.buffer));
        let lent = self.announce(head, |bytes| {
            // SAFETY: a slot has room for eight bytes; nobody reads it until it is announced.
            unsafe { bytes.cast::<u64>().write_unaligned(from.offset as u64) };
        });
        if lent {
            self.lent = Some(self.sent);
        }
        lent
    }

    #[inline]
    fn announce(&mut self, head: u64, write: impl FnOnce(*mut u8)) -> bool {
        if !self.has_room() {
            return false;
        }
        let number = self.sent.wrapping_add(1);
        let mailbox = self.mailbox();
        let slot_ = slot(mailbox, number);
        slot_.content.write(|content: *mut Content| {
            // SAFETY: the slot is ours until it is announced: the receiver has taken what it held.
            unsafe {
                (&raw mut (*content).head).write(head);
                write((&raw mut (*content).bytes).cast());
            }
        });
        slot_.number.store(number, Ordering::Release);
        self.policy.ring(self.mailboxes.bell(self.to));
        take_for_writing(slot(mailbox, number.wrapping_add(1)));
        self.sent = number;
        true
    }

    fn has_room(&mut self) -> bool {
        if self.sent.wrapping_sub(self.taken) < DEPTH as u32 {
            return true;
        }
        // Acquire: the receiver has read the slot's content.
        self.taken = self.mailbox().answers.taken.load(Ordering::Acquire);
        self.sent.wrapping_sub(self.taken) < DEPTH as u32
    }

    /// Whether the receiver has copied everything that it reads from our buffers.
    #[inline]
    pub(crate) fn has_back(&mut self) -> bool {
        let Some(lent) = self.lent else { return true };
        // Acquire: the receiver has read our buffers.
        self.taken = self.mailbox().answers.taken.load(Ordering::Acquire);
        let back = self.taken.wrapping_sub(lent) as i32 >= 0;
        if back {
            self.lent = None;
        }
        back
    }

    /// Copies one part of a message on offer, if there is one: `copy` is called with the offer and
    /// the part's number.
    #[inline]
    pub(crate) fn help(&mut self, copy: impl FnOnce(&Offer, u32)) -> bool {
        let mailbox = self.mailbox();
        if !claim(&mailbox.answers.left) {
            return false;
        }
        let at = self.reads.begin(&mailbox.answers.offer);
        // SAFETY: the receiver wrote it before there were parts to claim, and does not write it again
        // until all that were claimed are copied.
        let offer = unsafe { at.read() };
        copy(&offer, offer.sender_part(self.copied));
        self.reads.end();
        let copied = self.copied.wrapping_add(1);
        mailbox.copied.parts.store(copied, Ordering::Release);
        self.copied = copied;
        true
    }
}

/// A receiver's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    mailboxes: Arc<Mailboxes>,
    from: usize,
    to: usize,
    policy: WaitPolicy,
    /// The last message that was copied.
    taken: u32,
    /// Parts that the sender has copied once it has copied those that it claimed.
    copied: u32,
    /// The message that we may be reading.
    reads: Reads<Content>,
}

impl Inbox {
    /// From world rank `from` to world rank `to`.
    pub(crate) fn new(
        mailboxes: Arc<Mailboxes>,
        from: usize,
        to: usize,
        policy: WaitPolicy,
    ) -> Inbox {
        Inbox { mailboxes, from, to, policy, taken: 0, copied: 0, reads: Reads::new() }
    }

    /// The same with counters that start at `first`.
    #[cfg(all(test, loom))]
    pub(super) fn starting_at(self, first: u32) -> Inbox {
        Inbox { taken: first, copied: first, ..self }
    }

    fn mailbox(&self) -> &Mailbox {
        self.mailboxes.mailbox(self.from, self.to)
    }

    /// Whether the next message was announced.
    #[inline]
    pub(crate) fn has_letter(&self) -> bool {
        let number = self.taken.wrapping_add(1);
        reached(&slot(self.mailbox(), number).number, number)
    }

    /// The next message, if it was announced; its bytes stay until [`Inbox::take`].
    #[inline]
    pub(crate) fn letter(&self) -> Option<Letter> {
        if !self.has_letter() {
            return None;
        }
        let slot = slot(self.mailbox(), self.taken.wrapping_add(1));
        let content = self.reads.begin(&slot.content);
        // SAFETY: the sender wrote it before announcing it, and writes there again only when we have
        // taken it.
        let (head, bytes) =
            unsafe { ((&raw const (*content).head).read(), (&raw const (*content).bytes).cast()) };
        let len = (head >> TAG_BITS) as usize;
        Some(match (head & ((1 << TAG_BITS) - 1)) as u32 {
            0 => Letter::Here { at: bytes, len },
            tag => {
                // SAFETY: as above; such a slot holds an offset of eight bytes.
                let offset = unsafe { bytes.cast::<u64>().read_unaligned() } as usize;
                Letter::There { from: Address { buffer: offer::buffer(tag), offset }, len }
            }
        })
    }

    /// Acknowledges the message, wherever it was.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.reads.end();
        self.taken = self.taken.wrapping_add(1);
        self.mailbox().answers.taken.store(self.taken, Ordering::Release);
        self.policy.ring(self.mailboxes.bell(self.from));
    }

    /// Offers the message so that both ends copy it: `copy` is called with parts' numbers, from the
    /// front, and a waiting sender copies others. [`Inbox::is_whole`] tells whether all parts are
    /// copied.
    pub(crate) fn share(&mut self, offer: Offer, mut copy: impl FnMut(u32)) {
        let answers = &self.mailbox().answers;
        answers.offer.write(|at| {
            // SAFETY: the sender reads an offer only while it copies a part of it, and it has copied all
            // parts of the offer before, see `is_whole`.
            unsafe { at.write(offer.after(self.copied)) };
        });
        answers.left.store(offer.parts(), Ordering::Release);
        let mut ours = 0;
        while claim(&answers.left) {
            copy(ours);
            ours += 1;
        }
        self.copied = self.copied.wrapping_add(offer.parts() - ours);
    }

    /// Whether the sender has copied all parts that it claimed.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        reached(&self.mailbox().copied.parts, self.copied)
    }
}
