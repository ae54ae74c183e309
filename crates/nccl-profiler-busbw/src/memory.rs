//! What NCCL's threads fill and the writer's empties.
//! Not who fills it (`recorder`) and who empties it (`writer`).

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use crate::{
    communicators::{Communicator, Communicators},
    log,
    slots::{SLOTS, Slots},
    steps::{STEPS, Steps},
    timing::Timing,
};

/// Flags of a call: bits of its first class word, which is `communicator(16) flags(8) channels(8) root or peer(32)`.
pub(crate) mod flag {
    /// It has a root.
    pub const ROOT: u64 = 1;
    /// It has a peer.
    pub const PEER: u64 = 2;
    /// Events of its kernel are to come.
    pub const KERNEL: u64 = 4;
    /// They may come: whether NCCL times it was changed when it was asked for, or nearly then.
    pub const PERHAPS_KERNEL: u64 = 8;
}

/// All that is recorded.
#[derive(Debug)]
pub(crate) struct Memory {
    on: AtomicBool,
    origin: Instant,
    /// Calls under way.
    pub slots: Slots,
    /// Steps under way.
    pub steps: Steps,
    /// Communicators.
    pub communicators: Communicators,
    /// Which kernels are timed.
    pub timing: Timing,
    /// Calls for which there was no room.
    pub dropped_calls: AtomicU64,
    /// Steps for which there was no room.
    pub dropped_steps: AtomicU64,
}

impl Memory {
    /// Empty, and on. Not all small kernels are timed where they are `sampled`.
    pub fn new(sampled: bool) -> Self {
        Self {
            on: AtomicBool::new(true),
            origin: Instant::now(),
            slots: Slots::new(SLOTS),
            steps: Steps::new(STEPS),
            communicators: Communicators::new(),
            timing: Timing::new(sampled),
            dropped_calls: AtomicU64::new(0),
            dropped_steps: AtomicU64::new(0),
        }
    }

    /// ns since it was made.
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Whether it is recorded.
    pub fn on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Nothing more is recorded: said once, and NCCL is asked for no more events.
    pub fn off(&self, why: &str) {
        if self.on.swap(false, Ordering::AcqRel) {
            self.communicators.all().for_each(Communicator::silence);
            log::warn(&format!("{why}; this process goes on without being recorded"));
        }
    }
}
