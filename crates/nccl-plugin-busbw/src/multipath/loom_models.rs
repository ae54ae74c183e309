//! Models for loom of what threads share outside of locks: in every order of steps, and with every stale value that the memory
//! model allows, nothing that was told is missed.
//! Not what is done about it.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use loom::{cell::UnsafeCell, thread};

use super::{
    engine::{Engine, Open, Work},
    flag::Flag,
    results::Results,
    state_machine::{HasWork, StateMachine},
    sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock},
    watch::Watch,
};

/// Explores every execution of a model, and prints their number as tests/model.sh reads it.
fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicU64::new(0));
    let (counted, begun) = (executions.clone(), Instant::now());
    loom::model::Builder::new().check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let (count, seconds) = (executions.load(Relaxed), begun.elapsed().as_secs_f64());
    println!("{name}: {count} executions in {seconds:.1} s, exhaustive");
}

/// Memory of a request: of whoever moves bytes, and then of the caller.
struct Bytes(UnsafeCell<u64>);

// SAFETY: loom stops at the first access that races.
unsafe impl Sync for Bytes {}

/// The caller reads what was written, though another thread has moved it.
#[test]
fn a_request_that_is_done_has_its_bytes() {
    explore("requests_done", || {
        let shared = Arc::new((Results::default(), Bytes(UnsafeCell::new(0))));
        let mover = thread::spawn({
            let shared = shared.clone();
            move || {
                // SAFETY: the request is not done: what this model is about, and loom checks.
                shared.1.0.with_mut(|bytes| unsafe { *bytes = 7 });
                shared.0.done(3, 100);
            }
        });
        let looks = [(); 2].map(|()| shared.0.is_done(3).then(|| shared.0.take(3)).flatten());
        if looks.contains(&Some(100)) {
            // SAFETY: it is done.
            assert_eq!(shared.1.0.with(|bytes| unsafe { *bytes }), 7);
        }
        mover.join().unwrap();
        let last = shared.0.take(3);
        // Once.
        assert_eq!(looks.into_iter().chain([last]).flatten().collect::<Vec<_>>(), [100]);
    });
}

/// A socket that can be read: one thread is told by the kernel, the other reads already. Nobody misses it.
#[test]
fn what_arrives_while_another_thread_reads_is_read_or_told() {
    explore("edges", || {
        let shared = Arc::new((Flag::default(), Mutex::new(0), AtomicUsize::new(0)));
        let read = |shared: &(Flag, Mutex<usize>, AtomicUsize)| {
            let Ok(mut stream) = shared.1.try_lock() else { return };
            if shared.0.take() {
                *stream = shared.2.load(Ordering::Acquire);
            }
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || {
                // The kernel has one more; it is told of once.
                shared.2.fetch_add(1, Ordering::AcqRel);
                shared.0.raise();
                read(&shared);
            }
        });
        shared.2.fetch_add(1, Ordering::AcqRel);
        shared.0.raise();
        read(&shared);
        other.join().unwrap();
        assert!(shared.0.is_raised() || *lock(&shared.1) == 2);
    });
}

impl HasWork for usize {
    fn has_work(&self) -> bool {
        *self > 0
    }
}

/// Two threads add work, and one of them takes what there is by then: what is left is seen without the lock.
#[test]
fn work_that_is_left_is_seen_without_the_lock() {
    explore("work_left", || {
        let machine = Arc::new(StateMachine::new(0));
        let other = thread::spawn({
            let machine = machine.clone();
            move || *machine.lock() += 1
        });
        *machine.lock() += 1;
        // Its own it sees in any case.
        assert!(machine.has_work());
        *machine.lock() = 0;
        other.join().unwrap();
        let seen = machine.has_work();
        assert_eq!(seen, *machine.lock() > 0);
    });
}

