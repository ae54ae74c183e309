//! What is written into the table at the other end: words of clear-to-send, and acknowledgements of unreliable queue pairs.
//! Not what they hold (`clear_to_send`, `acknowledgement`).

use std::time::{Duration, Instant};

use busbw_multipath::MAX_PATHS;

use super::{
    super::{
        acknowledgement::Acknowledgement,
        exchange::Word,
        queue_pairs::{Kind, SENDS, Tag},
    },
    Connection, Granted, Path, PathState, State, Up,
};
use crate::multipath::{clock, locks::lock};

/// A word is written once more after so long in which nothing of its message has arrived: what was written may have been lost
/// with a path that only the other end knows to be gone.
const REWRITE_INTERVAL: Duration = Duration::from_millis(200);
/// The same by an unreliable queue pair, which may lose it at any time; then twice as long each time, up to that.
const UNRELIABLE_REWRITE_INTERVAL: Duration = Duration::from_millis(4);

impl Connection {
    /// Writes the words of clear-to-send that the other end does not have, by the path that something arrived by last, or by
    /// the next that is up.
    pub(super) fn write_grants(&self, state: &mut State) {
        let now = Instant::now();
        for at in 0..state.grants.len() {
            let granted = &state.grants[at];
            let is_due = match granted.written {
                None => true,
                Some((when, path, epoch)) => {
                    let path = &state.paths[path];
                    let is_lost = match &path.link {
                        PathState::Up(up) if path.epoch == Some(epoch) => {
                            now.saturating_duration_since(when) >= granted.patience(up)
                        }
                        _ => true,
                    };
                    is_lost && state.arrivals.is_untouched(granted.grant.message)
                }
            };
            if is_due && !self.write_grant(state, at, now) {
                return;
            }
        }
    }

    /// Whether a path took it.
    fn write_grant(&self, state: &mut State, at: usize, now: Instant) -> bool {
        let can = |number: &usize| match &state.paths[*number].link {
            PathState::Up(up) => up.in_flight < SENDS / 2,
            _ => false,
        };
        let able = || (state.hot..MAX_PATHS).chain(0..state.hot).filter(can);
        // By another path each time.
        let skipped = state.grants[at].writes as usize % able().count().max(1);
        let Some(number) = able().nth(skipped) else { return false };
        let State { grants, paths, table, .. } = state;
        let path = &mut paths[number];
        let (PathState::Up(Up { pair, table: there, in_flight, .. }), Some(epoch)) =
            (&mut path.link, path.epoch)
        else {
            return false;
        };
        let tag = Tag { kind: Kind::Grant, path: number, epoch }.number();
        let written =
            table.put(&grants[at].grant, self.port(number), *there).and_then(|(from, to)| {
                // SAFETY: the table is there for as long as the queue pairs, and its word stays until its message is done.
                unsafe { pair.write(tag, from, to, None, true) }
            });
        match written {
            Ok(()) => {
                *in_flight += 1;
                grants[at].written = Some((now, number, epoch));
                grants[at].writes += 1;
            }
            Err(error) => self.lose(state, number, &error.to_string()),
        }
        true
    }

    /// Tells the other end over TCP what has arrived by unreliable queue pairs: the connection ends, and the last acknowledgement
    /// may be lost.
    pub(super) fn say_settled(&self) {
        let state = &mut *lock(&self.state);
        for path in &state.paths {
            if let PathState::Up(Up { talk, is_reliable: false, .. }) = &path.link {
                let _ = talk.say(Word::Stopped(path.settled));
            }
        }
    }

    /// Tells the other end what has arrived by unreliable queue pairs, if it was not told.
    pub(super) fn write_acknowledgements(&self, state: &mut State) {
        for number in 0..state.paths.len() {
            let State { paths, table, .. } = &mut *state;
            let Path { link, epoch: Some(epoch), settled, owes, .. } = &mut paths[number] else {
                continue;
            };
            let (PathState::Answered(up) | PathState::Up(up)) = link else { continue };
            if !*owes || up.in_flight >= SENDS / 2 {
                continue;
            }
            *owes = false;
            let (epoch, settled) = (*epoch, *settled);
            let said = Acknowledgement { epoch, settled, time: clock::of_host() };
            let tag = Tag { kind: Kind::Acknowledgement, path: number, epoch }.number();
            let written = table.put_acknowledgement(number, &said, self.port(number), up.table);
            let written = written.and_then(|(from, to)| {
                // SAFETY: the table is there for as long as the queue pairs. What is written over before it was sent is told
                // from a whole one by its sum.
                unsafe { up.pair.write(tag, from, to, None, true) }
            });
            match written {
                Ok(()) => up.in_flight += 1,
                Err(error) => self.lose(state, number, &error.to_string()),
            }
        }
    }
}

impl Granted {
    /// How long nothing of its message may arrive before it is written once more.
    fn patience(&self, up: &Up) -> Duration {
        if up.is_reliable {
            return REWRITE_INTERVAL;
        }
        let doubled = UNRELIABLE_REWRITE_INTERVAL * (1 << self.writes.saturating_sub(1).min(6));
        doubled.min(REWRITE_INTERVAL)
    }
}
