//! One connection over unreliable paths that write to the receiver's memory, as UC queue pairs do, in a simulated network.
//! Not what is asked of it (`main`).

use std::{collections::HashMap, time::Duration};

use busbw_multipath::{
    Action, Capabilities, ConnectError, PathConfig, Sender, Settled, Time, frame::take,
};
use busbw_multipath_sim::{
    Blank, Content, Label, Link, LinkId, Route, Simulation, Wake, Ways, datagram::Flow,
};

const CHUNK: u32 = 64 << 10;
const OPEN: usize = 8;
const MTU: u32 = 4096;
const HEADERS: u32 = 60;
/// Between two looks at what is late.
const TICK: Duration = Duration::from_millis(1);

/// A path: its links, there and back, and what its ends know.
struct Path {
    there: Flow,
    back: Flow,
    forward: LinkId,
    /// Of the queue pairs that are connected; nothing while none are.
    epoch: Option<u32>,
    settled: Settled,
    /// Whether handshakes get through.
    is_dead: bool,
}

/// A message at the receiver: chunks that it is to have, and which have arrived.
struct Open {
    arrived: Vec<bool>,
    missing: usize,
}

pub struct World {
    pub simulation: Simulation,
    sender: Sender<Blank>,
    paths: Vec<Path>,
    flows: HashMap<Flow, (usize, bool)>,
    /// Bytes of all messages.
    messages: Vec<usize>,
    begun: usize,
    /// Messages that are complete for the sender, and at the receiver.
    pub sent: usize,
    pub received: usize,
    open: HashMap<usize, Open>,
    pub given_up: usize,
    pub requeued: u64,
}

