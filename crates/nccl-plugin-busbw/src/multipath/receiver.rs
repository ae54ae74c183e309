//! The end of a connection that receives, over sockets: threads and locks around the transport's state machine.
//! Not the state machine (`busbw_multipath::Receiver`), nor accepting paths (`manager`).

mod calls;
mod polled;
mod stream;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use busbw_multipath::{Error, MAX_PATHS, Receiver, Time, frame::Hello};
use nccl_plugin_abi::Status;

pub(super) use self::calls::Listening;
use self::stream::{Stop, Stream};
use super::{
    engine::{Open, Work},
    events::Events,
    flag::Flag,
    locks::{lock, try_lock},
    manager::{Acceptor, Managed, Manager},
    memory::Place,
    results::Results,
    sockets,
    state_machine::StateMachine,
    watch::Watch,
};
use crate::{
    log,
    network::{Failure, Request, Result},
};

/// No path.
const NONE: usize = MAX_PATHS;

/// Both for the caller and for the connection manager. Whoever locks a path and the state machine locks the path first.
pub(super) struct Connection {
    core: StateMachine<Receiver<Place>>,
    paths: [Path; MAX_PATHS],
    events: Events,
    /// The path on which something arrived last.
    hot: AtomicUsize,
    /// The path of which the kernel does not tell whether something has arrived: it is polled.
    polled: AtomicUsize,
    /// The path that owes acknowledgements of small messages.
    owing: AtomicUsize,
    /// The path that is looked at first.
    turn: AtomicUsize,
    /// Whether any path was there, and whether any is up.
    has_come: AtomicBool,
    is_up: AtomicBool,
    started: Instant,
    results: Results,
    failure: OnceLock<Error>,
    watched: Watch,
    /// Receives that are not done.
    open: Open,
    manager: Arc<Manager>,
    itself: Weak<Connection>,
}

#[derive(Default)]
struct Path {
    stream: Mutex<Option<Stream>>,
    readable: Flag,
    /// Whether behind what is there is the end.
    ended: Flag,
    /// Whether it stands before a chunk whose receive is not posted.
    waits: Flag,
}

impl Connection {
    /// # Errors
    /// When the process has too many files open.
    pub(super) fn new(manager: &Arc<Manager>) -> Result<Arc<Connection>> {
        let events = Events::new()?;
        Ok(Arc::new_cyclic(|itself| Connection {
            core: StateMachine::new(Receiver::default()),
            paths: std::array::from_fn(|_| Path::default()),
            events,
            hot: AtomicUsize::new(0),
            polled: AtomicUsize::new(NONE),
            owing: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            has_come: AtomicBool::new(false),
            is_up: AtomicBool::new(false),
            started: manager.clock.now(),
            results: Results::default(),
            failure: OnceLock::new(),
            watched: Watch::default(),
            open: Open::default(),
            manager: manager.clone(),
            itself: itself.clone(),
        }))
    }

