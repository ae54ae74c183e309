//! The end of a connection that sends: one message over many paths.
//! Not the thread that connects them (`keeper`).

mod choice;
mod link;
mod queue;

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, OnceLock, TryLockError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use model::abi::Status;
use rustix::io::Errno;

pub(super) use self::queue::AHEAD;
use self::{choice::Load, link::Live, queue::Queue};
use super::{
    LIMIT, SMALL,
    events::Events,
    frame::Hello,
    keeper::{Charge, Keeper, Order, lock},
    sockets,
};
use crate::{
    log,
    network::{Failure, REQUESTS, Request, Result},
};

/// Small messages that may be on their way: the sender keeps copies.
const COPIES: usize = 64;
/// What is on its way for longer than this, and than four times what was expected, goes over another path as well.
const DOUBT: Duration = Duration::from_millis(20);
/// Between two looks at whether that is so.
const LOOKS: Duration = Duration::from_millis(2);
/// A path on which the kernel has met so many timeouts in a row is lost: 0.2 + 0.4 s.
const TIMEOUTS: u8 = 2;
/// What was sent so long ago is asked after.
const ASK: Duration = Duration::from_millis(50);
/// Between two attempts at a path.
const RETRY: Duration = Duration::from_millis(250);
/// The other side refuses all paths for so long: it is not there any more.
const REFUSED: Duration = Duration::from_secs(2);

/// Both for the caller and for the keeper.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    links: Box<[Link]>,
    events: Events,
    /// The path that small messages take.
    hot: AtomicUsize,
    /// Paths that are up.
    up: AtomicUsize,
    /// Since when none is, in microseconds after `started`.
    down: AtomicU64,
    /// What became of requests: 0, or 1 + bytes.
    results: [AtomicU64; REQUESTS],
    watched: AtomicBool,
    broken: OnceLock<String>,
    keeper: Arc<Keeper>,
    itself: Weak<Shared>,
    hello: Hello,
    started: Instant,
    /// Microseconds since `started` of the last look for doubts, and of the last acknowledgement.
    looked: AtomicU64,
    heard: AtomicU64,
    /// Bytes of a chunk of a long message.
    chunk: u32,
}

/// A path, up or not.
struct Link {
    end: Mutex<End>,
    readable: AtomicBool,
    writable: AtomicBool,
    load: Load,
    /// How often it was dialled.
    epoch: AtomicU32,
    counts: Counts,
    from: Option<IpAddr>,
    to: SocketAddr,
}

/// What a path has done.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes of chunks that came by it.
    bytes: AtomicU64,
    /// Chunks that went over another one as well, since this one was late.
    doubled: AtomicU64,
    /// How often it was lost.
    lost: AtomicU64,
}

impl Counts {
    /// "12.3 MB, 4 chunks doubled, 1 times lost".
    fn told(&self) -> String {
        let mut told = format!("{:.1} MB", self.bytes.load(Ordering::Relaxed) as f64 / 1e6);
        for (count, what) in [(&self.doubled, "chunks doubled"), (&self.lost, "times lost")] {
            match count.load(Ordering::Relaxed) {
                0 => {}
                count => told += &format!(", {count} {what}"),
            }
        }
        told
    }
}

enum End {
    Live(Box<Live>),
    /// Since when, whether it is being connected, and since when the other side has refused it.
    Absent {
        since: Instant,
        dialled: bool,
        refused: Option<Instant>,
    },
}

impl Shared {
    /// Begins to connect all paths.
    pub(super) fn new(
        keeper: &Arc<Keeper>,
        hello: Hello,
        ways: Vec<(Option<IpAddr>, SocketAddr)>,
        chunk: u32,
    ) -> Result<Arc<Shared>> {
        let now = Instant::now();
        let links = ways.into_iter().map(|(from, to)| Link {
            end: Mutex::new(End::Absent { since: now, dialled: false, refused: None }),
            readable: AtomicBool::new(false),
            writable: AtomicBool::new(false),
            load: Load::default(),
            epoch: AtomicU32::new(0),
            counts: Counts::default(),
            from,
            to,
        });
        let links: Box<[Link]> = links.collect();
        let events = Events::new()?;
        let shared = Arc::new_cyclic(|itself| Shared {
            queue: Mutex::default(),
            links,
            events,
            hot: AtomicUsize::new(0),
            up: AtomicUsize::new(0),
            down: AtomicU64::new(0),
            results: std::array::from_fn(|_| AtomicU64::new(0)),
            watched: AtomicBool::new(true),
            broken: OnceLock::new(),
            keeper: keeper.clone(),
            itself: itself.clone(),
            hello,
            started: now,
            looked: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            chunk,
        });
        keeper.watch(shared.itself.clone());
        let mut orders = Vec::new();
        (0..shared.links.len())
            .for_each(|path| shared.dial(path, &mut lock(&shared.links[path].end), &mut orders));
        orders.into_iter().for_each(|order| keeper.dial(order));
        Ok(shared)
    }

