//! From a choice of device to connections with every peer of this rank.
//! Not what the connections are used for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use busbw_core::{
    Benchmark,
    exit::Exit,
    plan::{Connection, Plan, Verb, VerbsOptions},
    record::VerbsFacts,
};
use busbw_ffi::verbs::{
    Address, Device, Endpoint, Limits, Link, LinkLayer, Port, RemoteMemory, VerbsError,
};
use busbw_host::machine::{self, AddressKind, Choice, Root};
use busbw_job::world::World;
use serde::{Deserialize, Serialize};

use super::{Buffers, Pair, Verbs, Wanted};
use crate::backend::{BackendError, RunError, device::bind_to};

/// How long ranks wait for each other's addresses, without `-T`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// RDMA reads that are open at once, unless the device has fewer.
const MOST_READS: u8 = 16;
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
    send: (u64, u32),
    recv: (u64, u32),
    /// Numbers of the queue pairs for each peer: the one for signals first.
    numbers: BTreeMap<usize, Vec<u32>>,
}

/// Opens the device and connects to the peers.
pub(super) fn join<'p>(
    plan: &'p Plan,
    wanted: &Wanted,
    world: &mut dyn World,
    stopped: Box<dyn Fn() -> bool + 'p>,
) -> Result<Verbs<'p>, RunError> {
    let me = world.rank();
    let refused = |exit: Exit, text: String| BackendError::Refused {
        text: format!("rank {me} on {}: {text}", world.host()),
        exit,
    };
    let wrong = |error: VerbsError| refused(Exit::Library, error.to_string());
    let options = plan.backend.verbs_options().copied().unwrap_or_default();
    let choice =
        choose(wanted, &options, world.local()).map_err(|why| refused(Exit::Impossible, why))?;
    if plan.bind {
        bind(&choice);
    }
    let verbs = busbw_ffi::verbs::Verbs::open().map_err(|error| {
        let text = format!("{error}; install rdma-core's libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (RHEL)");
        refused(Exit::Impossible, text)
    })?;
    let device = Device::open(verbs, &choice.device)
        .map_err(|error| refused(Exit::Impossible, error.to_string()))?;
    let number = u8::try_from(choice.port).unwrap_or(1);
    let port = device.port(number).map_err(wrong)?;
    if !port.active {
        let text =
            format!("port {number} of {} is not active (state {})", choice.device, port.state);
        return Err(refused(Exit::Impossible, text).into());
    }
    let limits = device.limits().map_err(wrong)?;
    let options = within(&options, &limits);
    let address = own_address(&device, &choice, number, &port).map_err(wrong)?;
    let buffers = Buffers::new(&device, plan.buffer_bytes()).map_err(wrong)?;
    let latency = match plan.benchmark {
        Benchmark::Messages(test) => test.is_latency(),
        _ => false,
    };
    let inline =
        options.inline_bytes.unwrap_or(if latency { inline_for_latency(&options) } else { 0 });
    let mut pairs = BTreeMap::new();
    for peer in peers(plan, me) {
        pairs.insert(peer, pair(&device, &buffers, &options, peer, inline).map_err(wrong)?);
    }
    let (send, recv) = (buffers.send.remote(), buffers.recv.remote());
    let hello = Hello {
        gid: address.gid,
        lid: address.lid,
        mtu: options.mtu.unwrap_or(port.mtu).min(port.mtu),
        protocol: protocol(choice.kind).to_owned(),
        name: format!("{}/{number} of {}", choice.device, world.host()),
        send: (send.address, send.key),
        recv: (recv.address, recv.key),
        numbers: pairs.iter().map(|(peer, pair)| (*peer, numbers(pair))).collect(),
    };
    let said = serde_json::to_vec(&hello).unwrap_or_default();
    let until = Instant::now() + plan.timeout_s.map_or(CONNECT_TIMEOUT, Duration::from_secs);
    let all = world.allgather(&said, Some(until))?;
    let refused = |exit: Exit, text: String| BackendError::Refused {
        text: format!("rank {me} on {}: {text}", world.host()),
        exit,
    };
    let mut mtu = hello.mtu;
    for (peer, pair) in &mut pairs {
        let theirs: Option<Hello> =
            all.get(*peer).and_then(|said| serde_json::from_slice(said).ok());
        let garbled = || refused(Exit::Internal, format!("rank {peer} sent no addresses"));
        let theirs = theirs.ok_or_else(garbled)?;
        if theirs.protocol != hello.protocol {
            let text = format!(
                "{} has {}, and {} of rank {peer} has {}: these do not reach each other; choose with --ib-dev, --ib-port or --gid-index",
                hello.name, hello.protocol, theirs.name, theirs.protocol
            );
            return Err(refused(Exit::Impossible, text).into());
        }
        let smaller = hello.mtu.min(theirs.mtu);
        mtu = mtu.min(smaller);
        let link = Link {
            port: number,
            gid_index: u8::try_from(choice.gid_index).unwrap_or(0),
            mtu: smaller,
            traffic_class: options.traffic_class,
            service_level: options.service_level,
            timeout: options.timeout,
            retries: 7,
            reads: options.open_reads.unwrap_or(MOST_READS),
        };
        connect(pair, &link, me, &theirs).map_err(|error| {
            let (own, other) = (&hello.name, &theirs.name);
            refused(Exit::Library, format!("{own} cannot be connected with {other}: {error}"))
        })?;
    }
    let inline_bytes = pairs.values().next().map_or(0, Pair::inline_bytes);
    let facts = Some(facts(me, &options, &choice, (number, &port), mtu, address, inline_bytes));
    let most = port.largest_message as usize;
    Ok(Verbs { plan, options, world_rank: me, pairs, buffers, device, most, mtu, facts, stopped })
}

