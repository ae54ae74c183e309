//! The machine as far as a run itself names it: GPUs by their name and number, NICs from a record or from NCCL's topology in
//! its log.
//! Not where its ranks were (`explain::hardware`).

use std::collections::BTreeSet;

use busbw_core::record;
use busbw_hardware::machine::{GpuModel, Machine, NicKind, Nics, Node, NvLink, models, ready};
use busbw_logs::measurement::Measurement;

use super::of_topology_dump;

/// The machine, and the assumptions about it; none where devices are not GPUs of one known model.
pub(crate) fn of_run(run: &Measurement) -> Option<(Machine, Vec<String>)> {
    let name = &run.devices.first()?.name;
    let gpu = models::find(name)?;
    if run.devices.iter().any(|device| device.name != *name) {
        return None;
    }
    if ranks_share_gpus(run) {
        return None;
    }
    let hosts = run.hosts.filter(|hosts| *hosts > 0)?;
    let recorded = run.machine.as_ref();
    let per_host = run.rank_count().filter(|ranks| ranks.is_multiple_of(hosts))? / hosts;
    let mut gpus = recorded.map_or(per_host, |machine| machine.gpus.len().max(per_host));
    if let (true, Some(links)) = (gpu.is_meshed(), gpu.links) {
        // A link to each other GPU of the board. More of them a host are parts of GPUs.
        gpus = gpus.max(links as usize + 1);
        if per_host > links as usize + 1 {
            return None;
        }
    }
    let ampere_or_later = gpu.sm.is_some_and(|sm| sm >= 80);
    // An H100 may be an SXM board or a PCIe card: NVML's name tells, and `find` goes by it.
    let nvlink = gpu.links.map(|_| NvLink {
        // Export models have fewer NVLinks under the same name; xGMI links are what the board has.
        links: gpu.links.filter(|_| gpu.is_meshed()),
        line: gpu.line,
        // Eight of them from A100 on, or one of a rack, are joined by switches; fewer may be by plain
        // links, but then each pair has some. Eight V100 SXM2 are a cube whose diagonals have none.
        switched: gpus >= 8 && (ampere_or_later || gpu.name.ends_with("SXM3"))
            || gpu.name.starts_with("GB"),
        meshed: (ampere_or_later || gpu.is_meshed()).then_some(true),
        multicast: multicast(run),
        domain: gpus,
    });
    let mut nics = recorded.map(nics).unwrap_or_default();
    let mut assumed = vec![format!("{gpus} × {} a host, as the device list names them", gpu.name)];
    // A chip that is a whole host has the NIC that its maker attached; a log that names its RDMA devices says that it is cabled.
    let named = rdma_devices(run);
    if let Some(whole) = ready::of_chip(gpu).filter(|_| nics.is_empty() && named > 0) {
        assumed.push(format!("its NICs as every {} has them ({})", gpu.name, whole.name));
        nics = whole.node.nics;
        // With two cables each of the two slots has an end of both.
        for group in nics.iter_mut().filter(|group| named > group.count) {
            group.count *= 2;
            group.sharing *= 2;
        }
    }
    let model = GpuModel { name: gpu.name.to_owned(), sm: gpu.sm };
    let node = Node { gpus, gpu: Some(model), nvlink, pcie: None, cpu: None, nics };
    let mut machine =
        Machine {
            name: format!("{hosts} × {gpus} {}", gpu.name), nodes: hosts, node, sharp: None
        };
    assumed.extend(of_topology_dump::complete(&mut machine, run));
    Some((machine, assumed))
}

/// Whether two ranks have one GPU: they take turns on it, so that no limit of a link holds. An address without its domain may be
/// that of several GPUs (Grace Hopper: bus 1 of each domain).
pub(crate) fn ranks_share_gpus(run: &Measurement) -> bool {
    let mut seen = BTreeSet::new();
    let whole = run.devices.iter().filter(|device| device.address.contains(':'));
    whole.into_iter().any(|device| !seen.insert((&device.host, device.device, &device.address)))
}

/// Whether the switches multicast, where NCCL's log says so of every GPU alike.
fn multicast(run: &Measurement) -> Option<bool> {
    let mut all = run.library.iter().filter_map(|facts| facts.nvls);
    let nvls = all.next()?;
    match (nvls.available > 0, nvls.unavailable > 0) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// How many RDMA devices NCCL's log names.
fn rdma_devices(run: &Measurement) -> usize {
    let devices = run.library.iter().flat_map(|facts| &facts.net_devices);
    let rdma = devices.filter(|device| device.what.network == "IB");
    // Merged NICs have their names joined by a plus.
    rdma.flat_map(|device| device.what.name.split('+')).collect::<BTreeSet<&str>>().len()
}

/// A record's NICs, alike ones together. Ethernet interfaces of RDMA NICs are the same ports again.
fn nics(machine: &record::Machine) -> Vec<Nics> {
    let mut groups: Vec<Nics> = Vec::new();
    let rdma = machine.nics.iter().any(|nic| nic.kind == "infiniband");
    for nic in machine.nics.iter().filter(|nic| (nic.kind == "infiniband") == rdma) {
        let kind = if rdma { NicKind::InfiniBand } else { NicKind::Ethernet };
        let rate = nic.speed_mbps.map(|mbps| mbps as f64 / 1e3);
        match groups.iter_mut().find(|group| group.rate == rate) {
            Some(group) => group.count += 1,
            None => groups.push(Nics { count: 1, rate, kind, mtu: None, slot: None, sharing: 1 }),
        }
    }
    groups
}
