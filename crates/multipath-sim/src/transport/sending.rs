//! The end of a connection that sends, in a simulation: what the plugin's threads do around `busbw_multipath::Sender`.
//! Not the decisions: those are the transport's own.

mod upkeep;

use std::{collections::HashMap, ops::Range};

use busbw_multipath::{End, Memory, Notice, Request, SMALL, Sender, Time, frame::Hello};

use super::{
    CHECK_INTERVAL, CONNECT_TIMEOUT, LATE_INTERVAL, Place, Settings,
    outgoing::{Outgoing, ended_by},
};
use crate::{Label, Random, Read, Simulation, Socket, tcp::Failure};

/// Small messages that leave each at once.
const SINGLE: usize = 2;

/// A connection that is being made: a path, or a probe.
struct Connecting {
    socket: Socket,
    path: usize,
    port: u16,
    epoch: u32,
    is_connected: bool,
    until: Time,
    answer: Vec<u8>,
}

/// The sending end of a connection.
pub struct Sending {
    pub(super) core: Sender<Place>,
    settings: Settings,
    listener: usize,
    random: Random,
    paths: Vec<Option<Outgoing>>,
    connecting: Vec<Connecting>,
    closing: Vec<(Socket, Time)>,
    /// Which links a source port's flow takes, there and back.
    labels: HashMap<u16, [Label; 2]>,
    /// Requests that are done, and their bytes.
    results: HashMap<Request, usize>,
    open: usize,
    /// Small messages that nobody has seen done, and those that have not left.
    small: usize,
    gathered: Vec<Request>,
    hot: usize,
    /// Whether somebody calls `test` all the time.
    pub(super) is_polling: bool,
    end: Option<End>,
    aborted: bool,
    /// Closed by its caller: until when what is not acknowledged is sent still.
    draining: Option<Time>,
    is_ended: bool,
    watched: bool,
    busy: Time,
    next_check: Option<Time>,
    next_late: Option<Time>,
    checked_late: Time,
    notices: Vec<Notice>,
}

impl Sending {
    pub(super) fn new(
        settings: Settings,
        listener: usize,
        mut random: Random,
        simulation: &mut Simulation,
    ) -> Sending {
        let now = simulation.now();
        let core = Sender::new(vec![0; settings.paths], settings.chunk, now);
        let mut sending = Sending {
            core,
            listener,
            random: random.split(),
            paths: (0..settings.paths).map(|_| None).collect(),
            connecting: Vec::new(),
            closing: Vec::new(),
            labels: HashMap::new(),
            results: HashMap::new(),
            open: 0,
            small: 0,
            gathered: Vec::new(),
            hot: 0,
            is_polling: true,
            end: None,
            aborted: false,
            draining: None,
            is_ended: false,
            watched: true,
            busy: now,
            next_check: Some(now + CHECK_INTERVAL),
            next_late: None,
            checked_late: now,
            notices: Vec::new(),
            settings,
        };
        let mut actions = Vec::new();
        sending.core.connect(&mut actions);
        sending.perform(actions, simulation);
        sending
    }

    // What its caller does.

