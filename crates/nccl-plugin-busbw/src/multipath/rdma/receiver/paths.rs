//! What moves: chunks that have arrived are counted, whoever calls.
//! Not what is written to the other end (`words`), nor how paths come and go (`upkeep`).

use std::{
    mem,
    time::{Duration, Instant},
};

use busbw_multipath::Error;
use busbw_verbs::Ended;

use super::{
    super::{
        arrival::Label,
        queue_pairs::{Kind, Tag},
    },
    Connection, PathState, State,
};

/// Between two looks at sockets and ports.
const TEND_INTERVAL: Duration = Duration::from_millis(1);

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
        self.write_acknowledgements(state);
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
        if tag.kind != Kind::Arrival {
            up.in_flight -= 1;
            return;
        }
        state.hot = tag.path;
        // Its place in the queue is free again. It fails with the queue pair, which tells by itself.
        let _ = up.pair.post_empty_receives(ended.id, 1);
        let label = match up.is_reliable {
            true => {
                path.settled.below += 1;
                Some(Label::of(ended.immediate))
            }
            false => {
                path.owes = true;
                let (number, label) = Label::of_numbered(ended.immediate);
                let settled = match label {
                    Some(_) => path.settled.arrived(number),
                    None => path.settled.sent_below(number),
                };
                if let Err(error) = settled {
                    self.fail(state, Error::Protocol(format!("path {}: {error}", tag.path)));
                    return;
                }
                label
            }
        };
        // A ping says nothing more.
        let Some(label) = label else { return };
        match state.arrivals.arrived(label, ended.bytes) {
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
}
