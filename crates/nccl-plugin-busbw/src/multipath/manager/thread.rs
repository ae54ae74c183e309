//! What the connection manager's thread does: it waits for whatever happens first, and sees to it.
//! Not what others ask of it (`manager`).

#[cfg(test)]
mod tests;

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use busbw_multipath::{CONNECTION_TIMEOUT, MAX_PATHS, frame::Frame};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{Shutdown, SocketFlags, accept_with, shutdown},
};

use super::{
    CLOSE_TIMEOUT, Closing, Job, Managed, Manager, connecting::Connecting, handshake::Handshake,
};
use crate::{
    log,
    multipath::{
        fault::{Draws, Fault},
        locks::lock,
        sockets,
    },
};

/// Between two checks of connections on which something is in flight.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);
/// A connection on which nothing is in flight is checked for so long still: waking this thread for each of a few
/// messages costs whoever sends them more than that costs us.
const LINGER: Duration = Duration::from_secs(1);
/// Between two checks whether those on which nothing is in flight still have their paths: the other end may wait for
/// what is to be sent much later, and takes us for lost when they are gone.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Handshakes that are waited for, at most: nobody can fill our table of files.
const MAX_HANDSHAKES: usize = 256;
/// Between two looks at whether one of them has given way.
const CROWDED_INTERVAL: Duration = Duration::from_millis(100);
/// Between two attempts to accept where the process has too many files open.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct Thread {
    manager: Arc<Manager>,
    listeners: Vec<OwnedFd>,
    /// Until when nothing is accepted.
    full: Instant,
    handshakes: Vec<Handshake>,
    connecting: Vec<Connecting>,
    closing_sockets: Vec<(OwnedFd, Instant)>,
    /// And when something was in flight on each.
    watched: Vec<(Weak<dyn Managed>, Instant)>,
    /// On which nothing is in flight.
    idle: Vec<Weak<dyn Managed>>,
    closing: Vec<(Arc<dyn Closing>, Instant)>,
    next_check: Instant,
    next_idle_check: Instant,
    is_draining: bool,
    /// And when the next path is cut.
    fault: Option<(Fault, Instant)>,
    draws: Draws,
}

impl Thread {
    pub(super) fn new(
        manager: Arc<Manager>,
        listeners: Vec<OwnedFd>,
        fault: Option<Fault>,
    ) -> Thread {
        let now = manager.clock.now();
        Thread {
            manager,
            listeners,
            full: now,
            handshakes: Vec::new(),
            connecting: Vec::new(),
            closing_sockets: Vec::new(),
            watched: Vec::new(),
            idle: Vec::new(),
            closing: Vec::new(),
            next_check: now,
            next_idle_check: now,
            is_draining: false,
            fault: fault.map(|fault| (fault, now + fault.every)),
            draws: Draws(u64::from(std::process::id())),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let now = self.manager.clock.now();
            let until = self.turn(now);
            let came = self.wait(until.map(|until| until.saturating_duration_since(now)), now);
            self.see_to(&came, self.manager.clock.now());
        }
    }

