//! Runs a scenario, and holds the transport to what it promises.
//! Not what scenarios there are (`scenario`).

use std::{collections::VecDeque, rc::Rc, time::Duration};

use busbw_multipath::{End, Error, Time};
use busbw_multipath_sim::{
    Link, Random, Route, Simulation, Ways,
    transport::{Buffer, Event, Settings, World},
};

use super::scenario::{Ends, MILLI, SECOND, Scenario};

/// Requests that an end may have open.
const REQUESTS: usize = 32;
/// All messages arrive within so long after the last fault, whatever the links lose.
const ARRIVAL: Duration = Duration::from_secs(100);
/// When nothing gets through, both ends say so: 20 s, 10 s until keep-alive or probes find out, and what timers take.
pub const ERROR: Duration = Duration::from_secs(36);
/// Both ends have no sockets any more so long after they were closed.
const REST: Duration = Duration::from_secs(40);

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub arrived: usize,
    pub sender: Option<End>,
    pub receiver_failed: bool,
    pub lost_paths: u64,
    pub hedged: u64,
    pub ended: Duration,
}

struct Open {
    number: usize,
    buffer: Rc<Buffer>,
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    pair: usize,
    random: Random,
    began: Time,
    sends: VecDeque<Open>,
    receives: VecDeque<Open>,
    /// Numbers of the next message to send, to post, and of those that have arrived, been sent.
    next_send: usize,
    next_post: usize,
    arrived: usize,
    sent: usize,
    sender: Option<End>,
    receiver: Option<Error>,
    sender_over: Option<Time>,
    receiver_over: Option<Time>,
    closed: bool,
    kept: Vec<Rc<Buffer>>,
}

const STEP: u32 = 1;
const SENDER: u32 = 2;
const RECEIVER: u32 = 3;
const ENDS: u32 = 4;

