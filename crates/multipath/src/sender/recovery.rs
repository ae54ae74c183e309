//! When acknowledgements are late: hedging, pings, probes, and when a path counts as lost.
//! Not connecting it anew (`reconnect`).

use std::time::Duration;

use super::{Action, Chunk, Health, Link, Loss, Sender, path::Path};
use crate::{Source, Time};

/// What is in flight for longer than this, and than four times what was expected, is hedged.
const HEDGE_TIMEOUT: Duration = Duration::from_millis(20);
/// What is late for so long while nothing else moves: the other paths are asked whether the receiver reads.
const IDLE_PING_TIMEOUT: Duration = Duration::from_millis(100);
/// A path that places what it carries is given up when it is late for so long, and for eight times what was expected: half a
/// second is about what a queue pair needs to find out by itself.
const GIVE_UP_TIMEOUT: Duration = Duration::from_millis(500);
/// The receiver is asked to acknowledge after so long.
const PING_TIMEOUT: Duration = Duration::from_millis(50);
/// Between two pings on a path.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// A path is lost after so many retransmission timeouts of TCP in a row: 0.2 + 0.4 s.
const MAX_TIMEOUTS: u8 = 2;
/// Between two probes over the same addresses while the peer is not heard of; then twice as long each time, at most eight
/// times. A quarter of it while it is.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The peer's host is gone when it has answered no probe for so long: a path on which acknowledgements are late
/// is lost. TCP does not
/// notice while its receive window is closed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Probes of the peer's host.
pub(super) struct Probes {
    /// For each path, which pair of addresses it joins.
    groups: Vec<usize>,
    /// For each of these, when it was last probed, and how often since the peer was heard of.
    sent: Vec<(Option<Time>, u32)>,
    /// Since when none is answered.
    unanswered: Option<Time>,
    /// Since when each that is answered is refused: the peer's host is there, its process is not.
    refused: Option<Time>,
}

impl Probes {
    pub(super) fn new(groups: Vec<usize>) -> Probes {
        let sent = vec![(None, 0); groups.iter().max().map_or(0, |most| most + 1)];
        Probes { groups, sent, unanswered: None, refused: None }
    }

    /// The peer's host is there.
    pub(super) fn answered(&mut self) {
        (self.unanswered, self.refused) = (None, None);
    }

    /// How long the peer's process has refused all probes that arrived.
    pub(super) fn refused_for(&self, now: Time) -> Duration {
        self.refused.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether it is time for another probe over the addresses of this path; the peer was heard of at `heard`.
    fn is_due(&mut self, path: usize, heard: Time, now: Time) -> bool {
        let (last, count) = &mut self.sent[self.groups[path]];
        if last.is_some_and(|last| heard > last) {
            *count = 0;
        }
        let pause = match *count {
            0 => PROBE_INTERVAL / 4,
            _ => PROBE_INTERVAL * (1 << (*count - 1).min(3)),
        };
        if last.is_some_and(|last| now.since(last) < pause) {
            return false;
        }
        *last = Some(now);
        *count = count.saturating_add(1);
        true
    }
}

impl<M: Source> Sender<M> {
    /// How long this path's acknowledgements may be late before it is hedged, and since when it waits for one.
    fn lateness(path: &Path<M>) -> Option<(Duration, Time)> {
        let Link::Up(up) = &path.link else { return None };
        let limit = HEDGE_TIMEOUT.max(4 * Duration::from_nanos(path.expected()));
        up.waiting_since().filter(|_| !up.is_suspected).map(|since| (limit, since))
    }

    /// Whether others were heard of while a path was not, so that the receiver reads.
    fn is_late(&self, (limit, since): (Duration, Time), now: Time) -> bool {
        now.since(since) > limit && self.heard > since + limit / 2
    }

    /// What is in flight for too long is to be hedged, if other paths are heard of; where none is, they are
    /// asked. To be called every few milliseconds while
    /// anything is in flight.
    pub fn check_late(&mut self, now: Time, actions: &mut Vec<Action>) {
        let mut is_alone = false;
        for path in 0..self.paths.len() {
            if let Link::Up(up) = &self.paths[path].link
                && up.waiting_since().is_none()
            {
                self.paths[path].pace.fade();
            }
            if self.paths[path].capabilities.is_placed {
                is_alone |= self.doubt(path, now, actions);
            }
            let Some(lateness) = Self::lateness(&self.paths[path]) else { continue };
            if self.is_late(lateness, now) {
                actions.push(Action::Hedge(path));
            } else {
                let (limit, since) = lateness;
                is_alone |= now.since(since) > limit.max(IDLE_PING_TIMEOUT);
            }
        }
        if !is_alone {
            return;
        }
        // One of the paths on which nothing is in flight answers if a message is missing.
        for (number, path) in self.paths.iter_mut().enumerate() {
            if let Some(up) = path.up()
                && up.waiting_since().is_none()
                && up.ask(now, PING_INTERVAL)
            {
                actions.push(Action::Ping(number));
            }
        }
    }

