//! Threads that move bytes while more waits than whoever calls can move: a fixed number for all connections, asleep
//! otherwise.
//! Not how bytes are moved (`sender`, `receiver`): these threads do what a caller would do.

use std::{
    sync::{Arc, PoisonError, Weak},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use super::{
    sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock},
    threads,
};
use crate::log;

/// How many threads there are, instead of as many as fit the machine.
pub const VARIABLE: &str = "BUSBW_NET_THREADS";
/// At most: NCCL's buffers feed no more.
const MAX_THREADS: usize = 8;
/// One for so many processors that the process may use: GPUs share them.
const PROCESSORS_PER_THREAD: usize = 4;
/// A thread sleeps when it has moved nothing for so long. Between the steps of a ring nothing comes for longer than 0.1 ms: threads that
/// slept then made all_reduces of 2 to 32 MiB take 1.2 to 1.6 times as long (docs/data/idle-threads.txt).
const IDLE_TIMEOUT: Duration = Duration::from_millis(1);
/// For so long it looks without pause; from then on it lets others have its processor between two looks. Where there are fewer
/// processors than threads, the others have what it waits for.
const SPIN: Duration = Duration::from_micros(100);

/// A connection on which bytes may wait.
pub(super) trait Work: Send + Sync {
    /// Moves what one thread can move now, and calls another if there is more. Whether anything moved.
    fn advance(&self) -> bool;

    /// Whether nothing is in flight, so that no thread need look; whoever has more to move joins again.
    fn rest(&self) -> bool;
}

/// What is in flight on a connection, and whether the threads look at it.
#[derive(Debug, Default)]
pub(super) struct Open {
    count: AtomicUsize,
    listed: AtomicBool,
}

impl Open {
    /// One more.
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// One less.
    pub(super) fn done(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether anything is.
    pub(super) fn is_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Whether the threads look.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    /// As [`Work::rest`].
    pub(super) fn rest(&self) -> bool {
        self.listed.swap(false, Ordering::SeqCst);
        // Who began something meanwhile has listed it once more, or is found here.
        !self.is_any() || self.listed.swap(true, Ordering::SeqCst)
    }
}

/// The threads, as connections see them.
#[derive(Default)]
pub(super) struct Engine {
    threads: AtomicUsize,
    /// Threads that were called.
    called: AtomicUsize,
    /// Of those, threads that are awake.
    awake: AtomicUsize,
    list: Mutex<List>,
    /// Changes of the list.
    changes: AtomicUsize,
    calls: Condvar,
}

#[derive(Default)]
struct List {
    work: Vec<Weak<dyn Work>>,
    /// Calls that no thread has answered yet.
    calls: usize,
}

impl Engine {
    /// Starts the threads: so many, or as many as fit the machine; fewer where the system does not let us.
    pub(super) fn start(threads: Option<usize>) -> Arc<Engine> {
        let fit = || {
            available_parallelism()
                .map_or(0, |count| count.get() / PROCESSORS_PER_THREAD)
                .min(MAX_THREADS)
        };
        let engine = Arc::new(Engine::default());
        for number in 0..threads.unwrap_or_else(fit) {
            let itself = engine.clone();
            if let Err(failure) =
                threads::spawn(&format!("busbw-mover-{number}"), move || itself.run())
            {
                log::info(&format!("NET/busbw: {number} threads move bytes: {failure}"));
                break;
            }
            engine.threads.fetch_add(1, Ordering::Relaxed);
        }
        engine
    }

    /// Whether there are any.
    pub(super) fn has_threads(&self) -> bool {
        self.threads.load(Ordering::Relaxed) > 0
    }

    /// Whether any thread moves what this connection has, so that its caller need not.
    pub(super) fn moves(&self, open: &Open) -> bool {
        self.awake.load(Ordering::Relaxed) > 0 && open.is_listed()
    }

