//! The end of a connection that sends, over queue pairs: the transport's state machine, and what its paths are now.
//! Not the state machine (`busbw_multipath::Sender`), nor the thread that connects paths (`manager`).
//!
//! A message begins when the receiver has said where it wants it (`clear_to_send`). Each chunk is one RDMA write with a number,
//! straight from NCCL's memory to NCCL's memory; its completion is its acknowledgement.

mod acknowledged;
mod calls;
mod counts;
mod moving;
mod stopping;
mod upkeep;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use busbw_multipath::{
    Action, Capabilities, Chunk, End, Loss, PathConfig, Sender, Time, frame::Hello,
};
use busbw_verbs::{CompletionQueue, Ended, RemoteMemory, Service};
use nccl_plugin_abi::Status;

pub(super) use self::calls::Sending;
use super::{
    acknowledgement::Acknowledgement,
    clear_to_send::Table,
    exchange::Talk,
    memory::{Outgoing, Registered},
    ports::OpenPort,
    queue_pairs::{self, Made},
    refused,
    retired::Retiring,
};
use crate::{
    multipath::{locks::lock, manager::Manager, pending::Comes, routes::Route, watch::Watch},
    network::{Failure, REQUESTS, Result},
};

/// Both for the caller and for the connection manager.
pub(super) struct Connection {
    state: Mutex<State>,
    registered: Registered,
    ports: Vec<Arc<OpenPort>>,
    routes: Vec<Route>,
    /// Whether its queue pairs are reliable (RC), or not (UC).
    is_reliable: bool,
    /// Why the connection has ended, in words and as the state machine has it.
    ended: OnceLock<(String, End)>,
    aborted: AtomicBool,
    watched: Watch,
    manager: Arc<Manager>,
    itself: Weak<Connection>,
    hello: Hello,
    started: Instant,
}

/// What one thread at a time has.
struct State {
    core: Sender<Outgoing>,
    // Queue pairs go before what they complete in, and both before the memory that they name.
    paths: Box<[Path]>,
    queues: Vec<Arc<CompletionQueue>>,
    table: Table,
    /// Number of the next message.
    next: u64,
    /// What became of requests: bytes of those that are done.
    results: [Option<usize>; REQUESTS],
    /// Since when the caller has waited for a word of clear-to-send, if it does.
    waits: Option<Time>,
    /// TCP connections on which the other end is asked to stop a path.
    stops: Vec<(usize, Talk)>,
    /// When any unreliable path was last acknowledged.
    answered: Time,
    /// When it was last looked at what is not in a completion queue.
    tended: Time,
    pinged: Time,
    /// Room for what a queue tells, and for what a path is to carry.
    told: Vec<Ended>,
    chunks: Vec<Chunk<Outgoing>>,
    /// What the state machine asks for, until it is done.
    actions: VecDeque<Action>,
}

/// A path of a connection.
struct Path {
    link: PathState,
    /// Of what is up, or was last.
    epoch: u32,
    /// Chunks that were acknowledged in this epoch.
    acknowledged: u64,
    /// The newest acknowledgement of an unreliable queue pair.
    newest: Option<Acknowledgement>,
}

/// What a path is now.
enum PathState {
    /// It has no connection; the state machine knows whether one is being made.
    Down,
    /// The other end has our queue pair's address, and has not said its own.
    Offered { talk: Talk, made: Made, since: Time },
    /// It is connected, and has not delivered anything yet.
    Proving { up: Up, since: Time },
    /// It carries chunks.
    Up(Up),
    /// Our queue pair is gone. The other end's may be there still: what it had goes nowhere before that is gone, too.
    Stopping { loss: Loss, since: Time, asked: Time },
}

/// A path whose queue pairs are connected.
struct Up {
    talk: Talk,
    pair: Retiring,
    /// Which of the other end's ports it ends at.
    other_port: usize,
    /// Where pings go, when the last one went, and whether it has not completed.
    ping: RemoteMemory,
    asked: Time,
    is_pinged: bool,
    /// Of an unreliable queue pair: since when pings are not answered.
    unanswered: Option<Time>,
    /// Chunks that have not completed.
    in_flight: u32,
}

