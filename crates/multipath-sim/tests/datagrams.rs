//! Connections over unreliable paths, as queue pairs (UC) and datagrams are: goodput, fairness, loss and dead
//! links, in virtual time.
//! Not TCP paths (`netlab`, `properties`).
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    time::Duration,
};

use busbw_multipath::{
    Ack, Action, Capabilities, Destination, Memory, PathConfig, Receiver, Sender, Source, Time,
    frame::{Frame, Header, take},
};
use busbw_multipath_sim::{
    Change, Content, Label, Link, LinkId, Random, Route, Simulation, Wake, Ways, datagram::Flow,
};

const CHUNK: u32 = 16 << 10;
const MESSAGE: usize = 1 << 20;
const OPEN: usize = 8;
const MTU: u32 = 9000;
const HEADERS: u32 = 60;

/// A message of which nobody compares the bytes: `properties` does.
#[derive(Debug, Clone)]
struct Blank;

impl Memory for Blank {
    fn part(&self, _: usize, _: usize) -> Blank {
        Blank
    }

    fn overlaps(&self, _: &Range<usize>) -> bool {
        false
    }
}

impl Source for Blank {
    fn copied(&self) -> Blank {
        Blank
    }
}

impl Destination for Blank {
    fn write(&self, _: &[u8]) {}
}

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
}

/// How the path of the next chunk is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The transport's own: the path that would deliver it first, of all.
    Earliest,
    /// The one with the shorter round trip of two drawn ones, as UCCL does.
    PowerOfTwo,
}

struct World {
    simulation: Simulation,
    choice: Choice,
    random: Random,
    /// How long each message took, in the run.
    times: Vec<Duration>,
    connections: Vec<Connection>,
    /// Whose flow it is, of which path, and whether it carries data.
    flows: HashMap<Flow, (usize, usize, bool)>,
}

