//! Unreliable paths: which of them takes the next chunk, what was lost, and what is sent again when.
//! Not their windows (`congestion`).

use std::time::Duration;

use super::{Action, Link, Loss, Sender, path::Path};
use crate::{ACK_WINDOW, Ack, Request, Source, Time};

/// A chunk is lost when so many later ones of its path were acknowledged; where nothing is reordered, when one was.
const REORDERED: u64 = 3;
/// A path is lost after so many retransmission timeouts in a row, which take so long at least.
const MAX_TIMEOUTS: (u32, Duration) = (2, Duration::from_millis(600));
/// Chunks in flight before a connection has measured any round trip: it may have hundreds of paths, all over one link.
const INITIAL_CHUNKS: usize = 2;

impl<M: Source> Sender<M> {
    /// The unreliable path that would deliver the next chunk first, if any may send one now. Whoever gets it calls
    /// [`next`](Sender::next) for it, which gives one chunk or none; this chunk has the number that
    /// [`next_number`](Sender::next_number) said before.
    #[must_use]
    pub fn choose(&self, now: Time) -> Option<usize> {
        self.choose_among(now, |_| true)
    }

    /// As [`choose`](Sender::choose), of those paths that the driver has room for.
    #[must_use]
    pub fn choose_among(&self, now: Time, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        if !self.messages.has_work() {
            return None;
        }
        let may_send = |(number, path): &(usize, &Path<M>)| {
            has_room(*number) && self.has_window(*number) && path.is_spaced(now)
        };
        let delivers = |path: &Path<M>| path.load().expected(path.chunk_bytes());
        let able = self.paths.iter().enumerate().filter(may_send);
        able.min_by_key(|(_, path)| delivers(path)).map(|(number, _)| number)
    }

    /// Whether an unreliable path may begin: some path's round trip is known, or little is in flight.
    pub(super) fn may_begin(&self, path: usize) -> bool {
        let Some(window) = &self.paths[path].window else { return true };
        let is_known =
            |path: &Path<M>| path.window.as_ref().is_some_and(|it| it.round_trip().is_some());
        window.round_trip().is_some()
            || self.paths.iter().any(is_known)
            || self.in_flight_anywhere() < INITIAL_CHUNKS * self.chunk as usize
    }

    fn in_flight_anywhere(&self) -> usize {
        (0..self.paths.len()).map(|path| self.in_flight(path)).sum()
    }

    /// The longest retransmission timeout of those that are known from round trips.
    pub(super) fn known_timeout(&self) -> Option<Duration> {
        self.paths.iter().filter_map(|path| path.window.as_ref()?.base_timeout()).max()
    }

    /// Number that the next chunk of a path has there.
    #[must_use]
    pub fn next_number(&self, path: usize) -> u64 {
        match &self.paths[path].link {
            Link::Up(up) => up.first + up.flights.len() as u64,
            Link::Down(_) => 0,
        }
    }

    /// Smoothed round trip of an unreliable path, once any was measured.
    #[must_use]
    pub fn round_trip(&self, path: usize) -> Option<Duration> {
        self.paths[path].window.as_ref()?.round_trip()
    }

    /// The receiver acknowledges chunks of an unreliable path. Calls `done(request, bytes)` for each message
    /// that is complete so.
    pub fn acknowledged_datagrams(
        &mut self,
        ack: &Ack,
        now: Time,
        mut done: impl FnMut(Request, usize),
    ) {
        let Sender { messages, paths, .. } = self;
        let Some(Path { link: Link::Up(up), capabilities, window, pace, counts, .. }) =
            paths.get_mut(ack.path)
        else {
            return;
        };
        let Some(window) = window else { return };
        let reordered = if capabilities.is_ordered { 1 } else { REORDERED };
        let (mut bytes, mut round_trip, mut lost) = (0, None, Vec::new());
        for (number, flight) in (up.first..).zip(up.flights.iter_mut()) {
            if number >= ack.next + ACK_WINDOW {
                break;
            }
            if flight.is_over {
                continue;
            }
            let length = flight.chunk.header.bytes();
            if ack.has(number) {
                flight.is_over = true;
                up.in_flight -= length;
                bytes += length;
                if messages.acknowledged(&flight.chunk.header, &mut done) {
                    counts.bytes += length as u64;
                }
                if number == ack.newest {
                    round_trip = Some(now.since(flight.sent));
                }
            } else if number + reordered <= ack.newest {
                flight.is_over = true;
                up.in_flight -= length;
                window.lost(length);
                if !flight.is_hedged {
                    lost.push(flight.chunk.clone());
                }
            }
        }
        up.let_go();
        counts.requeued += lost.len() as u64;
        messages.requeue(lost);
        if let Some(round_trip) = round_trip {
            window.acknowledged(bytes, round_trip, ack.time, now);
            if let Some(known) = window.pace() {
                pace.set(known);
            }
        }
        if bytes > 0 {
            up.heard = now;
            self.heard = now;
            self.blackholed = None;
            self.probes.answered();
        }
    }

    /// Sends again what unreliable paths have in flight for longer than their retransmission timeout. To be called at
    /// [`next_timeout`](Sender::next_timeout).
    pub fn check_datagrams(&mut self, now: Time, actions: &mut Vec<Action>) {
        let known = self.known_timeout();
        let Sender { messages, paths, .. } = self;
        for (number, path) in paths.iter_mut().enumerate() {
            let Path { link: Link::Up(up), window: Some(window), counts, .. } = path else {
                continue;
            };
            let Some(since) = up.waiting_since() else { continue };
            if now.since(since) < window.timeout(known) {
                continue;
            }
            window.timed_out(now);
            for flight in up.flights.iter_mut().filter(|flight| !flight.is_over) {
                flight.is_over = true;
                if !flight.is_hedged {
                    counts.requeued += 1;
                    messages.requeue([flight.chunk.clone()]);
                }
            }
            up.in_flight = 0;
            up.let_go();
            let silence = window.silence(now);
            if window.timeouts >= MAX_TIMEOUTS.0 && silence >= MAX_TIMEOUTS.1 {
                let timeouts = window.timeouts.try_into().unwrap_or(u8::MAX);
                let loss = Loss::Silent { silence, timeouts };
                actions.push(Action::GiveUp { path: number, loss });
            }
        }
    }

    /// When [`check_datagrams`](Sender::check_datagrams) has something to do, or [`choose`](Sender::choose)
    /// finds a path that had to wait, at the soonest.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let has_work = self.messages.has_work();
        let known = self.known_timeout();
        let of_path = |(number, path): (usize, &Path<M>)| {
            let (Link::Up(up), Some(window)) = (&path.link, &path.window) else { return None };
            let timeout = up.waiting_since().map(|since| since + window.timeout(known));
            let waits = has_work && self.has_window(number) && !path.is_spaced(now);
            let space = waits.then(|| window.next_send(now));
            timeout.into_iter().chain(space).min()
        };
        self.paths.iter().enumerate().filter_map(of_path).min()
    }
}
