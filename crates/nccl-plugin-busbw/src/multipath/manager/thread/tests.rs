//! The connection manager's thread in virtual time: both ends of connections over loopback, and nobody who waits.
//! Not threads.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use busbw_multipath::frame::Hello;
use nccl_plugin_abi::net_stats::{NetStats, PathState};

use super::*;
use crate::{
    multipath::{
        clock::Clock,
        engine::Engine,
        handle::Listening,
        receiver, sender,
        stats::{Counted as _, Stats},
    },
    network::{Listener as _, Receiver, Request, Sender as _},
};

const SECOND: Duration = Duration::from_secs(1);
/// In real time: a test that waits so long hangs.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection manager whose thread is the test.
struct Host {
    manager: Arc<Manager>,
    thread: Thread,
    clock: Clock,
}

impl Host {
    fn new() -> Host {
        let (listener, at) = sockets::listening(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        Host::with(vec![listener], vec![(at, 8)])
    }

    fn with(listeners: Vec<OwnedFd>, addresses: Vec<(std::net::SocketAddr, u8)>) -> Host {
        let clock = Clock::standing();
        let manager = Manager::new(addresses, Engine::start(Some(0)), clock.clone()).unwrap();
        let thread = Thread::new(manager.clone(), listeners, None);
        Host { manager, thread, clock }
    }

    /// Sees to everything that happens at this moment; when something is due next.
    fn settle(&mut self) -> Option<Instant> {
        let until = Instant::now() + LIMIT;
        loop {
            let now = self.clock.now();
            let due = self.thread.turn(now);
            let came = self.thread.wait(Some(Duration::ZERO), now);
            let something = came.contains(&true);
            self.thread.see_to(&came, now);
            // What is being connected is within this host: it is about to come.
            let is_coming =
                !self.thread.connecting.is_empty() || !self.thread.handshakes.is_empty();
            if !something && !is_coming && lock(&self.manager.jobs).is_empty() {
                return due;
            }
            assert!(Instant::now() < until, "something happens for ever");
        }
    }

    /// So long, turn by turn.
    fn pass(&mut self, time: Duration) {
        let until = self.clock.now() + time;
        self.pass_until(until, |_| false);
    }

    /// Until that time, or until something is so: how long that took.
    fn pass_until(&mut self, until: Instant, mut is_so: impl FnMut(&Host) -> bool) -> Duration {
        let began = self.clock.now();
        loop {
            let due = self.settle();
            let now = self.clock.now();
            if now >= until || is_so(self) {
                return now - began;
            }
            // A turn that is due again at once would be one of a thread that does not sleep.
            let next = due.map_or(until, |due| due.min(until)).max(now + SECOND / 1000);
            self.clock.set(next);
        }
    }

    /// A connection of so many paths.
    fn connected(&mut self, paths: u16) -> Pair {
        let receiver = receiver::Connection::new(&self.manager).unwrap();
        let there = self.manager.open(receiver.clone());
        let to = there.addresses[0].0;
        let Listening { secret, listener, .. } = there;
        let hello = Hello { secret, listener, path: 0, paths, epoch: 0 };
        let routes = vec![(None, to); usize::from(paths)];
        let sender = sender::Connection::new(&self.manager, hello, routes, 1 << 17).unwrap();
        self.settle();
        let sending = sender::Sending::new(sender.clone());
        let receiving = receiver::Listening::new(receiver, listener).accept().unwrap().unwrap();
        Pair { sender, sending: Some(sending), receiving, place: Box::new([0; 100]) }
    }
}

/// Both ends of a connection.
struct Pair {
    sender: Arc<sender::Connection>,
    sending: Option<sender::Sending>,
    receiving: Box<dyn Receiver>,
    place: Box<[u8; 100]>,
}

impl Pair {
    fn send(&mut self) {
        let sending = self.sending.as_mut().unwrap();
        // SAFETY: it is copied.
        let request = unsafe { sending.send([7; 100].as_ptr(), 100) }.unwrap().unwrap();
        assert_eq!(sending.test(request).unwrap(), Some(100));
    }

    fn post(&mut self) -> Request {
        // SAFETY: it lives as long as the receiver.
        unsafe { self.receiving.receive(self.place.as_mut_ptr(), 100) }.unwrap().unwrap()
    }

    fn arrives(&mut self, request: Request) {
        let until = Instant::now() + LIMIT;
        while self.receiving.test(request).unwrap().is_none() {
            assert!(Instant::now() < until, "nothing arrives");
        }
        assert_eq!(*self.place, [7; 100]);
    }

