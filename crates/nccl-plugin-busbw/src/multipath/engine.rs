//! Threads that move bytes while more waits than whoever calls can move: a fixed number for all connections, asleep
//! otherwise.
//! Not how bytes are moved (`sender`, `receiver`): these threads do what a caller would do.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::available_parallelism,
    time::{Duration, Instant},
};

use super::{locks::lock, threads};
use crate::log;

/// How many threads there are, instead of as many as fit the machine.
pub const VARIABLE: &str = "BUSBW_NET_THREADS";
/// At most: NCCL's buffers feed no more.
const MAX_THREADS: usize = 8;
/// One for so many processors that the process may use: GPUs share them.
const PROCESSORS_PER_THREAD: usize = 4;
/// A thread sleeps when it has moved nothing for so long: waking it costs its caller microseconds.
const IDLE_TIMEOUT: Duration = Duration::from_micros(100);

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
        self.listed.store(false, Ordering::SeqCst);
        // Who began something meanwhile has listed it once more, or is found here.
        !self.is_any() || self.listed.swap(true, Ordering::SeqCst)
    }
}

/// The threads, as connections see them.
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
        let engine = Arc::new(Engine {
            threads: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
            list: Mutex::default(),
            changes: AtomicUsize::new(0),
            calls: Condvar::new(),
        });
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
        let listed =
            || open.listed.load(Ordering::SeqCst) || open.listed.swap(true, Ordering::SeqCst);
        if self.has_threads() && !listed() {
            lock(&self.list).work.push(work());
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Calls one more thread, if there is one.
    pub(super) fn call(&self) {
        let called = self.called.load(Ordering::Relaxed);
        let one_more = || {
            self.called.compare_exchange(called, called + 1, Ordering::AcqRel, Ordering::Relaxed)
        };
        if called < self.threads.load(Ordering::Relaxed) && one_more().is_ok() {
            lock(&self.list).calls += 1;
            self.calls.notify_one();
        }
    }

    fn run(&self) {
        let mut work = Vec::new();
        loop {
            self.sleep();
            self.awake.fetch_add(1, Ordering::AcqRel);
            let mut seen = None;
            let mut moved = Instant::now();
            while moved.elapsed() < IDLE_TIMEOUT {
                let changes = self.changes.load(Ordering::Acquire);
                if seen != Some(changes) {
                    seen = Some(changes);
                    work =
                        lock(&self.list).work.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
                }
                if work.iter().fold(false, |any, work| work.advance() | any) {
                    moved = Instant::now();
                }
            }
            // Connections that have ended are not kept.
            work.clear();
            self.awake.fetch_sub(1, Ordering::AcqRel);
            self.called.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Until called. Before that, connections without work leave the list.
    fn sleep(&self) {
        let mut list = lock(&self.list);
        let before = list.work.len();
        list.work.retain(|work| work.upgrade().is_some_and(|work| !work.rest()));
        if list.work.len() < before {
            self.changes.fetch_add(1, Ordering::Release);
        }
        while list.calls == 0 {
            list = self.calls.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        list.calls -= 1;
    }
}
