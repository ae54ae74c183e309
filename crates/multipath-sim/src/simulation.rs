//! The simulation itself: virtual time, and what happens next.
//! Not how links and connections behave (`link`, `tcp`).

mod sockets;

use std::time::Duration;

use busbw_multipath::Time;

use crate::{
    Content, Random,
    content::Stream,
    datagram::Flow,
    events::Queue,
    link::{Change, ETHERNET, Fate, Link},
    network::{Label, LinkId, Network, Route},
    packet::{Body, Kind, Packet, Segment},
    tcp::{End, Failure, HEADERS, News, Settings, Stage},
};

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Socket {
    connection: usize,
    /// Whether it is the end that has connected.
    connects: bool,
}

impl Socket {
    /// The other end.
    #[must_use]
    pub fn peer(self) -> Socket {
        Socket { connects: !self.connects, ..self }
    }

    /// Whether it is the end that has connected.
    #[must_use]
    pub fn connects(self) -> bool {
        self.connects
    }

    /// Which connection of the simulation's it is an end of.
    #[must_use]
    pub fn connection(self) -> usize {
        self.connection
    }
}

/// Something that an application is to see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A connection is up.
    Connected(Socket),
    /// Somebody has connected to this listener.
    Accepted(Socket, usize),
    /// There may be something to read, room to write, or the connection may have ended.
    Ready(Socket),
    /// A datagram has arrived on a flow.
    Arrived(Flow),
    /// It is the time that [`Simulation::alarm`] was told.
    Alarm(u64),
}

/// What somebody who connects to a listener finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// It accepts.
    Accepts,
    /// Nobody listens: the host refuses.
    Refuses,
    /// Nobody answers.
    Silent,
}

/// What a read gives.
#[derive(Debug, Clone)]
pub enum Read {
    /// These bytes.
    Bytes(Content),
    /// Nothing is there yet.
    Empty,
    /// The peer has said all.
    End,
    /// The connection has failed.
    Failed(Failure),
}

/// A way between two hosts that packets take, and one back.
#[derive(Debug, Clone)]
pub struct Ways {
    /// To the host that is connected to.
    pub forward: Route,
    /// Back.
    pub backward: Route,
}

struct Connection {
    ways: usize,
    labels: [Label; 2],
    listener: usize,
    settings: Settings,
    /// The one that connects first.
    ends: [Option<End>; 2],
    /// What each has written.
    streams: [Stream; 2],
}

enum Event {
    Packet(Packet),
    Timer(Socket),
    Change(LinkId, Change),
    Alarm(u64),
}

/// Everything.
pub struct Simulation {
    now: Time,
    events: Queue<Event>,
    network: Network,
    ways: Vec<Ways>,
    listeners: Vec<Listening>,
    connections: Vec<Connection>,
    pub(crate) flows: Vec<crate::datagram::State>,
    random: Random,
    wakes: std::collections::VecDeque<Wake>,
}

/// What a link that resets connections takes to answer.
const ANSWER: Duration = Duration::from_micros(50);