    fn paths_up(&self) -> usize {
        self.sender.counted().paths.iter().filter(|path| path.state == PathState::Up).count()
    }
}

/// A connection that counts how often it is checked.
#[derive(Default)]
struct Counted {
    checks: AtomicUsize,
    is_busy: AtomicBool,
}

impl Managed for Counted {
    fn check(&self) -> bool {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.is_busy.load(Ordering::Relaxed)
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn unwatch(&self) -> bool {
        true
    }

    fn cut(&self, _: usize) {}
}

/// The other end may wait for what is to be sent much later, and takes us for lost when the paths are gone.
#[test]
fn a_connection_on_which_nothing_is_in_flight_is_checked_still() {
    let mut host = Host::with(Vec::new(), Vec::new());
    let counted = Arc::new(Counted::default());
    counted.is_busy.store(true, Ordering::Relaxed);
    let whom: Weak<dyn Managed> = Arc::downgrade(&(counted.clone() as Arc<dyn Managed>));
    host.manager.watch(whom);
    host.pass(CHECK_INTERVAL);
    let mut checks_in = |time: Duration| {
        let before = counted.checks.load(Ordering::Relaxed);
        host.pass(time);
        counted.checks.load(Ordering::Relaxed) - before
    };
    assert!((39..=41).contains(&checks_in(SECOND)));
    counted.is_busy.store(false, Ordering::Relaxed);
    // For a second more; then every two.
    assert!((39..=42).contains(&checks_in(LINGER + CHECK_INTERVAL)));
    assert!((29..=31).contains(&checks_in(30 * IDLE_CHECK_INTERVAL)));
}

/// The receiver asks all the time, and would fail after 20 s without a path.
#[test]
fn paths_that_are_lost_while_nothing_is_sent_come_back() {
    let mut host = Host::new();
    let mut pair = host.connected(4);
    for round in 0..3 {
        let request = pair.post();
        // Longer than a connection may be without a path.
        host.pass(CONNECTION_TIMEOUT + SECOND);
        assert_eq!(pair.receiving.test(request).unwrap(), None);
        assert_eq!(pair.paths_up(), 4, "round {round}");
        (0..4).for_each(|path| pair.sender.cut(path));
        // All of them at the next check, or at the one after it where a path had not delivered anything before.
        let until = host.clock.now() + 10 * SECOND;
        let took = host.pass_until(until, |_| {
            assert_eq!(pair.receiving.test(request).unwrap(), None);
            pair.paths_up() == 4 && lost(&pair) == 4 * (round + 1)
        });
        assert!(took <= 2 * IDLE_CHECK_INTERVAL, "after {took:?}, round {round}");
        host.pass(CONNECTION_TIMEOUT + SECOND);
        pair.send();
        pair.arrives(request);
    }
}

fn lost(pair: &Pair) -> u64 {
    pair.sender.counted().paths.iter().map(|path| path.lost).sum()
}

#[test]
fn who_receives_long_after_the_sender_has_ended_gets_everything() {
    // Before and after the sender has ceased to wait for acknowledgements, and its sockets are closed.
    for time in [CLOSE_TIMEOUT + SECOND, CONNECTION_TIMEOUT + CLOSE_TIMEOUT + SECOND] {
        for before in 0..8 {
            let mut host = Host::new();
            let mut pair = host.connected(4);
            // However often it has asked before, it finds both messages and the end at once.
            let first = pair.post();
            (0..before).for_each(|_| assert_eq!(pair.receiving.test(first).unwrap(), None));
            pair.send();
            pair.send();
            pair.sending = None;
            host.pass(time);
            pair.arrives(first);
            let second = pair.post();
            pair.arrives(second);
        }
    }
}

#[test]
fn statistics_are_written_while_a_connection_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats");
    let mut host = Host::new();
    host.manager.write_down(Stats::new(file.clone(), &[]));
    let mut pair = host.connected(2);
    host.pass(SECOND / 10);
    let read = || NetStats::clone(&serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap());
    assert_eq!(read().totals().bytes, 0);
    let request = pair.post();
    pair.send();
    pair.arrives(request);
    host.pass(SECOND);
    assert_eq!(read().totals().bytes, 0);
    host.pass(5 * SECOND);
    assert_eq!(read().totals().bytes, 100);
}

/// As where the process has too many files open.
#[test]
fn a_listener_that_fails_is_left_alone_for_a_while() {
    let flags = rustix::event::EventfdFlags::NONBLOCK;
    // It can always be read, and nothing can be accepted there.
    let broken = rustix::event::eventfd(1, flags).unwrap();
    let mut host = Host::with(vec![broken], Vec::new());
    for _ in 0..3 {
        let now = host.clock.now();
        assert!(host.thread.accepts(now));
        let due = host.settle();
        assert!(!host.thread.accepts(now), "it is tried again at once");
        assert_eq!(due, Some(now + ACCEPT_RETRY_INTERVAL));
        host.clock.set(now + ACCEPT_RETRY_INTERVAL);
    }
}
