//! The hub: where ranks join, exchange bytes and report. It runs in the supervisor.
//! Not a rank, and not the place that decides what a lost rank means: it only sends events.

mod connection;
mod state;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
};

use rustix::event::{EventfdFlags, eventfd};

use self::state::HubState;
use super::messages::ToRank;

/// Length of the listener's queue: beyond it the kernel drops SYNs, and clients retry after 1 s. The kernel caps
/// it at net.core.somaxconn.
const BACKLOG: i32 = 1 << 14;

/// What the hub reports to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubEvent {
    /// A rank joined with its facts.
    Joined {
        /// World rank.
        rank: usize,
        /// What it reported about itself.
        facts: Vec<u8>,
    },
    /// A rank sent a report.
    Report {
        /// World rank.
        rank: usize,
        /// The report.
        bytes: Vec<u8>,
    },
    /// A rank cannot continue.
    Failed {
        /// World rank.
        rank: usize,
        /// Why.
        why: String,
    },
    /// A rank's connection was closed.
    Left {
        /// World rank.
        rank: usize,
        /// Whether it had announced that.
        done: bool,
    },
}

/// The addresses at which a hub accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenScope {
    /// Loopback only.
    Host,
    /// These addresses of this host, or all of them if the list is empty.
    Network(Vec<IpAddr>),
}

/// A listening hub. One thread serves all ranks and never blocks on one of them.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    token: String,
    state: Arc<Mutex<HubState>>,
    /// Wakes the thread when the hub is dropped.
    closing: OwnedFd,
}

impl Hub {
    /// Listens for `ranks` ranks that know `token`, and answers each with `begin`. `memories` is the number of groups of
    /// ranks that share memory. Events go to `events`. The thread ends with the hub and the last connection.
    ///
    /// # Errors
    /// When no socket can be opened.
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
            // Accepts IPv4, too, where IPv6 exists.
            ListenScope::Network(_) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?,
        };
        // Again, for a longer queue: the standard library asks for 128.
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
        state::open(listener, closing, state, events)?;
        Ok(hub)
    }

    /// The address for ranks of this host, as `host:port`; other hosts use this host's address with that port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The token that authenticates ranks.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether no rank is connected.
    pub fn is_empty(&self) -> bool {
        self.state().is_empty()
    }

    /// Ranks whose part of the current allgather has not arrived, or those of `leaders`, one a memory, that have not
    /// arrived at the current barrier. Empty without either.
    pub fn missing(&self, leaders: &[usize]) -> Vec<usize> {
        self.state().missing(leaders)
    }

    /// Acknowledges a rank's report.
    pub fn taken(&self, rank: usize) {
        self.state().send(rank, &ToRank::Taken);
    }

    /// Aborts all ranks, and those that join later, for this reason.
    pub fn abort(&self, why: &str) {
        self.state().stop(why);
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        lock(&self.state)
    }
}

impl Drop for Hub {
    /// Stops listening and closes the socket: every launch has a hub of its own.
    fn drop(&mut self) {
        // Cannot fail: nothing else writes to this eventfd.
        let _ = rustix::io::write(&self.closing, &1u64.to_ne_bytes());
    }
}

/// A panic in another thread leaves the state valid: it describes the connections.
fn lock(state: &Mutex<HubState>) -> MutexGuard<'_, HubState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
