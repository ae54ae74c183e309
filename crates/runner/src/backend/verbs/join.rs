//! From a choice of device to connections with every peer of this rank.
//! Not what the connections are used for.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use busbw_core::{
    exit::Exit,
    plan::{Arrival, Memory, Plan, VerbsOptions},
    record::VerbsFacts,
};
use busbw_host::machine;
use busbw_job::world::World;
use busbw_verbs::{Address, Device, Endpoint, Link, RemoteMemory, VerbsError};
use serde::{Deserialize, Serialize};

use super::{
    Buffers, OpenPort, OwnGpu, Pair, Verbs, Wanted,
    connection_manager::Listening,
    foreign_traffic,
    pair::Remote,
    wait::{OWN_CORE_POLLS, SHARED_CORE_POLLS},
};
use crate::backend::{BackendError, RunError, patience::Patience};

/// How long ranks wait for each other's addresses, without `-T`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Bits of a packet's number.
const SEQUENCE_BITS: u32 = 24;

/// What a rank tells the others of itself.
#[derive(Serialize, Deserialize)]
struct Hello {
    gid: Option<[u8; 16]>,
    lid: u16,
    mtu: u32,
    protocol: String,
    /// Device and port, for messages.
    name: String,
    host: String,
    send: (u64, u32),
    recv: (u64, u32),
    polled: (u64, u32),
    /// Numbers of the queue pairs for each peer: the one for signals first.
    numbers: BTreeMap<usize, Vec<u32>>,
    /// Where it listens, if the connection manager connects.
    listens: Option<SocketAddr>,
}

impl Hello {
    fn memory(&self) -> Remote {
        let memory = |(address, key)| RemoteMemory { address, key };
        Remote { send: memory(self.send), recv: memory(self.recv), polled: memory(self.polled) }
    }
}

/// Opens the device and connects to the peers.
pub(super) fn join<'p>(
    plan: &'p Plan,
    wanted: &Wanted,
    world: &mut dyn World,
    stopped: Box<dyn Fn() -> bool + 'p>,
) -> Result<Verbs<'p>, RunError> {
    let me = world.rank();
    let here = world.host().to_owned();
    let refused = |exit: Exit, text: String| BackendError::Refused {
        text: format!("rank {me} on {here}: {text}"),
        exit,
    };
    let wrong = |error: VerbsError| refused(Exit::Library, error.to_string());
    let own =
        OpenPort::open(plan, wanted, world.local()).map_err(|(exit, why)| refused(exit, why))?;
    foreign_traffic::refuse(plan, wanted, &own, world)?;
    let OpenPort { device, options, port, address, .. } = &own;
    let is_on_gpu = plan.memory_of(me) == Memory::Gpu;
    let gpu = is_on_gpu.then(|| OwnGpu::take(options, &own.ports(), world.local())).transpose();
    let gpu = gpu.map_err(|(exit, why)| refused(exit, why))?;
    let (bytes, ordering) = (plan.buffer_bytes(), own.ordering(plan));
    let arrival = plan.arrival_of_writes();
    let buffers = match &gpu {
        Some(gpu) => Buffers::of_gpu(device, bytes, ordering, gpu, options.only_dma_buf)
            .map_err(|why| refused(Exit::Impossible, format!("{}: {why}", own.choice.name())))?,
        None => {
            let is_polled = arrival == Some(Arrival::Polled);
            Buffers::of_host(device, bytes, ordering, is_polled).map_err(wrong)?
        }
    };
    let inline = if gpu.is_some() { 0 } else { own.inline_bytes(plan) };
    let notifies = arrival == Some(Arrival::Notified);
    let mut pairs = BTreeMap::new();
    for peer in plan.peers(me) {
        let made = pair(device, &buffers, options, (peer, notifies), inline);
        pairs.insert(peer, made.map_err(wrong)?);
    }
    let listening = options.connection_manager.then(|| Listening::at(&own.choice)).transpose();
    let listening = listening.map_err(|(exit, why)| refused(exit, why))?;
    let place = |memory: RemoteMemory| (memory.address, memory.key);
    let hello = Hello {
        gid: address.gid,
        lid: address.lid,
        mtu: options.mtu.unwrap_or(port.mtu).min(port.mtu),
        protocol: own.protocol().to_owned(),
        name: format!("{} of {here}", own.choice.name()),
        host: here.clone(),
        send: place(buffers.send.remote()),
        recv: place(buffers.recv.remote()),
        polled: place(buffers.polled()),
        listens: listening.as_ref().map(|listening| listening.at),
        numbers: pairs.iter().map(|(peer, pair)| (*peer, numbers(pair))).collect(),
    };
    let said = serde_json::to_vec(&hello).unwrap_or_default();
    let until = Instant::now() + plan.timeout_s.map_or(CONNECT_TIMEOUT, Duration::from_secs);
    let all = world.allgather(&said, Some(until))?;
    let all: Vec<Option<Hello>> =
        all.iter().map(|said| serde_json::from_slice(said).ok()).collect();
    let beside = all.iter().flatten().filter(|other| other.host == here).count();
    let mut mtu = hello.mtu;
    let mut links = BTreeMap::new();
    for (peer, pair) in &mut pairs {
        let theirs = all.get(*peer).and_then(Option::as_ref);
        let garbled = || refused(Exit::Internal, format!("rank {peer} sent no addresses"));
        let theirs = theirs.ok_or_else(garbled)?;
        if theirs.protocol != hello.protocol {
            return Err(refused(Exit::Impossible, unlike(&hello, *peer, theirs)).into());
        }
        let smaller = hello.mtu.min(theirs.mtu);
        mtu = mtu.min(smaller);
        let link = own.link(smaller);
        pair.remote = theirs.memory();
        if listening.is_some() {
            let there = theirs.listens.ok_or_else(garbled)?;
            links.insert(*peer, (link, there));
            continue;
        }
        connect(pair, &link, me, theirs).map_err(|error| {
            let (own, other) = (&hello.name, &theirs.name);
            refused(Exit::Library, format!("{own} cannot be connected with {other}: {error}"))
        })?;
    }
    let patience = Patience::new(&*stopped, Some(until));
    let connected = listening.map(|listening| listening.connect(me, &mut pairs, &links, patience));
    let connected = connected.transpose()?;
    let most = port.largest_message as usize;
    let own = match &connected {
        Some(connected) => own.with_address(connected.gid_index, wanted, world.local()),
        None => own,
    };
    let inline_bytes = pairs.values().next().map_or(0, Pair::inline_bytes);
    let on_gpu = gpu.as_ref().zip(buffers.exports()).map(|(gpu, exports)| gpu.facts(exports));
    let facts = Some(VerbsFacts { gpu: on_gpu, ..own.facts(me, mtu, inline_bytes, ordering) });
    let OpenPort { device, options, .. } = own;
    let has_own_core = beside <= machine::usable_cores().len();
    let polls = if has_own_core { OWN_CORE_POLLS } else { SHARED_CORE_POLLS };
    Ok(Verbs {
        plan,
        options,
        world_rank: me,
        pairs,
        buffers,
        device,
        most,
        mtu,
        facts,
        _connected: connected,
        polls,
        stopped,
    })
}

