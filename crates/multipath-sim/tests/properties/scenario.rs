//! A small scenario, drawn from a seed: a network, what goes wrong on it, messages, and what either end does.
//! Not what must hold (`check`).

use std::time::Duration;

use busbw_multipath_sim::{
    Change, Random,
    tcp::{self, Algorithm},
};

pub const MILLI: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// What is to happen.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub paths: usize,
    pub chunk: u32,
    pub links: Vec<LinkPlan>,
    pub tcp: tcp::Settings,
    pub faults: Vec<Fault>,
    pub messages: Vec<Message>,
    pub ends: Ends,
    pub pauses: Vec<Pause>,
    /// Whether requests are tested in any order.
    pub tests_any: bool,
}

#[derive(Debug, Clone)]
pub struct LinkPlan {
    pub rate: u64,
    pub delay: Duration,
    pub queue: Duration,
    pub burst: u32,
    pub changes: Vec<Change>,
}

/// A link is changed for a while, or for good. Times count from the beginning.
#[derive(Debug, Clone)]
pub struct Fault {
    /// All, if there is none.
    pub link: Option<usize>,
    pub from: Duration,
    pub to: Option<Duration>,
    pub on: Change,
    pub off: Change,
}

#[derive(Debug, Clone)]
pub struct Message {
    pub bytes: usize,
    pub room: usize,
    pub sent: Duration,
    pub posted: Duration,
}

/// How it ends, besides in order: the sender closes when all is done, and then the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    InOrder,
    /// The memory of an open request is given back, and the end is closed.
    SenderAborts(Duration),
    ReceiverAborts(Duration),
    ReceiverCloses(Duration),
    SenderDies(Duration),
    ReceiverDies(Duration),
}

impl Ends {
    pub fn at(self) -> Option<Duration> {
        match self {
            Ends::InOrder => None,
            Ends::SenderAborts(at)
            | Ends::ReceiverAborts(at)
            | Ends::ReceiverCloses(at)
            | Ends::SenderDies(at)
            | Ends::ReceiverDies(at) => Some(at),
        }
    }
}

/// An end does not test its requests for a while.
#[derive(Debug, Clone)]
pub struct Pause {
    pub sender: bool,
    pub from: Duration,
    pub to: Duration,
}

impl Scenario {
    pub fn drawn(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x5ce7_a710);
        let random = &mut random;
        let links: Vec<LinkPlan> = (0..=random.below(5)).map(|_| LinkPlan::drawn(random)).collect();
        let slowest = links.iter().map(|link| link.rate).min().unwrap_or(1);
        let paths = 1 + random.below(16) as usize;
        let tcp = tcp::Settings {
            algorithm: *random.one(&[Algorithm::Cubic, Algorithm::Bbr]),
            offload: random.chance(0.7),
            mtu: *random.one(&[9000, 9000, 1500]),
            receive_buffer: *random.one(&[
                (64 << 10, 6 << 20),
                (64 << 10, 6 << 20),
                (8 << 10, 8 << 10),
            ]),
            send_buffer: *random.one(&[4 << 20, 4 << 20, 32 << 10]),
            ..tcp::Settings::default()
        };
        let messages = messages(random, slowest);
        let last = messages.iter().map(|one| one.sent.max(one.posted)).max().unwrap_or_default();
        let span = last + 500 * MILLI;
        let faults = faults(random, links.len(), paths, span);
        let at = random.time(span);
        let ends = match random.below(12) {
            0 => Ends::SenderAborts(at),
            1 => Ends::ReceiverAborts(at),
            2 => Ends::ReceiverCloses(at),
            3 => Ends::SenderDies(at),
            4 => Ends::ReceiverDies(at),
            _ => Ends::InOrder,
        };
        let pauses = (0..random.below(8).saturating_sub(5)).map(|_| {
            let from = random.time(span);
            let to =
                from + random.time(*random.clone().one(&[20 * MILLI, 500 * MILLI, 12 * SECOND]));
            Pause { sender: random.chance(0.5), from, to }
        });
        let pauses = pauses.collect();
        let chunk = *random.one(&[16 << 10, 64 << 10, 64 << 10, 128 << 10, 1 << 20]);
        let tests_any = random.chance(0.3);
        Scenario { paths, chunk, links, tcp, faults, messages, ends, pauses, tests_any }
    }

    /// From when on nothing gets through any more, if ever.
    pub fn dead_from(&self) -> Option<Duration> {
        let dead = self.faults.iter().filter(|fault| fault.to.is_none() && fault.link.is_none());
        dead.map(|fault| fault.from).min()
    }
}

