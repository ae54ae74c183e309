//! What the hardware of this host allows over a transport: the best of what NCCL could run over it.
//! Not the bounds themselves (`busbw_hardware::limits`), and not which algorithm ran.

use busbw_ffi::nvml;
use busbw_hardware::{
    limits::{Algorithm, Candidate, Inside, Possible, RankPlacement, candidates},
    machine::Machine,
    topology::{System, machine_of_system},
};

use super::profile::TransportKind;
use crate::transports::machine::Here;
use busbw_host::{machine::Root, topo};

/// This host.
pub fn this_host() -> System {
    let driver = nvml::driver().ok();
    topo::read(&Root::system(), driver.as_ref())
}

/// A host as the limits need it. Over verbs only the named port counts, since the NICs of a host
/// may differ.
pub fn machine(host: &System, kind: &TransportKind) -> Machine {
    let mut host = host.clone();
    if let TransportKind::Rdma { device, port } = kind {
        for function in &mut host.devices {
            function.nets.retain(|net| net.name == *device && net.port == Some(*port));
        }
    }
    machine_of_system(&host, "this host")
}

/// The limit of busbw over a transport, GB/s.
///
/// # Errors
/// Why there is none.
pub fn limit(machine: &Machine, here: &Here, kind: &TransportKind) -> Result<f64, String> {
    if here.nodes > 1 {
        let text = "virtual nodes share the host's memory, and it is not known which bytes cross which link";
        return Err(text.to_owned());
    }
    let Some(collective) = here.benchmark.collective() else {
        let text =
            format!("limits are known for collectives only, not for {}", here.benchmark.name());
        return Err(text);
    };
    let inside = match kind {
        TransportKind::P2p | TransportKind::Nvls | TransportKind::Default => Inside::Best,
        TransportKind::Shm => Inside::HostMemory,
        TransportKind::Rdma { .. } | TransportKind::Socket(_) => Inside::Network,
        TransportKind::Mnnvl | TransportKind::CollNet => {
            return Err("it is used between hosts only".to_owned());
        }
        TransportKind::Plugin(_) => {
            return Err("the path of a plugin's bytes is not known".to_owned());
        }
        TransportKind::Host => return Err("it uses no GPU".to_owned()),
    };
    let sockets = matches!(kind, TransportKind::Socket(_));
    let placement = RankPlacement { inside, sockets, ..RankPlacement::new(1, here.ranks) };
    let fits = |candidate: &Candidate| {
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
            is_nccl: true,
            benchmark: collective.into(),
            ranks,
            nodes: 1,
            multicast: None,
            interfaces: Vec::new(),
            ports: Vec::new(),
            variables: BTreeMap::new(),
            wanted: Vec::new(),
            net_plugin: None,
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
            TransportKind::Rdma { device: name, port: 1 }
        };
        let of = |kind: &TransportKind| {
            let machine = machine(&host, kind);
            assert_eq!(machine.node.nics.iter().map(|nics| nics.count).sum::<usize>(), 1);
            limit(&machine, &here(Collective::AllReduce, 8), kind).unwrap()
        };
        let ratio = of(&port(ports[1])) / of(&port(ports[0]));
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }
}
