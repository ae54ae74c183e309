//! Mailboxes as objects of loom, which must be made before they are used; zeros, as in a memfd.
//! Not what is done with them.

use super::{Answers, Bell, CAPACITY, Content, Copied, Mailbox, Mailboxes, Offer, Slot};
use crate::shm::sync::{AtomicU32, Shared};

impl Mailboxes {
    /// Makes every word known to the execution of a model that is running.
    pub(super) fn register(&self) {
        for rank in 0..self.ranks {
            let bell = self.segment.at(rank * size_of::<Bell>(), size_of::<Bell>()).cast::<Bell>();
            // SAFETY: in bounds (checked by `at`) and aligned, see `Mailboxes::bell`; nobody has it yet.
            unsafe { bell.write(Bell { rung: AtomicU32::new(0), sleepers: AtomicU32::new(0) }) };
            for to in 0..self.ranks {
                let at = self.segment.at(self.offset(rank, to), size_of::<Mailbox>());
                // SAFETY: as above, see `Mailboxes::mailbox`.
                unsafe { at.cast::<Mailbox>().write(Mailbox::zero()) };
            }
        }
    }
}

impl Mailbox {
    fn zero() -> Mailbox {
        Mailbox {
            answers: Answers {
                taken: AtomicU32::new(0),
                left: AtomicU32::new(0),
                offer: Shared::new(Offer::zero()),
            },
            copied: Copied { parts: AtomicU32::new(0) },
            slots: std::array::from_fn(|_| Slot {
                number: AtomicU32::new(0),
                content: Shared::new(Content { head: 0, bytes: [0; CAPACITY] }),
            }),
        }
    }
}