impl LinkPlan {
    fn drawn(random: &mut Random) -> LinkPlan {
        let mut changes = Vec::new();
        if random.chance(0.25) {
            changes.push(Change::Loss(*random.one(&[0.001, 0.01, 0.03])));
        }
        if random.chance(0.1) {
            changes.push(Change::Duplication(0.02));
        }
        if random.chance(0.15) {
            changes.push(Change::Reordering(random.fraction() * 0.1, random.time(2 * MILLI)));
        }
        LinkPlan {
            rate: *random.one(&[
                20_000_000,
                100_000_000,
                1_000_000_000,
                1_000_000_000,
                10_000_000_000,
            ]),
            delay: random.time(*random.clone().one(&[
                MILLI / 10,
                MILLI / 10,
                5 * MILLI,
                50 * MILLI,
            ])),
            queue: MILLI + random.time(20 * MILLI),
            burst: *random.one(&[128 << 10, 16 << 10]),
            changes,
        }
    }
}

fn messages(random: &mut Random, slowest: u64) -> Vec<Message> {
    // So much that it takes seconds at most.
    let mut budget = (slowest / 8).clamp(1 << 20, 6 << 20) as usize;
    let count = 1 + random.below(40);
    let gap = *random.one(&[Duration::ZERO, MILLI / 10, 5 * MILLI, 60 * MILLI]);
    let late = *random.one(&[Duration::ZERO, Duration::ZERO, 30 * MILLI, 1500 * MILLI]);
    let (mut sent, mut posted) = (random.time(10 * MILLI), random.time(late));
    let mut messages = Vec::new();
    for _ in 0..count {
        let bytes = match random.below(8) {
            0 => 0,
            1 => random.below(300),
            2 | 3 => random.below(8193),
            4 => 8192 + random.below(3),
            5 => random.below(100_000),
            6 => (1 << 16) * random.below(10),
            _ => random.below((2 << 20) + 1),
        };
        let bytes = (bytes as usize).min(budget);
        budget -= bytes;
        let room = bytes + if random.chance(0.5) { random.below(1000) as usize } else { 0 };
        messages.push(Message { bytes, room, sent, posted });
        sent += random.time(gap);
        posted += random.time(gap);
    }
    messages
}

fn faults(random: &mut Random, links: usize, paths: usize, span: Duration) -> Vec<Fault> {
    let (mut faults, mut has_resets) = (Vec::new(), false);
    for _ in 0..random.below(8).saturating_sub(3) {
        let from = random.time(span);
        let link =
            if random.chance(0.25) { None } else { Some(random.below(links as u64) as usize) };
        let mut to = from + random.time(*random.clone().one(&[30 * MILLI, 800 * MILLI, 3 * SECOND]));
        let (on, off) = match random.below(6) {
            0 | 1 => (Change::Blackhole(true), Change::Blackhole(false)),
            2 => (Change::Up(false), Change::Up(true)),
            // Who is refused for 2 s gives up.
            3 if !has_resets => {
                has_resets = true;
                to = to.min(from + 1500 * MILLI);
                (Change::Resets(true), Change::Resets(false))
            }
            4 => (Change::Mtu(1400), Change::Mtu(0)),
            _ => (Change::Loss(0.2), Change::Loss(0.0)),
        };
        faults.push(Fault { link, from, to: Some(to), on, off });
    }
    // For good: everything, or one of several links where there are enough paths to find another.
    let (on, off) = (Change::Blackhole(true), Change::Blackhole(false));
    if random.chance(0.06) {
        faults.push(Fault { link: None, from: random.time(span), to: None, on, off });
    } else if random.chance(0.1) && links > 1 && paths >= 6 {
        let link = Some(random.below(links as u64) as usize);
        faults.push(Fault { link, from: random.time(span), to: None, on, off });
    }
    faults
}
