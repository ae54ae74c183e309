//! Something about a path that one thread tells another: it can be read, it can be written, it has ended, it waits.
//! Not what the kernel has of the path: a flag says that it is worth a look.

use super::sync::{AtomicBool, Ordering};

/// What happened before it was raised is seen by whoever lowers it, though another thread has raised it since: raising
/// reads and writes in one step. A mere store would hide the earlier one on processors that order less than x86 does.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    /// Raises it.
    pub(super) fn raise(&self) {
        self.0.swap(true, Ordering::AcqRel);
    }

    /// Raises or lowers it, where only one thread at a time may: whoever has the path's lock.
    pub(super) fn set(&self, is_raised: bool) {
        self.0.store(is_raised, Ordering::Release);
    }

    /// Whether it is raised.
    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Lowers it, before it is looked what it tells of: what happens later raises it again. Whether it was raised.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
