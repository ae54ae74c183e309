//! The hub: where ranks join, exchange bytes and report. It lives in the supervisor, which sleeps.
//! Not a rank, and not the judge of what a loss means: it tells the supervisor and waits.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::{Duration, Instant},
};

use super::wire::{self, Kind};

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

/// The hub's shared state.
#[derive(Debug)]
struct State {
    /// Connections by rank, for sending.
    ranks: Vec<Option<TcpStream>>,
    /// Parts of the allgather under way.
    parts: Vec<Option<Vec<u8>>>,
    /// Shared memories that ranks fall into.
    memories: usize,
    /// Leading ranks whose memories wait at the barrier under way.
    arrived: Vec<usize>,
    /// Why the run was stopped, once it is, for ranks that join later.
    stopped: Option<Vec<u8>>,
}

/// A listening hub.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    token: String,
    state: Arc<Mutex<State>>,
    /// Set when the hub goes.
    closing: Arc<AtomicBool>,
}

impl Hub {
    /// Listens for `ranks` ranks that know `token`, and answers each with `begin`: on loopback, or on
    /// every interface where ranks fall into several `memories`, being on several hosts. Events go to
    /// `events`; threads end with their connections, or with the process.
    ///
    /// # Errors
    /// When no socket can be had.
    pub fn open<E: From<HubEvent> + Send + 'static>(
        ranks: usize,
        memories: usize,
        token: &str,
        begin: Vec<u8>,
        events: Sender<E>,
    ) -> io::Result<Hub> {
        let listener = match memories {
            0 | 1 => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            // Takes IPv4, too, where there is IPv6 at all.
            _ => TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?,
        };
        let mut address = listener.local_addr()?;
        match address.ip() {
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            ip if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            _ => {}
        }
        let empty = || (0..ranks).map(|_| None).collect();
        let parts = (0..ranks).map(|_| None).collect();
        let arrived = Vec::new();
        let state = State { ranks: empty(), parts, memories, arrived, stopped: None };
        let state = Arc::new(Mutex::new(state));
        let closing = Arc::new(AtomicBool::new(false));
        let hub = Hub {
            address,
            token: token.to_owned(),
            state: Arc::clone(&state),
            closing: Arc::clone(&closing),
        };
        let token = token.to_owned();
        let begin = Arc::new(begin);
        std::thread::Builder::new().name("hub".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if closing.load(Ordering::SeqCst) {
                    return;
                }
                let (state, events) = (Arc::clone(&state), events.clone());
                let (token, begin) = (token.clone(), Arc::clone(&begin));
                // Without a thread the connection closes, and its rank says that it lost us.
                let _ = std::thread::Builder::new()
                    .name("hub-rank".to_owned())
                    .spawn(move || serve(stream, &token, &begin, &state, &events));
            }
        })?;
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
        lock(&self.state).ranks.iter().all(Option::is_none)
    }

    /// Ranks whose part of the allgather under way has not come, none when none is under way; or those of
    /// `leaders`, one a memory, that have not come to the barrier under way. Does not wait for long:
    /// whoever holds the state may be writing to a rank that reads nothing.
    pub fn missing(&self, leaders: &[usize]) -> Vec<usize> {
        let give_up = Instant::now() + Duration::from_millis(100);
        let state = loop {
            match self.state.try_lock() {
                Ok(state) => break state,
                Err(TryLockError::Poisoned(state)) => break state.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= give_up => return Vec::new(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        if !state.arrived.is_empty() {
            let late = leaders.iter().filter(|rank| !state.arrived.contains(rank));
            return late.copied().collect();
        }
        if state.parts.iter().all(Option::is_none) {
            return Vec::new();
        }
        (0..state.parts.len()).filter(|rank| state.parts[*rank].is_none()).collect()
    }

    /// Lets a rank go on whose report has been dealt with.
    pub fn taken(&self, rank: usize) {
        if let Some(stream) = lock(&self.state).ranks.get_mut(rank).and_then(Option::as_mut) {
            // A broken connection shows in that rank's own thread.
            let _ = wire::send(stream, Kind::Taken, &[]);
        }
    }

    /// Tells every connected rank to stop, and why. Returns at once: a rank that reads nothing, being
    /// stopped, may hold up whoever writes to it, and must not hold up the supervisor as well.
    pub fn abort(&self, why: &str) {
        let (state, why) = (Arc::clone(&self.state), why.as_bytes().to_vec());
        // Without a thread, ranks still see the control memory's flag, and are killed in the end.
        let _ = std::thread::Builder::new().name("hub-abort".to_owned()).spawn(move || {
            let mut state = lock(&state);
            for stream in state.ranks.iter_mut().flatten() {
                let _ = wire::send(stream, Kind::Abort, &why);
            }
            state.stopped = Some(why);
        });
    }
}

impl Drop for Hub {
    /// Ends the listening thread, and with it its socket: every launch has a hub of its own.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Only to wake it; it looks at the flag before it serves anyone.
        let _ = TcpStream::connect(self.address);
    }
}

/// A panic in another thread leaves the state as it is: still the truth about the connections.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One rank's connection, from its first frame to its last.
fn serve<E: From<HubEvent>>(
    mut stream: TcpStream,
    token: &str,
    begin: &[u8],
    state: &Mutex<State>,
    events: &Sender<E>,
) {
    let Ok(rank) = welcome(&mut stream, token, begin, state, events) else { return };
    let mut done = false;
    while let Ok((kind, payload)) = wire::receive(&mut stream) {
        match kind {
            Kind::Part => gather(state, rank, payload),
            Kind::Arrive => open_gate(state, rank),
            Kind::Report => {
                let _ = events.send(HubEvent::Report { rank, bytes: payload }.into());
            }
            Kind::Fail => {
                let why = String::from_utf8_lossy(&payload).into_owned();
                let _ = events.send(HubEvent::Failed { rank, why }.into());
            }
            Kind::Leave => done = true,
            Kind::Join | Kind::Begin | Kind::All | Kind::Abort | Kind::Taken | Kind::Open => {
                break;
            }
        }
    }
    lock(state).ranks[rank] = None;
    let _ = events.send(HubEvent::Left { rank, done }.into());
}

/// Reads and checks a Join; strangers are dropped without an answer.
fn welcome<E: From<HubEvent>>(
    stream: &mut TcpStream,
    token: &str,
    begin: &[u8],
    state: &Mutex<State>,
    events: &Sender<E>,
) -> io::Result<usize> {
    let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
    stream.set_nodelay(true)?;
    let (kind, payload) = wire::receive(stream)?;
    let parts = wire::unpack(&payload)?;
    let [shown, rank, facts] = parts.as_slice() else { return Err(refused()) };
    if kind != Kind::Join || shown != token.as_bytes() {
        return Err(refused());
    }
    let rank = <[u8; 8]>::try_from(rank.as_slice()).map_err(|_| refused())?;
    let rank = u64::from_le_bytes(rank) as usize;
    let sender = stream.try_clone()?;
    {
        let mut state = lock(state);
        match state.ranks.get_mut(rank) {
            Some(slot @ None) => *slot = Some(sender),
            _ => return Err(refused()),
        }
    }
    let _ = events.send(HubEvent::Joined { rank, facts: facts.clone() }.into());
    wire::send(stream, Kind::Begin, begin)?;
    // Who joins a run that is over must not wait for the others, nor to be killed.
    if let Some(why) = &lock(state).stopped {
        wire::send(stream, Kind::Abort, why)?;
    }
    Ok(rank)
}

/// Takes one part; the last one sends all parts to everyone.
fn gather(state: &Mutex<State>, rank: usize, part: Vec<u8>) {
    let mut state = lock(state);
    state.parts[rank] = Some(part);
    if state.parts.iter().any(Option::is_none) {
        return;
    }
    let parts: Vec<Vec<u8>> = state.parts.iter_mut().filter_map(Option::take).collect();
    let all = wire::pack(&parts);
    for stream in state.ranks.iter_mut().flatten() {
        // A broken connection shows in that rank's own thread.
        let _ = wire::send(stream, Kind::All, &all);
    }
}

/// Notes that a memory's ranks have all come to the barrier; the last one lets all of them go on.
fn open_gate(state: &Mutex<State>, rank: usize) {
    let mut state = lock(state);
    state.arrived.push(rank);
    if state.arrived.len() < state.memories {
        return;
    }
    for rank in std::mem::take(&mut state.arrived) {
        if let Some(stream) = state.ranks.get_mut(rank).and_then(Option::as_mut) {
            let _ = wire::send(stream, Kind::Open, &[]);
        }
    }
}

#[cfg(test)]
mod tests;