/// Why two ends do not reach each other.
fn unlike(own: &Hello, peer: usize, theirs: &Hello) -> String {
    format!(
        "{} has {}, and {} of rank {peer} has {}: these do not reach each other; choose with --ib-dev, --ib-port or --gid-index",
        own.name, own.protocol, theirs.name, theirs.protocol
    )
}

fn pair(
    device: &std::sync::Arc<Device>,
    buffers: &Buffers,
    options: &VerbsOptions,
    peer: (usize, bool),
    inline: u32,
) -> Result<Pair, VerbsError> {
    match Pair::new(device, buffers, options, peer, inline) {
        // No device says beforehand how much it copies.
        Err(VerbsError::Refused { call: "ibv_create_qp", .. })
            if inline > 0 && options.inline_bytes.is_none() =>
        {
            Pair::new(device, buffers, options, peer, 0)
        }
        other => other,
    }
}

fn numbers(pair: &Pair) -> Vec<u32> {
    let data = pair.ways.iter().map(|way| way.pair.number());
    std::iter::once(pair.signals.number()).chain(data).collect()
}

/// The number of the first packet that `from` sends to `to` on queue pair `way`: any, as long as both know it.
fn sequence(from: usize, to: usize, way: usize) -> u32 {
    let mixed = (from as u32).wrapping_mul(0x9e37_79b1) ^ (to as u32).rotate_left(9) ^ way as u32;
    mixed & ((1 << SEQUENCE_BITS) - 1)
}

fn connect(pair: &mut Pair, link: &Link, me: usize, theirs: &Hello) -> Result<(), VerbsError> {
    let peer = pair.peer;
    let numbers = theirs.numbers.get(&me).map_or(&[][..], Vec::as_slice);
    let address = Address { gid: theirs.gid, lid: theirs.lid };
    let end = |way: usize| {
        let number = numbers.get(way).copied();
        let number = number.ok_or(VerbsError::Misuse("the other end has fewer queue pairs"))?;
        Ok(Endpoint { number, sequence: sequence(peer, me, way), address })
    };
    pair.signals.connect(link, sequence(me, peer, 0), &end(0)?)?;
    for (place, way) in pair.ways.iter_mut().enumerate() {
        way.pair.connect(link, sequence(me, peer, place + 1), &end(place + 1)?)?;
    }
    Ok(())
}
