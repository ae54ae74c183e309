//! The thread that lets paths in, connects them (again), and looks after those on which nothing moves. One a
//! process; asleep unless there is something to do.
//! It moves no message, unless nobody else would.

use std::{
    collections::HashMap,
    io::{IoSlice, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    net::{Shutdown, SocketFlags, accept_with, shutdown, sockopt},
};

use super::{
    fault::{Draws, Fault},
    frame::{Answer, Header, Hello, SECRET_BYTES},
    handle::Whereabouts,
    receiver, sender, sockets,
};
use crate::{
    devices::Interface,
    log,
    network::{Failure, Result},
};

/// A path that does not come up in so long is tried again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The other end gets so long to read what is under way when a connection ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// Between two looks at connections on which something is under way.
const ROUND: Duration = Duration::from_millis(25);
/// Between two looks at whether those on which nothing is under way still have their paths: the other end may wait for
/// what is to be sent much later, and takes us for lost when they are gone.
const REST: Duration = Duration::from_secs(2);
/// Guests that have not said who they are, at most: a stranger cannot fill our table of files.
const STRANGERS: usize = 256;

/// What others ask of the thread.
enum Job {
    Dial(Order),
    Watch(Weak<dyn Charge>),
    Close(Arc<sender::Shared>),
    Leave(OwnedFd),
}

/// What is looked after as long as something is under way.
pub(super) trait Charge: Send + Sync {
    /// Sees to what nobody else would, and orders paths that are missing. Whether there is a reason to look again.
    fn look(&self, now: Instant, orders: &mut Vec<Order>) -> bool;

    /// Nobody looks any more; false if something came in between.
    fn unwatch(&self) -> bool;

    /// Breaks the path of this number, or another one if there are not so many.
    fn cut(&self, path: usize);
}

/// A path to connect.
pub(super) struct Order {
    pub whom: Weak<sender::Shared>,
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
    pub hello: Hello,
}

/// The thread's other side.
pub(super) struct Keeper {
    secret: [u8; SECRET_BYTES],
    addresses: Vec<(SocketAddr, u8)>,
    jobs: Mutex<Vec<Job>>,
    wake: OwnedFd,
    rooms: Mutex<HashMap<u64, Arc<receiver::Shared>>>,
    last_room: AtomicU64,
}

impl Keeper {
    /// Listens on the interfaces and starts the thread.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(super) fn start(interfaces: &[Interface], fault: Option<Fault>) -> Result<Arc<Keeper>> {
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
            return Err(Failure::new(model::abi::Status::SYSTEM, text));
        }
        let mut secret = [0; SECRET_BYTES];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::system("cannot make a secret", &error))?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Failure::system("cannot make an eventfd", &error))?;
        let keeper = Arc::new(Keeper {
            secret,
            addresses,
            jobs: Mutex::default(),
            wake,
            rooms: Mutex::default(),
            last_room: AtomicU64::new(0),
        });
        let thread = Thread {
            keeper: keeper.clone(),
            doors,
            guests: Vec::new(),
            dials: Vec::new(),
            leaving: Vec::new(),
            watched: Vec::new(),
            resting: Vec::new(),
            closing: Vec::new(),
            fault: fault.map(|fault| (fault, Instant::now() + fault.every)),
            draws: Draws(u64::from(std::process::id())),
        };
        super::threads::spawn("busbw-keeper", move || thread.run())?;
        Ok(keeper)
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

    fn ask(&self, job: Job) {
        lock(&self.jobs).push(job);
        // It fails only if it is set already, to near 2^64.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

struct Guest {
    socket: OwnedFd,
    said: [u8; Hello::BYTES],
    bytes: usize,
    until: Instant,
}

struct Dial {
    socket: OwnedFd,
    order: Order,
    connected: bool,
    said: [u8; Answer::BYTES],
    bytes: usize,
    until: Instant,
}

struct Thread {
    keeper: Arc<Keeper>,
    doors: Vec<OwnedFd>,
    guests: Vec<Guest>,
    dials: Vec<Dial>,
    leaving: Vec<(OwnedFd, Instant)>,
    watched: Vec<Weak<dyn Charge>>,
    /// On which nothing is under way.
    resting: Vec<Weak<dyn Charge>>,
    closing: Vec<(Arc<sender::Shared>, Instant)>,
    /// And when the next path is cut.
    fault: Option<(Fault, Instant)>,
    draws: Draws,
}

impl Thread {
    fn run(mut self) {
        let (mut next_round, mut next_rest) = (Instant::now(), Instant::now());
        loop {
            let jobs = std::mem::take(&mut *lock(&self.keeper.jobs));
            jobs.into_iter().for_each(|job| self.take(job));
            let now = Instant::now();
            let looked_after = !self.watched.is_empty() || !self.closing.is_empty();
            if looked_after && now >= next_round {
                self.round(now);
                next_round = now + ROUND;
            }
            if !self.resting.is_empty() && now >= next_rest {
                self.rest(now);
                next_rest = now + REST;
            }
            self.cut(now);
            let mut until: Option<Instant> = looked_after.then_some(next_round);
            let rest = (!self.resting.is_empty()).then_some(next_rest);
            let waits = self.guests.iter().map(|guest| guest.until);
            let waits = waits.chain(self.dials.iter().map(|dial| dial.until));
            let waits = waits.chain(self.fault.map(|(_, at)| at)).chain(rest);
            for wait in waits.chain(self.leaving.iter().map(|(_, until)| *until)) {
                until = Some(until.map_or(wait, |until| until.min(wait)));
            }
            self.wait(until.map(|until| until.saturating_duration_since(now)));
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Watch(whom) => {
                self.resting.retain(|other| !other.ptr_eq(&whom));
                self.watched.push(whom);
            }
            Job::Close(whom) => self.closing.push((whom, Instant::now() + FAREWELL)),
            Job::Leave(socket) => self.leave(socket),
            Job::Dial(order) => match sockets::dialing(order.from, order.to) {
                Ok(socket) => self.dials.push(Dial {
                    socket,
                    order,
                    connected: false,
                    said: [0; Answer::BYTES],
                    bytes: 0,
                    until: Instant::now() + PATIENCE,
                }),
                Err(error) => not_reached(&order, error),
            },
        }
    }

    /// Breaks a path, if that is asked for.
    fn cut(&mut self, now: Instant) {
        let Some((fault, at)) = &mut self.fault else { return };
        if now < *at {
            return;
        }
        *at = now + fault.every;
        let whom = self.watched.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        if !whom.is_empty() {
            whom[self.draws.below(whom.len())].cut(self.draws.below(super::MOST_PATHS));
        }
    }

    fn leave(&mut self, socket: OwnedFd) {
        let bye = Header::Bye.encoded();
        let _ = sockets::send(&socket, &[IoSlice::new(&bye)]);
        let _ = shutdown(&socket, Shutdown::Write);
        self.leaving.push((socket, Instant::now() + FAREWELL));
    }

    /// Looks at connections on which something may be stuck.
    fn round(&mut self, now: Instant) {
        let mut orders = Vec::new();
        self.watched.retain(|whom| {
            let Some(shared) = whom.upgrade() else { return false };
            let stays = shared.look(now, &mut orders) || !shared.unwatch();
            if !stays {
                self.resting.push(whom.clone());
            }
            stays
        });
        let mut ended = Vec::new();
        self.closing.retain(|(shared, until)| {
            shared.look(now, &mut orders);
            if !shared.is_idle() && shared.failure().is_ok() && now < *until {
                return true;
            }
            ended.extend(shared.end());
            false
        });
        ended.into_iter().for_each(|socket| self.leave(socket));
        self.order(orders);
    }

    /// Looks at the others: one that has lost a path is watched again.
    fn rest(&mut self, now: Instant) {
        let mut orders = Vec::new();
        self.resting.retain(|whom| {
            whom.upgrade().is_some_and(|shared| {
                shared.look(now, &mut orders);
                true
            })
        });
        self.order(orders);
    }

    fn order(&mut self, orders: Vec<Order>) {
        for order in orders {
            self.take(Job::Dial(order));
        }
    }

    /// Waits until something comes, and sees to it.
    fn wait(&mut self, patience: Option<Duration>) {
        let keeper = self.keeper.clone();
        let mut files = vec![PollFd::new(&keeper.wake, PollFlags::IN)];
        let room = self.guests.len() < STRANGERS;
        let knock = if room { PollFlags::IN } else { PollFlags::empty() };
        files.extend(self.doors.iter().map(|door| PollFd::new(door, knock)));
        files.extend(self.guests.iter().map(|guest| PollFd::new(&guest.socket, PollFlags::IN)));
        files.extend(self.dials.iter().map(|dial| {
            PollFd::new(&dial.socket, if dial.connected { PollFlags::IN } else { PollFlags::OUT })
        }));
        files.extend(self.leaving.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
        let patience = patience.map(|patience| Timespec {
            tv_sec: patience.as_secs() as _,
            // Not a little too early, again and again.
            tv_nsec: (patience.subsec_nanos() + 50_000).min(999_999_999) as _,
        });
        let _ = poll(&mut files, patience.as_ref());
        let came: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
        drop(files);
        let now = Instant::now();
        let mut came = came.into_iter();
        if came.next() == Some(true) {
            let _ = rustix::io::read(&keeper.wake, &mut [0; 8]);
        }
        let doors: Vec<bool> = came.by_ref().take(self.doors.len()).collect();
        let guests = std::mem::take(&mut self.guests);
        for (guest, came) in guests.into_iter().zip(came.by_ref()) {
            self.guests.extend(heard(&keeper, guest, came, now));
        }
        let dials = std::mem::take(&mut self.dials);
        for (dial, came) in dials.into_iter().zip(came.by_ref()) {
            self.dials.extend(answered(dial, came, now));
        }
        let leaving = std::mem::take(&mut self.leaving);
        self.leaving.extend(leaving.into_iter().zip(came).filter_map(|((socket, until), came)| {
            (now < until && !(came && at_its_end(&socket))).then_some((socket, until))
        }));
        for (door, _) in self.doors.iter().zip(doors).filter(|(_, came)| *came) {
            // The others wait at the door: many ranks may come at once.
            while self.guests.len() < STRANGERS
                && let Ok(socket) = accept_with(door, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
            {
                let tuned =
                    sockets::tune(&socket).and_then(|()| sockets::give_up_acknowledging(&socket));
                if tuned.is_ok() {
                    let said = [0; Hello::BYTES];
                    self.guests.push(Guest { socket, said, bytes: 0, until: now + FAREWELL });
                }
            }
        }
    }
}

/// What a guest has said so far; it comes back as long as that is not everything.
fn heard(keeper: &Keeper, mut guest: Guest, came: bool, now: Instant) -> Option<Guest> {
    if !came {
        return (now < guest.until).then_some(guest);
    }
    let rest = &mut guest.said[guest.bytes..];
    match sockets::receive(&guest.socket, &mut [IoSliceMut::new(rest)]) {
        Ok(Some(0)) | Err(_) => return None,
        Ok(Some(bytes)) => guest.bytes += bytes,
        Ok(None) => {}
    }
    if guest.bytes < Hello::BYTES {
        return Some(guest);
    }
    let hello = Hello::decoded(&guest.said).filter(|hello| same(&hello.secret, &keeper.secret))?;
    let room = lock(&keeper.rooms).get(&hello.listener).cloned();
    let answer = if room.is_some() { Answer::Welcome } else { Answer::Gone };
    // A new connection's buffer takes eight bytes.
    let _ = sockets::send(&guest.socket, &[IoSlice::new(&answer.encoded())]);
    if let Some(room) = room {
        room.arrived(&hello, guest.socket);
    }
    None
}

/// What came of a dial; it comes back as long as that is not known.
fn answered(mut dial: Dial, came: bool, now: Instant) -> Option<Dial> {
    if !came {
        if now < dial.until {
            return Some(dial);
        }
        not_reached(&dial.order, rustix::io::Errno::TIMEDOUT);
        return None;
    }
    let outcome = if dial.connected { listen_to(&mut dial) } else { greet(&mut dial) };
    match outcome {
        Err(error) => not_reached(&dial.order, error),
        Ok(None) => return Some(dial),
        Ok(Some(answer)) => {
            let whom = dial.order.whom.upgrade()?;
            match answer {
                Answer::Welcome => whom.arrived(&dial.order.hello, dial.socket),
                Answer::Gone => whom.gone(),
                Answer::Delivered(_) => not_reached(&dial.order, rustix::io::Errno::PROTO),
            }
        }
    }
    None
}

fn greet(dial: &mut Dial) -> rustix::io::Result<Option<Answer>> {
    sockopt::socket_error(&dial.socket)??;
    dial.connected = true;
    let hello = dial.order.hello.encoded();
    match sockets::send(&dial.socket, &[IoSlice::new(&hello)])? {
        Some(Hello::BYTES) => Ok(None),
        // A new connection's buffer takes them.
        _ => Err(rustix::io::Errno::NOBUFS),
    }
}

fn listen_to(dial: &mut Dial) -> rustix::io::Result<Option<Answer>> {
    let rest = &mut dial.said[dial.bytes..];
    match sockets::receive(&dial.socket, &mut [IoSliceMut::new(rest)])? {
        Some(0) => return Err(rustix::io::Errno::CONNRESET),
        Some(bytes) => dial.bytes += bytes,
        None => {}
    }
    if dial.bytes < Answer::BYTES {
        return Ok(None);
    }
    Answer::decoded(&dial.said).map(Some).ok_or(rustix::io::Errno::PROTO)
}

fn not_reached(order: &Order, error: rustix::io::Errno) {
    if let Some(whom) = order.whom.upgrade() {
        whom.not_reached(order.hello.path, order.to, error);
    }
}

/// Whether the other end has closed, too. Acknowledgements that still come are read, since a socket that is
/// closed with something unread resets the connection.
fn at_its_end(socket: &OwnedFd) -> bool {
    let mut rest = [0; 256];
    loop {
        match sockets::receive(socket, &mut [IoSliceMut::new(&mut rest)]) {
            Ok(None) => return false,
            Ok(Some(0)) | Err(_) => return true,
            Ok(Some(_)) => {}
        }
    }
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(one: &[u8; SECRET_BYTES], other: &[u8; SECRET_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

/// What a mutex guards, also after a panic: everything here is consistent between two statements.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