/// Bytes up to which a message is copied when it is posted, where latency is measured: perftest's (perftest_parameters.h:
/// DEF_INLINE_WRITE, DEF_INLINE_SEND_RC_UC, DEF_INLINE_SEND_UD). What is read is not copied.
fn inline_for_latency(options: &VerbsOptions) -> u32 {
    match (options.verb, options.connection) {
        (Verb::Write, _) => 220,
        (Verb::Send, Connection::Ud) => 188,
        (Verb::Send, _) => 236,
        (Verb::Read, _) => 0,
    }
}

/// The device, port and address of the rank with this number on its host.
fn choose(wanted: &Wanted, options: &VerbsOptions, local: usize) -> Result<Choice, String> {
    let devices = machine::rdma(&Root::system());
    let wanted = machine::Wanted {
        devices: wanted.devices.clone(),
        port: options.port.map(u32::from),
        gid_index: options.gid_index.map(u32::from),
    };
    machine::choose(&devices, &wanted, local, None)
}

/// Binds this thread to the processors next to the device, as far as it may use them. Memory is allocated there, too.
fn bind(choice: &Choice) {
    let Some(near) = choice.numa.and_then(|node| machine::of_node(&Root::system(), node)) else {
        return;
    };
    let usable = machine::usable_cores();
    let cores: Vec<usize> =
        machine::processor_list(&near).into_iter().filter(|core| usable.contains(core)).collect();
    bind_to(&cores);
}

/// The options as far as the device goes.
fn within(options: &VerbsOptions, limits: &Limits) -> VerbsOptions {
    let most = limits.open_reads.min(limits.answered_reads).max(1);
    let most_requests = limits.requests.max(1);
    let most_completions = (limits.completions / u32::from(options.queue_pairs).max(1)).max(1);
    VerbsOptions {
        send_depth: options.send_depth.min(most_requests).min(most_completions),
        receive_depth: options.receive_depth.min(most_requests).min(most_completions),
        open_reads: Some(options.open_reads.unwrap_or(MOST_READS).min(most)),
        ..*options
    }
}

/// Our port's address. InfiniBand's within a subnet is the LID.
fn own_address(
    device: &Device,
    choice: &Choice,
    number: u8,
    port: &Port,
) -> Result<Address, VerbsError> {
    let gid = match port.link_layer {
        LinkLayer::InfiniBand => None,
        LinkLayer::Ethernet => {
            let index = u8::try_from(choice.gid_index).unwrap_or(0);
            Some(device.gid(number, index)?.octets())
        }
    };
    Ok(Address { gid, lid: port.lid })
}

fn pair(
    device: &std::rc::Rc<Device>,
    buffers: &Buffers,
    options: &VerbsOptions,
    peer: usize,
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
    let memory = |(address, key)| RemoteMemory { address, key };
    pair.remote_send = memory(theirs.send);
    pair.remote_recv = memory(theirs.recv);
    Ok(())
}

/// The ranks that this one exchanges messages with.
fn peers(plan: &Plan, me: usize) -> BTreeSet<usize> {
    match plan.benchmark {
        Benchmark::Messages(test) => plan
            .pairs(test)
            .into_iter()
            .filter(|(first, second)| *first == me || *second == me)
            .map(|(first, second)| first + second - me)
            .filter(|peer| *peer != me)
            .collect(),
        Benchmark::Pairs => (0..plan.ranks()).filter(|rank| *rank != me).collect(),
        Benchmark::Collective(_) => BTreeSet::new(),
    }
}

fn protocol(kind: AddressKind) -> &'static str {
    match kind {
        AddressKind::InfiniBand { .. } => "InfiniBand",
        AddressKind::RoceV1 => "RoCE v1",
        AddressKind::RoceV2Ipv4 | AddressKind::RoceV2Ipv6 | AddressKind::RoceV2LinkLocal => {
            "RoCE v2"
        }
        AddressKind::RoceUnknown => "RoCE",
    }
}

fn facts(
    rank: usize,
    options: &VerbsOptions,
    choice: &Choice,
    (number, port): (u8, &Port),
    mtu: u32,
    address: Address,
    inline_bytes: u32,
) -> VerbsFacts {
    VerbsFacts {
        rank,
        verb: options.verb,
        connection: options.connection,
        device: choice.device.clone(),
        port: number,
        gid_index: u8::try_from(choice.gid_index).unwrap_or(0),
        gid: address.gid.map(|_| choice.address()),
        lid: port.lid,
        protocol: protocol(choice.kind).to_owned(),
        gbps: choice.gbps,
        mtu,
        numa: choice.numa,
        interface: choice.interface.clone(),
        inline_bytes,
        why: choice.why.clone(),
    }
}