/// The bytes of a message.
fn pattern(number: usize, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number as u64);
    let word = random.next().to_le_bytes();
    (0..bytes).map(|at| word[at % 8] ^ (at >> 3) as u8 ^ (at >> 11) as u8).collect()
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Run<'a> {
        let mut simulation = Simulation::new(seed);
        let mut links = Vec::new();
        for plan in &scenario.links {
            let both = [(); 2].map(|()| {
                let mut link = Link::tbf(plan.rate, plan.burst.max(70_000), plan.queue, plan.delay);
                plan.changes.iter().for_each(|change| link.change(*change));
                simulation.link(link)
            });
            links.push(both);
        }
        let [forward, backward] = [0, 1]
            .map(|way| Route::over_any(&links.iter().map(|link| link[way]).collect::<Vec<_>>()));
        let ways = simulation.ways(Ways { forward, backward });
        let began = simulation.now();
        for fault in &scenario.faults {
            for (number, both) in links.iter().enumerate() {
                if fault.link.is_some_and(|link| link != number) {
                    continue;
                }
                for link in both {
                    simulation.change_at(began + fault.from, *link, fault.on);
                    if let Some(to) = fault.to {
                        simulation.change_at(began + to, *link, fault.off);
                    }
                }
            }
        }
        let mut world = World::new(simulation, seed);
        let pair = world.connect(Settings {
            ways,
            paths: scenario.paths,
            chunk: scenario.chunk,
            labels: Vec::new(),
            tcp: scenario.tcp,
        });
        for message in &scenario.messages {
            world.alarm(began + message.sent, STEP);
            world.alarm(began + message.posted, STEP);
        }
        for pause in &scenario.pauses {
            let end = if pause.sender { SENDER } else { RECEIVER };
            world.alarm(began + pause.from, end);
            world.alarm(began + pause.to, end);
        }
        if let Some(at) = scenario.ends.at() {
            world.alarm(began + at, ENDS);
        }
        Run {
            scenario,
            world,
            pair,
            random: Random::new(seed),
            began,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            next_send: 0,
            next_post: 0,
            arrived: 0,
            sent: 0,
            sender: None,
            receiver: None,
            sender_over: None,
            receiver_over: None,
            closed: false,
            kept: Vec::new(),
        }
    }

    fn time(&self) -> Duration {
        self.world.simulation.now().since(self.began)
    }

    fn is_paused(&self, sender: bool) -> bool {
        let time = self.time();
        let is_now = |pause: &super::scenario::Pause| {
            pause.sender == sender && pause.from <= time && time < pause.to
        };
        self.scenario.pauses.iter().any(is_now)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Alarm(alarm) if alarm == u64::from(ENDS) => self.end(),
            Event::Alarm(alarm) if alarm == u64::from(SENDER) || alarm == u64::from(RECEIVER) => {
                let sender = alarm == u64::from(SENDER);
                let is_polling = !self.is_paused(sender);
                let is_over = if sender { self.sender_over } else { self.receiver_over }.is_some();
                if !is_over {
                    self.world.with(self.pair, |pair, _| match sender {
                        true => pair.sending.set_polling(is_polling),
                        false => pair.receiving.set_polling(is_polling),
                    });
                }
            }
            _ => {}
        }
        self.step();
    }

    fn step(&mut self) {
        loop {
            let sender = self.sender_over.is_none() && !self.is_paused(true) && self.step_sender();
            let receiver =
                self.receiver_over.is_none() && !self.is_paused(false) && self.step_receiver();
            if !sender && !receiver {
                break;
            }
        }
        let pair = self.world.pair(self.pair);
        let (sockets, others) = (pair.sending.sockets(), pair.receiving.sockets());
        // A path, a probe and a closing socket each; at the other end, what has not noticed yet that it was given up.
        assert!(sockets <= 3 * self.scenario.paths + 8, "the sender has {sockets} sockets");
        assert!(others <= 16 + 12 * self.scenario.paths, "the receiver has {others} sockets");
        let (chunks, bytes, duplicates) = pair.receiving.core().kept();
        assert!(chunks <= 4096 && bytes <= 32 << 20 && duplicates <= 64);
        if self.sent == self.scenario.messages.len() && !self.closed && self.sender_over.is_none() {
            // Small messages may be on their way still.
            self.closed = true;
            self.world.with(self.pair, |pair, simulation| pair.sending.close(simulation));
        }
    }

    fn step_sender(&mut self) -> bool {
        let time = self.time();
        let Run { scenario, world, sends, random, .. } = self;
        if self.closed {
            return false;
        }
        if self.next_send < scenario.messages.len()
            && scenario.messages[self.next_send].sent <= time
            && sends.len() < REQUESTS
        {
            let number = self.next_send;
            let bytes = scenario.messages[number].bytes;
            let buffer = Buffer::new((1 << 40) + (number << 22), pattern(number, bytes));
            let place = buffer.lend();
            let sent = world.with(self.pair, |pair, simulation| {
                pair.sending.send(place, bytes, number, simulation)
            });
            match sent {
                Ok(true) => {
                    self.next_send += 1;
                    sends.push_back(Open { number, buffer });
                    return true;
                }
                Ok(false) => buffer.take_back(),
                Err(end) => {
                    buffer.take_back();
                    self.sender_ends(end);
                    return false;
                }
            }
        }
        let count = self.sends.len() as u64;
        if count == 0 {
            return false;
        }
        let at = if scenario.tests_any { random.below(count) as usize } else { 0 };
        let number = self.sends[at].number;
        let tested =
            world.with(self.pair, |pair, simulation| pair.sending.test(number, simulation));
        match tested {
            Ok(None) => false,
            Ok(Some(bytes)) => {
                assert_eq!(bytes, scenario.messages[number].bytes);
                if let Some(open) = self.sends.remove(at) {
                    open.buffer.take_back();
                    self.kept.push(open.buffer);
                }
                self.sent += 1;
                true
            }
            Err(end) => {
                self.sender_ends(end);
                false
            }
        }
    }

    fn step_receiver(&mut self) -> bool {
        let time = self.time();
        if !self.world.pair(self.pair).receiving.has_come() {
            return false;
        }
        let Run { scenario, world, receives, random, .. } = self;
        if self.next_post < scenario.messages.len()
            && scenario.messages[self.next_post].posted <= time
            && receives.len() < REQUESTS
        {
            let number = self.next_post;
            let room = scenario.messages[number].room;
            let buffer = Buffer::new((1 << 41) + (number << 22), vec![0xee; room]);
            let place = buffer.lend();
            let posted = world.with(self.pair, |pair, simulation| {
                pair.receiving.receive(place, room, number, simulation)
            });
            self.next_post += 1;
            if let Err(error) = posted {
                buffer.take_back();
                self.receiver_fails(error);
                return false;
            }
            receives.push_back(Open { number, buffer });
            return true;
        }
        let count = self.receives.len() as u64;
        if count == 0 {
            return false;
        }
        let at = if scenario.tests_any { random.below(count) as usize } else { 0 };
        let number = self.receives[at].number;
        let tested =
            world.with(self.pair, |pair, simulation| pair.receiving.test(number, simulation));
        match tested {
            Ok(None) => false,
            Ok(Some(bytes)) => {
                let Some(open) = self.receives.remove(at) else { return false };
                open.buffer.take_back();
                assert_eq!(bytes, scenario.messages[number].bytes, "message {number}");
                {
                    let there = open.buffer.bytes();
                    assert!(
                        there[..bytes] == pattern(number, bytes)[..],
                        "bytes of message {number}"
                    );
                    assert!(
                        there[bytes..].iter().all(|byte| *byte == 0xee),
                        "behind message {number}"
                    );
                }
                self.kept.push(open.buffer);
                self.arrived += 1;
                true
            }
            Err(error) => {
                self.receiver_fails(error);
                false
            }
        }
    }

    /// As NCCL does after an error: it takes its memory back, and closes.
    fn sender_ends(&mut self, end: End) {
        self.sender = Some(end);
        self.release_sender();
    }

    fn release_sender(&mut self) {
        let opens: Vec<Open> = self.sends.drain(..).collect();
        for open in opens {
            self.world.with(self.pair, |pair, simulation| {
                pair.sending.release(&open.buffer.addresses(), simulation);
            });
            open.buffer.take_back();
            self.kept.push(open.buffer);
        }
        self.world.with(self.pair, |pair, simulation| pair.sending.close(simulation));
        self.sender_over.get_or_insert(self.world.simulation.now());
        self.closed = true;
    }

    fn receiver_fails(&mut self, error: Error) {
        self.receiver = Some(error);
        self.release_receiver();
    }

    fn release_receiver(&mut self) {
        let opens: Vec<Open> = self.receives.drain(..).collect();
        for open in opens {
            self.world.with(self.pair, |pair, simulation| {
                pair.receiving.release(&open.buffer.addresses(), simulation);
            });
            open.buffer.take_back();
            self.kept.push(open.buffer);
        }
        self.world.with(self.pair, |pair, simulation| pair.receiving.close(simulation));
        self.receiver_over.get_or_insert(self.world.simulation.now());
    }

    fn end(&mut self) {
        let now = self.world.simulation.now();
        match self.scenario.ends {
            Ends::InOrder => {}
            Ends::SenderAborts(_) if self.sender_over.is_none() => self.release_sender(),
            Ends::ReceiverAborts(_) if self.receiver_over.is_none() => self.release_receiver(),
            Ends::ReceiverCloses(_) if self.receiver_over.is_none() => self.release_receiver(),
            Ends::SenderDies(_) if self.sender_over.is_none() => {
                self.sends.drain(..).for_each(|open| open.buffer.take_back());
                self.world.with(self.pair, |pair, simulation| pair.sending.kill(simulation));
                self.sender_over = Some(now);
                self.closed = true;
            }
            Ends::ReceiverDies(_) if self.receiver_over.is_none() => {
                self.receives.drain(..).for_each(|open| open.buffer.take_back());
                self.world.with(self.pair, |pair, simulation| pair.receiving.kill(simulation));
                self.receiver_over = Some(now);
            }
            _ => {}
        }
    }

    /// Whether both ends have done all that they do.
    fn is_done(&mut self) -> bool {
        let all = self.scenario.messages.len();
        let sender = self.sender_over.is_some() || self.sent == all;
        // Nobody waits for a connection that has never come.
        let has_come = self.world.pair(self.pair).receiving.has_come();
        let is_left = !has_come && self.sender_over.is_some();
        sender && (is_left || self.receiver_over.is_some() || self.arrived == all)
    }
}

