//! Connections over unreliable paths in a simulated network, each with endless messages.
//! Not what is asked of them (`main`, `choices`).

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use busbw_multipath::{
    Ack, Action, Capabilities, PathConfig, Receiver, Sender, Time,
    frame::{Frame, Header, take},
};
use busbw_multipath_sim::{
    Blank, Content, Label, Link, LinkId, Random, Route, Simulation, Wake, Ways, datagram::Flow,
};

const CHUNK: u32 = 16 << 10;
const MESSAGE: usize = 1 << 20;
const OPEN: usize = 8;
const MTU: u32 = 9000;
const HEADERS: u32 = 60;
/// Paths that are drawn in vain before the earliest is taken: what is left may be of use to no other.
const REFUSALS: usize = 8;

/// A connection, and the flows of its paths there and back.
struct Connection {
    sender: Sender<Blank>,
    receiver: Receiver<Blank>,
    there: Vec<Flow>,
    back: Vec<Flow>,
    sent: usize,
    open: usize,
    /// When the open messages began.
    begun: VecDeque<Time>,
    posted: usize,
    received: usize,
    alarm: Option<Time>,
    /// What its receiver's clock is ahead of the simulation's.
    ahead: Duration,
}

/// How the path of the next chunk is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The transport's own: the path that would deliver it first, of all.
    Earliest,
    /// The one with the shorter round trip of two drawn ones, as UCCL does.
    PowerOfTwo,
}

