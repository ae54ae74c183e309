//! The end of a connection that sends: one message over many paths.
//! Not the thread that connects them (`keeper`).

mod choice;
mod counts;
mod link;
mod moving;
mod paths;
mod queue;
mod sending;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nccl_plugin_abi::Status;

use self::{choice::Load, counts::Counts, link::Live, queue::Queue};
pub(super) use self::{queue::AHEAD, sending::Sending};
use super::{
    SMALL,
    engine::Open,
    events::Events,
    frame::Hello,
    keeper::{Keeper, lock},
};
use crate::network::{Failure, REQUESTS, Result};

/// Both for the caller and for the keeper.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    links: Box<[Link]>,
    events: Events,
    /// The path that small messages take.
    hot: AtomicUsize,
    /// The path that is looked at first.
    turn: AtomicUsize,
    /// Paths that are up.
    up: AtomicUsize,
    /// Since when none is, in microseconds after `started`.
    down: AtomicU64,
    /// What became of requests: 0, or 1 + bytes.
    results: [AtomicU64; REQUESTS],
    watched: AtomicBool,
    /// Long messages that have not come.
    open: Open,
    over: OnceLock<Over>,
    keeper: Arc<Keeper>,
    itself: Weak<Shared>,
    hello: Hello,
    started: Instant,
    /// Microseconds since `started` of the last look for doubts, and of the last acknowledgement.
    looked: AtomicU64,
    heard: AtomicU64,
    /// Since when nobody answers at the other end's door either, likewise; 0 while somebody does.
    deserted: AtomicU64,
    /// When a path was lost that had let nothing of a chunk through, likewise; 0 if any path has since.
    barren: AtomicU64,
    aborted: AtomicBool,
    /// Bytes of a chunk of a long message.
    chunk: u32,
}

/// Why a connection has ended, and whether one of its ends has wanted that.
struct Over {
    why: String,
    wanted: bool,
}

/// A path, up or not.
struct Link {
    end: Mutex<End>,
    readable: AtomicBool,
    /// Behind what can be read, there is the end.
    ended: AtomicBool,
    writable: AtomicBool,
    load: Load,
    /// How often it was dialled.
    epoch: AtomicU32,
    counts: Counts,
    /// When the other end was knocked at by this way, in microseconds after the connection's `started`, and how often
    /// since it was heard of.
    knocked: AtomicU64,
    knocks: AtomicU32,
    from: Option<IpAddr>,
    to: SocketAddr,
}

enum End {
    Live(Box<Live>),
    Absent(Absent),
}

/// A path that is not up.
struct Absent {
    /// When it was lost, or last tried in vain.
    since: Instant,
    /// Whether it is being connected.
    dialled: bool,
    /// Since when the other side has refused it.
    refused: Option<Instant>,
    /// Our end of what fell silent, and when: its link may come back.
    home: Option<Home>,
    /// What is to be told of its loss, once it is known that the other side has not just closed the connection.
    loss: Option<String>,
    /// Whether it was told that it does not come up.
    told: bool,
}

/// Where a path was, which fell silent.
#[derive(Clone, Copy)]
struct Home {
    at: SocketAddr,
    lost: Instant,
    /// How long it may take to connect from there.
    patience: Duration,
}

impl Absent {
    fn since(since: Instant) -> Absent {
        Absent { since, dialled: false, refused: None, home: None, loss: None, told: false }
    }
}

impl Shared {
    /// Begins to connect all paths.
    pub(super) fn new(
        keeper: &Arc<Keeper>,
        hello: Hello,
        ways: Vec<(Option<IpAddr>, SocketAddr)>,
        chunk: u32,
    ) -> Result<Arc<Shared>> {
        let now = Instant::now();
        let links = ways.into_iter().map(|(from, to)| Link {
            end: Mutex::new(End::Absent(Absent::since(now))),
            readable: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            writable: AtomicBool::new(false),
            load: Load::default(),
            epoch: AtomicU32::new(0),
            counts: Counts::default(),
            knocked: AtomicU64::new(0),
            knocks: AtomicU32::new(0),
            from,
            to,
        });
        let links: Box<[Link]> = links.collect();
        let events = Events::new()?;
        let shared = Arc::new_cyclic(|itself| Shared {
            queue: Mutex::default(),
            links,
            events,
            hot: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            up: AtomicUsize::new(0),
            down: AtomicU64::new(0),
            results: std::array::from_fn(|_| AtomicU64::new(0)),
            watched: AtomicBool::new(true),
            open: Open::default(),
            over: OnceLock::new(),
            keeper: keeper.clone(),
            itself: itself.clone(),
            hello,
            started: now,
            looked: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            deserted: AtomicU64::new(0),
            barren: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
            chunk,
        });
        if let Some(stats) = keeper.stats() {
            stats.opened(shared.itself.clone());
        }
        keeper.watch(shared.itself.clone());
        for (path, link) in shared.links.iter().enumerate() {
            shared
                .dial(path, &mut lock(&link.end))
                .into_iter()
                .for_each(|order| keeper.dial(order));
        }
        Ok(shared)
    }

    /// Whether any path is up.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire) > 0
    }

    /// Why the connection is broken, if it is.
    pub(super) fn failure(&self) -> Result<()> {
        match self.over.get() {
            None => Ok(()),
            Some(over) => Err(Failure::new(Status::REMOTE, &over.why)),
        }
    }

    /// The connection breaks.
    fn fail(&self, why: String) {
        let _ = self.over.set(Over { why, wanted: false });
    }

    /// An end does not want it any more.
    fn close(&self, why: &str) {
        let _ = self.over.set(Over { why: why.to_owned(), wanted: true });
    }

    fn micros(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_micros() as u64
    }
}
