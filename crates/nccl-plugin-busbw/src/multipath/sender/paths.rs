//! Paths come and go: let in, given up, lost, and connected again.
//! Not what moves over them (`moving`), nor how they are connected (`keeper`).

use std::{
    fmt,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use nccl_plugin_abi::net_stats::NetConnection;
use rustix::io::Errno;

use super::{Absent, End, Home, Link, Shared, counts, link::Live, queue::Queue};
use crate::{
    log,
    multipath::{
        LIMIT,
        frame::Hello,
        keeper::{Charge, Order, PATIENCE, lock},
        sockets,
    },
};

/// A path on which the kernel has met so many timeouts in a row is lost: 0.2 + 0.4 s.
const TIMEOUTS: u8 = 2;
/// What was sent so long ago is asked after.
const ASK: Duration = Duration::from_millis(50);
/// Between two attempts at a path.
pub(super) const RETRY: Duration = Duration::from_millis(250);
/// The other side refuses all paths for so long: it is not there any more.
const REFUSED: Duration = Duration::from_secs(2);
/// From the port that it had, a path has twice its round trip to connect, and at least so long.
const HOME: Duration = Duration::from_millis(250);
/// Between two knocks at the other end's door by the same way while it is not heard of; then twice as long each time, at
/// most eight times. A quarter of it while it is.
const KNOCK: Duration = Duration::from_secs(1);
/// Where nobody has answered for so long, there is nobody: a path on which something is late is lost. The kernel does not
/// notice where the receiver did not read, since it only asks now and then whether it does.
const DESERTED: Duration = Duration::from_secs(10);
/// A path that fell silent is tried only from the port that it had, for so long.
const HOMESICK: Duration = Duration::from_secs(30);

impl Link {
    /// Counts and tells that a path was lost, and how it is now.
    fn tell(&self, path: u16, absent: &mut Absent, now: &str) {
        let Some(loss) = absent.loss.take() else { return };
        absent.told = true;
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
        log::info(&format!("NET/busbw: path {path} to {} was lost ({loss}): {now}", self.to));
    }
}

/// Why a path is lost.
pub(super) enum Loss {
    /// It has ended.
    Ended(Errno),
    /// The kernel has heard nothing for so long, and sent again so often.
    Silent(Duration, u8),
    /// Nobody answers at its other end's door for so long.
    Deserted(Duration),
}

impl fmt::Display for Loss {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Ended(error) => error.fmt(to),
            Loss::Silent(silence, timeouts) => {
                let silence = silence.as_secs_f64();
                write!(to, "no acknowledgement for {silence:.1} s, {timeouts} timeouts")
            }
            Loss::Deserted(time) => {
                write!(to, "the other host has not answered for {:.1} s", time.as_secs_f64())
            }
        }
    }
}

/// Whether the kernel takes a path for silent.
fn silent(live: &Live) -> Option<Loss> {
    let health = sockets::health(&live.socket)?;
    (health.unacknowledged > 0 && health.timeouts >= TIMEOUTS)
        .then_some(Loss::Silent(health.silence, health.timeouts))
}

impl Shared {
    /// A path is up.
    pub(in crate::multipath) fn arrived(&self, hello: &Hello, socket: OwnedFd) {
        let path = usize::from(hello.path);
        let link = &self.links[path];
        let mut end = lock(&link.end);
        if matches!(*end, End::Live(_)) {
            return;
        }
        // Before the kernel can tell of this one's.
        link.ended.store(false, Ordering::Release);
        if let Err(error) = self.events.add(&socket, path) {
            drop(end);
            self.not_reached(hello.path, link.to, error);
            return;
        }
        if let End::Absent(absent) = &mut *end {
            link.tell(hello.path, absent, "it is back");
        }
        *end = End::Live(Box::new(Live::new(socket, Instant::now())));
        link.load.forget();
        link.load.set_open(true);
        link.writable.store(true, Ordering::Release);
        self.up.fetch_add(1, Ordering::AcqRel);
    }

