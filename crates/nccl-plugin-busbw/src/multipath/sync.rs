//! The primitives of what threads share: the real ones, or the model checker's where the tests are built with `cfg(loom)`.
//! Not what is shared (`flag`, `results`, `watch`, `engine`).

#[cfg(all(test, loom))]
pub(super) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(not(all(test, loom)))]
pub(super) use super::locks::lock;

/// As `locks::lock`.
#[cfg(all(test, loom))]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
