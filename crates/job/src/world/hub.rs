//! The hub: where ranks join, exchange bytes and report. It lives in the supervisor, which sleeps.
//! Not a rank, and not the judge of what a loss means: it tells the supervisor and waits.

mod connection;
mod desk;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
};

use rustix::event::{EventfdFlags, eventfd};

use self::desk::HubState;
use super::wire::Kind;

/// How many ranks may be about to be let in: of more at once the kernel would drop some, who would try
/// again after a second. It takes no more than net.core.somaxconn.
const BACKLOG: i32 = 1 << 14;

/// What the hub tells the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubEvent {
    /// A rank joined with its facts.
    Joined {
        /// World rank.
        rank: usize,
        /// What it told about itself.
        facts: Vec<u8>,
    },
    /// A rank reported something.
    Report {
        /// World rank.
        rank: usize,
        /// What.
        bytes: Vec<u8>,
    },
    /// A rank cannot go on.
    Failed {
        /// World rank.
        rank: usize,
        /// Why.
        why: String,
    },
    /// A rank is done, or its connection broke.
    Left {
        /// World rank.
        rank: usize,
        /// Whether it said so before.
        done: bool,
    },
}

/// From where a hub can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenScope {
    /// From this host.
    Host,
    /// From others too, at these addresses of this host; at all of them where none are named.
    Network(Vec<IpAddr>),
}

/// A listening hub. One thread serves all ranks, without ever waiting for one of them.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    token: String,
    state: Arc<Mutex<HubState>>,
    /// Wakes the thread when the hub goes.
    closing: OwnedFd,
}

impl Hub {
    /// Listens for `ranks` ranks that know `token`, and answers each with `begin`. Ranks fall into several
    /// `memories` where not all share one. Events go to `events`; the thread ends with the hub and the last
    /// connection, or with the process.
    ///
    /// # Errors
    /// When no socket can be had.
    pub fn open<E: From<HubEvent> + Send + 'static>(
        ranks: usize,
        memories: usize,
        scope: ListenScope,
        token: &str,
        begin: &[u8],
        events: Sender<E>,
    ) -> io::Result<Hub> {
        let listener = match &scope {
            ListenScope::Host => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .or_else(|_| TcpListener::bind((Ipv6Addr::LOCALHOST, 0)))?,
            // Takes IPv4, too, where there is IPv6 at all.
            ListenScope::Network(_) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?,
        };
        // Again, for the length of its queue: the standard library's is 128.
        rustix::net::listen(&listener, BACKLOG)?;
        let mut address = listener.local_addr()?;
        match address.ip() {
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            ip if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            _ => {}
        }
        let closing = eventfd(0, EventfdFlags::CLOEXEC)?;
        let state = HubState::new(ranks, memories, scope, token, begin)?;
        let state = Arc::new(Mutex::new(state));
        let hub = Hub {
            address,
            token: token.to_owned(),
            state: Arc::clone(&state),
            closing: closing.try_clone()?,
        };
        desk::open(listener, closing, state, events)?;
        Ok(hub)
    }

    /// Where ranks of this host connect, as `host:port`; others use this host's address instead.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The token that ranks show.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether no rank is connected.
    pub fn is_empty(&self) -> bool {
        self.state().is_empty()
    }

    /// Ranks whose part of the allgather under way has not come, none when none is under way; or those of
    /// `leaders`, one a memory, that have not come to the barrier under way.
    pub fn missing(&self, leaders: &[usize]) -> Vec<usize> {
        self.state().missing(leaders)
    }

    /// Lets a rank go on whose report has been dealt with.
    pub fn taken(&self, rank: usize) {
        self.state().send(rank, Kind::Taken, &[]);
    }

    /// Tells every connected rank, and those that join later, to stop, and why.
    pub fn abort(&self, why: &str) {
        self.state().stop(why);
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        lock(&self.state)
    }
}

impl Drop for Hub {
    /// Ends the listening, and with it its socket: every launch has a hub of its own.
    fn drop(&mut self) {
        // Cannot fail: nobody else writes there.
        let _ = rustix::io::write(&self.closing, &1u64.to_ne_bytes());
    }
}

/// A panic in another thread leaves the state as it is: still the truth about the connections.
fn lock(state: &Mutex<HubState>) -> MutexGuard<'_, HubState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
