//! The end of a connection that receives: chunks come over many paths, straight to where they belong.
//! Not letting paths in (`keeper`).

mod link;
mod receiving;
mod requests;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use nccl_plugin_abi::Status;

pub(super) use self::receiving::Listening;
use self::{
    link::{Live, Pause},
    requests::{Requests, Spare},
};
use super::{
    LIMIT, MOST_PATHS,
    engine::{Open, Work},
    events::Events,
    frame::Hello,
    keeper::{Charge, Keeper, Order, lock, try_lock},
    sockets,
};
use crate::{
    log,
    network::{Failure, REQUESTS, Request, Result},
};

/// After so many small messages in a row by one path, it is the quiet one.
const QUIET: u32 = 16;
/// After so many small messages without a long one by any path, long ones are not reckoned with.
const ALONE: u32 = 64;
/// No path.
const NONE: usize = MOST_PATHS;

/// Both for the caller and for the keeper.
pub(super) struct Shared {
    requests: Mutex<Requests>,
    links: [Link; MOST_PATHS],
    events: Events,
    /// The path by which something came last.
    hot: AtomicUsize,
    /// The path of which the kernel does not tell whether something has come.
    quiet: AtomicUsize,
    /// Looks that found small messages since the last long one, up to `ALONE`.
    smalls: AtomicU32,
    /// The path that owes acknowledgements of small messages.
    owing: AtomicUsize,
    /// The path that is looked at first.
    turn: AtomicUsize,
    /// Whether any path was there, and how many are up.
    came: AtomicBool,
    up: AtomicUsize,
    /// Since when none is, in milliseconds after `started`.
    down: AtomicU64,
    started: Instant,
    /// The other side has said that nothing more comes.
    bye: AtomicBool,
    results: [AtomicU64; REQUESTS],
    /// Chunks that have come twice and are being handed over.
    settling: AtomicUsize,
    broken: OnceLock<(Status, String)>,
    watched: AtomicBool,
    /// Receives that are not done.
    open: Open,
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
            quiet: AtomicUsize::new(NONE),
            smalls: AtomicU32::new(0),
            owing: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            came: AtomicBool::new(false),
            up: AtomicUsize::new(0),
            down: AtomicU64::new(0),
            started: Instant::now(),
            bye: AtomicBool::new(false),
            results: std::array::from_fn(|_| AtomicU64::new(0)),
            settling: AtomicUsize::new(0),
            broken: OnceLock::new(),
            watched: AtomicBool::new(false),
            open: Open::default(),
            keeper: keeper.clone(),
            itself: itself.clone(),
        }))
    }

    /// Whether any path has come.
    pub(super) fn has_come(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }

    /// A path is up.
    pub(super) fn arrived(&self, hello: &Hello, socket: OwnedFd) {
        if hello.epoch == Hello::OVER {
            self.bye.store(true, Ordering::Release);
            return;
        }
        if hello.epoch == Hello::KNOCK {
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
        let _ = self.quiet.compare_exchange(path, NONE, Ordering::AcqRel, Ordering::Relaxed);
        self.lose(&mut end);
        *end = Some(Live::new(socket, path, hello.epoch));
        self.up.fetch_add(1, Ordering::AcqRel);
        self.came.store(true, Ordering::Release);
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

    /// As [`Requests::kept`].
    #[cfg(fuzzing)]
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        lock(&self.requests).kept()
    }

    fn millis(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn done(&self) -> impl FnMut(Request, u64) {
        |request, bytes| {
            self.results[request].store(1 + bytes, Ordering::Release);
            self.open.done();
        }
    }

    fn lose(&self, end: &mut Option<Live>) {
        let Some(live) = end.take() else { return };
        // Who sees that none is up is to see since when: the other host may have vanished before.
        let silence = sockets::silence(&live.socket).as_millis() as u64;
        self.down.store(self.millis().saturating_sub(silence), Ordering::Release);
        self.up.fetch_sub(1, Ordering::AcqRel);
        if live.bye {
            self.bye.store(true, Ordering::Release);
        }
        if let Some(chunk) = live.ended() {
            lock(&self.requests).let_go(&chunk);
        }
    }

    /// Whether anything of a long message came.
    fn read(&self, path: usize, end: &mut Option<Live>) -> bool {
        let Some(live) = end else { return false };
        let ended = self.links[path].ended.load(Ordering::Acquire);
        let alone = self.smalls.load(Ordering::Relaxed) >= ALONE;
        let outcome = live.read(&self.requests, ended, alone, self.done());
        let long = live.long;
        if long {
            self.smalls.store(0, Ordering::Relaxed);
        } else if live.came && !alone {
            self.smalls.fetch_add(1, Ordering::Relaxed);
        }
        if live.came {
            self.hot.store(path, Ordering::Relaxed);
        }
        self.hush(path, live);
        self.links[path].waits.store(live.waits.is_some(), Ordering::Release);
        match outcome {
            // Whoever posts a request sees to those that wait for it.
            Ok(Ok(pause @ (Pause::Empty | Pause::Request))) => {
                if live.owes() {
                    self.watch();
                    self.owes(path);
                }
                // A chunk that has come before, since its acknowledgement was lost: nobody asks for it.
                if live.is_reading() && !self.open.is_any() {
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
        long
    }

    /// Has the kernel not tell of a path by which only small messages come: who waits for them asks it all the time.
    /// There is one at most.
    fn hush(&self, path: usize, live: &Live) {
        let quiet = self.quiet.load(Ordering::Acquire);
        if quiet == path && live.small == 0 {
            self.tell(path, live);
        } else if quiet != path && live.small >= QUIET {
            if let Some(before) = self.links.get(quiet)
                && let Some(mut end) = try_lock(&before.end)
            {
                match &mut *end {
                    Some(live) => {
                        self.tell(quiet, live);
                        // Else it would be the quiet one again as soon as anybody looks at it.
                        live.small = 0;
                    }
                    None => {
                        let none = (Ordering::AcqRel, Ordering::Relaxed);
                        let _ = self.quiet.compare_exchange(quiet, NONE, none.0, none.1);
                    }
                }
            }
            let free = self.quiet.compare_exchange(NONE, path, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                self.events.forget(&live.socket);
            }
        }
    }

    /// Has the kernel tell of the quiet path again. Only who has that one calls it.
    fn tell(&self, path: usize, live: &Live) {
        if self.events.add(&live.socket, path).is_ok() {
            self.quiet.store(NONE, Ordering::Release);
        }
    }

    /// A path owes acknowledgements: no other does for long. Else the sender, which keeps what is not acknowledged, would
    /// wait for a few from each.
    fn owes(&self, path: usize) {
        let before = self.owing.swap(path, Ordering::Relaxed);
        if before != path
            && let Some(mut end) = try_lock(&self.links[before].end)
            && let Some(live) = end.as_mut()
            && live.settle_up().is_err()
        {
            self.lose(&mut end);
        }
    }

    /// Reads a path, unless somebody else does right now (then nothing). Whether anything of a long message came.
    fn try_read(&self, path: usize) -> Option<bool> {
        let mut end = try_lock(&self.links[path].end)?;
        self.links[path].readable.swap(false, Ordering::AcqRel);
        Some(self.read(path, &mut end))
    }

    /// Whether this is so of any path; of one that somebody else has right now it may be.
    fn any(&self, is_so: impl Fn(&Live) -> bool) -> bool {
        self.links
            .iter()
            .any(|link| try_lock(&link.end).is_none_or(|end| end.as_ref().is_some_and(&is_so)))
    }

    fn watch(&self) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.keeper.watch(self.itself.clone());
        }
    }

    /// Has the engine look, too.
    fn join(&self) {
        self.keeper.engine.join(&self.open, || self.itself.clone());
    }

    /// Whether the engine moves what is here, so that the caller need not.
    fn is_moved(&self) -> bool {
        self.keeper.engine.moves(&self.open)
    }

    /// Asks the kernel, and reads what there is. Whether anything of a long message was.
    fn progress(&self) -> bool {
        self.events.collect(|event| {
            let link = &self.links[event.path];
            if event.ended {
                link.ended.store(true, Ordering::Release);
            }
            if event.readable {
                link.readable.store(true, Ordering::Release);
            }
        });
        let moved = self.read_on();
        let spares = {
            let mut requests = lock(&self.requests);
            let spares = std::mem::take(&mut requests.spares);
            // Who finds none after us is to know that they are on their way.
            self.settling.fetch_add(spares.len(), Ordering::AcqRel);
            spares
        };
        for spare in spares {
            self.settle(spare);
            self.settling.fetch_sub(1, Ordering::AcqRel);
        }
        self.give_up();
        moved
    }

    /// Reads the paths on which something has come; where the engine helps, one of them with long messages: small ones
    /// are read sooner by who waits for them. Whether anything of a long one came.
    fn read_on(&self) -> bool {
        let mut moved = false;
        let first = self.turn.load(Ordering::Relaxed);
        let quiet = self.quiet.load(Ordering::Acquire);
        for path in (first..MOST_PATHS).chain(0..first) {
            let link = &self.links[path];
            let is_readable = link.readable.load(Ordering::Acquire);
            if !is_readable && path != quiet {
                continue;
            }
            if moved && is_readable && self.open.is_listed() && self.open.is_any() {
                self.turn.store(path, Ordering::Relaxed);
                self.keeper.engine.call();
                break;
            }
            if let Some(long) = self.try_read(path) {
                moved |= long;
            } else {
                // Whoever reads may have seen its end already.
                self.watch();
            }
        }
        moved
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
        // What has come twice is about to be handed over, by whoever has found it.
        let requests = lock(&self.requests);
        if !requests.spares.is_empty() || self.settling.load(Ordering::Acquire) > 0 {
            return;
        }
        drop(requests);
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

impl Work for Shared {
    fn advance(&self) -> bool {
        self.open.is_any() && self.progress()
    }

    fn rest(&self) -> bool {
        self.open.rest()
    }
}

impl Charge for Shared {
    fn look(&self, _: Instant, _: &mut Vec<Order>) -> bool {
        self.progress();
        let mut again = false;
        for link in &self.links {
            let mut end = lock(&link.end);
            let Some(live) = &mut *end else { continue };
            if live.settle_up().is_err() {
                self.lose(&mut end);
            } else {
                again |= live.owes() || live.is_reading();
            }
        }
        again
    }

    fn is_behind(&self) -> bool {
        self.any(Live::owes) || self.links.iter().any(|link| link.readable.load(Ordering::Acquire))
    }

    fn unwatch(&self) -> bool {
        self.watched.store(false, Ordering::SeqCst);
        let again = self.is_behind() || self.any(Live::is_reading);
        !again || self.watched.swap(true, Ordering::SeqCst)
    }

    fn cut(&self, path: usize) {
        if let Some(live) = &*lock(&self.links[path].end) {
            sockets::cut(&live.socket);
        }
    }
}