    /// The other side has no such connection any more.
    pub(in crate::multipath) fn gone(&self) {
        self.close("the other side has closed the connection");
        self.forget_losses();
    }

    /// Paths of which nobody knows yet why they ended have ended with the connection.
    fn forget_losses(&self) {
        for link in &self.links {
            if let End::Absent(absent) = &mut *lock(&link.end) {
                absent.loss = None;
            }
        }
    }

    /// A path did not come up.
    pub(in crate::multipath) fn not_reached(&self, path: u16, to: SocketAddr, error: Errno) {
        let link = &self.links[usize::from(path)];
        let End::Absent(absent) = &mut *lock(&link.end) else { return };
        absent.since = Instant::now();
        absent.dialled = false;
        absent.refused = match error {
            Errno::CONNREFUSED | Errno::CONNRESET => absent.refused.or(Some(absent.since)),
            _ => None,
        };
        if matches!(error, Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) {
            // Somebody else has its port now.
            absent.home = None;
        }
        // The other side may have ended just as it should: who comes back, or fails otherwise, tells.
        let may_be_over = absent.refused.is_some() || self.over.get().is_some();
        if absent.loss.is_some() && !may_be_over {
            link.tell(path, absent, &format!("{error}; it is tried again"));
        } else if absent.home.is_none() && !absent.told {
            absent.told = true;
            log::info(&format!("NET/busbw: path {path} to {to}: {error}; it is tried again"));
        }
    }