    /// Sees to what others ask, and to what is due. When something is due next, if anything will be.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let jobs = std::mem::take(&mut *lock(&self.manager.jobs));
        jobs.into_iter().for_each(|job| self.take(job, now));
        let is_busy = !self.watched.is_empty() || !self.closing.is_empty();
        if is_busy && now >= self.next_check {
            self.check(now);
            self.next_check = now + CHECK_INTERVAL;
        }
        if !self.idle.is_empty() && now >= self.next_idle_check {
            self.check_idle();
            self.next_idle_check = now + IDLE_CHECK_INTERVAL;
        }
        if self.is_draining && self.closing.is_empty() && !self.is_behind() {
            self.drained(now);
        }
        self.cut(now);
        let stats = self.manager.stats().and_then(|stats| stats.write_when_due(now));
        let check = is_busy.then_some(self.next_check);
        let idle = (!self.idle.is_empty()).then_some(self.next_idle_check);
        let waits = self.handshakes.iter().map(|one| one.until);
        let waits = waits.chain(self.connecting.iter().map(|one| one.until));
        let waits = waits.chain(self.fault.map(|(_, at)| at)).chain(check).chain(idle).chain(stats);
        let waits = waits.chain((self.full > now).then_some(self.full));
        let crowded = (!self.has_room(now)).then_some(now + CROWDED_INTERVAL);
        let closing = self.closing_sockets.iter().map(|(_, until)| *until);
        waits.chain(crowded).chain(closing).min()
    }

    fn take(&mut self, job: Job, now: Instant) {
        match job {
            Job::Watch(whom) => {
                self.idle.retain(|other| !other.ptr_eq(&whom));
                self.watched.push((whom, now));
            }
            Job::Close(whom) => self.closing.push((whom, now + CONNECTION_TIMEOUT)),
            Job::Leave(socket) => self.leave(socket, now),
            Job::Drain => self.is_draining = true,
            Job::Connect(connect) => self.connecting.extend(Connecting::begin(connect, now)),
        }
    }

    /// Tells whoever waits for it, once; the last statistics are written before.
    fn drained(&self, now: Instant) {
        if *lock(&self.manager.is_drained) {
            return;
        }
        if let Some(stats) = self.manager.stats() {
            stats.write(now);
        }
        *lock(&self.manager.is_drained) = true;
        self.manager.drained.notify_all();
    }

    fn is_behind(&self) -> bool {
        self.watched.iter().filter_map(|(whom, _)| whom.upgrade()).any(|whom| whom.is_behind())
    }

    /// Breaks a path, if that is asked for.
    fn cut(&mut self, now: Instant) {
        let Some((fault, at)) = &mut self.fault else { return };
        if now < *at {
            return;
        }
        *at = now + fault.every;
        let whom = self.watched.iter().filter_map(|(whom, _)| whom.upgrade()).collect::<Vec<_>>();
        if !whom.is_empty() {
            whom[self.draws.below(whom.len())].cut(self.draws.below(MAX_PATHS));
        }
    }

    fn leave(&mut self, socket: OwnedFd, now: Instant) {
        let fin = Frame::Fin.encoded();
        let _ = sockets::send(&socket, &[IoSlice::new(&fin)]);
        let _ = shutdown(&socket, Shutdown::Write);
        self.closing_sockets.push((socket, now + CLOSE_TIMEOUT));
    }

    /// Checks connections on which something is in flight, and those that are being closed.
    fn check(&mut self, now: Instant) {
        self.watched.retain_mut(|(whom, busy)| {
            let Some(connection) = whom.upgrade() else { return false };
            if connection.check() {
                *busy = now;
            }
            let stays = now.saturating_duration_since(*busy) < LINGER || !connection.unwatch();
            if !stays {
                self.idle.push(whom.clone());
            }
            stays
        });
        let mut ended = Vec::new();
        self.closing.retain(|(connection, until)| {
            connection.check();
            if !connection.is_idle() && connection.failure().is_ok() && now < *until {
                return true;
            }
            ended.extend(connection.end());
            false
        });
        ended.into_iter().for_each(|socket| self.leave(socket, now));
    }

    /// Checks the others: one that has lost a path is watched again.
    fn check_idle(&mut self) {
        self.idle.retain(|whom| {
            whom.upgrade().is_some_and(|connection| {
                connection.check();
                true
            })
        });
    }

    /// Waits until something happens, so long at most: for each file, in the order of [`Thread::see_to`], whether it did.
    fn wait(&self, timeout: Option<Duration>, now: Instant) -> Vec<bool> {
        let mut files = vec![PollFd::new(&self.manager.wake, PollFlags::IN)];
        let accepts = if self.accepts(now) { PollFlags::IN } else { PollFlags::empty() };
        files.extend(self.listeners.iter().map(|listener| PollFd::new(listener, accepts)));
        files.extend(self.handshakes.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        files.extend(self.connecting.iter().map(|one| {
            PollFd::new(&one.socket, if one.connected { PollFlags::IN } else { PollFlags::OUT })
        }));
        files.extend(
            self.closing_sockets.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)),
        );
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as _,
            // Not a little too early, again and again.
            tv_nsec: (timeout.subsec_nanos() + 50_000).min(999_999_999) as _,
        });
        let _ = poll(&mut files, timeout.as_ref());
        files.iter().map(|file| !file.revents().is_empty()).collect()
    }

    /// Sees to what has happened.
    fn see_to(&mut self, came: &[bool], now: Instant) {
        let manager = self.manager.clone();
        let mut came = came.iter().copied();
        if came.next() == Some(true) {
            let _ = rustix::io::read(&manager.wake, &mut [0; 8]);
        }
        let listeners: Vec<bool> = came.by_ref().take(self.listeners.len()).collect();
        let handshakes = std::mem::take(&mut self.handshakes);
        for (one, came) in handshakes.into_iter().zip(came.by_ref()) {
            self.handshakes.extend(one.read(&manager, came, now));
        }
        let connecting = std::mem::take(&mut self.connecting);
        for (one, came) in connecting.into_iter().zip(came.by_ref()) {
            self.connecting.extend(one.answered(came, now));
        }
        let closing = std::mem::take(&mut self.closing_sockets);
        self.closing_sockets.extend(closing.into_iter().zip(came).filter_map(
            |((socket, until), came)| {
                (now < until && !(came && at_its_end(&socket))).then_some((socket, until))
            },
        ));
        for listener in (0..listeners.len()).filter(|listener| listeners[*listener]) {
            self.accept(listener, now);
        }
    }

    /// Accepts what waits at a listener. What is left waits in the backlog: many ranks may connect at once.
    fn accept(&mut self, listener: usize, now: Instant) {
        while self.has_room(now) {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match accept_with(&self.listeners[listener], flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    log::info(&format!("NET/busbw: no path is accepted for a while: {error}"));
                    self.full = now + ACCEPT_RETRY_INTERVAL;
                    break;
                }
            };
            if self.handshakes.len() == MAX_HANDSHAKES {
                self.handshakes.remove(0);
            }
            self.handshakes.extend(Handshake::new(socket, now));
        }
    }

    /// Whether listeners are waited for.
    fn accepts(&self, now: Instant) -> bool {
        self.has_room(now) && now >= self.full
    }

    /// Whether another connection may be accepted, if need be in the place of the oldest.
    fn has_room(&self, now: Instant) -> bool {
        self.handshakes.len() < MAX_HANDSHAKES
            || self.handshakes.first().is_some_and(|one| one.is_slow(now))
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
