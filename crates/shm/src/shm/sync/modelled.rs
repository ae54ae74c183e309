//! The same names as in `real`, for loom: every access is a step of the model, and races, deadlocks
//! and stale values that the memory model allows are found.
//! Not for a program: outside of `loom::model` all of this panics.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, PoisonError},
    time::Duration,
};

use loom::{
    cell::{ConstPtr, UnsafeCell},
    sync::{Condvar, Mutex, MutexGuard},
};
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, Ordering, fence},
    thread::yield_now,
};

/// Memory that one rank writes while nobody reads it, and others read while nobody writes: that is
/// what loom checks here.
pub struct Shared<T>(UnsafeCell<T>);

impl<T> Shared<T> {
    /// With a first value.
    pub fn new(value: T) -> Shared<T> {
        Shared(UnsafeCell::new(value))
    }

    /// Returns its address for writing.
    pub fn write<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(write)
    }
}

/// The reads of a rank in progress.
#[derive(Debug)]
pub struct Reads<T>(RefCell<Vec<ConstPtr<T>>>);

impl<T> Reads<T> {
    /// None.
    pub fn new() -> Reads<T> {
        Reads(RefCell::new(Vec::new()))
    }

    /// Begins one: a write to `from` before [`Reads::end`] is an error.
    pub fn begin(&self, from: &Shared<T>) -> *const T {
        let read = from.0.get();
        let at = read.with(|at| at);
        self.0.borrow_mut().push(read);
        at
    }

    /// Ends them all.
    pub fn end(&self) {
        self.0.borrow_mut().clear();
    }
}

/// A clock that advances by [`CLOCK_STEP`] when it is read: time limits pass soon, so that a model
/// reaches the sleeps, and at the same point of every execution, as loom needs.
#[derive(Debug)]
pub struct Instant(Cell<u32>);

const CLOCK_STEP: Duration = Duration::from_millis(10);

impl Instant {
    pub fn now() -> Instant {
        Instant(Cell::new(1))
    }

    pub fn elapsed(&self) -> Duration {
        let looks = self.0.get();
        self.0.set(looks + 1);
        CLOCK_STEP * looks
    }
}

/// Lets others run.
pub fn nap(_length: Duration) {
    yield_now();
}

/// The kernel's queues of sleeping threads.
#[derive(Default)]
struct Futexes {
    /// Address of the word, and the threads that sleep on it.
    asleep: Vec<(usize, Arc<Condvar>)>,
    /// Whether the time of every sleep has passed, those to come included.
    time_passes: bool,
}

loom::lazy_static! {
    static ref FUTEXES: Mutex<Futexes> = Mutex::new(Futexes::default());
}

fn futexes() -> MutexGuard<'static, Futexes> {
    FUTEXES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// As the kernel does it: with its queue locked, sleeps if `word` is still `seen`, until woken.
/// Time does not pass by itself, see [`let_time_pass`]: a lost wake-up is a deadlock here.
pub fn futex_wait(word: &AtomicU32, seen: u32, _longest: Duration) {
    let mut futexes = futexes();
    if futexes.time_passes {
        drop(futexes);
        return yield_now();
    }
    if word.load(Ordering::Relaxed) != seen {
        return;
    }
    let me = Arc::new(Condvar::new());
    futexes.asleep.push((key(word), Arc::clone(&me)));
    while futexes.asleep.iter().any(|(_, sleeper)| Arc::ptr_eq(sleeper, &me)) {
        futexes = me.wait(futexes).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Wakes every thread that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    for (_, woken) in futexes().asleep.extract_if(.., |(at, _)| *at == key(word)) {
        woken.notify_one();
    }
}

/// From now on the time of every sleep has passed, so that ranks look around.
#[cfg(test)]
pub fn let_time_pass() {
    let mut futexes = futexes();
    futexes.time_passes = true;
    futexes.asleep.drain(..).for_each(|(_, woken)| woken.notify_one());
}
