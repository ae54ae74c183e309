//! The end of a connection that receives, in a simulation: what the plugin's threads do around
//! `busbw_multipath::Receiver`.
//! Not the decisions: those are the transport's own.

use std::{collections::HashMap, ops::Range, time::Duration};

use busbw_multipath::{
    Error, MAX_PATHS, Receiver, Request, Time,
    frame::{Answer, Hello},
};

use super::{
    CHECK_INTERVAL, HANDSHAKE_TIMEOUT, IDLE_CHECK_INTERVAL, LINGER, Place,
    incoming::{Incoming, Stop},
};
use crate::{Content, Listening, Read, Simulation, Socket, tcp::Failure};

/// A host that was not heard of for so long has vanished: what keep-alive finds.
const SILENCE: Duration = Duration::from_secs(10);

/// The receiving end of a connection.
pub struct Receiving {
    pub(super) core: Receiver<Place>,
    listener: usize,
    paths: [Option<Incoming>; MAX_PATHS],
    /// Who has connected and not said as what: what he has said, and until when he may.
    handshakes: Vec<(Socket, Vec<u8>, Time)>,
    results: HashMap<Request, u64>,
    open: usize,
    owing: usize,
    pub(super) is_polling: bool,
    failure: Option<Error>,
    is_closed: bool,
    has_come: bool,
    watched: bool,
    busy: Time,
    pub(super) next_check: Option<Time>,
}

impl Receiving {
    pub(super) fn new(listener: usize) -> Receiving {
        Receiving {
            core: Receiver::default(),
            listener,
            paths: std::array::from_fn(|_| None),
            handshakes: Vec::new(),
            results: HashMap::new(),
            open: 0,
            owing: 0,
            is_polling: true,
            failure: None,
            is_closed: false,
            has_come: false,
            watched: false,
            busy: Time::default(),
            next_check: None,
        }
    }

    // What its caller does.