    /// Lists a connection on which something is open, until it rests.
    pub(super) fn join(&self, open: &Open, work: impl FnOnce() -> Weak<dyn Work>) {
        // In one step, not after a look: what is open is seen by the thread that lets it rest, or it is listed anew.
        if self.has_threads() && !open.listed.swap(true, Ordering::SeqCst) {
            lock(&self.list).work.push(work());
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Calls one more thread, if there is one.
    pub(super) fn call(&self) {
        self.call_within(usize::MAX);
    }

    /// The same, if fewer than `most` are called.
    pub(super) fn call_within(&self, most: usize) {
        let called = self.called.load(Ordering::Relaxed);
        let one_more = || {
            self.called.compare_exchange(called, called + 1, Ordering::AcqRel, Ordering::Relaxed)
        };
        if called < self.threads.load(Ordering::Relaxed).min(most) && one_more().is_ok() {
            lock(&self.list).calls += 1;
            self.calls.notify_one();
        }
    }

    fn run(&self) {
        loop {
            self.sleep();
            let mut moved = Instant::now();
            self.stay(|has_moved| {
                if has_moved {
                    // Whatever the clock says: this thread may have been suspended since, with more to move.
                    moved = Instant::now();
                    return true;
                }
                let idle = moved.elapsed();
                if idle > SPIN {
                    std::thread::yield_now();
                }
                idle < IDLE_TIMEOUT
            });
        }
    }

    /// A thread that was called moves what there is, as long as `goes_on(whether anything moved)` says so.
    pub(super) fn stay(&self, mut goes_on: impl FnMut(bool) -> bool) {
        self.awake.fetch_add(1, Ordering::AcqRel);
        let (mut work, mut seen) = (Vec::new(), None);
        loop {
            let changes = self.changes.load(Ordering::Acquire);
            if seen != Some(changes) {
                seen = Some(changes);
                work = lock(&self.list).work.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
            }
            if !goes_on(work.iter().fold(false, |any, work| work.advance() | any)) {
                break;
            }
        }
        self.awake.fetch_sub(1, Ordering::AcqRel);
        self.called.fetch_sub(1, Ordering::AcqRel);
    }

    /// Connections without work leave the list.
    pub(super) fn let_rest(&self) {
        let mut list = lock(&self.list);
        let before = list.work.len();
        list.work.retain(|work| work.upgrade().is_some_and(|work| !work.rest()));
        if list.work.len() < before {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Until called. Before that, connections without work leave the list.
    pub(super) fn sleep(&self) {
        self.let_rest();
        let mut list = lock(&self.list);
        while list.calls == 0 {
            list = self.calls.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        list.calls -= 1;
    }
}

#[cfg(test)]
impl Engine {
    /// So many threads, which are the test.
    pub(super) fn with_threads(count: usize) -> Engine {
        Engine { threads: AtomicUsize::new(count), ..Engine::default() }
    }

    /// Connections on the list.
    #[cfg(loom)]
    pub(super) fn listed(&self) -> usize {
        lock(&self.list).work.len()
    }

    /// Threads that were called.
    pub(super) fn called(&self) -> usize {
        self.called.load(Ordering::SeqCst)
    }

    /// Whether no thread is awake or called.
    pub(super) fn is_quiet(&self) -> bool {
        let calls = lock(&self.list).calls;
        let [awake, called] = [&self.awake, &self.called].map(|count| count.load(Ordering::SeqCst));
        (calls, awake, called) == (0, 0, 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Something to move so often.
    struct Counted {
        open: Open,
        left: AtomicUsize,
        looks: AtomicUsize,
    }

    impl Work for Counted {
        fn advance(&self) -> bool {
            self.looks.fetch_add(1, Ordering::SeqCst);
            let less = |left: usize| left.checked_sub(1);
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        }

        fn rest(&self) -> bool {
            self.open.rest()
        }
    }

    /// Until something is so; who waits 10 s for it hangs.
    fn until(is_so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Instant::now() < until, "it does not come");
            std::thread::yield_now();
        }
    }

    #[test]
    fn threads_move_what_they_are_called_for_and_sleep_otherwise() {
        let engine = Engine::start(Some(2));
        let (open, left, looks) = (Open::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let counted = Arc::new(Counted { open, left, looks });
        let looks = || counted.looks.load(Ordering::SeqCst);
        let work = || -> Weak<dyn Work> {
            let whom: Weak<Counted> = Arc::downgrade(&counted);
            whom
        };
        for _ in 0..3 {
            counted.open.begin();
            counted.left.store(1000, Ordering::SeqCst);
            engine.join(&counted.open, work);
            engine.call();
            until(|| counted.left.load(Ordering::SeqCst) == 0);
            counted.open.done();
            // Without a call they stay where they are: asleep, without a time limit.
            until(|| engine.is_quiet());
            let before = looks();
            counted.open.begin();
            engine.join(&counted.open, work);
            assert_eq!((looks(), engine.is_quiet()), (before, true));
            counted.open.done();
        }
    }
}
