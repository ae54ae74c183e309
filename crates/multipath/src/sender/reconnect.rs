//! Paths come up, are lost, and are connected again; and when a connection without paths has failed.
//! Not whether a path is lost (`recovery`).

use std::time::Duration;

use super::{
    Action, ConnectError, End, Health, Link, Loss, Notice, Sender,
    path::{Down, Kept, keeps_port},
};
use crate::{CONNECTION_TIMEOUT, Request, Source, Time};

/// Between two attempts at a path.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// The peer refuses all paths for so long: its process has ended.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// It refuses probes so long, and nothing was heard on paths that are up for this long: the same.
const SILENT_REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// From the port that it had, a path has twice its round trip to connect: at least and at most so long.
const KEPT_PORT_TIMEOUT: (Duration, Duration) =
    (Duration::from_millis(250), Duration::from_secs(1));
/// A path that fell silent connects only from the port that it had, for so long.
const KEEP_PORT: Duration = Duration::from_secs(30);

impl<M: Source> Sender<M> {
    /// Begins to connect all paths.
    pub fn connect(&mut self, actions: &mut Vec<Action>) {
        let now = self.began;
        (0..self.paths.len()).for_each(|path| self.connect_path(path, now, actions));
    }

    fn connect_path(&mut self, path: usize, now: Time, actions: &mut Vec<Action>) {
        let any_up = self.up > 0;
        let one = &mut self.paths[path];
        let epoch = one.epoch;
        let Some(down) = one.down() else { return };
        down.is_connecting = true;
        // Not if everything else is down as well; and after a while half of the paths take new ports. Not
        // by the path's number, which may be its
        // interface's, nor by the port's last bit, which the kernel prefers.
        let keeps =
            |kept: &Kept| any_up && (kept.port.0 / 2 % 2 == 1 || now.since(kept.lost) < KEEP_PORT);
        let kept = down.kept.filter(keeps);
        one.epoch = epoch.wrapping_add(1);
        actions.push(Action::Connect {
            path,
            epoch,
            port: kept.map(|kept| kept.port),
            timeout: kept.map(|kept| kept.timeout),
        });
    }

    /// A path is up.
    pub fn connected(&mut self, path: usize, now: Time, actions: &mut Vec<Action>) {
        let one = &mut self.paths[path];
        let Some(down) = one.down() else { return };
        if let Some(why) = down.reported_loss() {
            one.counts.lost += 1;
            actions.push(Action::Notify(Notice::Lost { path, why, now: "it is back".to_owned() }));
        }
        one.connected(now);
        self.up += 1;
    }

    /// A path did not come up.
    pub fn not_connected(
        &mut self,
        path: usize,
        error: ConnectError,
        why: &str,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let is_over = self.end.is_some();
        let one = &mut self.paths[path];
        let Some(down) = one.down() else { return };
        down.since = now;
        down.is_connecting = false;
        down.refused = match error {
            ConnectError::Refused => down.refused.or(Some(now)),
            _ => None,
        };
        if error == ConnectError::PortTaken {
            down.kept = None;
        }
        // The peer may have ended just as it should: a path that comes back, or fails otherwise, tells.
        let may_be_over = down.refused.is_some() || is_over;
        if !may_be_over && let Some(loss) = down.reported_loss() {
            let now = format!("{why}; it is tried again");
            actions.push(Action::Notify(Notice::Lost { path, why: loss, now }));
            one.counts.lost += 1;
        } else if down.kept.is_none() && !down.is_reported {
            down.is_reported = true;
            actions.push(Action::Notify(Notice::NotConnected { path, why: why.to_owned() }));
        }
    }

