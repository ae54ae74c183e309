//! The end of a connection that receives, over queue pairs: it says where messages are wanted, and counts what has arrived.
//! Not placing it, which the device does; nor accepting paths (`manager`).

mod calls;
mod paths;
mod upkeep;
mod words;

use std::{
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use busbw_multipath::{Error, MAX_PATHS, Settled};
use busbw_verbs::{CompletionQueue, Ended, RemoteMemory};

pub(super) use self::calls::Listening;
use super::{
    arrival::Arrivals,
    clear_to_send::{Grant, Table},
    exchange::Talk,
    flush::Flush,
    memory::Registered,
    ports::OpenPort,
    queue_pairs::{self, Tag},
    refused,
    retired::Retiring,
};
use crate::{
    multipath::{locks::lock, manager::Manager, watch::Watch},
    network::{Failure, REQUESTS, Request, Result},
};

/// Both for the caller and for the connection manager.
pub(super) struct Connection {
    state: Mutex<State>,
    registered: Registered,
    ports: Vec<Arc<OpenPort>>,
    failure: OnceLock<Error>,
    /// Whether any path has come.
    has_come: AtomicBool,
    watched: Watch,
    manager: Arc<Manager>,
    itself: Weak<Connection>,
}

/// What one thread at a time has.
struct State {
    arrivals: Arrivals,
    /// Words of clear-to-send of receives that are not done, the oldest first.
    grants: Vec<Granted>,
    // Queue pairs go before what they complete in, and both before the memory that they name.
    paths: [Path; MAX_PATHS],
    flushes: Vec<Flush>,
    /// Reads of each request that have not completed.
    flushing: [usize; REQUESTS],
    queues: Vec<Arc<CompletionQueue>>,
    table: Table,
    /// The path by which something arrived last: words of clear-to-send take it.
    hot: usize,
    /// What became of requests: bytes of those that are done.
    results: [Option<u64>; REQUESTS],
    /// TCP connections on which the other end asks us to stop a path.
    stops: Vec<(usize, Talk)>,
    /// Whether nothing more follows.
    has_fin: bool,
    /// Since when no path is up; nothing while one is, or before the first.
    down_since: Option<Instant>,
    tended: Option<Instant>,
    told: Vec<Ended>,
    /// Requests that have failed, whose paths are to be given up.
    failed: Vec<(Tag, i32)>,
}

/// A word of clear-to-send.
struct Granted {
    grant: Grant,
    request: Request,
    /// The receive's memory, to be found again when NCCL takes it back.
    address: usize,
    /// When it was last written, by which path and epoch; nothing while no path was up.
    written: Option<(Instant, usize, u32)>,
    /// How often it was written.
    writes: u32,
}

/// A path of a connection.
#[derive(Default)]
struct Path {
    link: PathState,
    /// Of what is up, or was last; nothing before the first.
    epoch: Option<u32>,
    /// Chunks that have arrived in this epoch by a reliable queue pair, in all; or which of them by an unreliable one.
    settled: Settled,
    /// Whether that is to be acknowledged.
    owes: bool,
    /// Whether its queue pair has failed, or was stopped, and everything that arrived before is counted.
    is_flushed: bool,
}

/// What a path is now.
#[derive(Default)]
enum PathState {
    #[default]
    Down,
    /// It has come, and not said its queue pair's address.
    Accepted(Talk),
    /// Ours is connected to it. It may not be yet.
    Answered(Up),
    Up(Up),
}

/// A path whose queue pairs are connected.
struct Up {
    talk: Talk,
    pair: Retiring,
    /// The other end's table.
    table: RemoteMemory,
    is_reliable: bool,
    /// Words that are written there and have not completed.
    in_flight: u32,
}

impl PathState {
    fn talk(&mut self) -> Option<&mut Talk> {
        match self {
            PathState::Down => None,
            PathState::Accepted(talk) => Some(talk),
            PathState::Answered(up) | PathState::Up(up) => Some(&mut up.talk),
        }
    }

    fn is_up(&self) -> bool {
        matches!(self, PathState::Up(_))
    }
}

impl Connection {
    /// # Errors
    /// The device has no room, or memory cannot be locked.
    pub(super) fn new(
        manager: &Arc<Manager>,
        ports: Vec<Arc<OpenPort>>,
    ) -> Result<Arc<Connection>> {
        let queues = ports.iter().map(|port| queue_pairs::queue(port));
        let state = State {
            arrivals: Arrivals::default(),
            grants: Vec::new(),
            paths: std::array::from_fn(|_| Path::default()),
            flushes: Vec::new(),
            flushing: [0; REQUESTS],
            queues: queues.collect::<std::result::Result<_, _>>().map_err(refused)?,
            table: Table::new(&ports).map_err(refused)?,
            hot: 0,
            results: [None; REQUESTS],
            stops: Vec::new(),
            has_fin: false,
            down_since: None,
            tended: None,
            told: Vec::new(),
            failed: Vec::new(),
        };
        Ok(Arc::new_cyclic(|itself| Connection {
            state: Mutex::new(state),
            registered: Registered::default(),
            ports,
            failure: OnceLock::new(),
            has_come: AtomicBool::new(false),
            watched: Watch::default(),
            manager: manager.clone(),
            itself: itself.clone(),
        }))
    }

    fn failure(&self) -> Result<()> {
        let text = |error: &Error| Failure::new(nccl_plugin_abi::Status::REMOTE, error.to_string());
        self.failure.get().map_or(Ok(()), |error| Err(text(error)))
    }

    /// The connection has failed: nothing is written to its memory any more when this returns.
    fn fail(&self, state: &mut State, error: Error) {
        let _ = self.failure.set(error);
        for path in &mut state.paths {
            path.link = PathState::Down;
        }
        state.stops.clear();
    }

    fn port(&self, path: usize) -> usize {
        path % self.ports.len()
    }

    fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// The caller has given the connection up.
    fn abort(&self) {
        self.fail(&mut lock(&self.state), Error::Closed);
    }

    fn watch(&self) {
        if self.watched.ask() {
            self.manager.watch(self.itself.clone());
        }
    }
}
