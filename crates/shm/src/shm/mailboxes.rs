//! Mailboxes, one for each ordered pair of ranks: a ring of slots that only the sender writes, with
//! small messages right behind the counter that announces them, and the receiver's
//! acknowledgements.
//! Not which message is next.

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(loom)]
mod modelled;
mod offer;
mod pair;

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

pub(crate) use offer::Offer;
pub(crate) use pair::{Inbox, Letter, Outbox};

use super::{
    control::Control,
    segment::{Segment, SegmentError},
    sync::{AtomicU32, Shared},
    wait::{Bell, Wait, WaitPolicy},
};

/// Name of the memfd.
const NAME: &str = "busbw-mailboxes";

/// Slots of a mailbox: how many messages its sender may be ahead of the receiver. Few in a loom
/// model, where they are reused after a few messages.
const DEPTH: usize = if cfg!(loom) { 2 } else { 64 };

/// Bytes of a slot: an odd number of cache lines, so that the slots' first lines spread over all
/// sets of a cache.
const SLOT_BYTES: usize = if cfg!(loom) { 64 } else { 9 * 64 };

/// The largest message in a slot, in bytes.
const CAPACITY: usize = SLOT_BYTES - 16;

/// The content of a slot: an eight-byte header, then the message's bytes, or the offset of the
/// first one.
#[derive(Debug)]
#[repr(C)]
struct Content {
    head: u64,
    bytes: [u8; CAPACITY],
}

/// One message and the counter that announces it.
#[repr(C, align(64))]
struct Slot {
    /// Number of the message, counted from 1 in each mailbox.
    number: AtomicU32,
    /// Written by the sender before `number`, read by the receiver behind it.
    content: Shared<Content>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);

/// The receiver's acknowledgements, and the parts of a message that nobody copies yet, which both
/// ends count down: one cache line, in which a waiting sender polls both.
#[repr(C, align(128))]
struct Answers {
    /// The last message that the receiver has copied.
    taken: AtomicU32,
    /// Parts of the message on offer that are left to copy.
    left: AtomicU32,
    /// Written by the receiver before `left`, read by the sender behind it.
    offer: Shared<Offer>,
}

/// Parts that the sender has copied since the beginning.
#[repr(C, align(128))]
struct Copied {
    parts: AtomicU32,
}

/// The mailbox from one rank to another.
#[repr(C, align(128))]
struct Mailbox {
    answers: Answers,
    copied: Copied,
    slots: [Slot; DEPTH],
}

/// The segment of all mailboxes of a host, mapped.
#[derive(Debug)]
pub struct Mailboxes {
    segment: Segment,
    ranks: usize,
}

impl Mailboxes {
    /// Bytes for `ranks` ranks. Mailboxes that are never used cost no memory: their pages stay absent.
    pub const fn bytes(ranks: usize) -> usize {
        ranks * size_of::<Bell>() + ranks * ranks * size_of::<Mailbox>()
    }

    /// A new memfd for them.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn create(ranks: usize) -> Result<OwnedFd, SegmentError> {
        Segment::create(NAME, Mailboxes::bytes(ranks))
    }

    /// Maps it.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn map(fd: impl AsFd, ranks: usize) -> Result<Arc<Mailboxes>, SegmentError> {
        let segment = Segment::map(fd, NAME, Mailboxes::bytes(ranks))?;
        let mailboxes = Mailboxes { segment, ranks };
        #[cfg(loom)]
        mailboxes.register();
        Ok(Arc::new(mailboxes))
    }

    fn bell(&self, rank: usize) -> &Bell {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        let at = self.segment.at(rank * size_of::<Bell>(), size_of::<Bell>()).cast::<Bell>();
        // SAFETY: in bounds (checked by `at`), aligned (mappings are page aligned), valid for any
        // bit pattern, and only ever used through its atomics, in every process.
        unsafe { at.as_ref() }
    }

    fn mailbox(&self, from: usize, to: usize) -> &Mailbox {
        assert!(from < self.ranks && to < self.ranks, "{from} to {to} of {}", self.ranks);
        let at = self.segment.at(self.offset(from, to), size_of::<Mailbox>()).cast::<Mailbox>();
        // SAFETY: as in `bell`; the offset is a multiple of 128. Messages and offers are cells, whose
        // contents a reference to them says nothing about.
        unsafe { at.as_ref() }
    }

    fn offset(&self, from: usize, to: usize) -> usize {
        self.ranks * size_of::<Bell>() + (from * self.ranks + to) * size_of::<Mailbox>()
    }

    /// Waits until `look` finds an event for `rank`: a message, an acknowledgement, a copied part.
    ///
    /// # Errors
    /// The run was aborted, or time ran out; the caller names the missing ranks.
    #[inline]
    pub(crate) fn until(
        &self,
        rank: usize,
        control: &Control,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        look: impl FnMut() -> bool,
    ) -> Result<(), Wait> {
        policy.until_some(self.bell(rank), control.abort_word(), timeout, look)
    }
}
