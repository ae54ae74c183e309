//! What became of a connection's requests: whoever moves the last byte writes it, the caller takes it.
//! Not what is in flight (`engine::Open`).

use super::sync::{AtomicU64, Ordering};
use crate::network::{REQUESTS, Request};

/// A word for each request: 0, or 1 + bytes.
pub(super) struct Results([AtomicU64; REQUESTS]);

impl Default for Results {
    fn default() -> Results {
        Results(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Results {
    /// A request is done: its memory is the caller's again as soon as it sees that.
    pub(super) fn done(&self, request: Request, bytes: u64) {
        self.0[request].store(1 + bytes, Ordering::Release);
    }

    /// Whether a request is done.
    pub(super) fn is_done(&self, request: Request) -> bool {
        self.0[request].load(Ordering::Acquire) != 0
    }

    /// Bytes of a request that is done, once.
    pub(super) fn take(&self, request: Request) -> Option<usize> {
        self.0[request].swap(0, Ordering::AcqRel).checked_sub(1).map(|bytes| bytes as usize)
    }
}