impl World {
    fn new(seed: u64) -> World {
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
    fn link(&mut self, rate: u64, queue: u64) -> LinkId {
        self.simulation.link(Link::new(rate * 1_000_000, Duration::from_micros(20), queue))
    }

    /// A connection whose paths take these links in turn, and then `last`, if there is one. Acknowledgements meet no queue.
    fn connect(&mut self, links: &[LinkId], last: Option<LinkId>) {
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
                if *choice == Choice::Earliest {
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
                let ack = one
                    .receiver
                    .datagram(path, place, &header, &bytes[40..], |_, _| *received += 1);
                if let Some(Ack { next, beyond, newest, .. }) = ack.unwrap() {
                    let parts =
                        [&next.to_le_bytes()[..], &beyond.to_le_bytes(), &newest.to_le_bytes()];
                    self.simulation.send(one.back[path], Content::of(parts.concat().into()));
                }
            } else {
                let ack = Ack {
                    path,
                    next: u64::from_le_bytes(take(bytes, 0)),
                    beyond: u128::from_le_bytes(take(bytes, 8)),
                    newest: u64::from_le_bytes(take(bytes, 24)),
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
    fn run(&mut self, time: Duration) -> Vec<f64> {
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
    if choice == Choice::Earliest {
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

/// Mb/s of one connection over these links (Mb/s, loss), each of which its paths take in turn.
fn goodput(links: &[(u64, f64)], paths: &[usize], time: Duration) -> f64 {
    let mut world = World::new(7);
    let ids: Vec<LinkId> = links.iter().map(|(rate, _)| world.link(*rate, 256 << 10)).collect();
    for (id, (_, loss)) in ids.iter().zip(links) {
        world.simulation.change(*id, Change::Loss(*loss));
    }
    let taken: Vec<LinkId> = paths.iter().map(|path| ids[*path]).collect();
    world.connect(&taken, None);
    world.run(Duration::from_millis(200));
    world.run(time)[0]
}

#[test]
fn one_path_fills_its_link_with_and_without_loss() {
    for (loss, least) in [(0.0, 0.93), (0.001, 0.9), (0.01, 0.85)] {
        let share = goodput(&[(1000, loss)], &[0], Duration::from_secs(1)) / 1000.0;
        println!("loss {loss}: {share:.3} of the link");
        assert!(share >= least, "loss {loss}: {share}");
    }
}

/// 16 paths over 13 links: four of them on one link, one link at a tenth, one with 1 % loss. Against the sum of
/// what each link's path delivers alone.
#[test]
fn unequal_paths_add_up() {
    let mut links = vec![(1000, 0.0); 13];
    links[1].0 = 100;
    links[2].1 = 0.01;
    let time = Duration::from_millis(500);
    let alone: f64 = links.iter().map(|link| goodput(&[*link], &[0], time)).sum();
    let paths: Vec<usize> = [0, 0, 0].into_iter().chain(0..13).collect();
    let together = goodput(&links, &paths, time);
    println!("16 paths: {together:.0} Mb/s of {alone:.0}, {:.3}", together / alone);
    assert!(together >= 0.9 * alone, "{together} of {alone}");
}

/// 16 senders to one receiver. How fair their shares are is printed only: who meets a queue at first takes it for
/// the least round
/// trip, and gets most (docs/plugin.md).
#[test]
fn incast_does_not_collapse() {
    let mut world = World::new(3);
    let last = world.link(10_000, 512 << 10);
    for _ in 0..16 {
        let links: Vec<LinkId> = (0..4).map(|_| world.link(10_000, 256 << 10)).collect();
        world.connect(&links, Some(last));
    }
    world.run(Duration::from_millis(100));
    let each = world.run(Duration::from_millis(500));
    let sum: f64 = each.iter().sum();
    let squares: f64 = each.iter().map(|one| one * one).sum();
    let (share, jain) = (sum / 10_000.0, sum * sum / (16.0 * squares));
    println!("incast 16 to 1: {share:.3} of the bottleneck, Jain's index {jain:.3}");
    assert!(share >= 0.85, "{share} {each:?}");
}

#[test]
fn a_dead_link_costs_its_bandwidth_and_no_message() {
    let mut world = World::new(5);
    let links: Vec<LinkId> = (0..4).map(|_| world.link(1000, 256 << 10)).collect();
    world.connect(&links, None);
    let before = world.run(Duration::from_millis(300))[0];
    world.simulation.change(links[0], Change::Blackhole(true));
    world.run(Duration::from_millis(300));
    let after = world.run(Duration::from_millis(500))[0];
    println!("a dead link of four: {before:.0} Mb/s before, {after:.0} after");
    assert!(after >= 0.9 * 0.75 * before, "{before} {after}");
}

/// What UCCL does against what the transport does, over eight links of 10 Gb/s on which hashes put the paths, as
/// ECMP does. With
/// --nocapture: goodput in Gb/s, and the 99th percentile of the time of a message, medians of BUSBW_SIM_SEEDS seeds (1).
#[test]
fn the_earliest_of_16_paths_against_two_drawn_of_many() {
    let seeds = std::env::var("BUSBW_SIM_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    println!("| case | choice | paths | Gb/s | message, p99 us |\n|---|---|---|---|---|");
    for (case, dead, senders) in
        [("collisions", 0, 1), ("a dead link", 1, 1), ("four senders", 0, 4)]
    {
        let mut all = Vec::new();
        for (choice, paths) in [
            (Choice::Earliest, 16),
            (Choice::Earliest, 64),
            (Choice::PowerOfTwo, 16),
            (Choice::PowerOfTwo, 64),
        ] {
            let (mut rates, mut late) = (Vec::new(), Vec::new());
            for seed in 0..seeds {
                let mut world = World::new(seed);
                world.choice = choice;
                let links: Vec<LinkId> = (0..8).map(|_| world.link(10_000, 1 << 20)).collect();
                let mut hash = Random::new(seed);
                for _ in 0..senders {
                    let taken: Vec<LinkId> = (0..paths).map(|_| *hash.one(&links)).collect();
                    world.connect(&taken, None);
                }
                world.run(Duration::from_millis(20));
                if dead > 0 {
                    world.simulation.change(links[0], Change::Blackhole(true));
                    world.run(Duration::from_millis(20));
                }
                rates.push(world.run(Duration::from_millis(30)).iter().sum::<f64>() / 1e3);
                world.times.sort();
                late.extend(world.times.get(world.times.len() * 99 / 100).copied());
            }
            rates.sort_by(f64::total_cmp);
            late.sort();
            assert_eq!(late.len() as u64, seeds, "{case}, {choice:?} of {paths}: no message");
            let (rate, late) = (rates[rates.len() / 2], late[late.len() / 2].as_micros());
            println!("| {case} | {choice:?} | {paths} | {rate:.1} | {late} |");
            all.push(rate);
        }
        // Of 80, of which a dead link takes 10; hashes leave some links to few paths.
        assert!(all.iter().all(|rate| *rate > 55.0), "{case}: {all:?}");
    }
}
