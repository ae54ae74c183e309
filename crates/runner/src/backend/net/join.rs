//! From a plugin's name to connections with every peer of this rank.
//! Not what the connections are used for.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use busbw_core::{Benchmark, exit::Exit, plan::Plan, record::NetFacts};
use busbw_ffi::net::{Handle, Listener, Memory, Plugin, Properties, Receiver, Sender};
use busbw_job::world::World;
use nccl_plugin_abi::{level, net::HANDLE_BYTES};

use super::{Buffers, Links, Net, Patience, Wanted, broken, failed, operations::SCRATCH_BYTES};
use crate::backend::{BackendError, RunError};

/// How long ranks wait for connections, without `-T`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest message for plugins that name no maximum (v8): 1 GiB, as in NCCL (MAX_NET_SIZE).
const DEFAULT_MAX_MESSAGE_BYTES: usize = 1 << 30;

/// Bytes of a rank's number and its handle, as ranks exchange them.
const HANDLE_ENTRY_BYTES: usize = 4 + HANDLE_BYTES;

/// Loads the plugin and connects to the peers.
pub(super) fn join<'p>(
    plan: &'p Plan,
    wanted: &Wanted,
    started: &mut Option<&'static Plugin>,
    world: &mut dyn World,
    stopped: Box<dyn Fn() -> bool + 'p>,
) -> Result<Net<'p>, RunError> {
    let me = world.rank();
    let refused =
        |text: String, exit| BackendError::Refused { text: format!("rank {me}: {text}"), exit };
    let file = wanted.file().map_err(|error| refused(format!("{error:#}"), Exit::Internal))?;
    busbw_ffi::net::pass_on(shown(std::env::var("NCCL_DEBUG").ok().as_deref()));
    let plugin = match *started {
        Some(plugin) => plugin,
        None => Plugin::open(&file, None)
            .map_err(|error| refused(error.to_string(), Exit::Impossible))?,
    };
    *started = Some(plugin);
    let wrong = |error| failed(me, error);
    let devices = plugin.devices().map_err(wrong)?;
    if devices == 0 {
        let lines = busbw_ffi::net::take_lines();
        let said =
            lines.last().map_or_else(String::new, |line| format!("; it said: {}", line.text));
        let text = format!("net plugin {} ({file}) offers no device{said}", plugin.name());
        return Err(refused(text, Exit::Impossible).into());
    }
    // The ranks of a host use its devices in turn.
    let device = world.local() % devices;
    let properties = plugin.properties(device).map_err(wrong)?;
    let most = most(&properties);
    let members = members(plan, me);
    let (to, from) = talks_with(plan, &members, me);

    let mut listeners = Vec::new();
    let mut handles = Vec::new();
    for peer in &from {
        let (listener, handle) = plugin.listen(device).map_err(wrong)?;
        handles.extend((*peer as u32).to_le_bytes());
        handles.extend(handle.0);
        listeners.push((*peer, listener));
    }
    let until = Instant::now() + plan.timeout_s.map_or(CONNECT_TIMEOUT, Duration::from_secs);
    let all = world.allgather(&handles, Some(until))?;
    let handles: Vec<(usize, Handle)> = to
        .iter()
        .map(|peer| {
            let handle = handle_for(all.get(*peer).map_or(&[], Vec::as_slice), me);
            let garbled = || {
                refused(
                    format!("rank {peer} sent no connection handle for this rank"),
                    Exit::Internal,
                )
            };
            Ok((*peer, handle.ok_or_else(garbled)?))
        })
        .collect::<Result<_, BackendError>>()?;

    let wait = (stopped.as_ref(), until);
    let (senders, receivers) = connect(plugin, device, me, handles, listeners, wait)?;
    let no_memory = |error: std::io::Error| {
        refused(format!("cannot allocate buffers: {error}"), Exit::Internal)
    };
    let bytes = plan.buffer_bytes();
    let buffers = Buffers {
        send: Memory::new(bytes).map_err(no_memory)?,
        recv: Memory::new(bytes).map_err(no_memory)?,
        check: Memory::new(if plan.has_check_buffer() { bytes } else { 0 }).map_err(no_memory)?,
        scratch: Memory::new(SCRATCH_BYTES).map_err(no_memory)?,
    };
    let mut links = Links::default();
    let Buffers { send, recv, check, scratch } = &buffers;
    for (peer, mut sender) in senders {
        for memory in [send, recv, check] {
            sender.register(memory).map_err(wrong)?;
        }
        links.add_sender(peer, sender, most);
    }
    for (peer, mut receiver) in receivers {
        for memory in [recv, check, scratch] {
            receiver.register(memory).map_err(wrong)?;
        }
        links.add_receiver(peer, receiver, most);
    }
    let facts = NetFacts {
        rank: me,
        plugin: plugin.name().to_owned(),
        path: file,
        version: plugin.version(),
        devices,
        device,
        device_name: properties.name,
        speed: properties.speed,
        pci_path: properties.pci_path,
        reference: None,
    };
    let place = members.iter().position(|member| *member == me).unwrap_or(0);
    let facts = Some(facts);
    Ok(Net { plan, world_rank: me, members, me: place, links, buffers, most, facts, stopped })
}