/// Runs a scenario, in which an end fails so long after its cause at most.
///
/// # Panics
/// When the transport does not hold what it promises.
pub fn run(scenario: &Scenario, seed: u64, error: Duration) -> Outcome {
    let mut run = Run::new(scenario, seed);
    let all = scenario.messages.len();
    let times = scenario.messages.iter().map(|message| message.sent.max(message.posted));
    let faults = scenario.faults.iter().filter_map(|fault| fault.to);
    let pauses = scenario.pauses.iter().map(|pause| pause.to);
    let last = times.chain(faults).chain(pauses).max().unwrap_or_default();
    // Whoever ends, or nothing gets through: then each end that is left fails within its limit.
    let cause = scenario.ends.at().into_iter().chain(scenario.dead_from()).min();
    let limit = match cause {
        Some(cause) => cause.max(last) + ARRIVAL.max(error),
        None => last + ARRIVAL,
    };
    let until = run.began + limit;
    let mut events = 0u64;
    while !run.is_done() {
        let Some(event) = run.world.next(until) else { break };
        run.event(event);
        events += 1;
        assert!(events < 20_000_000, "no end");
    }
    let ended = run.time();
    let (sent, arrived) = (run.sent, run.arrived);
    if !run.is_done() {
        run.world.with(run.pair, |pair, simulation| {
            println!("receiver: {}", pair.receiving.described(simulation));
            println!("sender: {}", pair.sending.described(simulation));
            println!("notices: {:?}", pair.sending.notices());
        });
    }
    assert!(
        run.is_done(),
        "after {ended:?}: {sent} of {all} sent, {arrived} arrived; {:?}, {:?}",
        run.sender,
        run.receiver
    );
    if cause.is_none() {
        assert_eq!((run.sender, &run.receiver), (None, &None), "it has ended without a cause");
        assert_eq!((sent, arrived), (all, all));
    } else {
        // Not before the cause.
        let cause = cause.unwrap_or_default();
        for (at, has_failed) in
            [(run.sender_over, run.sender.is_some()), (run.receiver_over, run.receiver.is_some())]
        {
            let Some(at) = at.filter(|_| has_failed) else { continue };
            let time = at.since(run.began);
            assert!(time >= cause, "an end fails after {time:?}, before the cause at {cause:?}");
            let most = cause.max(last) + error;
            assert!(
                time <= most,
                "an end fails after {time:?}, the cause was at {cause:?}, last {last:?}"
            );
        }
    }
    if run.receiver_over.is_none() && cause.is_none() {
        // What the sender has closed meanwhile is known to it.
        run.release_receiver();
    }
    // Nothing is left, and nobody touches memory that was taken back.
    let pair = run.world.pair(run.pair);
    let counts: Vec<_> = (0..scenario.paths).map(|path| pair.sending.core().counts(path)).collect();
    let (lost_paths, hedged) =
        (counts.iter().map(|one| one.lost).sum(), counts.iter().map(|one| one.hedged).sum());
    if run.receiver_over.is_none() {
        run.release_receiver();
    }
    if run.sender_over.is_none() && !run.closed {
        run.release_sender();
    }
    let until = run.world.simulation.now() + REST;
    while run.world.next(until).is_some() {}
    let pair = run.world.pair(run.pair);
    assert_eq!((pair.sending.sockets(), pair.receiving.sockets()), (0, 0), "sockets are left");
    Outcome {
        arrived,
        sender: run.sender,
        receiver_failed: run.receiver.is_some(),
        lost_paths,
        hedged,
        ended: ended.max(MILLI).min(1000 * SECOND),
    }
}
