//! The end of a connection that sends, over sockets: threads and locks around the transport's state machine.
//! Not the state machine (`busbw_multipath::Sender`), nor the thread that connects paths (`manager`).

mod calls;
pub(super) mod counts;
mod moving;
mod stream;
mod upkeep;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    time::Instant,
};

use busbw_multipath::{End, Time, frame::Hello};

pub(super) use self::calls::Sending;
use self::{counts::Kernel, stream::Stream};
use super::{
    engine::Open, events::Events, flag::Flag, manager::Manager, memory::Outgoing, results::Results,
    routes::Route, state_machine::StateMachine, watch::Watch,
};
use crate::network::Result;

/// Both for the caller and for the connection manager. Whoever locks a path and the state machine locks the path first.
pub(super) struct Connection {
    core: StateMachine<busbw_multipath::Sender<Outgoing>>,
    paths: Box<[Path]>,
    events: Events,
    /// The path that small messages take.
    hot: AtomicUsize,
    /// The path that is looked at first.
    turn: AtomicUsize,
    /// What became of requests: 0, or 1 + bytes.
    results: Results,
    watched: Watch,
    /// Long messages that are not done.
    open: Open,
    /// Why the connection has ended, in words and as the state machine has it.
    ended: OnceLock<(String, End)>,
    manager: Arc<Manager>,
    itself: Weak<Connection>,
    hello: Hello,
    started: Instant,
    /// When it was last looked whether anything is late, as [`Time`].
    checked: AtomicU64,
    aborted: AtomicBool,
}

/// A path, up or not.
struct Path {
    stream: Mutex<Option<Stream>>,
    readable: Flag,
    /// Behind what can be read, there is the end.
    ended: Flag,
    writable: Flag,
    /// The kernel has taken a part of something, and waits for the rest.
    unfinished: Flag,
    /// What the kernel knew of its connections.
    kernel: Kernel,
    from: Option<IpAddr>,
    to: SocketAddr,
}

impl Connection {
    /// Begins to connect all paths.
    pub(super) fn new(
        manager: &Arc<Manager>,
        hello: Hello,
        routes: Vec<Route>,
        chunk: u32,
    ) -> Result<Arc<Connection>> {
        let same = |route: &Route| routes.iter().position(|other| other == route).unwrap_or(0);
        let groups = routes.iter().map(same).collect();
        let mut core = busbw_multipath::Sender::new(groups, chunk, Time::default());
        let mut actions = Vec::new();
        core.connect(&mut actions);
        let paths = routes.into_iter().map(|(from, to)| Path {
            stream: Mutex::new(None),
            readable: Flag::default(),
            ended: Flag::default(),
            writable: Flag::default(),
            unfinished: Flag::default(),
            kernel: Kernel::default(),
            from,
            to,
        });
        let paths: Box<[Path]> = paths.collect();
        let events = Events::new()?;
        let connection = Arc::new_cyclic(|itself| Connection {
            core: StateMachine::new(core),
            paths,
            events,
            hot: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            results: Results::default(),
            watched: Watch::asked(),
            open: Open::default(),
            ended: OnceLock::new(),
            manager: manager.clone(),
            itself: itself.clone(),
            hello,
            started: manager.clock.now(),
            checked: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
        });
        if let Some(stats) = manager.stats() {
            stats.opened(connection.itself.clone(), manager.clock.now());
        }
        manager.watch(connection.itself.clone());
        connection.perform(actions);
        Ok(connection)
    }

    fn now(&self) -> Time {
        Time(self.manager.clock.now().saturating_duration_since(self.started).as_nanos() as u64)
    }
}
