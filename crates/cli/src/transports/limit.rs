//! What the hardware of the job's hosts allows over a transport: the best of what NCCL could run over it.
//! Not the bounds themselves (`busbw_hardware::limits`), and not which algorithm ran.

use busbw_core::plan::MovedBy;
use busbw_hardware::{
    limits::{self, Algorithm, Candidate, Inside, Memory, Possible, RankPlacement, candidates},
    machine::{Machine, NicKind, Nics},
    topology::{Net, machine_of_system},
};
use busbw_host::{machine::Interface, survey::HostSurvey};

use super::{
    machine::{Here, JobHost},
    profile::TransportKind,
};

/// The limit of busbw over a transport, GB/s: that of the host with the lowest one.
///
/// # Errors
/// Why there is none.
pub fn lowest(here: &Here, kind: &TransportKind) -> Result<f64, String> {
    let of_host = |host: &JobHost| {
        let limit = match kind {
            TransportKind::Verbs { ports } => one_way(&host.survey, here, ports),
            _ => limit(&machine(&host.survey, here, kind), here, kind),
        };
        limit.map_err(|why| if here.has_hosts() { format!("on {}: {why}", host.name) } else { why })
    };
    let each = here.hosts.iter().map(of_host).collect::<Result<Vec<f64>, String>>()?;
    each.into_iter().reduce(f64::min).ok_or_else(|| "no host is known".to_owned())
}

/// What the ports of a host can send together: each one's line rate and its part of its slot, less the headers of packets.
fn one_way(host: &HostSurvey, here: &Here, ports: &[(String, u32)]) -> Result<f64, String> {
    let kind = TransportKind::Rdma { ports: ports.to_vec(), gpudirect: None };
    let nics = machine(host, here, &kind).node.nics;
    if nics.iter().map(|nics| nics.count).sum::<usize>() != ports.len() {
        return Err("not known of this host: the adapters of these ports".to_owned());
    }
    let of_alike = |nics: Nics| {
        let count = nics.count as f64;
        let bound = limits::one_way(Nics { count: 1, ..nics });
        let payload = bound.payload.as_ref().map(|payload| payload.busbw * count);
        payload.ok_or_else(|| format!("not known of this host: {}", bound.missing.join(", ")))
    };
    nics.into_iter().map(of_alike).sum()
}

/// A host as the limits need it: of its NICs those that the transport uses, and as many hosts as the job has.
fn machine(host: &HostSurvey, here: &Here, kind: &TransportKind) -> Machine {
    let mut system = host.system.clone();
    if let TransportKind::Rdma { ports, .. } = kind {
        let is_meant = |net: &Net| {
            ports.iter().any(|(device, port)| net.name == *device && net.port == Some(*port))
        };
        system.devices.iter_mut().for_each(|function| function.nets.retain(is_meant));
    }
    let mut machine = machine_of_system(&system, "this host");
    if !here.has_hosts() {
        return machine;
    }
    machine.nodes = here.hosts.len();
    match kind {
        TransportKind::Socket(name) => machine.node.nics = vec![nic(host, name)],
        TransportKind::Mnnvl => {
            let all = machine.node.gpus * machine.nodes;
            machine.node.nvlink.iter_mut().for_each(|nvlink| nvlink.domain = all);
        }
        _ => {}
    }
    machine
}

/// An interface as sockets use it: at its own rate or its shaper's, in the slot of its device, if it has one.
fn nic(host: &HostSurvey, name: &str) -> Nics {
    let interface = host.interfaces.iter().find(|interface| interface.name == name);
    let mut system = host.system.clone();
    // The net of an interface's device may be an RDMA port of another name.
    system.devices.iter_mut().for_each(|function| function.nets.retain(|net| net.name == name));
    let of_device = machine_of_system(&system, name).node.nics.pop().filter(|nics| nics.count == 1);
    Nics {
        count: 1,
        rate: interface.and_then(rate),
        kind: NicKind::Ethernet,
        mtu: interface.and_then(|interface| interface.mtu),
        slot: of_device.and_then(|nics| nics.slot),
        sharing: 1,
    }
}

