//! Queue pairs that the kernel's connection manager connects (`--rdma_cm`): of two ranks the one with the lower number calls, and the
//! other one listens.
//! Not the library (`busbw_verbs`), and not queue pairs whose addresses the ranks tell each other (`join`).

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use busbw_core::exit::Exit;
use busbw_host::machine::{AddressKind, Choice};
use busbw_job::rendezvous::interface;
use busbw_verbs::{ConnectionManager, Happened, Identifier, Key, Link, VerbsError};

use super::pair::Pair;
use crate::backend::{BackendError, patience::Patience};

/// Calls of a rank that are under way at once: a listener takes so many from each of some thirty ranks.
const MOST_CALLS: usize = 32;
/// Between two looks at what has happened.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// A rank that listens.
pub(super) struct Listening {
    manager: Arc<ConnectionManager>,
    listener: Identifier,
    /// Where the others reach it.
    pub(super) at: SocketAddr,
}

/// Connections, for as long as the queue pairs are used.
pub(super) struct Connected {
    /// Index of our port's address that was chosen.
    pub(super) gid_index: u8,
    _ids: Vec<Identifier>,
}

/// What is being connected: the queue pair of this rank and of this number, 0 for signals.
struct Call {
    peer: usize,
    way: usize,
    id: Identifier,
}

impl Listening {
    /// Listens at the IP address of a port.
    ///
    /// # Errors
    /// The port has none, or there is no connection manager; with the exit code.
    pub(super) fn at(port: &Choice) -> Result<Listening, (Exit, String)> {
        let impossible = |why: String| (Exit::Impossible, format!("{}: {why}", port.name()));
        let address = ip(port).map_err(impossible)?;
        let manager = ConnectionManager::open().map_err(|error| impossible(error.to_string()))?;
        let listening = manager.listen(address);
        let (listener, number) = listening.map_err(|error| impossible(error.to_string()))?;
        Ok(Listening { manager, listener, at: SocketAddr::new(address, number) })
    }

    /// Connects every queue pair. `links` has the way to each other rank, and where it listens.
    ///
    /// # Errors
    /// One cannot be connected, or the time is over.
    pub(super) fn connect(
        self,
        me: usize,
        pairs: &mut BTreeMap<usize, Pair>,
        links: &BTreeMap<usize, (Link, SocketAddr)>,
        mut patience: Patience<'_>,
    ) -> Result<Connected, BackendError> {
        let refused = |text: String| BackendError::Refused { text, exit: Exit::Library };
        let failed = |peer: usize| {
            move |error: VerbsError| {
                refused(format!("rank {me} cannot be connected with rank {peer}: {error}"))
            }
        };
        let mut gid_index = 0;
        let mut calls = HashMap::<Key, Call>::new();
        // Those of each rank that are not connected.
        let mut missing: BTreeMap<usize, usize> =
            pairs.iter().map(|(peer, pair)| (*peer, 1 + pair.ways.len())).collect();
        let mut to_call: Vec<(usize, usize)> = missing
            .range(me + 1..)
            .flat_map(|(peer, count)| (0..*count).map(|way| (*peer, way)))
            .collect();
        let mut open = 0;
        while missing.values().any(|left| *left > 0) {
            while open < MOST_CALLS
                && let Some((peer, way)) = to_call.pop()
                && let Some((_, there)) = links.get(&peer)
            {
                let id = self.manager.call(self.at.ip(), *there).map_err(failed(peer))?;
                calls.insert(id.key(), Call { peer, way, id });
                open += 1;
            }
            let happened = self.manager.next();
            let happened = happened.map_err(|error| refused(format!("rank {me}: {error}")))?;
            let Some((key, what)) = happened else {
                let late = || missing.iter().filter(|(_, left)| **left > 0);
                patience.look_up(|| late().map(|(peer, _)| *peer).collect())?;
                std::thread::sleep(LOOK_INTERVAL);
                continue;
            };
            if let Happened::Requested(id, said) = what {
                // Whoever says nothing of this run is refused: his identifier goes.
                if key == self.listener.key()
                    && let Some((peer, way)) = asked(&said).filter(|(peer, _)| *peer < me)
                    && let Some((link, _)) = links.get(&peer)
                    && let Some(pair) = pairs.get_mut(&peer).filter(|pair| way <= pair.ways.len())
                {
                    gid_index = prepare(&id, pair, way, link).map_err(failed(peer))?;
                    id.accept(pair.queue_pair(way), link).map_err(failed(peer))?;
                    calls.insert(id.key(), Call { peer, way, id });
                }
                continue;
            }
            let Some(Call { peer, way, id }) = calls.get(&key) else { continue };
            let (peer, way) = (*peer, *way);
            let (Some(pair), Some((link, there))) = (pairs.get_mut(&peer), links.get(&peer)) else {
                continue;
            };
            let is_done = match what {
                Happened::AddressFound => id.find_route().map(|()| false),
                Happened::RouteFound => {
                    let said = said(me, way);
                    id.connect(pair.queue_pair(way), link, &said).map(|()| false)
                }
                Happened::Accepted => {
                    gid_index = prepare(id, pair, way, link).map_err(failed(peer))?;
                    id.establish().map(|()| true)
                }
                Happened::Established => Ok(peer < me),
                Happened::Failed(why) => {
                    return Err(refused(format!(
                        "rank {me} cannot be connected with rank {peer} at {there} by the connection manager: {why}"
                    )));
                }
                Happened::Ended => {
                    return Err(refused(format!(
                        "rank {peer} at {there} has ended its connection with rank {me}"
                    )));
                }
                Happened::Requested(..) => Ok(false),
            };
            if is_done.map_err(failed(peer))?
                && let Some(left) = missing.get_mut(&peer)
            {
                *left -= 1;
                open -= usize::from(peer > me);
            }
        }
        Ok(Connected { gid_index, _ids: calls.into_values().map(|call| call.id).collect() })
    }
}

