//! The end of a connection that receives: chunks come over many paths, straight to where they belong.
//! Not letting paths in (`keeper`).

mod link;
mod requests;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, OnceLock, TryLockError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use self::{
    link::{Live, Pause},
    requests::{Requests, Spare},
};
use super::{
    LIMIT, MOST_PATHS,
    events::Events,
    frame::Hello,
    keeper::{Charge, Keeper, Order, lock},
    sockets,
};
use crate::{
    log,
    network::{Failure, REQUESTS, Request, Result},
};
use model::abi::Status;

/// Between two questions for all paths, the one that was used last is read so often.
const HOT: usize = 4;

/// Both for the caller and for the keeper.
pub(super) struct Shared {
    requests: Mutex<Requests>,
    links: [Link; MOST_PATHS],
    events: Events,
    /// The path by which something came last.
    hot: AtomicUsize,
    /// Paths that were there, and paths that are up.
    came: AtomicUsize,
    up: AtomicUsize,
    /// Since when none is, in milliseconds after `started`.
    down: AtomicU64,
    started: Instant,
    /// The other side has said that nothing more comes.
    bye: AtomicBool,
    results: [AtomicU64; REQUESTS],
    broken: OnceLock<(Status, String)>,
    watched: AtomicBool,
    keeper: Arc<Keeper>,
    itself: Weak<Shared>,
}

#[derive(Default)]
struct Link {
    end: Mutex<Option<Live>>,
    readable: AtomicBool,
    /// Whether behind what is there is the end.
    ended: AtomicBool,
    /// Whether it stands before a chunk whose request is missing.
    waits: AtomicBool,
}

impl Shared {
    /// # Errors
    /// When the process has too many files open.
    pub(super) fn new(keeper: &Arc<Keeper>) -> Result<Arc<Shared>> {
        let events = Events::new()?;
        Ok(Arc::new_cyclic(|itself| Shared {
            requests: Mutex::default(),
            links: std::array::from_fn(|_| Link::default()),
            events,
            hot: AtomicUsize::new(0),
            came: AtomicUsize::new(0),
            up: AtomicUsize::new(0),
            down: AtomicU64::new(0),
            started: Instant::now(),
            bye: AtomicBool::new(false),
            results: std::array::from_fn(|_| AtomicU64::new(0)),
            broken: OnceLock::new(),
            watched: AtomicBool::new(false),
            keeper: keeper.clone(),
            itself: itself.clone(),
        }))
    }

    /// Whether any path has come.
    pub(super) fn has_come(&self) -> bool {
        self.came.load(Ordering::Acquire) > 0
    }

    /// A path is up.
    pub(super) fn arrived(&self, hello: &Hello, socket: OwnedFd) {
        if hello.epoch == Hello::OVER {
            self.bye.store(true, Ordering::Release);
            return;
        }
        if hello.epoch == Hello::KNOCK {
            self.progress();
            self.look(Instant::now(), &mut Vec::new());
            return;
        }
        let path = usize::from(hello.path);
        let link = &self.links[path];
        let mut end = lock(&link.end);
        if end.as_ref().is_some_and(|live| live.epoch >= hello.epoch) {
            return;
        }
        // Before the kernel can tell of this one's.
        link.ended.store(false, Ordering::Release);
        if self.events.add(&socket, path).is_err() {
            return;
        }
        self.lose(&mut end);
        *end = Some(Live::new(socket, path, hello.epoch));
        self.up.fetch_add(1, Ordering::AcqRel);
        self.came.fetch_add(1, Ordering::AcqRel);
        link.readable.store(true, Ordering::Release);
    }

    fn failure(&self) -> Result<()> {
        match self.broken.get() {
            None => Ok(()),
            Some((status, text)) => Err(Failure::new(*status, text)),
        }
    }

    fn fail(&self, failure: Failure) {
        let _ = self.broken.set((failure.status, failure.text));
    }