    /// A path is lost: what it had in flight goes over the others. Calls `done(request, bytes)` for messages that only
    /// waited for this path to let go of their memory.
    pub fn lost(
        &mut self,
        path: usize,
        loss: &Loss,
        health: &Health,
        now: Time,
        actions: &mut Vec<Action>,
        mut done: impl FnMut(Request, usize),
    ) {
        if self.delivers(path, health) == Some(false) {
            self.blackholed.get_or_insert(now);
        }
        let one = &mut self.paths[path];
        let Link::Up(up) = std::mem::replace(&mut one.link, Link::Down(Down::since(now))) else {
            return;
        };
        // Who sees that none is up is to see since when.
        self.down_since = now;
        self.up -= 1;
        // A path that delivers nothing may be lost again and again, as fast as it is connected.
        let waits = up.unproven().is_some_and(|since| now.since(since) < RETRY_INTERVAL);
        // One that lets nothing through but handshakes is better off on another link.
        let keeps = up.unproven().is_none() && keeps_port(loss);
        let is_held = one.holds();
        let mut chunks = Vec::new();
        for (chunk, is_alone) in up.lost() {
            if is_held {
                self.messages.release(&chunk.header, &mut done);
            }
            if is_alone {
                chunks.push(chunk);
            }
        }
        one.counts.requeued += chunks.len() as u64;
        if let Some(down) = one.down() {
            let (least, most) = KEPT_PORT_TIMEOUT;
            let timeout = (2 * health.round_trip).clamp(least, most);
            down.kept = health.port.filter(|_| keeps).map(|port| Kept { port, lost: now, timeout });
            down.loss = Some(format!("{loss}; {} chunks went over others", chunks.len()));
        }
        self.messages.requeue(chunks);
        if !waits {
            self.connect_path(path, now, actions);
        }
    }

    /// Looks whether anything is stuck, and has paths connected that are missing. To be called a few times in
    /// each 100 ms while anything is
    /// in flight. Whether there is a reason to call it again soon.
    pub fn check_paths(&mut self, now: Time, actions: &mut Vec<Action>) -> bool {
        if self.end.is_some() {
            return false;
        }
        for path in 0..self.paths.len() {
            match &self.paths[path].link {
                Link::Up(_) => self.check_up(path, now, actions),
                Link::Down(down) => {
                    if !down.is_connecting && now.since(down.since) >= RETRY_INTERVAL {
                        self.connect_path(path, now, actions);
                    }
                }
            }
        }
        if let Some(end) = self.failure(now) {
            self.finish(end);
        }
        // As long as nothing is to be sent, a missing path is nobody's trouble.
        let is_young = now.since(self.began) < CONNECTION_TIMEOUT;
        !self.is_idle() || (self.up < self.paths.len() && is_young)
    }

    /// Why the connection has failed, once no path has come up for too long, or none that delivers.
    fn failure(&self, now: Time) -> Option<End> {
        let count = self.paths.len();
        if self.up > 0 {
            if self.is_idle() {
                return None;
            }
            // A path may stay up whose link drops what the peer's host has to say of it.
            let is_refused = self.probes.refused_for(now) >= REFUSAL_TIMEOUT;
            if is_refused && now.since(self.heard) >= SILENT_REFUSAL_TIMEOUT {
                return Some(End::Refused);
            }
            let since = self.blackholed?;
            return (now.since(since) >= CONNECTION_TIMEOUT).then_some(End::Blackholed(count));
        }
        let refused = self.paths.iter().map(|path| match &path.link {
            Link::Down(down) => down.refused,
            Link::Up(_) => None,
        });
        // By all of them, since the last of them was.
        let refused = refused.reduce(|all, one| Some(all?.max(one?))).flatten();
        if refused.is_some_and(|since| now.since(since) >= REFUSAL_TIMEOUT) {
            return Some(End::Refused);
        }
        (now.since(self.down_since) >= CONNECTION_TIMEOUT).then_some(End::AllDown(count))
    }

    /// Every path has ended with the connection: none is connected again.
    pub fn take_down(&mut self, now: Time) {
        for path in &mut self.paths {
            path.link = Link::Down(Down { is_connecting: true, ..Down::since(now) });
        }
        self.up = 0;
    }

    /// The connection ends as it should: paths of which it is not known yet why they ended have ended with it.
    pub fn forget_losses(&mut self) {
        for path in &mut self.paths {
            if let Some(down) = path.down() {
                down.loss = None;
            }
        }
    }
}