    /// Why the connection has ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Sends a message; false if it does not take one now.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn send(
        &mut self,
        memory: Place,
        bytes: usize,
        request: Request,
        simulation: &mut Simulation,
    ) -> Result<bool, End> {
        self.end.map_or(Ok(()), Err)?;
        if bytes > SMALL {
            self.open += 1;
            self.core.push(memory, bytes, request);
            self.watch(simulation.now());
            self.move_on(simulation);
            return Ok(true);
        }
        if !self.core.has_room(bytes) {
            self.progress(simulation);
            return Ok(false);
        }
        self.core.push_copy(Place::Copy(memory.part(0, bytes).content()), bytes);
        self.results.insert(request, bytes);
        self.watch(simulation.now());
        if self.small < SINGLE {
            self.send_small(simulation);
        } else {
            self.gathered.push(request);
        }
        self.small += 1;
        Ok(true)
    }

    /// The bytes of a request that is done; nothing if it is not.
    ///
    /// # Errors
    /// When the connection has ended before.
    pub fn test(
        &mut self,
        request: Request,
        simulation: &mut Simulation,
    ) -> Result<Option<usize>, End> {
        if self.gathered.contains(&request) {
            self.gathered.clear();
            self.send_small(simulation);
        }
        if !self.results.contains_key(&request) {
            if self.end.is_some() {
                self.read_last(simulation);
            } else {
                self.progress(simulation);
            }
        }
        match self.results.remove(&request) {
            None => self.end.map_or(Ok(None), Err),
            Some(bytes) => {
                self.small -= usize::from(bytes <= SMALL);
                Ok(Some(bytes))
            }
        }
    }

    /// Memory is given back.
    pub fn release(&mut self, memory: &Range<usize>, simulation: &mut Simulation) {
        if self.core.reads(memory) {
            self.abort(simulation);
        }
    }

    /// The caller does not want it any more.
    pub fn close(&mut self, simulation: &mut Simulation) {
        self.is_polling = false;
        if self.open > 0 {
            self.abort(simulation);
        } else {
            self.draining = Some(simulation.now() + busbw_multipath::CONNECTION_TIMEOUT);
            self.watch(simulation.now());
        }
    }

    /// Its process is killed.
    pub fn kill(&mut self, simulation: &mut Simulation) {
        self.core.abort();
        self.core.take_down(simulation.now());
        self.is_ended = true;
        self.is_polling = false;
        let paths = self.paths.iter_mut().filter_map(Option::take).map(|path| path.socket);
        let others = self.connecting.drain(..).map(|one| one.socket);
        for socket in paths.chain(others).chain(self.closing.drain(..).map(|(socket, _)| socket)) {
            simulation.close(socket);
        }
    }

    fn abort(&mut self, simulation: &mut Simulation) {
        if self.aborted {
            return;
        }
        self.aborted = true;
        self.core.abort();
        self.note_end();
        self.end_paths(simulation);
        self.connect(0, Hello::ABORT, None, CONNECT_TIMEOUT, simulation);
    }

    // What moves.

    fn send_small(&mut self, simulation: &mut Simulation) {
        let (first, count) = (self.hot, self.paths.len());
        for path in (first..count).chain(0..first) {
            if self.paths[path].is_none() {
                continue;
            }
            self.move_path(path, simulation);
            if !self.core.work().1 {
                self.hot = path;
                return;
            }
        }
    }

    pub(super) fn progress(&mut self, simulation: &mut Simulation) {
        self.move_on(simulation);
        self.check_late(simulation);
    }

    fn check_late(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        if now.since(self.checked_late) < LATE_INTERVAL {
            return;
        }
        self.checked_late = now;
        let mut actions = Vec::new();
        self.core.check_late(now, &mut actions);
        let has_more = !actions.is_empty();
        self.perform(actions, simulation);
        self.next_late = (!self.core.is_idle() && self.is_polling).then(|| now + LATE_INTERVAL);
        if has_more {
            self.move_on(simulation);
        }
    }

    fn move_on(&mut self, simulation: &mut Simulation) {
        for path in 0..self.paths.len() {
            self.move_path(path, simulation);
        }
        if !self.core.is_idle() && self.is_polling && self.next_late.is_none() {
            self.next_late = Some(simulation.now() + LATE_INTERVAL);
        }
    }

    fn move_path(&mut self, path: usize, simulation: &mut Simulation) {
        if self.read_path(path, simulation) {
            self.write_path(path, simulation);
        }
    }

    /// Whether the path is still there.
    fn read_path(&mut self, number: usize, simulation: &mut Simulation) -> bool {
        let Some(path) = &mut self.paths[number] else { return false };
        let (delivered, mut loss) = path.read(simulation);
        if let Some(count) = delivered {
            let unwritten = path.unwritten();
            let Sending { results, open, core, .. } = self;
            let acknowledged =
                core.acknowledged(number, count, unwritten, simulation.now(), |request, bytes| {
                    assert!(results.insert(request, bytes).is_none(), "{request} is done twice");
                    *open -= 1;
                });
            assert_eq!(acknowledged, Ok(()));
        }
        if self.end.is_none()
            && let Some(loss) = loss.take()
        {
            self.lose(number, &loss, simulation);
            return false;
        }
        true
    }

    fn write_path(&mut self, number: usize, simulation: &mut Simulation) {
        let Sending { paths, core, .. } = self;
        let Some(path) = &mut paths[number] else { return };
        let (has_work, is_urgent) = core.work();
        if path.is_writing() || is_urgent || has_work && core.has_window(number) {
            path.write(simulation, |now, chunks| core.next(number, now, chunks));
        }
    }

    fn read_last(&mut self, simulation: &mut Simulation) {
        for path in 0..self.paths.len() {
            self.read_path(path, simulation);
        }
    }

    // What tests look at.

    /// The state machine.
    #[must_use]
    pub fn core(&self) -> &Sender<Place> {
        &self.core
    }

    /// What it had to tell.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// How its paths are, for people who look for a fault.
    pub fn described(&self, simulation: &mut Simulation) -> String {
        let paths = self.paths.iter().enumerate().map(|(number, path)| {
            let (state, in_flight) = (self.core.state(number), self.core.in_flight(number));
            let info = path.as_ref().and_then(|path| simulation.info(path.socket));
            let writing = path.as_ref().is_some_and(Outgoing::is_writing);
            format!("\n  {number}: {state:?}, {in_flight} in flight, writing {writing}, {info:?}")
        });
        let paths: String = paths.collect();
        let (work, connecting) = (self.core.work(), self.connecting.len());
        format!("work {work:?}, open {}, {connecting} connecting{paths}", self.open)
    }

    /// Sockets that it has.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.paths.iter().flatten().count() + self.connecting.len() + self.closing.len()
    }

    /// The sockets of its paths.
    #[must_use]
    pub fn path(&self, path: usize) -> Option<Socket> {
        self.paths[path].as_ref().map(|path| path.socket)
    }

    /// Breaks a path, as a reset of the peer's would.
    pub fn cut(&mut self, path: usize, simulation: &mut Simulation) {
        let loss = ended_by(Failure::Reset);
        if self.end.is_none() {
            self.lose(path, &loss, simulation);
        }
    }
}

/// Whether the peer has closed, too. What still arrives is read.
pub(super) fn is_at_its_end(socket: Socket, simulation: &mut Simulation) -> bool {
    loop {
        match simulation.read(socket, 1 << 20) {
            Read::Bytes(_) => {}
            Read::Empty => return false,
            Read::End | Read::Failed(_) => return true,
        }
    }
}
