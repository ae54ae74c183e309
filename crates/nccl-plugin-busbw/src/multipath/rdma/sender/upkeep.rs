//! Paths come up and are looked after: what the transport's state machine asks for is done, what the other end says is heard.
//! Not how one is given up (`stopping`), nor how they are connected (`manager`).

use std::{net::SocketAddr, os::fd::OwnedFd, sync::Weak, time::Duration};

use busbw_multipath::{Action, ConnectError, End, Loss, Notice, Time, frame::Hello};
use rustix::io::Errno;

use super::{
    super::{
        clear_to_send::Table,
        exchange::{self, Talk, Word},
        queue_pairs::Made,
    },
    Connection, PathState, State, Up,
};
use crate::{
    log,
    multipath::{
        locks::lock,
        manager::{CONNECT_TIMEOUT, Connect, Dialer, Managed},
    },
};

/// The other end has so long to say its queue pair's address, and a new path to deliver a ping.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// A caller that waits for a word of clear-to-send for so long has the paths pinged: the word may have been lost with one that
/// only the receiver knows to be gone.
const WAIT_TIMEOUT: Duration = Duration::from_millis(100);
/// Between two pings of all paths.
const PING_INTERVAL: Duration = Duration::from_millis(500);

impl Connection {
    /// Looks at what is in no completion queue: sockets, ports, what is late.
    pub(super) fn tend(&self, state: &mut State, now: Time) {
        if self.ended.get().is_some() {
            return;
        }
        self.hear(state, now);
        let clock = self.manager.clock.now();
        for number in 0..state.paths.len() {
            let trouble = self.ports[self.port(number)].trouble(clock);
            match &state.paths[number].link {
                PathState::Up(_) | PathState::Proving { .. } if trouble.is_some() => {
                    let why = trouble.unwrap_or_default();
                    self.lose(state, number, Loss::Ended { why, timed_out: true }, now);
                }
                PathState::Offered { since, .. } | PathState::Proving { since, .. }
                    if now.since(*since) >= EXCHANGE_TIMEOUT =>
                {
                    let why = "its queue pair delivers nothing, although its handshake does";
                    self.not_up(state, number, why, now);
                }
                _ => {}
            }
        }
        if !self.is_reliable {
            self.ping_again(state, now);
        }
        self.ask_again(state, now);
        let waits = state.waits.is_some_and(|since| now.since(since) >= WAIT_TIMEOUT);
        if waits && now.since(state.pinged) >= PING_INTERVAL {
            state.pinged = now;
            for number in 0..state.paths.len() {
                self.ping_or_lose(state, number, now);
            }
        }
        let mut actions = Vec::new();
        if !self.is_reliable {
            state.core.check_settled(now, &mut actions);
        }
        state.core.check_late(now, &mut actions);
        state.actions.extend(actions);
    }

    pub(super) fn ping_or_lose(&self, state: &mut State, number: usize, now: Time) {
        if let Err(error) = self.ping(state, number) {
            let loss = Loss::Ended { why: error.to_string(), timed_out: false };
            self.lose(state, number, loss, now);
        }
    }

    /// Hears what the other end says of paths.
    fn hear(&self, state: &mut State, now: Time) {
        let of_paths = state.paths.iter_mut().filter_map(|path| path.link.talk());
        let talks = of_paths.map(|talk| &*talk).chain(state.stops.iter().map(|(_, talk)| talk));
        if !exchange::any_says(talks) {
            return;
        }
        for number in 0..state.paths.len() {
            // An answer, and the end behind it.
            while let Some(heard) = state.paths[number].link.talk().map(Talk::hear) {
                match heard {
                    Ok(Some(Word::Answer(end))) => self.answered(state, number, &end, now),
                    // It ends the connection, and its last acknowledgement may have been lost.
                    Ok(Some(Word::Stopped(settled))) if !self.is_reliable => {
                        self.settle(state, number, &settled, now, now);
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        let why = format!("the other end has given it up ({error})");
                        self.lose(state, number, Loss::Ended { why, timed_out: false }, now);
                        break;
                    }
                }
            }
        }
        self.hear_stopped(state, now);
    }

