//! Locks that survive a panic: everything that they guard is consistent between two statements.
//! Not what they guard.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// As [`lock`], unless somebody else has it right now.
pub(super) fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// What a mutex guards.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