pub struct World {
    pub simulation: Simulation,
    pub choice: Choice,
    random: Random,
    /// How long each message took, in the run.
    pub times: Vec<Duration>,
    connections: Vec<Connection>,
    /// Whose flow it is, of which path, and whether it carries data.
    flows: HashMap<Flow, (usize, usize, bool)>,
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            simulation: Simulation::new(seed),
            choice: Choice::Earliest,
            random: Random::new(seed),
            times: Vec::new(),
            connections: Vec::new(),
            flows: HashMap::new(),
        }
    }

    /// A link of so many Mb/s with a queue of so many bytes.
    pub fn link(&mut self, rate: u64, queue: u64) -> LinkId {
        self.simulation.link(Link::new(rate * 1_000_000, Duration::from_micros(20), queue))
    }

    /// A connection to this host whose paths take these links in turn, and then `last`, if there is one. Acknowledgements meet
    /// no queue. Hosts have other clocks.
    pub fn connect(&mut self, links: &[LinkId], last: Option<LinkId>, host: usize) {
        let number = self.connections.len();
        let now = self.simulation.now();
        let config = PathConfig { addresses: 0, capabilities: Capabilities::datagrams(CHUNK) };
        let mut sender = Sender::over(vec![config; links.len()], CHUNK, now);
        let mut actions = Vec::new();
        sender.connect(&mut actions);
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for (path, link) in links.iter().enumerate() {
            sender.connected(path, now, &mut actions);
            let returns = self.link(100_000, 1 << 30);
            let forward = last.map_or(Route::over(*link), |last| Route::over(*link).then(last));
            let ways = self.simulation.ways(Ways { forward, backward: Route::over(returns) });
            let data = self.simulation.flow(ways, true, Label::Link(0), MTU, HEADERS);
            let acks = self.simulation.flow(ways, false, Label::Link(0), MTU, HEADERS);
            self.flows.insert(data, (number, path, true));
            self.flows.insert(acks, (number, path, false));
            there.push(data);
            back.push(acks);
        }
        let receiver = Receiver::default();
        let (sent, open, posted, received, alarm) = (0, 0, 0, 0, None);
        let begun = VecDeque::new();
        let ahead = Duration::from_nanos(host as u64 * 1_234_567_891);
        self.connections.push(Connection {
            sender,
            receiver,
            there,
            back,
            sent,
            open,
            begun,
            posted,
            received,
            alarm,
            ahead,
        });
    }

    /// What an application does, and everything that may leave.
    fn step(&mut self, number: usize) {
        let World { simulation, connections, choice, random, .. } = self;
        let one = &mut connections[number];
        let now = simulation.now();
        while one.posted < one.received + OPEN {
            one.receiver.post(Blank, MESSAGE, 0, |_, _| one.received += 1).unwrap();
            one.posted += 1;
        }
        while one.open < OPEN {
            one.sender.push(Blank, MESSAGE, 0);
            one.begun.push_back(now);
            one.open += 1;
        }
        let (mut chunks, mut refused) = (Vec::new(), Vec::new());
        while let Some(path) = chosen(&one.sender, *choice, &refused, random, now) {
            let place = one.sender.next_number(path);
            one.sender.next(path, now, &mut chunks);
            let Some(chunk) = chunks.pop() else {
                // Nothing waits that this path would deliver sooner than others.
                refused.push(path);
                if *choice == Choice::Earliest || refused.len() > REFUSALS {
                    break;
                }
                continue;
            };
            let mut bytes = place.to_le_bytes().to_vec();
            bytes.extend(Frame::Chunk(chunk.header).encoded());
            bytes.resize(40 + chunk.header.bytes(), 0);
            simulation.send(one.there[path], Content::of(bytes.into()));
        }
        if let Some(at) = one.sender.next_timeout(now)
            && one.alarm.is_none_or(|alarm| at < alarm || alarm <= now)
        {
            one.alarm = Some(at);
            simulation.alarm(at, number as u64);
        }
    }

    fn arrived(&mut self, flow: Flow) {
        let (number, path, is_data) = self.flows[&flow];
        let now = self.simulation.now();
        while let Some(content) = self.simulation.receive(flow) {
            let one = &mut self.connections[number];
            let bytes = content.slice().unwrap();
            if is_data {
                let place = u64::from_le_bytes(take(bytes, 0));
                let header = decoded(&bytes[8..40]);
                let received = &mut one.received;
                let ack = one.receiver.datagram(
                    path,
                    place,
                    &header,
                    &bytes[40..],
                    now + one.ahead,
                    |_, _| *received += 1,
                );
                if let Some(Ack { next, beyond, newest, time, .. }) = ack.unwrap() {
                    let parts = [
                        &next.to_le_bytes()[..],
                        &beyond.to_le_bytes(),
                        &newest.to_le_bytes(),
                        &time.0.to_le_bytes(),
                    ];
                    self.simulation.send(one.back[path], Content::of(parts.concat().into()));
                }
            } else {
                let ack = Ack {
                    path,
                    next: u64::from_le_bytes(take(bytes, 0)),
                    beyond: u128::from_le_bytes(take(bytes, 8)),
                    newest: u64::from_le_bytes(take(bytes, 24)),
                    time: Time(u64::from_le_bytes(take(bytes, 32))),
                };
                let Connection { sender, sent, open, begun, .. } = one;
                sender.acknowledged_datagrams(&ack, now, |_, _| {
                    *sent += 1;
                    *open -= 1;
                    // In order, nearly: the oldest is complete first.
                    self.times.extend(begun.pop_front().map(|begun| now.since(begun)));
                });
            }
        }
        self.step(number);
    }

    fn alarm(&mut self, number: usize) {
        let now = self.simulation.now();
        let one = &mut self.connections[number];
        let mut actions = Vec::new();
        let Connection { sender, sent, open, .. } = one;
        let mut done = |_: usize, _: usize| {
            *sent += 1;
            *open -= 1;
        };
        sender.check_datagrams(now, &mut actions);
        for action in std::mem::take(&mut actions) {
            let Action::GiveUp { path, loss } = action else { panic!("{action:?}") };
            sender.lost(path, &loss, &Default::default(), now, &mut actions, &mut done);
        }
        self.step(number);
    }

    /// Bytes that each connection has delivered in so long.
    pub fn run(&mut self, time: Duration) -> Vec<f64> {
        let until = self.simulation.now() + time;
        self.times.clear();
        (0..self.connections.len()).for_each(|number| self.step(number));
        let before: Vec<usize> = self.connections.iter().map(|one| one.received).collect();
        while let Some(wake) = self.simulation.next(until) {
            match wake {
                Wake::Arrived(flow) => self.arrived(flow),
                Wake::Alarm(number) => self.alarm(number as usize),
                other => panic!("{other:?}"),
            }
        }
        let delivered = |(one, before): (&Connection, &usize)| (one.received - before) as f64;
        let messages = self.connections.iter().zip(&before).map(delivered);
        messages
            .map(|messages| messages * MESSAGE as f64 * 8.0 / time.as_secs_f64() / 1e6)
            .collect()
    }
}

/// The path of the next chunk.
fn chosen(
    sender: &Sender<Blank>,
    choice: Choice,
    refused: &[usize],
    random: &mut Random,
    now: Time,
) -> Option<usize> {
    if choice == Choice::Earliest || refused.len() == REFUSALS {
        return sender.choose(now);
    }
    let may_send = |path: &usize| sender.has_window(*path) && !refused.contains(path);
    let able: Vec<usize> = (0..sender.paths()).filter(may_send).collect();
    if able.is_empty() || !sender.work().0 {
        return None;
    }
    let two = [(); 2].map(|()| *random.one(&able));
    two.into_iter().min_by_key(|path| sender.round_trip(*path).unwrap_or_default())
}

fn decoded(bytes: &[u8]) -> Header {
    match Frame::decoded(bytes.try_into().unwrap()) {
        Ok(Frame::Chunk(header)) => header,
        other => panic!("{other:?}"),
    }
}
