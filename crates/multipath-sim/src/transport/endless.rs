//! An application as `examples/pair` of the plugin is: on each connection so many messages of one size are open,
//! and only the
//! oldest is tested.
//! Not what is measured of it.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use busbw_multipath::Time;

use super::{Buffer, Event, World};

/// Endless messages over connections.
pub struct Endless {
    bytes: usize,
    open: usize,
    /// Each connection begins its last message so long after its first.
    time: Option<Duration>,
    flows: Vec<Flow>,
}

struct Flow {
    pair: usize,
    sends: VecDeque<(usize, Rc<Buffer>)>,
    receives: VecDeque<(usize, Rc<Buffer>)>,
    begun: [usize; 2],
    received: u64,
    first: Option<Time>,
    /// When the first message began, and when the last one was acknowledged.
    began: Option<Time>,
    ended: Option<Time>,
    last_begun: bool,
}

impl Endless {
    /// Messages of so many bytes, so many of them open.
    #[must_use]
    pub fn new(pairs: &[usize], bytes: usize, open: usize) -> Endless {
        let flow = |&pair| Flow {
            pair,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            begun: [0; 2],
            received: 0,
            first: None,
            began: None,
            ended: None,
            last_begun: false,
        };
        Endless { bytes, open, time: None, flows: pairs.iter().map(flow).collect() }
    }

    /// Bytes that were received on each connection.
    #[must_use]
    pub fn received(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.received).collect()
    }

    /// When the first message had arrived on any connection.
    #[must_use]
    pub fn began(&self) -> Option<Time> {
        self.flows.iter().filter_map(|flow| flow.first).min()
    }

    /// Each connection begins its last message so long after its first.
    #[must_use]
    pub fn lasting(self, time: Duration) -> Endless {
        Endless { time: Some(time), ..self }
    }

    /// Runs until the last messages are acknowledged. For each connection its bytes, and from the beginning
    /// of its first message until then.
    ///
    /// # Panics
    /// When that is not so after 60 s more than it should take.
    pub fn finish(&mut self, world: &mut World) -> Vec<(u64, Duration)> {
        let most = world.simulation.now() + Duration::from_secs(60) + self.time.unwrap_or_default();
        while self.flows.iter().any(|flow| flow.ended.is_none()) {
            let now = world.simulation.now();
            assert!(now < most, "the last message is not acknowledged");
            self.run(world, now + Duration::from_millis(1));
        }
        let bytes = self.bytes as u64;
        let took = |flow: &Flow| Some(flow.ended?.since(flow.began?));
        self.flows
            .iter()
            .map(|flow| (flow.begun[0] as u64 * bytes, took(flow).unwrap_or_default()))
            .collect()
    }

    /// Runs until the first message has arrived.
    ///
    /// # Panics
    /// When none does within 30 s.
    pub fn begin(&mut self, world: &mut World) -> Time {
        let most = world.simulation.now() + Duration::from_secs(30);
        while self.began().is_none() {
            let now = world.simulation.now();
            assert!(now < most, "no message has arrived");
            self.run(world, now + Duration::from_millis(1));
        }
        self.began().unwrap_or_default()
    }

    /// Runs until then.
    ///
    /// # Panics
    /// When a connection ends.
    pub fn run(&mut self, world: &mut World, until: Time) {
        let all = 0..self.flows.len();
        all.for_each(|flow| self.step(flow, world));
        while let Some(event) = world.next(until) {
            let Event::Pair(pair) = event else { continue };
            if let Some(flow) = self.flows.iter().position(|flow| flow.pair == pair) {
                self.step(flow, world);
            }
        }
    }

    fn step(&mut self, flow: usize, world: &mut World) {
        let Endless { bytes, open, time, flows } = self;
        let (bytes, open, time, flow) = (*bytes, *open, *time, &mut flows[flow]);
        let now = world.simulation.now();
        world.with(flow.pair, |pair, simulation| {
            loop {
                let mut is_idle = true;
                if let Some((request, _)) = flow.receives.front()
                    && let Some(arrived) = ended(pair.receiving.test(*request, simulation))
                {
                    flow.received += arrived as u64;
                    flow.first.get_or_insert(now);
                    if let Some((_, buffer)) = flow.receives.pop_front() {
                        buffer.take_back();
                    }
                    is_idle = false;
                }
                while flow.receives.len() < open && pair.receiving.has_come() {
                    let request = flow.begun[1];
                    let buffer = Buffer::blank(request << 24, bytes);
                    let place = buffer.lend();
                    ended(pair.receiving.receive(place, bytes, request, simulation));
                    flow.begun[1] += 1;
                    flow.receives.push_back((request, buffer));
                    is_idle = false;
                }
                while flow.sends.len() < open && !flow.last_begun {
                    let request = flow.begun[0];
                    let buffer = Buffer::blank(request << 24, bytes);
                    if !ended(pair.sending.send(buffer.lend(), bytes, request, simulation)) {
                        break;
                    }
                    flow.begun[0] += 1;
                    let began = *flow.began.get_or_insert(now);
                    flow.last_begun = time.is_some_and(|time| now.since(began) >= time);
                    flow.sends.push_back((request, buffer));
                    is_idle = false;
                }
                if let Some((request, _)) = flow.sends.front()
                    && ended(pair.sending.test(*request, simulation)).is_some()
                {
                    if let Some((_, buffer)) = flow.sends.pop_front() {
                        buffer.take_back();
                    }
                    if flow.last_begun && flow.sends.is_empty() {
                        flow.ended = Some(now);
                    }
                    is_idle = false;
                }
                if is_idle {
                    return;
                }
            }
        });
    }
}

fn ended<T, E: std::fmt::Debug>(outcome: Result<T, E>) -> T {
    outcome.unwrap_or_else(|error| panic!("the connection has ended: {error:?}"))
}
