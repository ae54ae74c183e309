//! Whether the connection manager looks after a connection.
//! Not what it looks at (`manager::Managed`).

use super::sync::{AtomicBool, Ordering};

/// Asked for by whoever leaves something for later, given up by the manager.
#[derive(Debug, Default)]
pub(super) struct Watch(AtomicBool);

impl Watch {
    /// One that the manager is asked for.
    pub(super) fn asked() -> Watch {
        Watch(AtomicBool::new(true))
    }

    /// Whether the manager is to be asked to look: it does not yet.
    pub(super) fn ask(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// The manager stops looking, unless there is a reason to go on (then false). Whoever has left something since that was
    /// looked at has asked once more.
    pub(super) fn give_up(&self, has_reason: impl FnOnce() -> bool) -> bool {
        self.0.swap(false, Ordering::SeqCst);
        !has_reason() || self.0.swap(true, Ordering::SeqCst)
    }

    /// Whether the manager looks, or is asked to.
    #[cfg(test)]
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
