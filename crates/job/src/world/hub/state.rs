//! The hub's state and thread: it reads all connections, admits ranks, completes allgathers and barriers.
//! Not the meaning of the bytes, and not the supervisor's side (`hub`).

use std::{
    collections::HashMap,
    io::{self, Read},
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, mpsc::Sender},
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, EventData, EventFlags},
};

use super::{HubEvent, ListenScope, connection::Connection, lock};
use crate::world::messages::{ToHub, ToRank};

/// epoll data of descriptors that are no connections.
const LISTENER: u64 = 0;
const CLOSING: u64 = 1;
/// How long an unauthenticated connection may last while others wait.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Unauthenticated connections beyond the number of ranks.
const MAX_UNAUTHENTICATED: usize = 64;

/// The hub's state.
#[derive(Debug)]
pub(super) struct HubState {
    epoll: OwnedFd,
    scope: ListenScope,
    token: Vec<u8>,
    /// The answer to a rank that joins.
    begin: Arc<[u8]>,
    /// Connections by number.
    connections: HashMap<u64, Connection>,
    /// The number of the next connection.
    next: u64,
    /// Each rank's connection.
    ranks: Vec<Option<u64>>,
    /// Parts of the current allgather, and how many have arrived.
    parts: Vec<Option<Vec<u8>>>,
    received_parts: usize,
    /// The number of groups of ranks that share memory.
    memories: usize,
    /// Leading ranks whose memories are at the current barrier.
    arrived: Vec<usize>,
    /// The abort frame for ranks that join after the run was stopped.
    stopped: Option<Arc<[u8]>>,
}

