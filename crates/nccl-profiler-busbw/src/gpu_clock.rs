//! How a GPU's clock stands to the process's, by when the process learnt of what the GPU did.
//! Not when calls began: the file's reader puts both together.

use std::sync::atomic::{AtomicI64, Ordering};

/// The least difference since it was last taken.
#[derive(Debug)]
pub(crate) struct GpuClock(AtomicI64);

/// Nothing was seen.
const NONE: i64 = i64::MAX;

impl GpuClock {
    /// Nothing was seen yet.
    pub fn new() -> Self {
        Self(AtomicI64::new(NONE))
    }

    /// Something that the GPU did at `timer` by its own clock was known at `now`, ns each.
    pub fn seen(&self, now: u64, timer: u64) {
        // 0 is NCCL's word for a time that it does not have.
        if timer > 0 {
            self.0.fetch_min((now as i64).wrapping_sub(timer as i64), Ordering::Relaxed);
        }
    }

    /// What is to be added to a time of the GPU, ns; none where nothing was seen since the last time.
    pub fn take(&self) -> Option<i64> {
        Some(self.0.swap(NONE, Ordering::Relaxed)).filter(|least| *least != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_difference_counts_once() {
        let clock = GpuClock::new();
        assert_eq!(clock.take(), None);
        // The GPU's clock counts since 1970, ours since the process began.
        clock.seen(5_000, 1_795_000_000_000_000_000);
        clock.seen(7_000, 1_795_000_000_000_002_500);
        clock.seen(9_000, 0);
        assert_eq!(clock.take(), Some(4_500 - 1_795_000_000_000_000_000));
        assert_eq!(clock.take(), None);
    }
}
