//! Paths of a simulated sender come and go: what the state machine asks for is done, what happens is told to it.
//! Not what moves over them (`sending`).

use std::time::Duration;

use busbw_multipath::{
    Action, ConnectError, Loss, Port, Time,
    frame::{Answer, Frame, Hello},
};

use super::{
    super::{
        CHECK_INTERVAL, CLOSE_TIMEOUT, CONNECT_TIMEOUT, IDLE_CHECK_INTERVAL, LINGER,
        outgoing::Outgoing,
    },
    Connecting, Sending, is_at_its_end,
};
use crate::{Content, Label, Read, Simulation, Socket, tcp::Failure};

impl Sending {
    // Paths.

    pub(super) fn perform(&mut self, actions: Vec<Action>, simulation: &mut Simulation) {
        let now = simulation.now();
        for action in actions {
            match action {
                Action::Connect { path, epoch, port, timeout } => {
                    let timeout = timeout.unwrap_or(CONNECT_TIMEOUT);
                    self.connect(path, epoch, port, timeout, simulation);
                }
                Action::Probe(path) => {
                    self.connect(path, Hello::PROBE, None, CONNECT_TIMEOUT, simulation);
                }
                Action::Ping(path) => {
                    if let Some(path) = &mut self.paths[path] {
                        path.ping(simulation);
                    }
                }
                Action::Inspect(path) => {
                    let Some(outgoing) = &self.paths[path] else { continue };
                    let health = outgoing.health(simulation);
                    if let Some(loss) = self.core.inspected(path, &health, now) {
                        self.lose(path, &loss, simulation);
                    }
                }
                Action::Hedge(path) => {
                    if let Some(outgoing) = &mut self.paths[path] {
                        self.core.hedge(path, now, outgoing.writing());
                    }
                }
                Action::GiveUp { .. } => unreachable!("every path is reliable"),
                Action::Notify(notice) => self.notices.push(notice),
            }
        }
    }

    pub(super) fn connect(
        &mut self,
        path: usize,
        epoch: u32,
        port: Option<Port>,
        timeout: Duration,
        simulation: &mut Simulation,
    ) {
        let port = match port {
            Some(Port(port)) => port,
            None => self.new_port(path, epoch),
        };
        let labels = self.labels[&port];
        let socket =
            simulation.connect(self.settings.ways, labels, self.listener, self.settings.tcp);
        self.connecting.push(Connecting {
            socket,
            path,
            port,
            epoch,
            is_connected: false,
            until: simulation.now() + timeout,
            answer: Vec::new(),
        });
    }

    /// A source port that nobody has, as the kernel chooses one. The first ones take the links that the settings say.
    pub(super) fn new_port(&mut self, path: usize, epoch: u32) -> u16 {
        loop {
            let port = self.random.within(32_768..61_000) as u16;
            if self.labels.contains_key(&port) && self.labels.len() < 10_000 {
                continue;
            }
            let labels = match self.settings.labels.get(path) {
                Some(labels) if epoch == 0 => *labels,
                _ => [(); 2].map(|()| Label::Hash(self.random.next())),
            };
            self.labels.insert(port, labels);
            return port;
        }
    }

    pub(super) fn lose(&mut self, number: usize, loss: &Loss, simulation: &mut Simulation) {
        let Some(path) = self.paths[number].take() else { return };
        let now = simulation.now();
        let health = path.health(simulation);
        simulation.reset(path.socket);
        let mut actions = Vec::new();
        // No path is zero-copy, so no message waits for this one.
        self.core.lost(number, loss, &health, now, &mut actions, |_, _| {});
        self.perform(actions, simulation);
        self.watch(now);
    }

    pub(super) fn note_end(&mut self) {
        if self.end.is_none() {
            self.end = self.core.end().copied();
        }
    }

    /// Ends every path; the other side is told on those that are not in the middle of a chunk.
    pub(super) fn end_paths(&mut self, simulation: &mut Simulation) {
        for path in self.paths.iter_mut().filter_map(Option::take) {
            if path.is_writing() {
                simulation.reset(path.socket);
                continue;
            }
            simulation.write(path.socket, &Content::of(Frame::Fin.encoded().as_slice().into()));
            simulation.shut(path.socket);
            self.closing.push((path.socket, simulation.now() + CLOSE_TIMEOUT));
        }
        self.core.take_down(simulation.now());
    }

    // What happens.

    /// Something has happened to a socket.
    pub(in crate::transport) fn wake(&mut self, socket: Socket, simulation: &mut Simulation) {
        if let Some(at) = self.connecting.iter().position(|one| one.socket == socket) {
            self.go_on_connecting(at, simulation);
        } else if let Some(at) = self.closing.iter().position(|(one, _)| *one == socket) {
            if is_at_its_end(socket, simulation) {
                simulation.close(socket);
                self.closing.swap_remove(at);
            }
        } else if self.is_polling && self.end.is_none() {
            let path = self
                .paths
                .iter()
                .position(|path| path.as_ref().is_some_and(|path| path.socket == socket));
            if path.is_some() {
                self.progress(simulation);
            }
        }
    }