    /// Whether any path has come: before that, nobody has a connection to receive on.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.has_come
    }

    /// Why the connection has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// When the connection has failed, or what has arrived does not fit.
    pub fn receive(
        &mut self,
        memory: Place,
        room: usize,
        request: Request,
        simulation: &mut Simulation,
    ) -> Result<(), Error> {
        if !(self.core.has_fin() && self.core.is_early()) {
            self.failure.clone().map_or(Ok(()), Err)?;
        }
        self.open += 1;
        let Receiving { core, results, open, .. } = self;
        let posted = core.post(memory, room, request, done(results, open));
        self.note_failure();
        posted?;
        // What waited for a receive.
        if self.is_polling {
            self.progress(simulation);
        }
        Ok(())
    }

    /// The bytes of a request that is done; nothing if it is not.
    ///
    /// # Errors
    /// When the connection has failed before.
    pub fn test(
        &mut self,
        request: Request,
        simulation: &mut Simulation,
    ) -> Result<Option<usize>, Error> {
        let failure = self.failure.clone();
        if !self.results.contains_key(&request) {
            self.progress(simulation);
        }
        match self.results.remove(&request) {
            None => failure.map_or(Ok(None), Err),
            Some(bytes) => Ok(Some(bytes as usize)),
        }
    }

    /// Memory is given back.
    pub fn release(&mut self, memory: &Range<usize>, simulation: &mut Simulation) {
        if self.core.writes(memory) {
            self.close(simulation);
        }
    }

    /// The caller does not want it any more.
    pub fn close(&mut self, simulation: &mut Simulation) {
        self.is_closed = true;
        self.is_polling = false;
        self.core.abort();
        self.note_failure();
        for path in self.paths.iter_mut().flatten() {
            path.acknowledge_all(simulation);
        }
        for path in 0..MAX_PATHS {
            self.lose(path, simulation);
        }
    }

    /// Its process is killed.
    pub fn kill(&mut self, simulation: &mut Simulation) {
        self.is_closed = true;
        self.is_polling = false;
        self.core.abort();
        for path in 0..MAX_PATHS {
            self.lose(path, simulation);
        }
        self.handshakes.drain(..).for_each(|(socket, ..)| simulation.close(socket));
        simulation.set_listening(self.listener, Listening::Refuses);
    }

    fn note_failure(&mut self) {
        if self.failure.is_none() {
            self.failure = self.core.failure().cloned();
        }
    }

    // What happens.

    /// Somebody has connected.
    pub(super) fn accepted(&mut self, socket: Socket, simulation: &mut Simulation) {
        self.handshakes.push((socket, Vec::new(), simulation.now() + HANDSHAKE_TIMEOUT));
        self.wake(socket, simulation);
    }

    /// Something has happened to a socket.
    pub(super) fn wake(&mut self, socket: Socket, simulation: &mut Simulation) {
        if let Some(at) = self.handshakes.iter().position(|(one, ..)| *one == socket) {
            self.handshake(at, simulation);
        } else if self.is_polling && self.paths.iter().flatten().any(|path| path.socket == socket) {
            self.progress(simulation);
        }
    }

    fn handshake(&mut self, at: usize, simulation: &mut Simulation) {
        let (socket, said, _) = &mut self.handshakes[at];
        let socket = *socket;
        match simulation.read(socket, Hello::BYTES - said.len()) {
            Read::Bytes(content) => {
                let from = said.len();
                said.resize(from + content.bytes(), 0);
                content.copy_to(&mut said[from..]);
            }
            Read::Empty => return,
            Read::End | Read::Failed(_) => {
                simulation.close(socket);
                self.handshakes.swap_remove(at);
                return;
            }
        }
        let Some(hello) = said.first_chunk() else { return };
        let hello = Hello::decoded(hello);
        self.handshakes.swap_remove(at);
        let Some(hello) = hello else { unreachable!("no handshake of ours") };
        let answer = if self.is_closed { Answer::Gone } else { Answer::Accepted };
        simulation.write(socket, &Content::of(answer.encoded().as_slice().into()));
        if self.is_closed {
            return simulation.close(socket);
        }
        match hello.epoch {
            Hello::ABORT => {
                self.core.aborted();
                simulation.close(socket);
            }
            Hello::PROBE => {
                simulation.close(socket);
                self.check(simulation);
            }
            epoch => self.connected(usize::from(hello.path), epoch, socket, simulation),
        }
    }

    fn connected(&mut self, path: usize, epoch: u32, socket: Socket, simulation: &mut Simulation) {
        if !self.core.accepts(path, epoch) {
            return simulation.close(socket);
        }
        self.lose(path, simulation);
        let parser = self.core.connected(path, epoch);
        self.has_come = true;
        self.paths[path] = Some(Incoming::new(socket, parser));
        if self.is_polling {
            self.progress(simulation);
        }
    }

    fn lose(&mut self, path: usize, simulation: &mut Simulation) {
        let Some(incoming) = self.paths[path].take() else { return };
        let info = simulation.info(incoming.socket);
        let has_timed_out = simulation.failure(incoming.socket) == Some(Failure::TimedOut);
        let silence = info.map_or(Duration::ZERO, |info| info.silence);
        let silence = if has_timed_out && silence >= SILENCE { silence } else { Duration::ZERO };
        simulation.close(incoming.socket);
        self.core.lost(path, incoming.parser, silence, simulation.now());
    }

    pub(super) fn progress(&mut self, simulation: &mut Simulation) {
        for path in 0..MAX_PATHS {
            self.read(path, simulation);
        }
        self.settle();
        if self.core.paths_up() == 0 {
            self.core.check(simulation.now());
            self.note_failure();
        }
    }

    fn read(&mut self, number: usize, simulation: &mut Simulation) {
        let Receiving { paths, core, results, open, .. } = self;
        let Some(path) = &mut paths[number] else { return };
        match path.read(core, simulation, done(results, open)) {
            Ok(Stop::Empty | Stop::Request) => {
                if path.owes() {
                    self.watch(simulation.now());
                    self.owes(number, simulation);
                }
                if let Some(path) = &self.paths[number]
                    && path.parser.is_reading()
                    && self.open == 0
                {
                    self.watch(simulation.now());
                }
            }
            Ok(Stop::End | Stop::Failed(_)) => self.lose(number, simulation),
            Err(_) => {
                self.note_failure();
                self.lose(number, simulation);
            }
        }
    }

    /// A path owes acknowledgements: no other does for long.
    fn owes(&mut self, path: usize, simulation: &mut Simulation) {
        let before = std::mem::replace(&mut self.owing, path);
        if before != path
            && let Some(path) = &mut self.paths[before]
        {
            path.acknowledge_all(simulation);
        }
    }

    fn settle(&mut self) {
        for duplicate in self.core.duplicates() {
            let writer = self.core.writer(&duplicate);
            let Receiving { paths, core, results, open, .. } = self;
            let writer = writer.and_then(|path| paths[path].as_mut());
            core.settle(duplicate, writer.map(|path| &mut path.parser), done(results, open));
            self.note_failure();
        }
    }

    fn watch(&mut self, now: Time) {
        if !self.watched {
            (self.watched, self.busy) = (true, now);
            self.next_check = Some(now + CHECK_INTERVAL);
        }
    }

    /// What the connection manager does.
    fn check(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        self.progress(simulation);
        let mut again = false;
        for path in self.paths.iter_mut().flatten() {
            path.acknowledge_all(simulation);
            again |= path.owes() || path.parser.is_reading();
        }
        if again {
            self.busy = now;
        }
        self.watched &= again || now.since(self.busy) < LINGER;
    }

    pub(super) fn timers(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        while let Some(at) = self.handshakes.iter().position(|(.., until)| *until <= now) {
            simulation.close(self.handshakes.swap_remove(at).0);
        }
        if self.next_check.is_some_and(|at| at <= now) {
            self.next_check = None;
            if !self.is_closed {
                self.check(simulation);
                let pause = if self.watched { CHECK_INTERVAL } else { IDLE_CHECK_INTERVAL };
                self.next_check = Some(now + pause);
            }
        }
    }

    /// When [`Receiving::timers`] is to be called next.
    pub(super) fn due(&self) -> Option<Time> {
        let handshakes = self.handshakes.iter().map(|(.., until)| *until);
        self.next_check.into_iter().chain(handshakes).min()
    }

    /// Whether its caller tests requests all the time, from now on.
    pub fn set_polling(&mut self, is_polling: bool) {
        self.is_polling = is_polling;
    }

    // What tests look at.

    /// The state machine.
    #[must_use]
    pub fn core(&self) -> &Receiver<Place> {
        &self.core
    }

    /// Sockets that it has.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.paths.iter().flatten().count() + self.handshakes.len()
    }
}

fn done<'a>(
    results: &'a mut HashMap<Request, u64>,
    open: &'a mut usize,
) -> impl FnMut(Request, u64) + 'a {
    |request, bytes| {
        assert!(results.insert(request, bytes).is_none(), "{request} is done twice");
        *open -= 1;
    }
}