    /// Whether any path is up.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire) > 0
    }

    /// Why the connection is broken, if it is.
    pub(super) fn failure(&self) -> Result<()> {
        match self.broken.get() {
            None => Ok(()),
            Some(text) => Err(Failure::new(Status::REMOTE, text)),
        }
    }

    fn fail(&self, text: String) {
        let _ = self.broken.set(text);
    }

    fn micros(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_micros() as u64
    }

    // --- What the keeper brings.

    /// A path is up.
    pub(super) fn arrived(&self, hello: &Hello, socket: OwnedFd) {
        let path = usize::from(hello.path);
        let link = &self.links[path];
        let mut end = lock(&link.end);
        if matches!(*end, End::Live(_)) || self.events.add(&socket, path).is_err() {
            return;
        }
        *end = End::Live(Box::new(Live::new(socket, Instant::now())));
        link.load.forget();
        link.load.set_open(true);
        link.writable.store(true, Ordering::Release);
        self.up.fetch_add(1, Ordering::AcqRel);
    }

    /// The other side has no such connection any more.
    pub(super) fn gone(&self) {
        self.fail("the other side has closed the connection".to_owned());
    }

    /// A path did not come up.
    pub(super) fn not_reached(&self, path: u16, to: SocketAddr, error: Errno) {
        if let End::Absent { since, dialled, refused, .. } =
            &mut *lock(&self.links[usize::from(path)].end)
        {
            *since = Instant::now();
            *dialled = false;
            *refused = match error {
                Errno::CONNREFUSED | Errno::CONNRESET => refused.or(Some(*since)),
                _ => None,
            };
        }
        log::info(&format!("NET/busbw: path {path} to {to}: {error}; it is tried again"));
    }

    /// Whether everything has come.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// Why a path must be given up, if it must; asks for acknowledgements that are late.
    fn stuck(
        &self,
        path: usize,
        live: &mut Live,
        now: Instant,
        orders: &mut Vec<Order>,
    ) -> Option<String> {
        let (oldest, heard) = live.since()?;
        if now.saturating_duration_since(oldest.max(heard)) < ASK {
            return None;
        }
        match live.ask(now) {
            Err(error) => return Some(error.to_string()),
            Ok(false) => {}
            // There may be nobody who reads what this path brings.
            Ok(true) => orders.push(self.order(path, Weak::new(), Hello::KNOCK)),
        }
        let health = sockets::health(&live.socket)?;
        (health.unacknowledged > 0 && health.timeouts >= TIMEOUTS).then(|| {
            let silence = health.silence.as_secs_f64();
            format!("no acknowledgement for {silence:.1} s, {} timeouts", health.timeouts)
        })
    }

    /// To connect a path.
    fn order(&self, path: usize, whom: Weak<Shared>, epoch: u32) -> Order {
        let Link { from, to, .. } = self.links[path];
        // There are at most MOST_PATHS.
        Order { whom, from, to, hello: Hello { path: path as u16, epoch, ..self.hello } }
    }

    /// Is broken once no path has come up for too long.
    fn give_up(&self, now: Instant) {
        if self.is_up() {
            return;
        }
        let mut refused = Some(Duration::MAX);
        for link in &self.links {
            let End::Absent { refused: since_refused, .. } = &*lock(&link.end) else { return };
            refused = refused
                .zip(*since_refused)
                .map(|(all, since)| all.min(now.saturating_duration_since(since)));
        }
        let down = self.micros(now).saturating_sub(self.down.load(Ordering::Acquire));
        if refused.is_some_and(|refused| refused >= REFUSED) {
            self.fail(format!(
                "the other side, {}, refuses connections: its process has ended",
                self.links[0].to
            ));
        } else if Duration::from_micros(down) >= LIMIT {
            self.fail(format!(
                "none of {} paths to {} has come up for {} s",
                self.links.len(),
                self.links[0].to,
                LIMIT.as_secs()
            ));
        }
    }

    /// Ends every path; those on which the other side can be told so.
    pub(super) fn end(&self) -> Vec<OwnedFd> {
        let told = self.links.iter().map(|link| link.counts.told()).collect::<Vec<_>>().join(", ");
        log::info(&format!("NET/busbw: paths to {}: {told}", self.links[0].to.ip()));
        self.links.iter().filter_map(|link| self.take_away(link)?.ended()).collect()
    }

    /// Ends every path, whatever is on its way: NCCL's memory is not touched any more.
    fn abort(&self) {
        self.fail("the connection was closed".to_owned());
        // First, so that a path that is just coming up finds nothing any more.
        *lock(&self.queue) = Queue::default();
        self.end().into_iter().for_each(|socket| self.keeper.leave(socket));
        self.keeper.dial(self.order(0, Weak::new(), Hello::OVER));
    }

    fn take_away(&self, link: &Link) -> Option<Live> {
        let absent = End::Absent { since: Instant::now(), dialled: true, refused: None };
        match std::mem::replace(&mut *lock(&link.end), absent) {
            End::Live(live) => {
                self.up.fetch_sub(1, Ordering::AcqRel);
                Some(*live)
            }
            End::Absent { .. } => None,
        }
    }

    fn dial(&self, path: usize, end: &mut End, orders: &mut Vec<Order>) {
        if let End::Absent { dialled, .. } = end {
            *dialled = true;
            let epoch = self.links[path].epoch.fetch_add(1, Ordering::Relaxed);
            orders.push(self.order(path, self.itself.clone(), epoch));
        }
    }

    // --- What moves.

    /// Moves what can be moved on a path, unless somebody else does right now (then false).
    fn try_pump(&self, path: usize) -> bool {
        match self.links[path].end.try_lock() {
            Ok(mut end) => self.pump(path, &mut end),
            Err(TryLockError::Poisoned(end)) => self.pump(path, &mut end.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    fn pump(&self, path: usize, end: &mut End) {
        let link = &self.links[path];
        let End::Live(live) = end else { return };
        let mut outcome = Ok(());
        if link.readable.swap(false, Ordering::AcqRel) {
            outcome = self.read(link, live);
        }
        if outcome.is_ok() && link.writable.swap(false, Ordering::AcqRel) {
            outcome = self.write(path, link, live);
        }
        if let Err(error) = outcome {
            self.lose(path, end, error.to_string());
        }
    }

    fn read(&self, link: &Link, live: &mut Live) -> rustix::io::Result<()> {
        let mut queue = None;
        let doubted = live.doubted;
        let heard = live.read(&link.load, |chunk| {
            link.counts.bytes.fetch_add(chunk.bytes() as u64, Ordering::Relaxed);
            queue.get_or_insert_with(|| lock(&self.queue)).came(chunk, |request, bytes| {
                self.results[request].store(1 + bytes as u64, Ordering::Release);
            });
        })?;
        if heard {
            drop(queue);
            self.heard.store(self.micros(Instant::now()), Ordering::Relaxed);
            if doubted {
                link.load.set_open(true);
            }
            // There is room again.
            link.writable.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn write(&self, path: usize, link: &Link, live: &mut Live) -> rustix::io::Result<()> {
        if live.doubted && !live.is_writing() {
            return Ok(());
        }
        let doubted = live.doubted;
        let all = live.write(&link.load, |room| self.next(path, room && !doubted, doubted))?;
        if all {
            link.writable.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// What a path is to send next.
    fn next(&self, path: usize, room: bool, doubted: bool) -> Option<queue::Piece> {
        if doubted {
            return None;
        }
        let mut queue = lock(&self.queue);
        queue.take_urgent().or_else(|| {
            if !room {
                return None;
            }
            queue.take(|bytes, waiting| {
                choice::skipped(self.links.iter().map(|link| &link.load), path, bytes, waiting)
            })
        })
    }

    /// A path is lost: what it had goes over the others.
    fn lose(&self, path: usize, end: &mut End, why: String) {
        let link = &self.links[path];
        let absent = End::Absent { since: Instant::now(), dialled: false, refused: None };
        let End::Live(live) = std::mem::replace(end, absent) else { return };
        // Who sees that none is up is to see since when.
        self.down.store(self.micros(Instant::now()), Ordering::Release);
        self.up.fetch_sub(1, Ordering::AcqRel);
        link.load.set_open(false);
        let lost = live.lost();
        link.counts.lost.fetch_add(1, Ordering::Relaxed);
        log::info(&format!(
            "NET/busbw: path {path} to {} is lost ({why}); {} pieces go over others, and it is tried again",
            link.to,
            lost.len()
        ));
        lock(&self.queue).again(lost);
        let mut orders = Vec::new();
        self.dial(path, end, &mut orders);
        orders.into_iter().for_each(|order| self.keeper.dial(order));
        self.watch();
    }

    fn watch(&self) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.keeper.watch(self.itself.clone());
        }
    }

    fn progress(&self) {
        self.collect();
        self.move_on();
        self.doubt();
    }

    /// Takes what the kernel has to say.
    fn collect(&self) {
        self.events.collect(|event| {
            let link = &self.links[event.path];
            if event.readable {
                link.readable.store(true, Ordering::Release);
            }
            if event.writable {
                link.writable.store(true, Ordering::Release);
            }
        });
    }

    /// Moves what can be moved.
    fn move_on(&self) {
        let first = self.hot.load(Ordering::Relaxed);
        let work = lock(&self.queue).has_work();
        for path in (first..self.links.len()).chain(0..first) {
            let link = &self.links[path];
            let readable = link.readable.load(Ordering::Acquire);
            if readable || link.writable.load(Ordering::Acquire) && (work || self.unfinished(link))
            {
                self.try_pump(path);
            }
        }
    }

    fn unfinished(&self, link: &Link) -> bool {
        matches!(link.end.try_lock().as_deref(), Ok(End::Live(live)) if live.is_writing())
    }

    /// What is on its way for too long goes over another path as well, if others move.
    fn doubt(&self) {
        let now = Instant::now();
        let micros = self.micros(now);
        if micros.saturating_sub(self.looked.load(Ordering::Relaxed)) < LOOKS.as_micros() as u64 {
            return;
        }
        self.looked.store(micros, Ordering::Relaxed);
        let heard = self.started + Duration::from_micros(self.heard.load(Ordering::Relaxed));
        for link in &self.links {
            let Ok(mut end) = link.end.try_lock() else { continue };
            let End::Live(live) = &mut *end else { continue };
            let Some((oldest, last)) = live.since() else {
                link.load.fade();
                continue;
            };
            if live.doubted {
                continue;
            }
            let from = oldest.max(last);
            let limit = DOUBT.max(4 * Duration::from_nanos(link.load.expected(0)));
            // Others were heard of while this one was not: the receiver reads.
            if now.saturating_duration_since(from) > limit && heard > from + limit / 2 {
                let copies = live.double();
                link.counts.doubled.fetch_add(copies.len() as u64, Ordering::Relaxed);
                link.load.set_open(false);
                lock(&self.queue).again(copies);
            }
        }
    }
}

impl Charge for Shared {
    /// Looks whether anything is stuck, and orders paths that are missing. Whether there is a reason to look again.
    fn look(&self, now: Instant, orders: &mut Vec<Order>) -> bool {
        if self.broken.get().is_some() {
            return false;
        }
        self.collect();
        for (path, link) in self.links.iter().enumerate() {
            let mut end = lock(&link.end);
            match &mut *end {
                End::Live(live) => {
                    if let Some(why) = self.stuck(path, live, now, orders) {
                        self.lose(path, &mut end, why);
                    } else {
                        self.pump(path, &mut end);
                    }
                }
                End::Absent { since, dialled, .. } => {
                    if !*dialled && now.saturating_duration_since(*since) >= RETRY {
                        self.dial(path, &mut end, orders);
                    }
                }
            }
        }
        let absent = self.links.len() - self.up.load(Ordering::Acquire);
        self.give_up(now);
        // As long as nothing is to be sent, a missing path is nobody's trouble.
        !self.is_idle() || (absent > 0 && self.micros(now) < LIMIT.as_micros() as u64)
    }

    /// The keeper stops looking; false if something came in between.
    fn unwatch(&self) -> bool {
        self.watched.store(false, Ordering::SeqCst);
        if self.is_idle() {
            return true;
        }
        self.watched.swap(true, Ordering::SeqCst)
    }

    fn cut(&self, path: usize) {
        if let End::Live(live) = &*lock(&self.links[path % self.links.len()].end) {
            sockets::cut(&live.socket);
        }
    }
}

/// What the caller holds.
pub(super) struct Sending {
    shared: Arc<Shared>,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
    /// Requests for NCCL's own memory that are open.
    open: usize,
}

impl Sending {
    pub(super) fn new(shared: Arc<Shared>) -> Sending {
        Sending { shared, free: (0..REQUESTS).rev().collect(), open: 0 }
    }
}

impl crate::network::Sender for Sending {
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>> {
        let shared = &*self.shared;
        shared.failure()?;
        let Some(&request) = self.free.last() else { return Ok(None) };
        if bytes <= SMALL {
            let data = match bytes {
                0 => &[],
                // SAFETY: NCCL's memory, which it leaves alone until the request is done.
                _ => unsafe { std::slice::from_raw_parts(data, bytes) },
            };
            let mut queue = lock(&shared.queue);
            if queue.len() >= COPIES {
                drop(queue);
                shared.progress();
                return Ok(None);
            }
            if queue.len() == COPIES / 2 {
                // Acknowledgements wait there, most likely.
                let hot = shared.hot.load(Ordering::Relaxed);
                shared.links[hot].readable.store(true, Ordering::Release);
            }
            queue.push_copy(data.into(), shared.chunk);
            drop(queue);
            shared.results[request].store(1 + bytes as u64, Ordering::Relaxed);
            shared.watch();
            shared.send_small();
        } else {
            lock(&shared.queue).push(data, bytes, shared.chunk, request);
            self.open += 1;
            shared.watch();
            shared.move_on();
        }
        self.free.pop();
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let result = &self.shared.results[request];
        if result.load(Ordering::Acquire) == 0 {
            self.shared.progress();
        }
        match result.swap(0, Ordering::AcqRel) {
            0 => self.shared.failure().map(|()| None),
            bytes => {
                let bytes = (bytes - 1) as usize;
                self.free.push(request);
                self.open -= usize::from(bytes > SMALL);
                Ok(Some(bytes))
            }
        }
    }
}

impl Shared {
    /// Sends what is urgent by the path that served well last, or by the next that can.
    fn send_small(&self) {
        let first = self.hot.load(Ordering::Relaxed);
        for path in (first..self.links.len()).chain(0..first) {
            // It may be absent, doubted, or full.
            if !self.links[path].writable.load(Ordering::Acquire)
                || !self.try_pump(path)
                || lock(&self.queue).is_urgent()
            {
                continue;
            }
            if path != first {
                self.hot.store(path, Ordering::Relaxed);
            }
            return;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.open > 0 {
            self.shared.abort();
        } else {
            self.shared.keeper.close(self.shared.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::Ipv4Addr, os::unix::net::UnixStream};

    use super::*;
    use crate::{devices::Interface, network::Sender};

    #[test]
    fn a_small_message_takes_the_next_path_when_the_first_is_lost() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let interface =
            Interface { name: "lo".to_owned(), address, prefix: 8, speed: None, path: None };
        let keeper = Keeper::start(&[interface], None).unwrap();
        // Where nobody listens: the paths are these.
        let way = (None, SocketAddr::new(address, 1));
        let hello = Hello { secret: [0; 16], listener: 1, path: 0, paths: 2, epoch: 0 };
        let shared = Shared::new(&keeper, hello, vec![way, way], 1 << 16).unwrap();
        let mut others = Vec::new();
        for path in 0..2 {
            let (one, other) = UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            shared.arrived(&Hello { path, ..hello }, one.into());
            others.push(other);
        }
        drop(others.remove(0));
        shared.progress();
        assert!(matches!(*lock(&shared.links[0].end), End::Absent { .. }));
        let mut sending = Sending::new(shared);
        // SAFETY: it is copied.
        unsafe { sending.send([7u8; 100].as_ptr(), 100) }.unwrap().unwrap();
        assert_eq!(others[0].read(&mut [0; 200]).unwrap(), 132);
    }
}