impl Simulation {
    /// Nothing yet. Everything random comes from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Simulation {
        let mut random = Random::new(seed);
        Simulation {
            // So that there is a time before the beginning.
            now: Time(1_000_000_000),
            events: Queue::default(),
            network: Network::new(random.split()),
            ways: Vec::new(),
            listeners: Vec::new(),
            connections: Vec::new(),
            flows: Vec::new(),
            random,
            wakes: std::collections::VecDeque::new(),
        }
    }

    // What there is.

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Adds a link, of one direction.
    pub fn link(&mut self, link: Link) -> LinkId {
        self.network.add(link)
    }

    /// All links.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Adds ways between two hosts. Returns their number.
    pub fn ways(&mut self, ways: Ways) -> usize {
        self.ways.push(ways);
        self.ways.len() - 1
    }

    /// Changes a link at a time.
    pub fn change_at(&mut self, at: Time, link: LinkId, change: Change) {
        self.events.add(at, Event::Change(link, change));
    }

    /// Changes a link now.
    pub fn change(&mut self, link: LinkId, change: Change) {
        self.network.change(link, change);
    }

    /// Wakes the application at a time.
    pub fn alarm(&mut self, at: Time, number: u64) {
        self.events.add(at, Event::Alarm(number));
    }

    /// Events that are to come.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.events.len()
    }

    // What happens.

    /// What the application is to see to next, until then; at the end of that time nothing.
    pub fn next(&mut self, until: Time) -> Option<Wake> {
        loop {
            if let Some(wake) = self.wakes.pop_front() {
                return Some(wake);
            }
            let Some((at, event)) = self.events.next(until) else {
                self.now = self.now.max(until);
                return None;
            };
            self.now = at;
            match event {
                Event::Packet(packet) => self.forward(packet),
                Event::Timer(socket) => self.timer(socket),
                Event::Change(link, change) => self.network.change(link, change),
                Event::Alarm(number) => self.wakes.push_back(Wake::Alarm(number)),
            }
        }
    }

    /// A packet is at the next stage of its route, or has arrived.
    pub(crate) fn forward(&mut self, mut packet: Packet) {
        let (ways, label) = match packet.body {
            Body::Segment(_) => {
                let connection = &self.connections[packet.flow];
                (connection.ways, connection.labels[usize::from(!packet.forward)])
            }
            Body::Datagram(_) => {
                let flow = &self.flows[packet.flow];
                (flow.ways, flow.label)
            }
        };
        let ways = &self.ways[ways];
        let route = if packet.forward { &ways.forward } else { &ways.backward };
        let Some(stage) = route.0.get(packet.stage) else {
            return self.arrive(packet);
        };
        let Some(link) = self.network.link(stage, packet.stage, label) else { return };
        if let Body::Segment(segment) = &packet.body
            && self.network.cuts(link, packet.bytes)
        {
            let most = self.connections[packet.flow].settings.mtu - HEADERS;
            if segment.bytes > most {
                return self.forward_cut(&packet, most);
            }
        }
        let (bytes, longest) = (packet.bytes, packet.longest);
        match self.network.take(link, bytes, longest, self.now) {
            Fate::Dropped => {}
            Fate::Reset => self.answer_with_reset(packet),
            Fate::Arrives(at, again) => {
                packet.stage += 1;
                if let Some(again) = again {
                    self.events.add(again, Event::Packet(packet.clone()));
                }
                self.events.add(at, Event::Packet(packet));
            }
        }
    }

    /// What travels together goes on as its packets.
    fn forward_cut(&mut self, packet: &Packet, most: u32) {
        let Body::Segment(whole) = &packet.body else { return };
        let mut from = 0;
        while from < whole.bytes {
            let mut part = packet.clone();
            let bytes = most.min(whole.bytes - from);
            let is_last = from + bytes == whole.bytes;
            let has_end = whole.has_end && is_last;
            let seq = whole.seq + u64::from(from);
            part.body = Body::Segment(Segment { seq, bytes, has_end, ..whole.clone() });
            part.bytes = bytes + HEADERS + ETHERNET;
            part.longest = bytes + HEADERS;
            self.forward(part);
            from += bytes;
        }
    }

    fn answer_with_reset(&mut self, mut packet: Packet) {
        if let Body::Segment(segment) = &mut packet.body
            && segment.kind != Kind::Reset
        {
            (segment.kind, segment.bytes) = (Kind::Reset, 0);
            packet.forward = !packet.forward;
            packet.stage = usize::MAX;
            self.events.add(self.now + ANSWER, Event::Packet(packet));
        }
    }

    fn arrive(&mut self, packet: Packet) {
        match packet.body {
            Body::Segment(segment) => {
                // Back is to the end that has connected.
                let socket = Socket { connection: packet.flow, connects: !packet.forward };
                self.segment_arrives(socket, &segment);
            }
            Body::Datagram(content) => {
                self.flows[packet.flow].arrived.push_back(content);
                self.wakes.push_back(Wake::Arrived(Flow(packet.flow)));
            }
        }
    }

    fn segment_arrives(&mut self, socket: Socket, segment: &Segment) {
        let now = self.now;
        let Some(end) = self.end(socket) else {
            return self.first_arrives(socket, segment);
        };
        let news = end.arrived(segment, now);
        self.after(socket, news);
    }

    /// Somebody connects.
    fn first_arrives(&mut self, socket: Socket, segment: &Segment) {
        if segment.kind != Kind::Syn {
            return;
        }
        let (now, seed) = (self.now, self.random.next());
        let connection = &mut self.connections[socket.connection];
        match self.listeners[connection.listener] {
            Listening::Silent => return,
            Listening::Accepts | Listening::Refuses => {}
        }
        let mut end = End::new(&connection.settings, false, seed, now);
        if self.listeners[connection.listener] == Listening::Refuses {
            end.out.clear();
            end.reset();
        }
        connection.ends[1] = Some(end);
        self.after(socket, News::default());
    }

    fn timer(&mut self, socket: Socket) {
        let now = self.now;
        let Some(end) = self.end(socket) else { return };
        if end.timer.is_none_or(|at| at > now) {
            // It was set to an earlier time since.
            return;
        }
        end.timer = None;
        let news =
            if end.due().is_some_and(|at| at <= now) { end.timers(now) } else { News::default() };
        self.after(socket, news);
    }

    /// What an end has to send leaves; its timer is set; the application hears of it.
    fn after(&mut self, socket: Socket, news: News) {
        let Socket { connection, connects } = socket;
        let listener = self.connections[connection].listener;
        let Some(end) = self.end(socket) else { return };
        if end.is_over() && end.is_orphan {
            end.timer = None;
        }
        let is_orphan = end.is_orphan;
        let out = std::mem::take(&mut end.out);
        if let Some(due) = end.due()
            && end.timer.is_none_or(|at| due < at)
        {
            end.timer = Some(due);
            self.events.add(due, Event::Timer(socket));
        }
        let is_over = matches!(self.end(socket).map(|end| end.stage), Some(Stage::Over(None)));
        if is_over {
            self.connections[connection].streams[usize::from(connects)].clear();
        }
        let settings = self.connections[connection].settings;
        for segment in &out {
            let payload = segment.bytes - u32::from(segment.has_end);
            let most = settings.mtu - HEADERS;
            let packets = payload.div_ceil(most).max(1);
            self.forward(Packet {
                flow: connection,
                forward: connects,
                stage: 0,
                bytes: payload + packets * (HEADERS + ETHERNET),
                longest: payload.min(most) + HEADERS,
                body: Body::Segment(segment.clone()),
            });
        }
        if is_orphan {
            return;
        }
        if news.connected {
            self.wakes.push_back(Wake::Connected(socket));
        }
        if news.accepted {
            self.wakes.push_back(Wake::Accepted(socket, listener));
        }
        if news.ready {
            self.wakes.push_back(Wake::Ready(socket));
        }
    }

    fn end(&mut self, Socket { connection, connects }: Socket) -> Option<&mut End> {
        self.connections[connection].ends[usize::from(!connects)].as_mut()
    }
}