    /// Whether any path has come.
    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    fn failure(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |error| Err(failure(error)))
    }

    /// Keeps why the connection has failed where callers see it without a lock.
    fn note_failure(&self, core: &Receiver<Place>) {
        if let Some(error) = core.failure() {
            let _ = self.failure.set(error.clone());
        }
    }

    /// As [`Receiver::kept`].
    #[cfg(fuzzing)]
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        self.core.lock().kept()
    }

    fn now(&self) -> Time {
        Time(self.manager.clock.now().saturating_duration_since(self.started).as_nanos() as u64)
    }

    fn done(&self) -> impl FnMut(Request, u64) {
        |request, bytes| {
            self.results.done(request, bytes);
            self.open.done();
        }
    }

    fn lose(&self, path: usize, stream: &mut Option<Stream>) {
        let Some(up) = stream.take() else { return };
        let silence = sockets::silence(&up.socket);
        let mut core = self.core.lock();
        core.lost(path, up.ended(), silence, self.now());
        self.is_up.store(core.paths_up() > 0, Ordering::Release);
    }

    /// Whether anything of a long message arrived.
    fn read(&self, number: usize, stream: &mut Option<Stream>) -> bool {
        let Some(up) = stream else { return false };
        let path = &self.paths[number];
        let outcome = up.read(&self.core, path.ended.is_raised(), self.done());
        let is_long = up.incoming.is_long();
        if up.is_fresh {
            self.hot.store(number, Ordering::Relaxed);
        }
        self.poll_small(number, up);
        path.waits.set(up.incoming.is_waiting());
        match outcome {
            // Whoever posts a receive sees to those that wait for it.
            Ok(Ok(stop @ (Stop::Empty | Stop::Request))) => {
                if up.owes() {
                    self.watch();
                    self.owes(number);
                }
                // A chunk that has arrived before, since its acknowledgement was lost: nobody waits for it.
                if up.incoming.is_reading() && !self.open.is_any() {
                    self.watch();
                }
                // Unless it was posted before it could see that this path waits.
                if stop == Stop::Request && self.core.lock().is_waiting() {
                    path.readable.raise();
                }
            }
            Ok(Ok(Stop::End)) => self.lose(number, stream),
            Ok(Err(error)) => {
                log::info(&format!(
                    "NET/busbw: path {number} is lost: {error}; the other side connects it again"
                ));
                self.lose(number, stream);
            }
            Err(_) => {
                self.note_failure(&self.core.lock());
                self.lose(number, stream);
            }
        }
        is_long
    }

    /// A path owes acknowledgements: no other does for long. Else the sender, which keeps what is not acknowledged, would
    /// wait for a few from each.
    fn owes(&self, path: usize) {
        let before = self.owing.swap(path, Ordering::Relaxed);
        if before != path
            && let Some(mut stream) = try_lock(&self.paths[before].stream)
            && let Some(up) = stream.as_mut()
            && up.acknowledge_all().is_err()
        {
            self.lose(before, &mut stream);
        }
    }

    /// Reads a path, unless somebody else does right now (then nothing). Whether anything of a long message arrived.
    fn try_read(&self, path: usize) -> Option<bool> {
        let mut stream = try_lock(&self.paths[path].stream)?;
        self.paths[path].readable.take();
        Some(self.read(path, &mut stream))
    }

    /// Whether this is so of any path; of one that somebody else has right now it may be.
    fn any(&self, is_so: impl Fn(&Stream) -> bool) -> bool {
        let is_so = |path: &Path| {
            try_lock(&path.stream).is_none_or(|stream| stream.as_ref().is_some_and(&is_so))
        };
        self.paths.iter().any(is_so)
    }

    fn watch(&self) {
        if self.watched.ask() {
            self.manager.watch(self.itself.clone());
        }
    }

    /// Has the engine look, too.
    fn join(&self) {
        self.manager.engine.join(&self.open, || self.itself.clone());
    }

    /// Whether the engine moves what is here, so that the caller need not.
    fn is_moved(&self) -> bool {
        self.manager.engine.moves(&self.open)
    }

    /// Asks the kernel, and reads what there is. Whether anything of a long message was.
    fn progress(&self) -> bool {
        self.events.collect(|event| {
            let path = &self.paths[event.path];
            if event.ended {
                path.ended.raise();
            }
            if event.readable {
                path.readable.raise();
            }
        });
        let moved = self.read_on();
        self.settle();
        if !self.is_up.load(Ordering::Acquire) {
            let mut core = self.core.lock();
            core.check(self.now());
            self.note_failure(&core);
        }
        moved
    }

    /// Reads the paths on which something has arrived; where the engine helps, one of them with long messages: small ones
    /// are read sooner by whoever waits for them. Whether anything of a long one arrived.
    fn read_on(&self) -> bool {
        let mut moved = false;
        let first = self.turn.load(Ordering::Relaxed);
        let polled = self.polled.load(Ordering::Acquire);
        for number in (first..MAX_PATHS).chain(0..first) {
            let path = &self.paths[number];
            let is_readable = path.readable.is_raised();
            if !is_readable && number != polled {
                continue;
            }
            if moved && is_readable && self.open.is_listed() && self.open.is_any() {
                self.turn.store(number, Ordering::Relaxed);
                self.manager.engine.call();
                break;
            }
            if let Some(is_long) = self.try_read(number) {
                moved |= is_long;
            } else {
                // Whoever reads may have seen its end already.
                self.watch();
            }
        }
        moved
    }

    /// Chunks that have arrived while another path was still writing the same: that one is told not to.
    fn settle(&self) {
        if !self.core.has_work() {
            return;
        }
        let duplicates = self.core.lock().duplicates();
        for duplicate in duplicates {
            loop {
                let writer = self.core.lock().writer(&duplicate);
                let mut stream = writer.map(|path| lock(&self.paths[path].stream));
                let mut core = self.core.lock();
                if core.writer(&duplicate) != writer {
                    continue;
                }
                let incoming = stream.as_deref_mut().and_then(Option::as_mut);
                core.settle(duplicate, incoming.map(|up| &mut up.incoming), self.done());
                self.note_failure(&core);
                break;
            }
        }
    }
}

/// For NCCL.
fn failure(error: &Error) -> Failure {
    let status = match error {
        Error::TooLong { .. } => Status::INVALID_USAGE,
        _ => Status::REMOTE,
    };
    Failure::new(status, error.to_string())
}

impl Work for Connection {
    fn advance(&self) -> bool {
        self.open.is_any() && self.progress()
    }

    fn rest(&self) -> bool {
        self.open.rest()
    }
}

impl Acceptor for Connection {
    fn accepted(&self, hello: &Hello, socket: OwnedFd) {
        if hello.epoch == Hello::ABORT {
            self.core.lock().aborted();
            return;
        }
        if hello.epoch == Hello::PROBE {
            self.check();
            return;
        }
        let number = usize::from(hello.path);
        let path = &self.paths[number];
        let mut stream = lock(&path.stream);
        if !self.core.lock().accepts(number, hello.epoch) {
            return;
        }
        // Before the kernel can tell of this one's.
        path.ended.set(false);
        if self.events.add(&socket, number).is_err() {
            return;
        }
        self.not_polled(number);
        self.lose(number, &mut stream);
        let incoming = self.core.lock().connected(number, hello.epoch);
        *stream = Some(Stream::new(socket, incoming));
        self.is_up.store(true, Ordering::Release);
        self.has_come.store(true, Ordering::Release);
        path.readable.raise();
    }
}

impl Managed for Connection {
    fn check(&self) -> bool {
        self.progress();
        let mut again = false;
        for (number, path) in self.paths.iter().enumerate() {
            let mut stream = lock(&path.stream);
            let Some(up) = &mut *stream else { continue };
            if up.acknowledge_all().is_err() {
                self.lose(number, &mut stream);
            } else {
                again |= up.owes() || up.incoming.is_reading();
            }
        }
        again
    }

    fn is_behind(&self) -> bool {
        self.any(Stream::owes) || self.paths.iter().any(|path| path.readable.is_raised())
    }

    fn unwatch(&self) -> bool {
        self.watched.give_up(|| self.is_behind() || self.any(|stream| stream.incoming.is_reading()))
    }

    fn cut(&self, path: usize) {
        if let Some(stream) = &*lock(&self.paths[path].stream) {
            sockets::cut(&stream.socket);
        }
    }
}