    /// A path that places what it carries takes no more chunks while it is late, and is given up after long. Whether it would be,
    /// were others heard of: they may have nothing in flight any more.
    fn doubt(&mut self, path: usize, now: Time, actions: &mut Vec<Action>) -> bool {
        if Self::lateness(&self.paths[path]).is_some_and(|late| self.is_late(late, now))
            && let Some(up) = self.paths[path].up()
        {
            up.is_suspected = true;
        }
        let limit = GIVE_UP_TIMEOUT.max(8 * Duration::from_nanos(self.paths[path].expected()));
        let Link::Up(up) = &self.paths[path].link else { return false };
        let Some(since) = up.waiting_since().filter(|_| up.is_suspected) else { return false };
        let is_over = now.since(since) > limit;
        if self.is_late((limit, since), now) {
            let loss = Loss::Silent { silence: now.since(since), timeouts: 0 };
            actions.push(Action::GiveUp { path, loss });
            return false;
        }
        is_over
    }

    /// What is in flight on this path goes over others as well, if it is late still. `writing` is what the
    /// path has not written completely: it becomes
    /// a copy, so that its message may be done before.
    pub fn hedge(&mut self, path: usize, now: Time, writing: &mut [Chunk<M>]) {
        if !Self::lateness(&self.paths[path]).is_some_and(|lateness| self.is_late(lateness, now)) {
            return;
        }
        let Path { link: Link::Up(up), counts, .. } = &mut self.paths[path] else { return };
        let copies = up.hedge(writing);
        counts.hedged += copies.len() as u64;
        self.messages.requeue(copies);
    }

    /// Looks after a path that is up: asks the receiver, and whoever knows more of the path.
    pub(super) fn check_up(&mut self, path: usize, now: Time, actions: &mut Vec<Action>) {
        let Some(up) = self.paths[path].up() else { return };
        let late = match up.waiting_since() {
            // TCP does not look by itself whether the peer is there that was asked.
            None => up.is_asked(),
            Some(since) if now.since(since) < PING_TIMEOUT => false,
            Some(_) => {
                if up.ask(now, PING_INTERVAL) {
                    actions.push(Action::Ping(path));
                }
                if self.probes.is_due(path, self.heard, now) {
                    actions.push(Action::Probe(path));
                }
                true
            }
        };
        if late || self.blackholed.is_some() {
            actions.push(Action::Inspect(path));
        }
    }

    /// What is known of a path's connection. Why the path is to be given up, if it is.
    #[must_use]
    pub fn inspected(&mut self, path: usize, health: &Health, now: Time) -> Option<Loss> {
        // What the peer's host has came through, whoever reads it there.
        if self.delivers(path, health) == Some(true) {
            self.blackholed = None;
        }
        let Path { link: Link::Up(up), .. } = &self.paths[path] else { return None };
        let since = up.waiting_since();
        if since.is_none() && !up.is_asked() {
            return None;
        }
        if let Some(since) = since
            && let Some(unanswered) = self.probes.unanswered
        {
            // Not longer than this is late, and not while the peer's host is heard of, whoever is held up there.
            let time = now.since(unanswered.max(since));
            if time > PROBE_TIMEOUT && health.silence >= PROBE_TIMEOUT {
                return Some(Loss::Unreachable(time));
            }
        }
        let is_late = since.is_none_or(|since| now.since(since) >= PING_TIMEOUT);
        (is_late && health.is_in_flight && health.timeouts >= MAX_TIMEOUTS)
            .then_some(Loss::Silent { silence: health.silence, timeouts: health.timeouts })
    }

    /// Whether the peer's host has acknowledged anything of what is in flight; nothing where nothing is, or
    /// where that is unknown.
    pub(super) fn delivers(&self, path: usize, health: &Health) -> Option<bool> {
        let Path { link: Link::Up(up), .. } = &self.paths[path] else { return None };
        up.waiting_since()?;
        Some(health.undelivered? < up.framed_bytes())
    }

    /// The peer's host has answered a probe.
    pub fn probe_answered(&mut self) {
        self.probes.answered();
    }

    /// It refuses the probe: nobody listens there.
    pub fn probe_refused(&mut self, now: Time) {
        self.probes.unanswered = None;
        self.probes.refused.get_or_insert(now);
    }

    /// It has not, nor does anything else say that it is there.
    pub fn probe_unanswered(&mut self, now: Time) {
        self.probes.unanswered.get_or_insert(now);
    }
}