    /// Whether everything has come.
    pub(in crate::multipath) fn is_idle(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// Why a path must be given up, if it must; asks for acknowledgements that are late.
    fn stuck(
        &self,
        path: usize,
        live: &mut Live,
        now: Instant,
        orders: &mut Vec<Order>,
    ) -> Option<Loss> {
        let Some((oldest, heard)) = live.since() else {
            // The kernel does not look by itself whether who was asked is there.
            return if live.is_asked() { silent(live) } else { None };
        };
        if now.saturating_duration_since(oldest.max(heard)) < ASK {
            return None;
        }
        match live.ask(now) {
            Err(error) => return Some(Loss::Ended(error)),
            Ok(_) => orders.extend(self.knock(path, now)),
        }
        let deserted = self.deserted.load(Ordering::Relaxed);
        // Not longer than this is late, and not while the other host's kernel is heard of, whoever is held up there.
        let since = deserted.max(self.micros(oldest.max(heard)));
        let time = Duration::from_micros(self.micros(now).saturating_sub(since));
        let is_heard =
            || sockets::health(&live.socket).is_some_and(|health| health.silence < DESERTED);
        if deserted > 0 && time > DESERTED && !is_heard() {
            return Some(Loss::Deserted(time));
        }
        silent(live)
    }

    /// To have the other end look, where nobody may read what a path brings; now and then, by each way.
    fn knock(&self, path: usize, now: Instant) -> Option<Order> {
        let ends = |link: &Link| (link.from, link.to);
        let way = self.links.iter().find(|link| ends(link) == ends(&self.links[path]))?;
        let (micros, last) = (self.micros(now), way.knocked.load(Ordering::Relaxed));
        if self.heard.load(Ordering::Relaxed) > last {
            way.knocks.store(0, Ordering::Relaxed);
        }
        let knocks = way.knocks.load(Ordering::Relaxed);
        let pause = match knocks {
            0 => KNOCK / 4,
            _ => KNOCK * (1 << (knocks - 1).min(3)),
        };
        if last > 0 && micros.saturating_sub(last) < pause.as_micros() as u64 {
            return None;
        }
        way.knocked.store(micros.max(1), Ordering::Relaxed);
        way.knocks.store(knocks.saturating_add(1), Ordering::Relaxed);
        Some(self.order(path, self.itself.clone(), Hello::KNOCK))
    }

    /// Somebody was there when we knocked.
    pub(in crate::multipath) fn answered(&self) {
        self.deserted.store(0, Ordering::Relaxed);
    }

    /// Nobody was, so far as is known.
    pub(in crate::multipath) fn unanswered(&self, error: Errno) {
        match error {
            Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => {}
            Errno::CONNREFUSED | Errno::CONNRESET => return self.answered(),
            // Our own trouble.
            _ => return,
        }
        let now = self.micros(Instant::now()).max(1);
        let _ = self.deserted.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// To connect a path from wherever the kernel likes.
    fn order(&self, path: usize, whom: Weak<Shared>, epoch: u32) -> Order {
        let Link { from, to, .. } = self.links[path];
        let from = from.map(|from| SocketAddr::new(from, 0));
        // There are at most MOST_PATHS.
        let hello = Hello { path: path as u16, epoch, ..self.hello };
        Order { whom, from, to, hello, patience: PATIENCE }
    }

    /// Is broken once no path has come up for too long, or none that lets anything through.
    fn give_up(&self, now: Instant) {
        if self.is_up() {
            let barren = self.barren.load(Ordering::Relaxed);
            let time = self.micros(now).saturating_sub(barren);
            if barren > 0 && time >= LIMIT.as_micros() as u64 && !self.is_idle() {
                self.fail(format!(
                    "none of {} paths to {} has let anything through for {} s but that it connects: can packets be \
                     as large as this host's everywhere on the way (MTU)?",
                    self.links.len(),
                    self.links[0].to,
                    LIMIT.as_secs()
                ));
            }
            return;
        }
        let mut refused = Some(Duration::MAX);
        for link in &self.links {
            let End::Absent(absent) = &*lock(&link.end) else { return };
            refused = refused
                .zip(absent.refused)
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
    pub(in crate::multipath) fn end(&self) -> Vec<OwnedFd> {
        self.forget_losses();
        let counted = NetConnection { closed: true, ..self.counted() };
        let told = counted.paths.iter().map(counts::told).collect::<Vec<_>>().join("; ");
        log::info(&format!("NET/busbw: paths to {}: {told}", counted.peer));
        if let Some(stats) = self.keeper.stats() {
            stats.closed(&self.itself, counted);
        }
        self.links.iter().filter_map(|link| self.take_away(link)?.ended()).collect()
    }

    /// Ends every path, whatever is on its way: NCCL's memory is not touched any more.
    pub(in crate::multipath) fn abort(&self) {
        if self.aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.close("the connection was closed");
        // First, so that a path that is just coming up finds nothing any more.
        *lock(&self.queue) = Queue::default();
        self.end().into_iter().for_each(|socket| self.keeper.leave(socket));
        self.keeper.dial(self.order(0, Weak::new(), Hello::OVER));
    }

    fn take_away(&self, link: &Link) -> Option<Live> {
        // Nobody is to connect it again.
        let absent = Absent { dialled: true, ..Absent::since(Instant::now()) };
        match std::mem::replace(&mut *lock(&link.end), End::Absent(absent)) {
            End::Live(live) => {
                self.up.fetch_sub(1, Ordering::AcqRel);
                Some(*live)
            }
            End::Absent(_) => None,
        }
    }

    pub(super) fn dial(&self, path: usize, end: &mut End) -> Option<Order> {
        let End::Absent(absent) = end else { return None };
        absent.dialled = true;
        let epoch = self.links[path].epoch.fetch_add(1, Ordering::Relaxed);
        let order = self.order(path, self.itself.clone(), epoch);
        Some(match self.home(absent) {
            Some(Home { at, patience, .. }) => Order { from: Some(at), patience, ..order },
            None => order,
        })
    }

    /// The port that a path is to come back from, so that it lies on the link that it had: which link that is follows
    /// from the ports. Not if everything else is gone as well; and after a while half of the paths look elsewhere.
    fn home(&self, absent: &Absent) -> Option<Home> {
        let home = absent.home?;
        // Not by the path's number, which may be its interface's, nor by the port's last bit, which the kernel prefers.
        let is_patient = home.at.port() / 2 % 2 == 1;
        let stays = self.is_up() && (is_patient || home.lost.elapsed() < HOMESICK);
        stays.then_some(home)
    }

    /// A path is lost: what it had goes over the others.
    pub(super) fn lose(&self, path: usize, end: &mut End, why: &Loss) {
        let link = &self.links[path];
        let now = Instant::now();
        let End::Live(live) = std::mem::replace(end, End::Absent(Absent::since(now))) else {
            return;
        };
        // One that nothing comes by may be lost again and again, as fast as it is connected.
        let waits = live.unproved().is_some_and(|came| now.saturating_duration_since(came) < RETRY);
        // Who sees that none is up is to see since when.
        self.down.store(self.micros(now), Ordering::Release);
        self.up.fetch_sub(1, Ordering::AcqRel);
        link.load.set_open(false);
        // One that lets nothing through but greetings is better off elsewhere.
        let comes_back = live.unproved().is_none()
            && matches!(why, Loss::Silent(..) | Loss::Deserted(_) | Loss::Ended(Errno::TIMEDOUT));
        if live.passes() == Some(false) {
            let since = self.micros(now).max(1);
            let _ = self.barren.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
        }
        let (lost, socket) = live.lost();
        if let End::Absent(absent) = &mut *end {
            let trip = sockets::health(&socket).map_or(0, |health| health.rtt.into());
            let patience = (2 * Duration::from_micros(trip)).clamp(HOME, PATIENCE);
            absent.home = sockets::local(&socket).filter(|_| comes_back).map(|at| Home {
                at,
                lost: now,
                patience,
            });
            absent.loss = Some(format!("{why}; {} chunks went over others", lost.len()));
        }
        link.counts.ended(socket, lost.len());
        lock(&self.queue).again(lost);
        if !waits {
            self.dial(path, end).into_iter().for_each(|order| self.keeper.dial(order));
        }
        self.watch();
    }

    pub(super) fn watch(&self) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.keeper.watch(self.itself.clone());
        }
    }
}

impl Charge for Shared {
    /// Looks whether anything is stuck, and orders paths that are missing. Whether there is a reason to look again.
    fn look(&self, now: Instant, orders: &mut Vec<Order>) -> bool {
        if self.over.get().is_some() {
            // NCCL may close it much later.
            self.hear();
            if self.is_up() {
                self.end().into_iter().for_each(|socket| self.keeper.leave(socket));
            }
            return false;
        }
        self.collect();
        for (path, link) in self.links.iter().enumerate() {
            let mut end = lock(&link.end);
            match &mut *end {
                End::Live(live) => {
                    // What the other end's kernel has came through, whoever reads it.
                    if self.barren.load(Ordering::Relaxed) > 0 && live.passes() == Some(true) {
                        self.barren.store(0, Ordering::Relaxed);
                    }
                    if let Some(why) = self.stuck(path, live, now, orders) {
                        self.lose(path, &mut end, &why);
                    } else {
                        self.pump(path, &mut end);
                    }
                }
                End::Absent(absent) => {
                    if !absent.dialled && now.saturating_duration_since(absent.since) >= RETRY {
                        orders.extend(self.dial(path, &mut end));
                    }
                }
            }
        }
        self.doubt();
        let absent = self.links.len() - self.up.load(Ordering::Acquire);
        self.give_up(now);
        // As long as nothing is to be sent, a missing path is nobody's trouble.
        !self.is_idle() || (absent > 0 && self.micros(now) < LIMIT.as_micros() as u64)
    }

    fn is_behind(&self) -> bool {
        !self.is_idle() && self.over.get().is_none()
    }

    /// The keeper stops looking; false if something came in between.
    fn unwatch(&self) -> bool {
        self.watched.store(false, Ordering::SeqCst);
        !self.is_behind() || self.watched.swap(true, Ordering::SeqCst)
    }

    fn cut(&self, path: usize) {
        if let End::Live(live) = &*lock(&self.links[path % self.links.len()].end) {
            sockets::cut(&live.socket);
        }
    }
}
