//! What the keeper's thread does: it waits for whatever comes first, and sees to it.
//! Not what others ask of it (`keeper`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{Shutdown, SocketFlags, accept_with, shutdown},
};

use super::{Charge, FAREWELL, Job, Keeper, Order, dial::Dial, guest::Guest, lock};
use crate::{
    log,
    multipath::{
        LIMIT, MOST_PATHS,
        fault::{Draws, Fault},
        frame::Header,
        sender, sockets,
    },
};

/// Between two looks at connections on which something is under way.
const ROUND: Duration = Duration::from_millis(25);
/// A connection on which nothing is under way is looked after for so long still: waking this thread for each of a few
/// messages costs whoever sends them more than that costs us.
const LINGER: Duration = Duration::from_secs(1);
/// Between two looks at whether those on which nothing is under way still have their paths: the other end may wait for
/// what is to be sent much later, and takes us for lost when they are gone.
const REST: Duration = Duration::from_secs(2);
/// Guests that have not said who they are, at most: a stranger cannot fill our table of files.
const STRANGERS: usize = 256;
/// Between two looks at whether one of them has given way.
const CROWDED: Duration = Duration::from_millis(100);
/// Between two attempts to let guests in where the process has too many files open.
const FULL: Duration = Duration::from_millis(250);

pub(super) struct Thread {
    keeper: Arc<Keeper>,
    doors: Vec<OwnedFd>,
    /// Until when nobody is let in.
    full: Instant,
    guests: Vec<Guest>,
    dials: Vec<Dial>,
    leaving: Vec<(OwnedFd, Instant)>,
    /// And when something was under way on each.
    watched: Vec<(Weak<dyn Charge>, Instant)>,
    /// On which nothing is under way.
    resting: Vec<Weak<dyn Charge>>,
    closing: Vec<(Arc<sender::Shared>, Instant)>,
    parting: bool,
    /// And when the next path is cut.
    fault: Option<(Fault, Instant)>,
    draws: Draws,
}

impl Thread {
    pub(super) fn new(keeper: Arc<Keeper>, doors: Vec<OwnedFd>, fault: Option<Fault>) -> Thread {
        Thread {
            keeper,
            doors,
            full: Instant::now(),
            guests: Vec::new(),
            dials: Vec::new(),
            leaving: Vec::new(),
            watched: Vec::new(),
            resting: Vec::new(),
            closing: Vec::new(),
            parting: false,
            fault: fault.map(|fault| (fault, Instant::now() + fault.every)),
            draws: Draws(u64::from(std::process::id())),
        }
    }

    pub(super) fn run(mut self) {
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
            if self.parting && self.closing.is_empty() && !self.is_behind() {
                if let Some(stats) = self.keeper.stats().filter(|_| !self.keeper.has_parted()) {
                    stats.write(now);
                }
                self.keeper.parted.store(true, Ordering::Release);
            }
            self.cut(now);
            let stats = self.keeper.stats().and_then(|stats| stats.write_when_due(now));
            let mut until: Option<Instant> = looked_after.then_some(next_round);
            let rest = (!self.resting.is_empty()).then_some(next_rest);
            let waits = self.guests.iter().map(|guest| guest.until);
            let waits = waits.chain(self.dials.iter().map(|dial| dial.until));
            let waits = waits.chain(self.fault.map(|(_, at)| at)).chain(rest).chain(stats);
            let waits = waits.chain((self.full > now).then_some(self.full));
            let crowded = (!self.has_room(now)).then_some(now + CROWDED);
            let waits = waits.chain(crowded);
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
                self.watched.push((whom, Instant::now()));
            }
            Job::Close(whom) => self.closing.push((whom, Instant::now() + LIMIT)),
            Job::Leave(socket) => self.leave(socket),
            Job::Part => self.parting = true,
            Job::Dial(order) => self.dials.extend(Dial::begin(order)),
        }
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
            whom[self.draws.below(whom.len())].cut(self.draws.below(MOST_PATHS));
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
        self.watched.retain_mut(|(whom, busy)| {
            let Some(shared) = whom.upgrade() else { return false };
            if shared.look(now, &mut orders) {
                *busy = now;
            }
            let stays = now.saturating_duration_since(*busy) < LINGER || !shared.unwatch();
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
        self.dials.extend(orders.into_iter().filter_map(Dial::begin));
    }

    /// Waits until something comes, and sees to it.
    fn wait(&mut self, patience: Option<Duration>) {
        let keeper = self.keeper.clone();
        let mut files = vec![PollFd::new(&keeper.wake, PollFlags::IN)];
        let room = self.has_room(Instant::now()) && Instant::now() >= self.full;
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
            self.guests.extend(guest.heard(&keeper, came, now));
        }
        let dials = std::mem::take(&mut self.dials);
        for (dial, came) in dials.into_iter().zip(came.by_ref()) {
            self.dials.extend(dial.answered(came, now));
        }
        let leaving = std::mem::take(&mut self.leaving);
        self.leaving.extend(leaving.into_iter().zip(came).filter_map(|((socket, until), came)| {
            (now < until && !(came && at_its_end(&socket))).then_some((socket, until))
        }));
        for (door, _) in self.doors.iter().zip(doors).filter(|(_, came)| *came) {
            // The others wait at the door: many ranks may come at once.
            while self.has_room(now) {
                let socket = match accept_with(door, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                    Ok(socket) => socket,
                    Err(Errno::AGAIN) => break,
                    Err(error) => {
                        log::info(&format!("NET/busbw: no path is let in for a while: {error}"));
                        self.full = now + FULL;
                        break;
                    }
                };
                if self.guests.len() == STRANGERS {
                    self.guests.remove(0);
                }
                self.guests.extend(Guest::new(socket, now));
            }
        }
    }

    /// Whether another guest may be let in, if need be in the place of the oldest.
    fn has_room(&self, now: Instant) -> bool {
        self.guests.len() < STRANGERS || self.guests.first().is_some_and(|guest| guest.is_slow(now))
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