/// The level up to which the plugin's log lines go to stderr: as NCCL_DEBUG sets it for NCCL.
fn shown(debug: Option<&str>) -> i32 {
    match debug.unwrap_or("").to_ascii_uppercase().as_str() {
        "WARN" => level::WARN,
        "INFO" | "ABORT" | "TRACE" => level::INFO,
        _ => 0,
    }
}

/// The largest message in bytes. Plugins return sizes as 31 bits, whatever their properties say.
fn most(properties: &Properties) -> usize {
    properties.max_p2p_bytes.unwrap_or(DEFAULT_MAX_MESSAGE_BYTES).clamp(1, i32::MAX as usize)
}

/// World ranks of our communicator.
fn members(plan: &Plan, me: usize) -> Vec<usize> {
    let groups = plan.groups();
    groups.into_iter().find(|group| group.contains(&me)).unwrap_or_else(|| vec![me])
}

/// The ranks that we send to, and those that we receive from.
fn talks_with(plan: &Plan, members: &[usize], me: usize) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let both = |peers: BTreeSet<usize>| (peers.clone(), peers);
    match plan.benchmark {
        Benchmark::Collective(_) | Benchmark::Replay => {
            let place = members.iter().position(|member| *member == me).unwrap_or(0);
            let others = |by: usize| {
                let other = members[(place + by) % members.len()];
                BTreeSet::from_iter((other != me).then_some(other))
            };
            (others(1), others(members.len() - 1))
        }
        Benchmark::Messages(_) | Benchmark::Pairs => both(plan.peers(me)),
    }
}

/// Our handle among those that a rank sent.
fn handle_for(handles: &[u8], me: usize) -> Option<Handle> {
    handles.chunks_exact(HANDLE_ENTRY_BYTES).find_map(|entry| {
        let (peer, handle) = entry.split_first_chunk::<4>()?;
        let handle = Handle(handle.try_into().ok()?);
        (u32::from_le_bytes(*peer) as usize == me).then_some(handle)
    })
}

type Ends = (Vec<(usize, Sender)>, Vec<(usize, Receiver)>);

/// Connects and accepts in turns, as NCCL's service thread does: a rank that waited for one of them
/// alone could deadlock.
fn connect(
    plugin: &'static Plugin,
    device: usize,
    me: usize,
    mut handles: Vec<(usize, Handle)>,
    mut listeners: Vec<(usize, Listener)>,
    (stopped, until): (&dyn Fn() -> bool, Instant),
) -> Result<Ends, BackendError> {
    let wrong = |error| broken(stopped, me, error);
    let mut patience = Patience::new(stopped, Some(until));
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    while !handles.is_empty() || !listeners.is_empty() {
        let mut moved = false;
        let mut waiting = Vec::new();
        for (peer, mut handle) in handles {
            match plugin.connect(device, &mut handle).map_err(wrong)? {
                Some(sender) => {
                    senders.push((peer, sender));
                    moved = true;
                }
                None => waiting.push((peer, handle)),
            }
        }
        handles = waiting;
        let mut waiting = Vec::new();
        for (peer, mut listener) in listeners {
            match listener.accept().map_err(wrong)? {
                Some(receiver) => {
                    receivers.push((peer, receiver));
                    listener.close().map_err(wrong)?;
                    moved = true;
                }
                None => waiting.push((peer, listener)),
            }
        }
        listeners = waiting;
        if moved {
            patience.renew();
        } else {
            let missing = || {
                let to = handles.iter().map(|(peer, _)| *peer);
                to.chain(listeners.iter().map(|(peer, _)| *peer)).collect()
            };
            patience.rest(missing)?;
        }
    }
    Ok((senders, receivers))
}