    /// The other end's queue pair is connected to ours.
    fn answered(&self, state: &mut State, number: usize, end: &exchange::End, now: Time) {
        let path = &mut state.paths[number];
        let PathState::Offered { talk, made, .. } =
            std::mem::replace(&mut path.link, PathState::Down)
        else {
            return;
        };
        let connected = match end.is_reliable == self.is_reliable {
            true => made.connect(&self.ports[self.port(number)], end),
            false => {
                Err("the other end's queue pair is of another kind (BUSBW_NET_CONNECTION)"
                    .to_owned())
            }
        };
        let said = connected.and_then(|pair| {
            talk.say(Word::Ready).map_err(|error| error.to_string())?;
            Ok(pair)
        });
        let outcome = match said {
            Ok(pair) => {
                let up = Up {
                    talk,
                    pair,
                    other_port: end.port.into(),
                    ping: Table::ping(end.memory),
                    asked: now,
                    is_pinged: false,
                    unanswered: None,
                    in_flight: 0,
                };
                path.link = PathState::Proving { since: now, up };
                self.ping(state, number).map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        if let Err(why) = outcome {
            self.not_up(state, number, &why, now);
        }
    }

    /// A ping of a reliable path has completed.
    pub(super) fn pinged(&self, state: &mut State, number: usize, now: Time) {
        self.proven(state, number, now);
        self.acknowledge(state, number, 0, now);
    }

    /// A ping has arrived: the path delivers.
    pub(super) fn proven(&self, state: &mut State, number: usize, now: Time) {
        let path = &mut state.paths[number];
        let link = std::mem::replace(&mut path.link, PathState::Down);
        let (PathState::Proving { mut up, .. } | PathState::Up(mut up)) = link else {
            path.link = link;
            return;
        };
        up.is_pinged = false;
        path.link = PathState::Up(up);
        let mut actions = Vec::new();
        // Nothing where it was up before.
        state.core.connected(number, now, &mut actions);
        state.actions.extend(actions);
    }

    /// A path that was being connected does not come up.
    pub(super) fn not_up(&self, state: &mut State, number: usize, why: &str, now: Time) {
        // Nothing was sent by its queue pair that would matter.
        state.paths[number].link = PathState::Down;
        let mut actions = Vec::new();
        state.core.not_connected(number, ConnectError::Other, why, now, &mut actions);
        state.actions.extend(actions);
    }

    /// Does what the state machine asks for.
    pub(super) fn perform(&self, state: &mut State) {
        while let Some(action) = state.actions.pop_front() {
            match action {
                Action::Connect { path, epoch, timeout, .. } => {
                    let connect = self.connect(path, self.itself.clone(), epoch);
                    let timeout = timeout.unwrap_or(CONNECT_TIMEOUT);
                    self.manager.connect(Connect { timeout, ..connect });
                }
                Action::Probe(path) => {
                    self.manager.connect(self.connect(path, self.itself.clone(), Hello::PROBE));
                }
                Action::Ping(path) => self.ping_or_lose(state, path, self.now()),
                Action::GiveUp { path, loss } => self.lose(state, path, loss, self.now()),
                // A queue pair says by itself that it has failed; and nothing is on two paths here.
                Action::Inspect(_) | Action::Hedge(_) => {}
                Action::Notify(notice) => self.notify(&notice),
            }
        }
    }

    fn notify(&self, notice: &Notice) {
        let told = |path: &usize| {
            format!("path {path} by {} to {}", self.port_name(*path), self.routes[*path].1)
        };
        match notice {
            Notice::Lost { path, why, now } => {
                log::info(&format!("NET/busbw: {} was lost ({why}): {now}", told(path)));
            }
            Notice::NotConnected { path, why } => {
                log::info(&format!("NET/busbw: {}: {why}; it is tried again", told(path)));
            }
        }
    }

    /// To connect a path, or to say something of it over its addresses.
    pub(super) fn connect(&self, path: usize, whom: Weak<dyn Dialer>, epoch: u32) -> Connect {
        let (from, to) = self.routes[path];
        let from = from.map(|from| SocketAddr::new(from, 0));
        // There are at most MAX_PATHS.
        let hello = Hello { path: path as u16, epoch, ..self.hello };
        Connect { whom, from, to, hello, timeout: CONNECT_TIMEOUT }
    }

    /// Everything has arrived: the other end is told that nothing more follows.
    pub(super) fn close(&self) {
        self.with(|connection, state| {
            state.core.forget_losses();
            connection.end(state, true);
        });
    }

    /// Ends every path. Queue pairs are gone when this returns.
    pub(super) fn end(&self, state: &mut State, is_orderly: bool) {
        let now = self.now();
        self.note_end(state);
        self.tell_counts(state);
        for path in &mut state.paths {
            let link = std::mem::replace(&mut path.link, PathState::Down);
            let (PathState::Up(Up { talk, .. }) | PathState::Proving { up: Up { talk, .. }, .. }) =
                link
            else {
                continue;
            };
            if is_orderly && talk.say(Word::Fin).is_ok() {
                self.manager.leave(talk.socket);
            }
        }
        state.core.take_down(now);
        state.stops.clear();
    }

    /// Tells the other end that the connection has ended in the middle of a message.
    pub(super) fn tell_abort(&self) {
        let nobody: Weak<Connection> = Weak::new();
        self.manager.connect(self.connect(0, nobody, Hello::ABORT));
    }

    /// Keeps why the connection has ended where callers see it without a lock.
    pub(super) fn note_end(&self, state: &State) {
        if let Some(end) = state.core.end() {
            self.fail(end.told(&self.routes[0].1), *end);
        }
    }

    pub(super) fn fail(&self, text: String, end: End) {
        let _ = self.ended.set((text, end));
    }

    pub(super) fn watch(&self) {
        if self.watched.ask() {
            self.manager.watch(self.itself.clone());
        }
    }
}

impl Dialer for Connection {
    fn connected(&self, hello: &Hello, socket: OwnedFd) {
        let number = usize::from(hello.path);
        self.with(|connection, state| {
            let now = connection.now();
            if connection.ended.get().is_some() {
                return;
            }
            if hello.epoch == Hello::STOP {
                connection.say_stop(state, number, Talk::new(socket));
                return;
            }
            if !matches!(state.paths[number].link, PathState::Down) {
                return;
            }
            let port = connection.port(number);
            let path = &mut state.paths[number];
            (path.epoch, path.acknowledged, path.newest) = (hello.epoch, 0, None);
            let talk = Talk::new(socket);
            let made = Made::new(&state.queues[port], connection.is_reliable);
            let made = made.map_err(|error| error.to_string());
            let offered = made.and_then(|made| {
                let end = made.end(&connection.ports[port], port, state.table.remote(port));
                talk.say(Word::Offer(end)).map_err(|error| error.to_string())?;
                Ok(PathState::Offered { talk, made, since: now })
            });
            match offered {
                Ok(link) => path.link = link,
                Err(why) => connection.not_up(state, number, &why, now),
            }
        });
    }

    fn gone(&self) {
        self.with(|connection, state| {
            state.core.gone();
            connection.end(state, false);
        });
    }

    fn not_connected(&self, path: u16, error: Errno) {
        let number = usize::from(path);
        self.with(|connection, state| {
            let now = connection.now();
            let is_refused = matches!(error, Errno::CONNREFUSED | Errno::CONNRESET);
            if matches!(state.paths[number].link, PathState::Stopping { .. }) {
                // A connection that is reset may be one of too many: the process is there.
                if error == Errno::CONNREFUSED {
                    connection.nobody_to_stop(state, number, now);
                }
                return;
            }
            let why = if is_refused { ConnectError::Refused } else { ConnectError::Other };
            let mut actions = Vec::new();
            state.core.not_connected(number, why, &error.to_string(), now, &mut actions);
            state.actions.extend(actions);
        });
    }

    fn probe_answered(&self) {
        lock(&self.state).core.probe_answered();
    }

    fn probe_unanswered(&self, error: Errno) {
        let now = self.now();
        let mut state = lock(&self.state);
        match error {
            Errno::CONNREFUSED | Errno::CONNRESET => state.core.probe_refused(now),
            // The queue pairs tell of the network by themselves.
            _ => {}
        }
    }
}

impl Managed for Connection {
    fn check(&self) -> bool {
        if self.ended.get().is_some() {
            return false;
        }
        self.with(|connection, state| {
            connection.progress(state);
            let now = connection.now();
            let mut actions = Vec::new();
            let again = state.core.check_paths(now, &mut actions);
            state.actions.extend(actions);
            if state.core.end().is_some() {
                connection.end(state, false);
            }
            again || state.waits.is_some() || !state.stops.is_empty()
        })
    }

    fn is_behind(&self) -> bool {
        // Requests are done when they have arrived: nothing is left that its caller does not wait for.
        false
    }

    fn unwatch(&self) -> bool {
        self.watched.give_up(|| self.ended.get().is_none() && !lock(&self.state).core.is_idle())
    }

    fn cut(&self, path: usize) {
        self.with(|connection, state| {
            let number = path % state.paths.len();
            let why = "it was broken on purpose (BUSBW_NET_FAULT)".to_owned();
            connection.lose(state, number, Loss::Ended { why, timed_out: false }, connection.now());
        });
    }
}
