//! Atomics, cells, clock and sleep of the processor and the kernel.
//! Not the model checker's: `modelled` has the same names.

use std::{cell::UnsafeCell, time::Duration};
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, Ordering, fence},
    thread::yield_now,
    time::Instant,
};

use rustix::thread::{Timespec, futex, nanosleep};

/// Memory that one rank writes while nobody reads it, and others read while nobody writes.
#[repr(transparent)]
pub struct Shared<T>(UnsafeCell<T>);

impl<T> Shared<T> {
    /// Returns its address for writing.
    #[inline(always)]
    pub fn write<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// The reads of a rank in progress. Only the model checker counts them.
#[derive(Debug, Default)]
pub struct Reads<T>(std::marker::PhantomData<fn() -> T>);

impl<T> Reads<T> {
    /// None.
    pub const fn new() -> Reads<T> {
        Reads(std::marker::PhantomData)
    }

    /// Begins one: `from` may be read until [`Reads::end`].
    #[inline(always)]
    pub fn begin(&self, from: &Shared<T>) -> *const T {
        from.0.get()
    }

    /// Ends them all.
    #[inline(always)]
    pub fn end(&self) {}
}

/// Sleeps for `length`, or less when interrupted.
pub fn nap(length: Duration) {
    let _ = nanosleep(&timespec(length));
}

/// Sleeps while `word` is `seen`, until woken or `longest` has passed. The caller checks again
/// after any return.
pub fn futex_wait(word: &AtomicU32, seen: u32, longest: Duration) {
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timespec(longest)));
}

/// Wakes every thread that sleeps on `word`, in every process.
pub fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

fn timespec(length: Duration) -> Timespec {
    Timespec { tv_sec: length.as_secs() as _, tv_nsec: length.subsec_nanos().into() }
}
