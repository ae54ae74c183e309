//! Paths come and go at the end that receives: what the other end says of them is heard and answered.
//! Not what arrives by them (`paths`), nor accepting TCP connections (`manager`).

use std::{
    mem,
    os::fd::OwnedFd,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use busbw_multipath::{CONNECTION_TIMEOUT, Error, Settled, frame::Hello};

use super::{
    super::{
        exchange::{self, End, Talk, Word},
        queue_pairs::{Kind, Made, RECEIVES, Tag},
    },
    Connection, Path, PathState, State, Up,
};
use crate::{
    log,
    multipath::{
        locks::lock,
        manager::{Acceptor, Managed},
    },
};

/// A queue pair that is stopped flushes its receives in less than this.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

impl Connection {
    /// Looks at what is in no completion queue: sockets, ports, and whether any path is left.
    pub(super) fn tend(&self, state: &mut State, now: Instant) {
        self.hear(state);
        for number in 0..state.paths.len() {
            if matches!(state.paths[number].link, PathState::Down) {
                continue;
            }
            if let Some(trouble) = self.ports[self.port(number)].trouble(now) {
                self.lose(state, number, &trouble);
            }
        }
        if state.paths.iter().any(|path| path.link.is_up()) || !self.has_come() {
            state.down_since = None;
            return;
        }
        let since = *state.down_since.get_or_insert(now);
        if state.has_fin {
            self.fail(state, Error::ClosedByPeer);
        } else if now.saturating_duration_since(since) > CONNECTION_TIMEOUT {
            self.fail(state, Error::AllDown);
        }
    }

    /// Hears what the other end says.
    fn hear(&self, state: &mut State) {
        let of_paths = state.paths.iter_mut().filter_map(|path| path.link.talk());
        let talks = of_paths.map(|talk| &*talk).chain(state.stops.iter().map(|(_, talk)| talk));
        if !exchange::any_says(talks) {
            return;
        }
        for number in 0..state.paths.len() {
            while let Some(heard) = state.paths[number].link.talk().map(Talk::hear) {
                match heard {
                    Ok(Some(word)) => self.heard(state, number, word),
                    Ok(None) => break,
                    Err(error) => {
                        let why = format!("the other end has given it up ({error})");
                        self.lose(state, number, &why);
                    }
                }
            }
        }
        let stops = mem::take(&mut state.stops);
        for (number, mut talk) in stops {
            match talk.hear() {
                Ok(Some(Word::Stop(epoch))) => self.stop(state, number, epoch, talk),
                Ok(None) => state.stops.push((number, talk)),
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }

    fn heard(&self, state: &mut State, number: usize, word: Word) {
        let path = &mut state.paths[number];
        match (word, mem::take(&mut path.link)) {
            (Word::Offer(end), PathState::Accepted(talk)) => {
                self.answer(state, number, &end, talk);
            }
            (Word::Ready, PathState::Answered(up)) => {
                path.link = PathState::Up(up);
                state.down_since = None;
                self.has_come.store(true, Ordering::Release);
                self.write_grants(state);
            }
            (Word::Fin, link) => {
                path.link = link;
                state.has_fin = true;
            }
            (_, link) => path.link = link,
        }
    }

    /// Connects a queue pair to the one that the other end offers.
    fn answer(&self, state: &mut State, number: usize, end: &End, talk: Talk) {
        let at = self.port(number);
        let port = &self.ports[at];
        let Some(epoch) = state.paths[number].epoch else { return };
        let tag = Tag { kind: Kind::Arrival, path: number, epoch }.number();
        let made = Made::new(&state.queues[at], end.is_reliable).map_err(|error| error.to_string());
        let answered = made.and_then(|made| {
            let ours = made.end(port, at, state.table.remote(at));
            let mut pair = made.connect(port, end)?;
            pair.post_empty_receives(tag, RECEIVES).map_err(|error| error.to_string())?;
            talk.say(Word::Answer(ours)).map_err(|error| error.to_string())?;
            Ok(pair)
        });
        match answered {
            Ok(pair) => {
                let End { memory: table, is_reliable, .. } = *end;
                let up = Up { talk, pair, table, is_reliable, in_flight: 0 };
                state.paths[number].link = PathState::Answered(up);
            }
            // Its TCP connection ends, which tells the other end.
            Err(why) => log::info(&format!("NET/busbw: path {number} cannot be connected: {why}")),
        }
    }

    /// A path is given up: its queue pair is stopped, so that nothing is written by it any more.
    pub(super) fn lose(&self, state: &mut State, number: usize, why: &str) {
        let is_up = state.paths[number].link.is_up();
        if is_up && !state.has_fin {
            log::info(&format!(
                "NET/busbw: path {number} is lost: {why}; the other side connects it again"
            ));
        }
        self.take_down(state, number);
    }

    /// Stops a queue pair, and counts what has arrived by it before: the sender's device may have been told of all of that,
    /// and does not send it again.
    fn take_down(&self, state: &mut State, number: usize) {
        let path = &mut state.paths[number];
        let (PathState::Answered(up) | PathState::Up(up)) = &path.link else {
            path.link = PathState::Down;
            return;
        };
        let stopped = up.pair.stop();
        let until = Instant::now() + FLUSH_TIMEOUT;
        while stopped.is_ok() && !state.paths[number].is_flushed && Instant::now() < until {
            self.count(state);
        }
        // What it owes is said when the other end asks for it to be stopped.
        state.paths[number].owes = false;
        state.paths[number].link = PathState::Down;
        if !state.paths[number].is_flushed && self.has_come() {
            let why = stopped.err().map_or_else(
                || format!("its receives are not flushed after {FLUSH_TIMEOUT:?}"),
                |error| error.to_string(),
            );
            let text = format!(
                "path {number} cannot be stopped, and what has arrived by it is not known: {why}"
            );
            self.fail(state, Error::Protocol(text));
        }
    }

    /// The other end has stopped a path of this epoch: so do we, and say what has arrived by it.
    fn stop(&self, state: &mut State, number: usize, epoch: u32, talk: Talk) {
        let is_it = state.paths[number].epoch == Some(epoch);
        if is_it {
            self.take_down(state, number);
        } else if state.paths[number].epoch.is_some_and(|there| there > epoch) {
            // It was said before, over another path's addresses, and the path has come back since.
            return;
        }
        let settled = if is_it { state.paths[number].settled } else { Settled::default() };
        let _ = talk.say(Word::Stopped(settled));
    }
}

impl Acceptor for Connection {
    fn accepted(&self, hello: &Hello, socket: OwnedFd) {
        let number = usize::from(hello.path);
        let state = &mut *lock(&self.state);
        if self.failure.get().is_some() {
            return;
        }
        match hello.epoch {
            Hello::ABORT => {
                state.has_fin = true;
                self.fail(state, Error::ClosedByPeer);
            }
            Hello::PROBE => {}
            Hello::STOP => state.stops.push((number, Talk::new(socket))),
            epoch if state.paths[number].epoch.is_none_or(|there| there < epoch) => {
                self.take_down(state, number);
                let path = &mut state.paths[number];
                *path = Path {
                    link: PathState::Accepted(Talk::new(socket)),
                    epoch: Some(epoch),
                    ..Path::default()
                };
            }
            _ => {}
        }
        self.watch();
    }
}

impl Managed for Connection {
    fn check(&self) -> bool {
        let state = &mut *lock(&self.state);
        if self.failure.get().is_some() {
            return false;
        }
        self.progress(state);
        let is_changing =
            |path: &Path| matches!(path.link, PathState::Accepted(_) | PathState::Answered(_));
        state.arrivals.is_waiting()
            || state.paths.iter().any(|path| path.owes)
            || !state.stops.is_empty()
            || state.paths.iter().any(is_changing)
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn unwatch(&self) -> bool {
        self.watched
            .give_up(|| self.failure.get().is_none() && lock(&self.state).arrivals.is_waiting())
    }

    fn cut(&self, path: usize) {
        let state = &mut *lock(&self.state);
        self.lose(state, path, "it was broken on purpose (BUSBW_NET_FAULT)");
    }
}
