//! Control words as objects of loom, which must be made before they are used; zeros, as in a memfd.
//! Not what is done with them.

use super::{Control, Counter, DEPTH, Progress, Words};
use crate::shm::{
    slots::Slot,
    sync::{AtomicU32, Shared},
};

impl Control {
    /// Makes every word known to the execution of a model that is running.
    pub(super) fn register(&self) {
        let header = self.segment.at(0, size_of::<Counter>()).cast::<Counter>();
        // SAFETY: in bounds (checked by `at`) and aligned, see `Control::header`; nobody has it yet.
        unsafe { header.write(Counter::zero()) };
        for rank in 0..self.ranks {
            let offset = size_of::<Counter>() + rank * size_of::<Words>();
            let words = self.segment.at(offset, size_of::<Words>()).cast::<Words>();
            // SAFETY: as above, see `Control::words`.
            unsafe { words.write(Words::zero()) };
        }
    }
}

impl Counter {
    fn zero() -> Counter {
        Counter { epoch: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }
}

impl Words {
    fn zero() -> Words {
        Words {
            world: Counter::zero(),
            group: Counter::zero(),
            left: Counter::zero(),
            progress: Progress { step: AtomicU32::new(0), row: AtomicU32::new(0) },
            slots: std::array::from_fn::<_, DEPTH, _>(|_| Slot {
                operation: AtomicU32::new(0),
                sleepers: AtomicU32::new(0),
                message: Shared::new([0; _]),
            }),
        }
    }
}