    fn millis(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn done(&self) -> impl FnMut(Request, u64) {
        |request, bytes| self.results[request].store(1 + bytes, Ordering::Release)
    }

    fn lose(&self, end: &mut Option<Live>) {
        let Some(live) = end.take() else { return };
        // Who sees that none is up is to see since when.
        self.down.store(self.millis(), Ordering::Release);
        self.up.fetch_sub(1, Ordering::AcqRel);
        if live.bye {
            self.bye.store(true, Ordering::Release);
        }
        if let Some(chunk) = live.ended() {
            lock(&self.requests).let_go(&chunk);
        }
    }

    fn read(&self, path: usize, end: &mut Option<Live>) {
        let Some(live) = end else { return };
        let ended = self.links[path].ended.load(Ordering::Acquire);
        let outcome = live.read(&self.requests, ended, self.done());
        self.links[path].waits.store(live.waits.is_some(), Ordering::Release);
        match outcome {
            // Whoever posts a request sees to those that wait for it.
            Ok(Ok(pause @ (Pause::Empty | Pause::Request))) => {
                if live.owes() {
                    self.watch();
                }
                // Unless it was posted before it could see that this path waits.
                if pause == Pause::Request && lock(&self.requests).is_waiting() {
                    self.links[path].readable.store(true, Ordering::Release);
                }
            }
            Ok(Ok(Pause::End)) => self.lose(end),
            Ok(Err(error)) => {
                log::info(&format!(
                    "NET/busbw: path {path} is lost: {error}; the other side connects it again"
                ));
                self.lose(end);
            }
            Err(failure) => {
                self.fail(failure);
                self.lose(end);
            }
        }
    }

    /// Reads a path, unless somebody else does right now.
    fn try_read(&self, path: usize) {
        match self.links[path].end.try_lock() {
            Ok(mut end) => self.read(path, &mut end),
            Err(TryLockError::Poisoned(end)) => self.read(path, &mut end.into_inner()),
            Err(TryLockError::WouldBlock) => {
                self.links[path].readable.store(true, Ordering::Release);
                self.watch();
            }
        }
    }

    fn watch(&self) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.keeper.watch(self.itself.clone());
        }
    }

    /// Asks the kernel, and reads what there is.
    fn progress(&self) {
        self.events.collect(|event| {
            let link = &self.links[event.path];
            if event.ended {
                link.ended.store(true, Ordering::Release);
            }
            if event.readable {
                link.readable.store(true, Ordering::Release);
            }
        });
        self.read_on();
        let spares = std::mem::take(&mut lock(&self.requests).spares);
        spares.into_iter().for_each(|spare| self.settle(spare));
        self.give_up();
    }

    fn read_on(&self) {
        for (path, link) in self.links.iter().enumerate() {
            if link.readable.swap(false, Ordering::AcqRel) {
                self.hot.store(path, Ordering::Relaxed);
                self.try_read(path);
            }
        }
    }

    /// A chunk that has come while another path was still writing it, which is now told not to.
    fn settle(&self, spare: Spare) {
        let (mut end, mut requests) = loop {
            let writer = lock(&self.requests).writer(&spare.chunk);
            let end = writer.map(|path| lock(&self.links[path].end));
            let requests = lock(&self.requests);
            if requests.writer(&spare.chunk) == writer {
                break (end, requests);
            }
        };
        if let Some(live) = end.as_deref_mut().and_then(Option::as_mut) {
            live.give_way(&spare.chunk);
        }
        requests.let_go(&spare.chunk);
        if let Err(failure) = requests.put(&spare.chunk, &spare.bytes, self.done()) {
            self.fail(failure);
        }
    }

    /// Is broken once the other side has ended, or has had no path for too long.
    fn give_up(&self) {
        if self.up.load(Ordering::Acquire) > 0 {
            return;
        }
        if self.bye.load(Ordering::Acquire) {
            let text = "the other side has closed the connection";
            self.fail(Failure::new(Status::REMOTE, text));
        } else if self.millis().saturating_sub(self.down.load(Ordering::Acquire))
            > LIMIT.as_millis() as u64
        {
            let text =
                format!("all paths are gone, and none has come back for {} s", LIMIT.as_secs());
            self.fail(Failure::new(Status::REMOTE, text));
        }
    }
}

impl Charge for Shared {
    fn look(&self, _: Instant, _: &mut Vec<Order>) -> bool {
        self.read_on();
        let mut owes = false;
        for link in &self.links {
            let mut end = lock(&link.end);
            let Some(live) = &mut *end else { continue };
            if live.settle_up().is_err() {
                self.lose(&mut end);
            } else {
                owes |= live.owes();
            }
        }
        owes
    }

    fn unwatch(&self) -> bool {
        self.watched.store(false, Ordering::SeqCst);
        let busy = |link: &Link| {
            let owes = !matches!(link.end.try_lock().as_deref(), Ok(end) if !end.as_ref().is_some_and(Live::owes));
            owes || link.readable.load(Ordering::Acquire)
        };
        !self.links.iter().any(busy) || self.watched.swap(true, Ordering::SeqCst)
    }

    fn cut(&self, path: usize) {
        if let Some(live) = &*lock(&self.links[path].end) {
            sockets::cut(&live.socket);
        }
    }
}

/// What waits for the connection to come.
pub(super) struct Listening {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    room: u64,
    taken: bool,
}

impl Listening {
    pub(super) fn new(shared: Arc<Shared>, keeper: Arc<Keeper>, room: u64) -> Listening {
        Listening { shared, keeper, room, taken: false }
    }
}

impl crate::network::Listener for Listening {
    fn accept(&mut self) -> Result<Option<Box<dyn crate::network::Receiver>>> {
        if self.taken || !self.shared.has_come() {
            return Ok(None);
        }
        self.taken = true;
        Ok(Some(Box::new(Receiving {
            shared: self.shared.clone(),
            keeper: self.keeper.clone(),
            room: self.room,
            free: (0..REQUESTS).rev().collect(),
            tests: 0,
        })))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.taken {
            self.keeper.shut(self.room);
        }
    }
}

/// What the caller holds.
struct Receiving {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    room: u64,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
    tests: usize,
}

impl crate::network::Receiver for Receiving {
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        let shared = &*self.shared;
        // What has come is there also after the other side has ended.
        if !(shared.bye.load(Ordering::Acquire) && lock(&shared.requests).is_early()) {
            shared.failure()?;
        }
        let Some(request) = self.free.pop() else { return Ok(None) };
        lock(&shared.requests).post(data, bytes, request, shared.done())?;
        for link in &shared.links {
            // What waited for a request.
            if link.waits.load(Ordering::Acquire) {
                link.readable.store(true, Ordering::Release);
            }
        }

        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let shared = &*self.shared;
        let result = &shared.results[request];
        if result.load(Ordering::Acquire) == 0 {
            self.tests += 1;
            if self.tests.is_multiple_of(HOT) {
                shared.progress();
            } else {
                shared.try_read(shared.hot.load(Ordering::Relaxed));
            }
        }
        match result.swap(0, Ordering::AcqRel) {
            0 => shared.failure().map(|()| None),
            bytes => {
                self.free.push(request);
                Ok(Some((bytes - 1) as usize))
            }
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.keeper.shut(self.room);
        self.shared.fail(Failure::new(Status::REMOTE, "the connection was closed"));
        // First, so that a path that is just being let in finds no place any more.
        *lock(&self.shared.requests) = Requests::default();
        for link in &self.shared.links {
            self.shared.lose(&mut lock(&link.end));
        }
    }
}
