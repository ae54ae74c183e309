//! The thread that lets paths in, connects them (again), and looks after those on which nothing moves. One a
//! process; asleep unless there is something to do.
//! It moves no message, unless nobody else would.

mod dial;
mod guest;
mod thread;

use std::{
    collections::HashMap,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, eventfd};

pub(super) use self::dial::PATIENCE;
use self::thread::Thread;
use super::{
    engine::Engine,
    exit,
    fault::Fault,
    frame::{Hello, SECRET_BYTES},
    handle::Whereabouts,
    receiver, sender, sockets,
    stats::Stats,
};
use crate::{
    devices::Interface,
    log,
    network::{Failure, Result},
};

/// The other end gets so long to read what is under way when a connection ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// What others ask of the thread.
enum Job {
    Dial(Order),
    Watch(Weak<dyn Charge>),
    Close(Arc<sender::Shared>),
    Leave(OwnedFd),
    Part,
}

/// What is looked after as long as something is under way.
pub(super) trait Charge: Send + Sync {
    /// Sees to what nobody else would, and orders paths that are missing. Whether there is a reason to look again.
    fn look(&self, now: Instant, orders: &mut Vec<Order>) -> bool;

    /// Whether the other end has not heard of everything that it is to hear.
    fn is_behind(&self) -> bool;

    /// Nobody looks any more; false if something came in between.
    fn unwatch(&self) -> bool;

    /// Breaks the path of this number, or another one if there are not so many.
    fn cut(&self, path: usize);
}

/// A path to connect.
pub(super) struct Order {
    pub whom: Weak<sender::Shared>,
    /// A port of the kernel's choice, if it is 0.
    pub from: Option<SocketAddr>,
    pub to: SocketAddr,
    pub hello: Hello,
    /// How long it may take to connect.
    pub patience: Duration,
}

impl Order {
    /// Whether it makes no path, but has the other end look.
    fn is_knock(&self) -> bool {
        self.hello.epoch == Hello::KNOCK
    }
}

/// The thread's other side.
pub(super) struct Keeper {
    secret: [u8; SECRET_BYTES],
    addresses: Vec<(SocketAddr, u8)>,
    jobs: Mutex<Vec<Job>>,
    wake: OwnedFd,
    rooms: Mutex<HashMap<u64, Arc<receiver::Shared>>>,
    last_room: AtomicU64,
    parted: AtomicBool,
    stats: OnceLock<Stats>,
    /// Who moves bytes while more waits than callers can move.
    pub(super) engine: Arc<Engine>,
}

impl Keeper {
    /// Listens on the interfaces and starts the thread.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(super) fn start(
        interfaces: &[Interface],
        fault: Option<Fault>,
        engine: Arc<Engine>,
    ) -> Result<Arc<Keeper>> {
        let mut doors = Vec::new();
        let mut addresses = Vec::new();
        for Interface { name, address, prefix, .. } in interfaces {
            match sockets::listening(*address) {
                Ok((door, at)) => {
                    doors.push(door);
                    addresses.push((at, *prefix));
                }
                Err(error) => {
                    log::info(&format!("NET/busbw: cannot listen on {name} ({address}): {error}"))
                }
            }
        }
        if doors.is_empty() {
            let text =
                "cannot listen on any interface: see NCCL_DEBUG=INFO, and NCCL_SOCKET_IFNAME";
            return Err(Failure::new(nccl_plugin_abi::Status::SYSTEM, text));
        }
        let keeper = Keeper::new(addresses, engine)?;
        let thread = Thread::new(keeper.clone(), doors, fault);
        super::threads::spawn("busbw-keeper", move || thread.run())?;
        exit::wait_for(&keeper);
        Ok(keeper)
    }

    /// Without its thread: what is asked of that is not done.
    ///
    /// # Errors
    /// As [`Keeper::start`].
    pub(super) fn new(
        addresses: Vec<(SocketAddr, u8)>,
        engine: Arc<Engine>,
    ) -> Result<Arc<Keeper>> {
        let mut secret = [0; SECRET_BYTES];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::system("cannot make a secret", &error))?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Failure::system("cannot make an eventfd", &error))?;
        Ok(Arc::new(Keeper {
            secret,
            addresses,
            jobs: Mutex::default(),
            wake,
            rooms: Mutex::default(),
            last_room: AtomicU64::new(0),
            parted: AtomicBool::new(false),
            stats: OnceLock::new(),
            engine,
        }))
    }

    /// A place for a connection to come, and where that is.
    pub(super) fn open(&self, room: Arc<receiver::Shared>) -> Whereabouts {
        let listener = self.last_room.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.rooms).insert(listener, room);
        Whereabouts { secret: self.secret, listener, addresses: self.addresses.clone() }
    }

    /// Nobody is let in there any more.
    pub(super) fn shut(&self, listener: u64) {
        lock(&self.rooms).remove(&listener);
    }

    /// Has what connections do written down from now on.
    pub(super) fn write_down(&self, stats: Stats) {
        let _ = self.stats.set(stats);
    }

    /// Where that is, if anywhere.
    pub(super) fn stats(&self) -> Option<&Stats> {
        self.stats.get()
    }

    /// Connects a path.
    pub(super) fn dial(&self, order: Order) {
        self.ask(Job::Dial(order));
    }

    /// Looks after a connection until nothing is under way any more.
    pub(super) fn watch(&self, whom: Weak<dyn Charge>) {
        self.ask(Job::Watch(whom));
    }

    /// Ends a connection when everything has come to where it belongs.
    pub(super) fn close(&self, whom: Arc<sender::Shared>) {
        self.ask(Job::Close(whom));
    }

    /// Tells the other end of a path that nothing more comes, and closes when that has read everything.
    pub(super) fn leave(&self, socket: OwnedFd) {
        self.ask(Job::Leave(socket));
    }

    /// Asks it to say when all other ends have heard of everything.
    pub(super) fn part(&self) {
        self.ask(Job::Part);
    }

    /// Whether they have.
    pub(super) fn has_parted(&self) -> bool {
        self.parted.load(Ordering::Acquire)
    }

    fn ask(&self, job: Job) {
        lock(&self.jobs).push(job);
        // It fails only if it is set already, to near 2^64.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// As [`lock`], unless somebody else has it right now.
pub(super) fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// What a mutex guards, also after a panic: everything here is consistent between two statements.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