/// The end behind what can be read is known to whoever reads that.
#[test]
fn an_end_is_known_when_it_can_be_read() {
    explore("ends", || {
        let shared = Arc::new((Flag::default(), Flag::default()));
        let teller = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.raise();
                shared.0.raise();
            }
        });
        if shared.0.take() {
            assert!(shared.1.is_raised());
        }
        teller.join().unwrap();
    });
}

/// A path stops before a chunk whose receive is not posted, while that is posted.
#[test]
fn a_path_that_waits_for_a_receive_is_read_on() {
    explore("receives_posted", || {
        let shared = Arc::new((Flag::default(), Flag::default(), Mutex::new(false)));
        let reader = thread::spawn({
            let shared = shared.clone();
            move || {
                if *lock(&shared.2) {
                    return true;
                }
                shared.0.set(true);
                if *lock(&shared.2) {
                    shared.1.raise();
                }
                false
            }
        });
        *lock(&shared.2) = true;
        if shared.0.is_raised() {
            shared.1.raise();
        }
        let is_read = reader.join().unwrap();
        assert!(is_read || shared.1.is_raised());
    });
}

/// Something is left for later while the connection manager gives a connection up.
#[test]
fn a_connection_with_something_left_is_watched() {
    explore("watches", || {
        let shared = Arc::new((Watch::asked(), Mutex::new(false)));
        let manager = thread::spawn({
            let shared = shared.clone();
            move || shared.0.give_up(|| *lock(&shared.1))
        });
        *lock(&shared.1) = true;
        let asks = shared.0.ask();
        let has_stopped = manager.join().unwrap();
        assert!(asks || !has_stopped);
        assert!(shared.0.is_asked());
    });
}

/// What is open on a connection, one thread may have moved at a time.
#[derive(Default)]
struct Connection {
    open: Open,
    moved: AtomicBool,
}

impl Work for Connection {
    fn advance(&self) -> bool {
        let moves = self.open.is_any() && !self.moved.swap(true, Ordering::AcqRel);
        if moves {
            self.open.done();
        }
        moves
    }

    fn rest(&self) -> bool {
        self.open.rest()
    }
}

fn work(connection: &Arc<Connection>) -> Weak<dyn Work> {
    Arc::downgrade(&(connection.clone() as Arc<dyn Work>))
}

/// Something begins on a connection while a thread takes it off its list: it is on it afterwards, once.
#[test]
fn a_connection_with_something_open_is_listed() {
    explore("lists", || {
        let engine = Arc::new(Engine::with_threads(1));
        let connection = Arc::new(Connection::default());
        engine.join(&connection.open, || work(&connection));
        let mover = thread::spawn({
            let engine = engine.clone();
            move || engine.let_rest()
        });
        connection.open.begin();
        engine.join(&connection.open, || work(&connection));
        mover.join().unwrap();
        assert!(connection.open.is_listed());
        assert_eq!(engine.listed(), 1);
    });
}

/// A thread that is called wakes up, whenever it goes to sleep, and moves what is open; else the caller would have been told
/// to move it itself.
#[test]
fn a_call_wakes_a_thread() {
    explore("calls", || {
        let engine = Arc::new(Engine::with_threads(1));
        let connection = Arc::new(Connection::default());
        let mover = thread::spawn({
            let engine = engine.clone();
            move || {
                engine.sleep();
                engine.stay(|has_moved| has_moved);
            }
        });
        connection.open.begin();
        engine.join(&connection.open, || work(&connection));
        engine.call();
        mover.join().unwrap();
        assert!(!connection.open.is_any(), "nobody has moved it");
        assert!(!engine.moves(&connection.open) && engine.is_quiet());
    });
}

/// Two callers at once: as many threads are called as there are, and each that is called wakes up.
#[test]
fn no_more_threads_are_called_than_there_are() {
    explore("calls_at_once", || {
        let engine = Arc::new(Engine::with_threads(1));
        let caller = thread::spawn({
            let engine = engine.clone();
            move || engine.call()
        });
        engine.call();
        caller.join().unwrap();
        engine.sleep();
        engine.stay(|_| false);
        assert!(engine.is_quiet());
    });
}