impl World {
    /// Paths over links of so many Mb/s each, and these messages.
    pub fn new(seed: u64, rates: &[u64], messages: Vec<usize>) -> World {
        let mut simulation = Simulation::new(seed);
        let now = simulation.now();
        let config = PathConfig { addresses: 0, capabilities: Capabilities::UNRELIABLE_WRITES };
        let sender = Sender::over(vec![config; rates.len()], CHUNK, now);
        let (mut paths, mut flows) = (Vec::new(), HashMap::new());
        for (number, rate) in rates.iter().enumerate() {
            let delay = Duration::from_micros(50);
            let forward = simulation.link(Link::new(rate * 1_000_000, delay, 512 << 10));
            let backward = simulation.link(Link::new(rate * 1_000_000, delay, 512 << 10));
            let route = Ways { forward: Route::over(forward), backward: Route::over(backward) };
            let ways = simulation.ways(route);
            let there = simulation.flow(ways, true, Label::Link(0), MTU, HEADERS);
            let back = simulation.flow(ways, false, Label::Link(0), MTU, HEADERS);
            flows.insert(there, (number, true));
            flows.insert(back, (number, false));
            let (epoch, settled, is_dead) = (None, Settled::default(), false);
            paths.push(Path { there, back, forward, epoch, settled, is_dead });
        }
        let mut world = World {
            simulation,
            sender,
            paths,
            flows,
            messages,
            begun: 0,
            sent: 0,
            received: 0,
            open: HashMap::new(),
            given_up: 0,
            requeued: 0,
        };
        let mut actions = Vec::new();
        world.sender.connect(&mut actions);
        world.perform(actions);
        world.simulation.alarm(now + TICK, 0);
        world
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    pub fn link(&self, path: usize) -> LinkId {
        self.paths[path].forward
    }

    /// Whether a path's handshakes get through from now on.
    pub fn dead(&mut self, path: usize, is_dead: bool) {
        self.paths[path].is_dead = is_dead;
    }

    /// Runs until all messages have arrived, or this time.
    pub fn run(&mut self, until: Time) {
        self.step();
        while self.sent < self.messages.len() || self.received < self.messages.len() {
            match self.simulation.next(until) {
                Some(Wake::Arrived(flow)) => self.arrived(flow),
                Some(Wake::Alarm(_)) => self.tick(),
                Some(other) => panic!("{other:?}"),
                None => break,
            }
            self.step();
        }
    }

    /// What the applications do, and everything that may leave.
    fn step(&mut self) {
        let now = self.simulation.now();
        while self.begun < self.messages.len().min(self.sent + OPEN).min(self.received + OPEN) {
            let bytes = self.messages[self.begun];
            let chunks = bytes.div_ceil(CHUNK as usize).max(1);
            self.open.insert(self.begun, Open { arrived: vec![false; chunks], missing: chunks });
            self.sender.push(Blank, bytes, 0);
            self.begun += 1;
        }
        let mut chunks = Vec::new();
        while let Some(path) = self.sender.choose(now) {
            let number = self.sender.next_number(path);
            self.sender.next(path, now, &mut chunks);
            let Some(chunk) = chunks.pop() else { break };
            let header = chunk.header;
            let mut bytes = self.head(path, number, 1);
            bytes.extend(header.message.to_le_bytes());
            bytes.extend(header.index.to_le_bytes());
            bytes.resize(bytes.len() + header.bytes(), 0);
            self.simulation.send(self.paths[path].there, Content::of(bytes.into()));
        }
    }

    /// A queue pair of another epoch knows nothing of it.
    fn head(&self, path: usize, number: u64, kind: u8) -> Vec<u8> {
        let epoch = self.paths[path].epoch.unwrap();
        [&[kind, (number & 127) as u8][..], &epoch.to_le_bytes()].concat()
    }

    fn arrived(&mut self, flow: Flow) {
        let (number, is_data) = self.flows[&flow];
        while let Some(content) = self.simulation.receive(flow) {
            let bytes = content.slice().unwrap();
            let path = &mut self.paths[number];
            if path.epoch != Some(u32::from_le_bytes(take(bytes, 2))) {
                continue;
            }
            let now = self.simulation.now();
            if !is_data {
                let below = u64::from_le_bytes(take(bytes, 6));
                let arrived = u64::from_le_bytes(take(bytes, 14));
                let settled = Settled { below, arrived };
                let sent = &mut self.sent;
                self.sender.settled(number, &settled, now, now, |_, _| *sent += 1).unwrap();
                continue;
            }
            match bytes[0] {
                1 => {
                    path.settled.arrived(bytes[1].into()).unwrap();
                    let message = u64::from_le_bytes(take(bytes, 6)) as usize;
                    let index = u32::from_le_bytes(take(bytes, 14)) as usize;
                    self.placed(message, index);
                }
                _ => path.settled.sent_below(bytes[1].into()).unwrap(),
            }
            let Settled { below, arrived } = self.paths[number].settled;
            let mut answer = self.head(number, 0, 0);
            answer.extend(below.to_le_bytes());
            answer.extend(arrived.to_le_bytes());
            self.simulation.send(self.paths[number].back, Content::of(answer.into()));
        }
    }

    /// A chunk was written to the receiver's memory: its message must be open, and must lack it.
    fn placed(&mut self, message: usize, index: usize) {
        let open = self.open.get_mut(&message);
        let open = open.unwrap_or_else(|| panic!("message {message} is written to after its end"));
        let is_new = !std::mem::replace(&mut open.arrived[index], true);
        assert!(is_new, "chunk {index} of message {message} came twice");
        open.missing -= 1;
        if open.missing == 0 {
            self.open.remove(&message);
            self.received += 1;
        }
    }

    fn tick(&mut self) {
        let now = self.simulation.now();
        let mut actions = Vec::new();
        self.sender.check_settled(now, &mut actions);
        self.sender.check_late(now, &mut actions);
        self.sender.check_paths(now, &mut actions);
        assert_eq!(self.sender.end(), None);
        self.perform(actions);
        self.simulation.alarm(now + TICK, 0);
    }

    fn perform(&mut self, mut actions: Vec<Action>) {
        let now = self.simulation.now();
        while !actions.is_empty() {
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Connect { path, epoch, .. } => match self.paths[path].is_dead {
                        true => {
                            let why = ConnectError::Other;
                            self.sender.not_connected(path, why, "dead", now, &mut actions);
                        }
                        false => {
                            let one = &mut self.paths[path];
                            (one.epoch, one.settled) = (Some(epoch), Settled::default());
                            self.sender.connected(path, now, &mut actions);
                        }
                    },
                    Action::Ping(path) => {
                        let ping = self.head(path, self.sender.next_number(path), 2);
                        self.simulation.send(self.paths[path].there, Content::of(ping.into()));
                    }
                    // Both ends stop it, and the receiver says what has arrived.
                    Action::GiveUp { path, loss } => {
                        self.given_up += 1;
                        self.paths[path].epoch = None;
                        let settled = self.paths[path].settled;
                        let sent = &mut self.sent;
                        self.sender.settled(path, &settled, now, now, |_, _| *sent += 1).unwrap();
                        let health = Default::default();
                        self.sender.lost(path, &loss, &health, now, &mut actions, |_, _| {
                            panic!("no path holds memory")
                        });
                    }
                    Action::Probe(_)
                    | Action::Inspect(_)
                    | Action::Hedge(_)
                    | Action::Notify(_) => {}
                }
            }
        }
        self.requeued = (0..self.paths.len()).map(|path| self.sender.counts(path).requeued).sum();
    }
}
