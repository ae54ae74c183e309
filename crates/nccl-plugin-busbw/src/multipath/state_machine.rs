//! The state machine of a connection's end behind its lock, and whether it has work, which is seen without the lock.
//! Not the state machines themselves (`busbw_multipath`).
//!
//! Threads that are awake look for work all the time. Were they to take the lock where there is none, they would keep it from those
//! that move bytes.

use std::ops::{Deref, DerefMut};

use busbw_multipath::{Destination, Receiver, Sender, Source};

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// What says whether it has work.
pub(super) trait HasWork {
    /// Whether there is something that a thread could do.
    fn has_work(&self) -> bool;
}

/// Chunks that are to be sent.
impl<M: Source> HasWork for Sender<M> {
    fn has_work(&self) -> bool {
        self.work().0
    }
}

/// Chunks that have arrived twice, and are to be settled. What arrives is seen at the sockets, not here.
impl<M: Destination> HasWork for Receiver<M> {
    fn has_work(&self) -> bool {
        self.has_duplicates()
    }
}

/// One of them behind its lock.
pub(super) struct StateMachine<T> {
    inner: Mutex<T>,
    /// As of the last time that the lock was released.
    has_work: AtomicBool,
}

impl<T: HasWork> StateMachine<T> {
    pub(super) fn new(inner: T) -> StateMachine<T> {
        let has_work = AtomicBool::new(inner.has_work());
        StateMachine { inner: Mutex::new(inner), has_work }
    }

    pub(super) fn lock(&self) -> Locked<'_, T> {
        Locked { inner: lock(&self.inner), has_work: &self.has_work }
    }

    /// Whether it had work when its lock was last released: who sees false may miss what is just being added, and looks again.
    pub(super) fn has_work(&self) -> bool {
        self.has_work.load(Ordering::Acquire)
    }
}

/// The state machine, while this thread has the lock.
pub(super) struct Locked<'a, T: HasWork> {
    inner: MutexGuard<'a, T>,
    has_work: &'a AtomicBool,
}

impl<T: HasWork> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: HasWork> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: HasWork> Drop for Locked<'_, T> {
    /// Still under the lock, so that the last one to have it has the last word.
    fn drop(&mut self) {
        let has_work = self.inner.has_work();
        // Others read this all the time: it is written only where it changes.
        if self.has_work.load(Ordering::Relaxed) != has_work {
            self.has_work.store(has_work, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl HasWork for Vec<u8> {
        fn has_work(&self) -> bool {
            !self.is_empty()
        }
    }

    #[test]
    fn work_is_seen_without_the_lock_once_it_is_released() {
        let machine = StateMachine::new(Vec::new());
        assert!(!machine.has_work());
        let mut locked = machine.lock();
        locked.push(1);
        assert!(!machine.has_work());
        drop(locked);
        assert!(machine.has_work());
        // A look alone changes nothing.
        assert_eq!(machine.lock().len(), 1);
        assert!(machine.has_work());
        machine.lock().clear();
        assert!(!machine.has_work());
    }
}