impl PathState {
    /// The connection over which its ends talk.
    fn talk(&mut self) -> Option<&mut Talk> {
        match self {
            PathState::Offered { talk, .. } => Some(talk),
            PathState::Proving { up, .. } | PathState::Up(up) => Some(&mut up.talk),
            PathState::Down | PathState::Stopping { .. } => None,
        }
    }
}

impl Connection {
    /// Begins to connect all paths, each over one of these ports in turn.
    ///
    /// # Errors
    /// The device has no room, or memory cannot be locked.
    pub(super) fn new(
        manager: &Arc<Manager>,
        hello: Hello,
        routes: Vec<Route>,
        ports: Vec<Arc<OpenPort>>,
        service: Service,
        chunk: u32,
    ) -> Result<Arc<Connection>> {
        let paths = routes.len();
        let queues = ports
            .iter()
            .map(|port| queue_pairs::queue(port))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(refused)?;
        let have_unreliable = || {
            ports.iter().zip(&queues).all(|(port, queue)| queue_pairs::has_unreliable(port, queue))
        };
        let is_reliable = service == Service::Reliable || !have_unreliable();
        let capabilities = match is_reliable {
            true => Capabilities::RELIABLE_WRITES,
            false => Capabilities::UNRELIABLE_WRITES,
        };
        let path = |at: usize| PathConfig { addresses: at % ports.len(), capabilities };
        let core = Sender::over((0..paths).map(path).collect(), chunk, Time::default());
        let down = || Path { link: PathState::Down, epoch: 0, acknowledged: 0, newest: None };
        let state = State {
            core,
            paths: (0..paths).map(|_| down()).collect(),
            queues,
            table: Table::new(&ports).map_err(refused)?,
            next: 0,
            results: [None; REQUESTS],
            waits: None,
            stops: Vec::new(),
            answered: Time::default(),
            tended: Time::default(),
            pinged: Time::default(),
            told: Vec::new(),
            chunks: Vec::new(),
            actions: VecDeque::new(),
        };
        let connection = Arc::new_cyclic(|itself| Connection {
            state: Mutex::new(state),
            registered: Registered::default(),
            ports,
            routes,
            is_reliable,
            ended: OnceLock::new(),
            aborted: AtomicBool::new(false),
            watched: Watch::asked(),
            manager: manager.clone(),
            itself: itself.clone(),
            hello,
            started: manager.clock.now(),
        });
        if let Some(stats) = manager.stats() {
            stats.opened(connection.itself.clone(), manager.clock.now());
        }
        manager.watch(connection.itself.clone());
        connection.with(|_, state| {
            let mut actions = Vec::new();
            state.core.connect(&mut actions);
            state.actions.extend(actions);
        });
        Ok(connection)
    }

    /// Does something with the state, and then what follows from it.
    fn with<T>(&self, act: impl FnOnce(&Connection, &mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let outcome = act(self, &mut state);
        self.perform(&mut state);
        outcome
    }

    fn port(&self, path: usize) -> usize {
        path % self.ports.len()
    }

    /// The port of a path, as people know it.
    fn port_name(&self, path: usize) -> String {
        self.ports[self.port(path)].name()
    }

    fn now(&self) -> Time {
        Time(self.manager.clock.now().saturating_duration_since(self.started).as_nanos() as u64)
    }
}

impl Comes for Connection {
    fn failure(&self) -> Result<()> {
        match self.ended.get() {
            None => Ok(()),
            Some((text, _)) => Err(Failure::new(Status::REMOTE, text)),
        }
    }

    /// Whether any path is up; what the other end says is heard first, as the caller waits for it.
    fn is_up(&self) -> bool {
        self.with(|connection, state| {
            connection.progress(state);
            state.core.paths_up() > 0
        })
    }

    /// Nothing reads the caller's memory any more when this returns.
    fn abort(&self) {
        if self.aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.with(|connection, state| {
            state.core.abort();
            connection.end(state, false);
        });
        self.tell_abort();
    }
}
