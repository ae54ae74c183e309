//! The connection manager: a thread that accepts and connects paths, and checks those on which nothing moves. One a
//! process; asleep unless there is something to do.
//! It moves no message, unless nobody else would.

mod connecting;
mod handshake;
mod thread;

use std::{
    collections::HashMap,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use busbw_multipath::frame::{Hello, SECRET_BYTES};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

pub(super) use self::connecting::CONNECT_TIMEOUT;
use self::thread::Thread;
use super::{
    clock::Clock, engine::Engine, exit, fault::Fault, handle::Listening, locks::lock,
    pending::Comes, sockets, stats::Stats,
};
use crate::{
    devices::Interface,
    log,
    network::{Failure, Result},
};

/// The other end has so long to say its handshake, and to read what is in flight when a connection ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What others ask of the thread.
enum Job {
    Connect(Connect),
    Watch(Weak<dyn Managed>),
    Close(Arc<dyn Closing>),
    Leave(OwnedFd),
    Drain,
}

/// An end of a connection that is checked as long as something is in flight.
pub(super) trait Managed: Send + Sync {
    /// Sees to what nobody else would. Whether there is a reason to look again.
    fn check(&self) -> bool;

    /// Whether the other end has not heard of everything that it is to hear.
    fn is_behind(&self) -> bool;

    /// The manager checks it no more; false if something came in between.
    fn unwatch(&self) -> bool;

    /// Breaks the path of this number, or another one if there are not so many.
    fn cut(&self, path: usize);
}

/// An end that has paths connected, as the manager tells it what became of them.
pub(super) trait Dialer: Send + Sync {
    /// The other side has accepted the path of this handshake.
    fn connected(&self, hello: &Hello, socket: OwnedFd);

    /// The other side has no such connection any more.
    fn gone(&self);

    /// A path did not come up.
    fn not_connected(&self, path: u16, error: Errno);

    /// The other host has answered a probe.
    fn probe_answered(&self);

    /// It has not, so far as is known.
    fn probe_unanswered(&self, error: Errno);
}

/// An end that paths are connected to.
pub(super) trait Acceptor: Send + Sync {
    /// A handshake of this connection has come by this socket.
    fn accepted(&self, hello: &Hello, socket: OwnedFd);
}

/// An end that its caller has closed, until what was sent has arrived.
pub(super) trait Closing: Managed + Comes {
    /// Whether everything is acknowledged.
    fn is_idle(&self) -> bool;

    /// Ends every path: the sockets on which the other side is to be told so.
    fn end(&self) -> Vec<OwnedFd>;
}

/// A path to connect.
pub(super) struct Connect {
    pub whom: Weak<dyn Dialer>,
    /// A port of the kernel's choice, if it is 0.
    pub from: Option<SocketAddr>,
    pub to: SocketAddr,
    pub hello: Hello,
    /// How long it may take.
    pub timeout: Duration,
}

impl Connect {
    /// Whether it makes no path, but has the other end look.
    fn is_probe(&self) -> bool {
        self.hello.epoch == Hello::PROBE
    }
}

/// The connection manager, as others see it.
pub(super) struct Manager {
    secret: [u8; SECRET_BYTES],
    addresses: Vec<(SocketAddr, u8)>,
    jobs: Mutex<Vec<Job>>,
    wake: OwnedFd,
    acceptors: Mutex<HashMap<u64, Arc<dyn Acceptor>>>,
    last_listener: AtomicU64,
    is_drained: Mutex<bool>,
    drained: Condvar,
    stats: OnceLock<Stats>,
    pub(super) clock: Clock,
    /// Who moves bytes while more waits than callers can move.
    pub(super) engine: Arc<Engine>,
}

impl Manager {
    /// Listens on the interfaces and starts the thread.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(super) fn start(
        interfaces: &[Interface],
        fault: Option<Fault>,
        engine: Arc<Engine>,
    ) -> Result<Arc<Manager>> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for Interface { name, address, prefix, .. } in interfaces {
            match sockets::listening(*address) {
                Ok((listener, at)) => {
                    listeners.push(listener);
                    addresses.push((at, *prefix));
                }
                Err(error) => {
                    log::info(&format!("NET/busbw: cannot listen on {name} ({address}): {error}"))
                }
            }
        }
        if listeners.is_empty() {
            let text =
                "cannot listen on any interface: see NCCL_DEBUG=INFO, and NCCL_SOCKET_IFNAME";
            return Err(Failure::new(nccl_plugin_abi::Status::SYSTEM, text));
        }
        let manager = Manager::new(addresses, engine, Clock::default())?;
        let thread = Thread::new(manager.clone(), listeners, fault);
        super::threads::spawn("busbw-manager", move || thread.run())?;
        exit::wait_for(&manager);
        Ok(manager)
    }

    /// Without its thread: what is asked of that is not done.
    ///
    /// # Errors
    /// As [`Manager::start`].
    pub(super) fn new(
        addresses: Vec<(SocketAddr, u8)>,
        engine: Arc<Engine>,
        clock: Clock,
    ) -> Result<Arc<Manager>> {
        let mut secret = [0; SECRET_BYTES];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::system("cannot make a secret", &error))?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Failure::system("cannot make an eventfd", &error))?;
        Ok(Arc::new(Manager {
            secret,
            addresses,
            jobs: Mutex::default(),
            wake,
            acceptors: Mutex::default(),
            last_listener: AtomicU64::new(0),
            is_drained: Mutex::default(),
            drained: Condvar::new(),
            stats: OnceLock::new(),
            clock,
            engine,
        }))
    }

    /// Paths to this end are accepted from now on: where that is.
    pub(super) fn open(&self, acceptor: Arc<dyn Acceptor>) -> Listening {
        let listener = self.last_listener.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.acceptors).insert(listener, acceptor);
        Listening { secret: self.secret, listener, addresses: self.addresses.clone() }
    }

    /// No path is accepted there any more.
    pub(super) fn shut(&self, listener: u64) {
        lock(&self.acceptors).remove(&listener);
    }

    /// Has what connections do written down from now on.
    pub(super) fn write_down(&self, stats: Stats) {
        let _ = self.stats.set(stats);
    }

    /// Where that is, if anywhere.
    pub(super) fn stats(&self) -> Option<&Stats> {
        self.stats.get()
    }

    /// Connects a path, or probes.
    pub(super) fn connect(&self, connect: Connect) {
        self.ask(Job::Connect(connect));
    }

    /// Checks a connection until nothing is in flight any more.
    pub(super) fn watch(&self, whom: Weak<dyn Managed>) {
        self.ask(Job::Watch(whom));
    }

    /// Ends a connection when everything is acknowledged.
    pub(super) fn close(&self, whom: Arc<dyn Closing>) {
        self.ask(Job::Close(whom));
    }

    /// Sends a fin on a path, and closes it when the other end has read everything.
    pub(super) fn leave(&self, socket: OwnedFd) {
        self.ask(Job::Leave(socket));
    }

    /// Asks it to say when all connections are drained.
    pub(super) fn drain(&self) {
        self.ask(Job::Drain);
    }

    /// Waits until they are, for so long at most.
    pub(super) fn wait_until_drained(&self, limit: Duration) {
        let is_drained = lock(&self.is_drained);
        let waited = self.drained.wait_timeout_while(is_drained, limit, |is_drained| !*is_drained);
        drop(waited.map_err(PoisonError::into_inner));
    }

    fn ask(&self, job: Job) {
        lock(&self.jobs).push(job);
        // It fails only if it is set already, to near 2^64.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}