/// Brings the queue pair of this number to where it receives and sends. Index of its port's address.
fn prepare(id: &Identifier, pair: &mut Pair, way: usize, link: &Link) -> Result<u8, VerbsError> {
    let gid_index = id.prepare(pair.queue_pair_mut(way), link)?;
    if way == 0 {
        pair.signals.post_receives()?;
    }
    Ok(gid_index)
}

/// What a request to connect says: who asks, and for which queue pair.
fn said(me: usize, way: usize) -> [u8; 8] {
    let mut said = [0; 8];
    // Ranks and queue pairs are far fewer.
    said[..4].copy_from_slice(&(me as u32).to_be_bytes());
    said[4..].copy_from_slice(&(way as u32).to_be_bytes());
    said
}

fn asked(said: &[u8]) -> Option<(usize, usize)> {
    // What is said is filled up with zeros on its way.
    let (peer, rest) = said.split_first_chunk()?;
    let (way, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*peer) as usize, u32::from_be_bytes(*way) as usize))
}

/// The address by which the connection manager knows a port.
fn ip(port: &Choice) -> Result<IpAddr, String> {
    match port.kind {
        AddressKind::RoceV2LinkLocal => {
            let name = port.interface.as_deref().unwrap_or("its interface");
            Err(format!(
                "--rdma_cm needs an IP address, and {name} has a link-local one only: give it one"
            ))
        }
        AddressKind::InfiniBand { .. } => {
            let why = "--rdma_cm needs an IP address: configure IPoIB on this port";
            let name = port.interface.as_deref().ok_or(why)?;
            let all = interface::addresses().map_err(|error| format!("{why} ({error})"))?;
            let chosen =
                interface::choose(name, &all).map_err(|error| format!("{why}: {error}"))?;
            chosen.ips().first().copied().ok_or_else(|| why.to_owned())
        }
        _ => Ok(match port.gid.to_ipv4_mapped() {
            Some(four) => four.into(),
            None => port.gid.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let mut padded = said(70_000, 3).to_vec();
        padded.resize(56, 0);
        assert_eq!(asked(&padded), Some((70_000, 3)));
        assert_eq!(asked(&padded[..7]), None);
    }
}
