//! What moves: chunks become writes, completions are acknowledgements, whoever calls.
//! Not paths themselves (`upkeep`, `stopping`).

use std::{mem, time::Duration};

use busbw_multipath::{End, Loss, Request, Time, frame::Header};
use busbw_verbs::{Ended, VerbsError};

use super::{
    super::{
        arrival,
        queue_pairs::{Kind, SENDS, Tag},
    },
    Connection, Path, PathState, State, Up,
};

/// Between two looks at sockets, ports and what is late.
const TEND_INTERVAL: Duration = Duration::from_millis(1);
/// `IBV_WC_RETRY_EXC_ERR`: nothing was acknowledged, however often it was sent.
const RETRIES_EXCEEDED: i32 = 12;

impl Connection {
    /// Takes what has completed, and moves what can be moved.
    pub(super) fn progress(&self, state: &mut State) {
        self.collect(state);
        self.move_out(state);
        let now = self.now();
        if now.since(state.tended) >= TEND_INTERVAL {
            state.tended = now;
            self.tend(state, now);
        }
    }

    /// Takes what has completed.
    pub(super) fn collect(&self, state: &mut State) {
        let mut told = mem::take(&mut state.told);
        for queue in &state.queues {
            // As much as there is: one question takes a few.
            while queue.poll_all(|ended| told.push(ended)).is_ok_and(|taken| taken > 0) {}
        }
        if !told.is_empty() {
            let now = self.now();
            told.drain(..).for_each(|ended| self.completed(state, &ended, now));
        }
        state.told = told;
        if !self.is_reliable {
            self.read_acknowledgements(state);
        }
    }

    fn completed(&self, state: &mut State, ended: &Ended, now: Time) {
        let Some(tag) = Tag::of(ended.id) else { return };
        let Some(path) = state.paths.get_mut(tag.path).filter(|path| path.epoch == tag.epoch)
        else {
            return;
        };
        let is_chunk = tag.kind == Kind::Chunk;
        match &mut path.link {
            PathState::Proving { .. } | PathState::Up(_) if ended.status != 0 => {
                let timed_out = ended.status == RETRIES_EXCEEDED;
                let why = match timed_out {
                    true => "the other end's port does not answer".to_owned(),
                    false => {
                        let queue = &state.queues[self.port(tag.path)];
                        format!("a write completed with '{}'", queue.status_text(ended.status))
                    }
                };
                self.lose(state, tag.path, Loss::Ended { why, timed_out }, now);
            }
            PathState::Up(up) if is_chunk => {
                up.in_flight -= 1;
                if self.is_reliable {
                    path.acknowledged += 1;
                    self.acknowledge(state, tag.path, 1, now);
                }
            }
            // It was sent, no more.
            PathState::Proving { up, .. } | PathState::Up(up) if !self.is_reliable => {
                up.is_pinged = false;
            }
            PathState::Proving { .. } | PathState::Up(_) if tag.kind == Kind::Ping => {
                self.pinged(state, tag.path, now);
            }
            // What completes of a queue pair that is gone is counted by the other end.
            _ => {}
        }
    }

    /// The receiver has so many more chunks of a path.
    pub(super) fn acknowledge(&self, state: &mut State, path: usize, count: u32, now: Time) {
        let State { core, results, .. } = state;
        let done = |request: Request, bytes: usize| results[request] = Some(bytes);
        if let Err(error) = core.acknowledged(path, count, 0, now, done) {
            self.fail(format!("the other end is no busbw of this version: {error}"), End::Closed);
        }
    }

    /// Hands chunks to the paths that may have more in flight, one to each in turn.
    pub(super) fn move_out(&self, state: &mut State) {
        if !self.is_reliable {
            let has_room =
                |path: &Path| matches!(&path.link, PathState::Up(up) if up.in_flight < SENDS / 2);
            while let State { core, paths, .. } = &*state
                && let Some(path) = core.choose_among(self.now(), |path| has_room(&paths[path]))
                && self.next_chunk(state, path)
            {}
            return;
        }
        while state.core.work().0 {
            let paths = 0..state.paths.len();
            if !paths.fold(false, |any, path| self.next_chunk(state, path) | any) {
                break;
            }
        }
    }

    /// Whether a path took a chunk.
    fn next_chunk(&self, state: &mut State, number: usize) -> bool {
        let State { core, paths, chunks, .. } = state;
        let path = &mut paths[number];
        let PathState::Up(up) = &mut path.link else { return false };
        if up.in_flight >= SENDS / 2 || !core.has_window(number) {
            return false;
        }
        let now = self.now();
        let place = core.next_number(number);
        core.next(number, now, chunks);
        let any = !chunks.is_empty();
        let tag = Tag { kind: Kind::Chunk, path: number, epoch: path.epoch }.number();
        let mut outcome = Ok(());
        for chunk in chunks.drain(..) {
            let (from, to) = chunk.memory.ends(self.port(number), up.other_port);
            let Header { message, .. } = chunk.header;
            let count = chunk.header.count();
            let word = match self.is_reliable {
                true => arrival::word(message, count),
                // One at a time.
                false => arrival::numbered(message, place, count),
            };
            up.in_flight += 1;
            outcome = outcome.and_then(|()| {
                // SAFETY: NCCL's memory, registered with this connection; its request is not done before the write has
                // completed, or the queue pair is gone.
                unsafe { up.pair.write(tag, from, to, Some(word), false) }
            });
        }
        if let Err(error) = outcome {
            let loss = Loss::Ended { why: error.to_string(), timed_out: false };
            self.lose(state, number, loss, now);
        }
        any
    }

    /// Writes a few bytes, which say that the path delivers when they complete, or are acknowledged.
    pub(super) fn ping(&self, state: &mut State, number: usize) -> Result<(), VerbsError> {
        let State { core, table, paths, .. } = state;
        let path = &mut paths[number];
        let (PathState::Proving { up, .. } | PathState::Up(up)) = &mut path.link else {
            return Ok(());
        };
        let Up { pair, ping, asked, is_pinged, unanswered, .. } = up;
        if mem::replace(is_pinged, true) {
            return Ok(());
        }
        *asked = self.now();
        unanswered.get_or_insert(*asked);
        // Nobody counts it where it is not said what was sent before.
        let word = (!self.is_reliable).then(|| arrival::ping(core.next_number(number)));
        let tag = Tag { kind: Kind::Ping, path: number, epoch: path.epoch }.number();
        // SAFETY: the table is there for as long as the queue pairs, and nobody writes to this place of it.
        unsafe { pair.write(tag, table.ping_from(self.port(number)), *ping, word, true) }
    }
}