/// Gb/s as limits count them, with all that a frame takes on a wire. A token bucket counts a frame without its preamble,
/// checksum and gap: 24 B (net/sched/sch_tbf.c, qdisc_pkt_len).
fn rate(interface: &Interface) -> Option<f64> {
    const UNCOUNTED_BYTES: f64 = 24.0;
    const HEADER_BYTES: f64 = 14.0;
    let bucket = interface.shaped_gbps.map(|gbps| {
        let frame = f64::from(interface.mtu.unwrap_or(1500)) + HEADER_BYTES;
        gbps * (frame + UNCOUNTED_BYTES) / frame
    });
    match (interface.gbps, bucket) {
        (Some(line), Some(bucket)) => Some(line.min(bucket)),
        (line, bucket) => line.or(bucket),
    }
}

/// The limit of busbw over a transport, GB/s.
///
/// # Errors
/// Why there is none.
fn limit(machine: &Machine, here: &Here, kind: &TransportKind) -> Result<f64, String> {
    if here.virtual_nodes > 1 {
        let text = "virtual nodes share the host's memory, and it is not known which bytes cross which link";
        return Err(text.to_owned());
    }
    let Some(collective) = here.benchmark.collective() else {
        let text =
            format!("limits are known for collectives only, not for {}", here.benchmark.name());
        return Err(text);
    };
    let nodes = here.nodes();
    if !here.ranks.is_multiple_of(nodes) {
        return Err("hosts have unlike numbers of ranks".to_owned());
    }
    let inside = match kind {
        TransportKind::P2p | TransportKind::Shm if here.has_hosts() => {
            return Err("ranks of different hosts use the network meanwhile".to_owned());
        }
        TransportKind::Nvls if here.has_hosts() => {
            return Err("how NVLS and the network share the bytes is not known".to_owned());
        }
        TransportKind::P2p | TransportKind::Nvls | TransportKind::Default => Inside::Best,
        TransportKind::Mnnvl if here.has_hosts() => Inside::Best,
        TransportKind::Rdma { .. } | TransportKind::Socket(_) if here.has_hosts() => Inside::Best,
        TransportKind::CollNet if here.has_hosts() => {
            return Err("whether the switches reduce is not known".to_owned());
        }
        TransportKind::Shm => Inside::HostMemory,
        TransportKind::Rdma { .. } | TransportKind::Socket(_) => Inside::Network,
        TransportKind::Mnnvl | TransportKind::CollNet => {
            return Err("it is used between hosts only".to_owned());
        }
        TransportKind::Plugin(_) => {
            return Err("the path of a plugin's bytes is not known".to_owned());
        }
        TransportKind::Host => return Err("it uses no GPU".to_owned()),
        TransportKind::Verbs { .. } => return Err("it is no collective".to_owned()),
    };
    let sockets = matches!(kind, TransportKind::Socket(_));
    let memory = if here.is_nccl() { Memory::Gpu } else { Memory::Host };
    let per_node = here.ranks / nodes;
    let placement =
        RankPlacement { inside, sockets, memory, ..RankPlacement::new(nodes, per_node) };
    let fits = |candidate: &Candidate| {
        // The net backend has rings only; NCCL may choose among all of its algorithms.
        if here.moved_by == MovedBy::NetPlugin && candidate.limit.algorithm != Algorithm::Ring {
            return false;
        }
        let in_switch = matches!(candidate.limit.algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        // NCCL may choose it by itself; the other transports disable it.
        let is_meant =
            *kind == TransportKind::Default || in_switch == (*kind == TransportKind::Nvls);
        !matches!(candidate.possible, Possible::No(_)) && is_meant
    };
    let candidates: Vec<Candidate> =
        candidates(machine, collective, &placement).into_iter().filter(fits).collect();
    let bound = |candidate: &Candidate| Some(candidate.limit.payload.as_ref()?.busbw);
    let missing = || {
        let names = candidates.iter().flat_map(|candidate| &candidate.limit.missing);
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        match names.as_slice() {
            [] => format!("no bound is known for {}", collective.name()),
            names => format!("not known of this host: {}", names.join(", ")),
        }
    };
    // An algorithm without a bound might be faster than all others.
    let all: Option<Vec<f64>> = candidates.iter().map(bound).collect();
    all.and_then(|all| all.into_iter().reduce(f64::max)).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use busbw_core::Collective;
    use busbw_hardware::{
        machine::ready,
        topology::{Ends, Input, NetKind, PcieReading, recognise},
    };

    use super::*;

    fn here(collective: Collective, ranks: usize) -> Here {
        Here {
            moved_by: MovedBy::Nccl,
            benchmark: collective.into(),
            ranks,
            virtual_nodes: 1,
            hosts: Vec::new(),
            multicast: None,
            interfaces: Vec::new(),
            ports: Vec::new(),
            variables: BTreeMap::new(),
            wanted: Vec::new(),
            net_plugin: None,
            writes: Err(String::new()),
        }
    }

    #[test]
    fn transports_of_a_host_of_eight() {
        let machine = ready("dgx-h200").expect("built in");
        let of = |kind: &TransportKind| limit(&machine, &here(Collective::AllReduce, 8), kind);
        let near = |got: Result<f64, String>, want: f64| (got.unwrap() / want - 1.0).abs() < 1e-9;
        assert!(near(of(&TransportKind::P2p), 450.0));
        // Each GPU sends S, and an eighth more: NVLink over 1 + 1/8, and busbw is 7/4 of that.
        assert!(near(of(&TransportKind::Nvls), 700.0));
        // A ring through host memory crosses each GPU's PCIe 5.0 x16 both ways.
        let shm = of(&TransportKind::Shm).unwrap();
        assert!((50.0..64.0).contains(&shm), "{shm}");
        // NCCL chooses among all of them.
        assert!(near(of(&TransportKind::Default), 700.0));
        // Bytes between sockets of one host stay in its memory, and go to and from GPUs as those of
        // shm do: no NIC counts, whatever the machine has.
        assert!(near(of(&TransportKind::Socket("eth0".to_owned())), shm));
        let unknown = Machine {
            node: busbw_hardware::machine::Node {
                nvlink: None,
                pcie: None,
                ..machine.node.clone()
            },
            ..machine.clone()
        };
        assert!(limit(&unknown, &here(Collective::AllReduce, 8), &TransportKind::Shm).is_err());
    }

    /// With unlike NICs the named one counts, not their average. Of one adapter its slot counts,
    /// since the traffic of GPUs that share it stays inside.
    #[test]
    fn an_adapter_has_its_own_slot() {
        let text = include_str!("../../../hardware/tests/data/topology/mi350x8.xml");
        let Ok(Input::System(mut host)) = recognise(text) else { panic!("it is a topology") };
        let ports: Vec<(usize, usize)> = host.nets();
        for (at, (device, net)) in ports.iter().enumerate() {
            let device = &mut host.devices[*device];
            let net = &mut device.nets[*net];
            (net.kind, net.port) = (Some(NetKind::Infiniband), Some(1));
            let slot =
                PcieReading { generation: Some(5), width: Some(if at == 0 { 8 } else { 16 }) };
            device.link = Ends { now: slot, device_max: slot, port_max: slot, ..Ends::default() };
        }
        let port = |(device, net): (usize, usize)| {
            let name = host.devices[device].nets[net].name.clone();
            TransportKind::Rdma { ports: vec![(name, 1)], gpudirect: None }
        };
        let of = |kind: &TransportKind| {
            let survey = HostSurvey {
                findings: Vec::new(),
                interfaces: Vec::new(),
                ports: Vec::new(),
                variables: BTreeMap::new(),
                system: host.clone(),
            };
            let machine = machine(&survey, &here(Collective::AllReduce, 8), kind);
            assert_eq!(machine.node.nics.iter().map(|nics| nics.count).sum::<usize>(), 1);
            limit(&machine, &here(Collective::AllReduce, 8), kind).unwrap()
        };
        let ratio = of(&port(ports[1])) / of(&port(ports[0]));
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }
}