/// Starts the thread that serves `listener`, until `closing` is readable and no connection is left.
pub(super) fn open<E: From<HubEvent> + Send + 'static>(
    listener: TcpListener,
    closing: OwnedFd,
    state: Arc<Mutex<HubState>>,
    events: Sender<E>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = lock(&state).epoll.try_clone()?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    epoll::add(&epoll, &closing, EventData::new_u64(CLOSING), EventFlags::IN)?;
    let serve = move || {
        let mut listener = Some(listener);
        let mut ready = Vec::with_capacity(64);
        let mut bytes = vec![0; 1 << 16];
        loop {
            ready.clear();
            if epoll::wait(&epoll, spare_capacity(&mut ready), None).is_err() {
                // EINTR; nothing else can fail on this process's own descriptor.
                continue;
            }
            let mut state = lock(&state);
            for event in &ready {
                match (event.data.u64(), &listener) {
                    (LISTENER, Some(listener)) => state.accept_all(listener),
                    (LISTENER, None) => {}
                    (CLOSING, _) => {
                        let _ = epoll::delete(&epoll, &closing);
                        listener = None;
                    }
                    (number, _) => {
                        let flags = event.flags;
                        if flags.contains(EventFlags::OUT) {
                            state.flush(number);
                        }
                        state.read(number, &mut bytes, &events);
                    }
                }
            }
            if listener.is_none() && state.connections.is_empty() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("hub".to_owned()).spawn(serve).map(drop)
}

impl HubState {
    pub(super) fn new(
        ranks: usize,
        memories: usize,
        scope: ListenScope,
        token: &str,
        begin: &[u8],
    ) -> io::Result<HubState> {
        Ok(HubState {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            scope,
            token: token.as_bytes().to_vec(),
            begin: ToRank::Begin(begin).frame()?.into(),
            connections: HashMap::new(),
            next: CLOSING + 1,
            ranks: vec![None; ranks],
            parts: vec![None; ranks],
            received_parts: 0,
            memories,
            arrived: Vec::new(),
            stopped: None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranks.iter().all(Option::is_none)
    }

    pub(super) fn missing(&self, leaders: &[usize]) -> Vec<usize> {
        if !self.arrived.is_empty() {
            let late = leaders.iter().filter(|rank| !self.arrived.contains(rank));
            return late.copied().collect();
        }
        let late = (0..self.parts.len()).filter(|rank| self.parts[*rank].is_none());
        if self.received_parts == 0 { Vec::new() } else { late.collect() }
    }

    pub(super) fn stop(&mut self, why: &str) {
        let Ok(frame) = ToRank::Abort(why).frame() else { return };
        let frame: Arc<[u8]> = frame.into();
        self.send_all(&frame);
        self.stopped = Some(frame);
    }

    pub(super) fn send(&mut self, rank: usize, message: &ToRank<'_>) {
        let Ok(frame) = message.frame() else { return };
        if let Some(number) = self.ranks.get(rank).copied().flatten() {
            self.queue(number, frame.into());
        }
    }

    fn send_all(&mut self, frame: &Arc<[u8]>) {
        for rank in 0..self.ranks.len() {
            if let Some(number) = self.ranks[rank] {
                self.queue(number, Arc::clone(frame));
            }
        }
    }

    /// Queues a frame on a connection; what the kernel does not take is sent when the socket is writable.
    fn queue(&mut self, number: u64, frame: Arc<[u8]>) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.send(frame) {
            let both = EventFlags::IN | EventFlags::OUT;
            let _ =
                epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(number), both);
        }
    }

    /// Accepts all connections that wait in the listener's queue.
    fn accept_all(&mut self, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.connections.len() >= 2 * self.ranks.len() + MAX_UNAUTHENTICATED {
                let now = Instant::now();
                self.connections
                    .retain(|_, c| c.rank.is_some() || now.duration_since(c.since) < JOIN_TIMEOUT);
            }
            if !self.is_allowed(&stream) {
                continue;
            }
            let Ok(connection) = Connection::new(stream) else { continue };
            let (number, stream) = (self.next, &connection.stream);
            self.next += 1;
            if epoll::add(&self.epoll, stream, EventData::new_u64(number), EventFlags::IN).is_ok() {
                self.connections.insert(number, connection);
            }
        }
    }

    /// Whether a connection arrived at an address that accepts.
    fn is_allowed(&self, stream: &TcpStream) -> bool {
        match &self.scope {
            ListenScope::Network(addresses) if !addresses.is_empty() => {
                let to = stream.local_addr().map(|address| address.ip().to_canonical());
                to.is_ok_and(|to| to.is_loopback() || addresses.contains(&to))
            }
            ListenScope::Host | ListenScope::Network(_) => true,
        }
    }

    /// Sends more of what a connection has queued.
    fn flush(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if !connection.flush() {
            let data = EventData::new_u64(number);
            let _ = epoll::modify(&self.epoll, &connection.stream, data, EventFlags::IN);
        }
    }

    /// Reads a connection and handles its frames.
    fn read<E: From<HubEvent>>(&mut self, number: u64, piece: &mut [u8], events: &Sender<E>) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        // Taken out of the connection while its frames change the hub.
        let mut reader = std::mem::take(&mut connection.reader);
        let over = reader.read(piece, |piece| connection.stream.read(piece));
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            let stays = match reader.next(connection.peer()) {
                Ok(Some(payload)) => ToHub::parse(payload)
                    .is_ok_and(|message| self.handle(number, message, events).is_some()),
                Ok(None) if over.is_ok() => {
                    connection.reader = reader;
                    return;
                }
                Ok(None) | Err(_) => false,
            };
            if !stays {
                return self.disconnect(number, events);
            }
        }
    }

    /// Handles a message; none if its connection is to be closed.
    fn handle<E: From<HubEvent>>(
        &mut self,
        number: u64,
        message: ToHub<'_>,
        events: &Sender<E>,
    ) -> Option<()> {
        let connection = self.connections.get_mut(&number)?;
        let event = match (connection.rank, message) {
            (None, ToHub::Join { token, rank, facts }) => {
                let place = self.ranks.get_mut(rank)?;
                if token != self.token || place.is_some() {
                    return None;
                }
                *place = Some(number);
                connection.rank = Some(rank);
                self.queue(number, Arc::clone(&self.begin));
                // A rank that joins a stopped run gets the abort at once.
                if let Some(stopped) = self.stopped.clone() {
                    self.queue(number, stopped);
                }
                Some(HubEvent::Joined { rank, facts: facts.to_vec() })
            }
            // An unauthenticated connection gets no answer, and nobody joins twice.
            (None, _) | (Some(_), ToHub::Join { .. }) => return None,
            (Some(rank), ToHub::Report(bytes)) => {
                Some(HubEvent::Report { rank, bytes: bytes.to_vec() })
            }
            (Some(rank), ToHub::Fail(why)) => Some(HubEvent::Failed { rank, why: why.to_owned() }),
            (Some(rank), ToHub::Part(part)) => {
                self.gather(rank, part);
                None
            }
            (Some(rank), ToHub::Arrive) => {
                self.arrive_at_barrier(rank);
                None
            }
            (Some(_), ToHub::Leave) => {
                connection.done = true;
                None
            }
        };
        if let Some(event) = event {
            let _ = events.send(event.into());
        }
        Some(())
    }

    /// Closes a connection; an event if it was a rank's.
    fn disconnect<E: From<HubEvent>>(&mut self, number: u64, events: &Sender<E>) {
        // epoll removes a closed descriptor by itself.
        let Some(connection) = self.connections.remove(&number) else { return };
        if let Some(rank) = connection.rank {
            self.ranks[rank] = None;
            let _ = events.send(HubEvent::Left { rank, done: connection.done }.into());
        }
    }

    /// Stores one part of an allgather; the last one sends all parts to every rank.
    fn gather(&mut self, rank: usize, part: &[u8]) {
        self.received_parts += usize::from(self.parts[rank].replace(part.to_vec()).is_none());
        if self.received_parts < self.parts.len() {
            return;
        }
        self.received_parts = 0;
        let all = ToRank::All(self.parts.iter().flatten().map(Vec::as_slice).collect()).frame();
        self.parts.fill(None);
        // One copy for all connections, however slowly some of them read.
        if let Ok(all) = all {
            self.send_all(&all.into());
        }
    }

    /// Records that a memory's ranks are at the barrier; the last memory releases all of them.
    fn arrive_at_barrier(&mut self, rank: usize) {
        self.arrived.push(rank);
        if self.arrived.len() < self.memories {
            return;
        }
        for rank in std::mem::take(&mut self.arrived) {
            self.send(rank, &ToRank::Open);
        }
    }
}
