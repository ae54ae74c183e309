//! What moves: words of clear-to-send are written, chunks that have arrived are counted, whoever calls.
//! Not how paths come and go (`upkeep`).

use std::{
    mem,
    time::{Duration, Instant},
};

use busbw_multipath::{Error, MAX_PATHS};
use busbw_verbs::Ended;

use super::{
    super::queue_pairs::{Kind, SENDS, Tag},
    Connection, PathState, State, Up,
};

/// Between two looks at sockets and ports.
const TEND_INTERVAL: Duration = Duration::from_millis(1);
/// A word is written once more after so long in which nothing of its message has arrived: what was written may have been lost
/// with a path that only the other end knows to be gone.
const REWRITE_INTERVAL: Duration = Duration::from_millis(200);

impl Connection {
    /// Takes what has completed, and writes what is to be written.
    pub(super) fn progress(&self, state: &mut State) {
        self.collect(state);
        let now = Instant::now();
        let is_time = state
            .tended
            .is_none_or(|tended| now.saturating_duration_since(tended) >= TEND_INTERVAL);
        if is_time && self.failure.get().is_none() {
            state.tended = Some(now);
            self.tend(state, now);
            self.write_grants(state);
        }
    }

    /// Takes what has completed, and gives paths up that have failed.
    pub(super) fn collect(&self, state: &mut State) {
        self.count(state);
        while let Some((tag, status)) = state.failed.pop() {
            let is_it = state.paths.get(tag.path).is_some_and(|path| path.epoch == Some(tag.epoch));
            if is_it && !matches!(state.paths[tag.path].link, PathState::Down) {
                let text = state.queues[self.port(tag.path)].status_text(status);
                let why = format!("a request completed with '{text}'");
                self.lose(state, tag.path, &why);
            }
        }
    }

    /// Takes what has completed, and counts what has arrived. What has failed is kept.
    pub(super) fn count(&self, state: &mut State) {
        let mut told = mem::take(&mut state.told);
        for queue in &state.queues {
            while queue.poll_all(|ended| told.push(ended)).is_ok_and(|taken| taken > 0) {}
        }
        for ended in told.drain(..) {
            let Some(tag) = Tag::of(ended.id) else { continue };
            match (tag.kind, ended.status) {
                // Its path is its request.
                (Kind::Flush, status) => self.flushed(state, tag.path, status),
                (_, 0) => self.completed(state, tag, &ended),
                (kind, status) => {
                    let path = state.paths.get_mut(tag.path);
                    if let Some(path) = path.filter(|path| path.epoch == Some(tag.epoch)) {
                        // Receives are flushed behind those that something has arrived for.
                        path.is_flushed |= kind == Kind::Arrival;
                    }
                    state.failed.push((tag, status));
                }
            }
        }
        state.told = told;
    }

    fn completed(&self, state: &mut State, tag: Tag, ended: &Ended) {
        let Some(path) = state.paths.get_mut(tag.path) else { return };
        let (true, PathState::Up(up) | PathState::Answered(up)) =
            (path.epoch == Some(tag.epoch), &mut path.link)
        else {
            return;
        };
        if tag.kind == Kind::Grant {
            up.in_flight -= 1;
            return;
        }
        path.arrived += 1;
        state.hot = tag.path;
        // Its place in the queue is free again. It fails with the queue pair, which tells by itself.
        let _ = up.pair.post_empty_receives(ended.id, 1);
        match state.arrivals.arrived(ended.immediate, ended.bytes) {
            Ok(None) => {}
            Ok(Some((request, bytes))) => {
                state.results[request] = Some(bytes);
                state.grants.retain(|granted| granted.request != request);
            }
            Err(error) => self.fail(state, Error::Protocol(error.to_string())),
        }
    }

    /// A GPU's memory was read back, or not.
    fn flushed(&self, state: &mut State, request: usize, status: i32) {
        match state.results.get_mut(request) {
            Some(result) if status == 0 => {
                state.flushing[request] -= 1;
                if state.flushing[request] == 0 {
                    *result = Some(0);
                }
            }
            _ => {
                let text = state.queues[0].status_text(status);
                let text = format!("reading back what was received completed with '{text}'");
                self.fail(state, Error::Protocol(text));
            }
        }
    }

    /// Writes the words of clear-to-send that the other end does not have, by the path that something arrived by last, or by
    /// the next that is up.
    pub(super) fn write_grants(&self, state: &mut State) {
        let now = Instant::now();
        for at in 0..state.grants.len() {
            let granted = &state.grants[at];
            let is_due = match granted.written {
                None => true,
                Some((when, path, epoch)) => {
                    let is_there =
                        state.paths[path].epoch == Some(epoch) && state.paths[path].link.is_up();
                    let is_late = now.saturating_duration_since(when) >= REWRITE_INTERVAL;
                    (!is_there || is_late) && state.arrivals.is_untouched(granted.grant.message)
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
        let hot = state.hot;
        let Some(number) = (hot..MAX_PATHS).chain(0..hot).find(can) else { return false };
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
            }
            Err(error) => self.lose(state, number, &error.to_string()),
        }
        true
    }
}