    pub(super) fn go_on_connecting(&mut self, at: usize, simulation: &mut Simulation) {
        let one = &mut self.connecting[at];
        if let Some(failure) = simulation.failure(one.socket) {
            let one = self.connecting.swap_remove(at);
            let error = match failure {
                Failure::Refused | Failure::Reset => ConnectError::Refused,
                Failure::TimedOut => ConnectError::Other,
            };
            return self.not_connected(&one, error, &format!("{failure:?}"), simulation);
        }
        if !one.is_connected {
            if !simulation.is_up(one.socket) {
                return;
            }
            one.is_connected = true;
            one.until = simulation.now() + CONNECT_TIMEOUT;
            let hello = Hello {
                secret: [7; 16],
                listener: self.listener as u64,
                path: one.path as u16,
                paths: self.paths.len() as u16,
                epoch: one.epoch,
            };
            let content = Content::of(hello.encoded().as_slice().into());
            simulation.write(one.socket, &content);
            return;
        }
        match simulation.read(one.socket, Answer::BYTES - one.answer.len()) {
            Read::Bytes(content) => {
                let from = one.answer.len();
                one.answer.resize(from + content.bytes(), 0);
                content.copy_to(&mut one.answer[from..]);
            }
            Read::Empty => return,
            Read::End | Read::Failed(_) => {
                let one = self.connecting.swap_remove(at);
                simulation.close(one.socket);
                return self.not_connected(&one, ConnectError::Refused, "reset", simulation);
            }
        }
        let Some(answer) = one.answer.first_chunk() else { return };
        let answer = Answer::decoded(answer);
        let one = self.connecting.swap_remove(at);
        let now = simulation.now();
        if one.epoch >= Hello::PROBE {
            simulation.close(one.socket);
            self.core.probe_answered();
            return;
        }
        match answer {
            Some(Answer::Accepted) if self.end.is_none() && !self.is_ended => {
                self.paths[one.path] = Some(Outgoing::new(one.socket, one.port));
                let mut actions = Vec::new();
                self.core.connected(one.path, now, &mut actions);
                self.perform(actions, simulation);
                if self.is_polling {
                    self.progress(simulation);
                }
            }
            Some(Answer::Accepted) => simulation.close(one.socket),
            Some(Answer::Gone) => {
                simulation.close(one.socket);
                self.core.gone();
                self.note_end();
            }
            other => unreachable!("{other:?} answers a handshake"),
        }
    }

    pub(super) fn not_connected(
        &mut self,
        one: &Connecting,
        error: ConnectError,
        why: &str,
        simulation: &mut Simulation,
    ) {
        let now = simulation.now();
        match (one.epoch, error) {
            (Hello::ABORT, _) => {}
            (Hello::PROBE, ConnectError::Refused) => self.core.probe_refused(now),
            (Hello::PROBE, _) => self.core.probe_unanswered(now),
            _ => {
                let mut actions = Vec::new();
                self.core.not_connected(one.path, error, why, now, &mut actions);
                self.perform(actions, simulation);
            }
        }
    }

    pub(super) fn watch(&mut self, now: Time) {
        if !self.watched {
            (self.watched, self.busy) = (true, now);
            self.next_check = Some(now + CHECK_INTERVAL);
        }
    }

    /// Timers: what the connection manager does, and what callers do now and then.
    pub(in crate::transport) fn timers(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        if self.next_late.is_some_and(|at| at <= now) {
            self.next_late = None;
            if self.is_polling && self.end.is_none() {
                self.progress(simulation);
            }
        }
        while let Some(at) = self.connecting.iter().position(|one| one.until <= now) {
            let one = self.connecting.swap_remove(at);
            simulation.reset(one.socket);
            if one.is_connected && one.epoch == Hello::PROBE {
                self.core.probe_answered();
            } else {
                self.not_connected(&one, ConnectError::Other, "timed out", simulation);
            }
        }
        while let Some(at) = self.closing.iter().position(|(_, until)| *until <= now) {
            simulation.close(self.closing.swap_remove(at).0);
        }
        if self.next_check.is_some_and(|at| at <= now) {
            self.next_check = None;
            if !self.is_ended {
                self.check(simulation);
            }
        }
    }

    pub(super) fn check(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        if self.end.is_some() {
            self.read_last(simulation);
            self.end_paths(simulation);
            self.is_ended = true;
            return;
        }
        self.move_on(simulation);
        let mut actions = Vec::new();
        if self.core.check_paths(now, &mut actions) {
            self.busy = now;
        }
        self.perform(actions, simulation);
        self.note_end();
        self.check_late(simulation);
        if let Some(until) = self.draining
            && (self.core.is_idle() || self.end.is_some() || now >= until)
        {
            self.end_paths(simulation);
            self.is_ended = true;
            return;
        }
        self.watched = now.since(self.busy) < LINGER || !self.core.is_idle();
        let pause = if self.watched { CHECK_INTERVAL } else { IDLE_CHECK_INTERVAL };
        self.next_check = Some(now + pause);
    }

    /// When [`Sending::timers`] is to be called next.
    pub(in crate::transport) fn due(&self) -> Option<Time> {
        let connecting = self.connecting.iter().map(|one| one.until);
        let closing = self.closing.iter().map(|(_, until)| *until);
        let timers = [self.next_check.filter(|_| !self.is_ended), self.next_late];
        timers.into_iter().flatten().chain(connecting).chain(closing).min()
    }

    /// Whether its caller tests requests all the time, from now on.
    pub fn set_polling(&mut self, is_polling: bool) {
        self.is_polling = is_polling;
    }
}
