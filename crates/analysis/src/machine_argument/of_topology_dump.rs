//! What NCCL's topology in a run's log says of a host beyond its GPUs' names: links, NICs, their slots.
//! Not how the log is read (`busbw_library_logs::nccl`), and not a measurement: the rates are those of NCCL's model.

use busbw_hardware::{
    limits::nccl_link,
    machine::{Machine, NicKind, Nics, NvLink, PcieLink},
};
use busbw_library_logs::nccl::{DumpedGpu, DumpedNet, NcclFacts, TopologyDump};
use busbw_logs::measurement::Measurement;

/// GB/s that NCCL takes a PCIe link for whose speed it cannot read, as in most virtual machines (its src/graph/topo.cc:
/// 16 lanes of an unknown generation).
const UNREADABLE: f64 = 12.0;

/// GB/s that NCCL takes a port for whose speed it cannot read: 10 Gb/s.
const UNREADABLE_PORT: f64 = 1.25;

/// Ports slower than this share of the fastest carry no traffic between nodes: they are for management.
const SLOWER_SHARE: f64 = 1.0 / 3.0;

/// Completes a machine by the topologies in its run's log. Returns what was learned, in words; nothing of a log without one.
pub(super) fn complete(machine: &mut Machine, run: &Measurement) -> Option<String> {
    let library = &run.library;
    // The host whose NICs are the slowest is the bottleneck.
    let speed = |dump: &TopologyDump| dump.nets.iter().map(|net| net.rate).sum::<f64>();
    let dumps = library.iter().flat_map(|facts| &facts.topologies);
    let dump = dumps.min_by(|a, b| speed(a).total_cmp(&speed(b)))?;
    let node = &mut machine.node;
    let gpus: Vec<&DumpedGpu> = dump.gpus.iter().collect();
    // A communicator of fewer ranks does not show the links to the others.
    if gpus.len() < node.gpus {
        return None;
    }
    let readable = |rate: &f64| *rate > 0.0;
    let told = || {
        let slots = dump.nets.iter().filter_map(|net| net.slot);
        gpus.iter().filter_map(|gpu| gpu.pci).chain(slots).filter(readable)
    };
    // Where every link has that rate, NCCL may have read none.
    let read = told().any(|rate| (rate - UNREADABLE).abs() > 0.05);
    let link = |rate: Option<f64>| PcieLink::of_nccl(rate.filter(|_| read)?);
    let slowest = gpus.iter().filter_map(|gpu| gpu.pci).reduce(f64::min);
    node.pcie = link(slowest).or(node.pcie);
    let sm = node.gpu.as_ref().and_then(|gpu| gpu.sm);
    node.nvlink = nvlink(&gpus, sm, node.nvlink.take());
    let kind = kind(library);
    let mut nics = nics(dump, kind, link);
    if run.peak().and_then(|peak| peak.figure()).is_some_and(|busbw| refutes(&nics, busbw)) {
        nics.iter_mut().for_each(|one| one.slot = None);
    }
    let said = match nics.as_slice() {
        [] => "links of a host: as NCCL's topology in the log has them".to_owned(),
        nics => {
            let slots = nics
                .iter()
                .filter_map(|one| one.slot)
                .next()
                .map_or(String::new(), |slot| format!(", each in a slot as fast as {slot}"));
            let count: usize = nics.iter().map(|one| one.count).sum();
            format!("NICs of a host: {count}{slots}, as NCCL's topology in the log has them")
        }
    };
    if !nics.is_empty() {
        node.nics = nics;
    }
    Some(said)
}

/// Whether a busbw in GB/s is above what slots of the rate that stands for an unreadable link would let through.
fn refutes(nics: &[Nics], busbw: f64) -> bool {
    let through =
        |one: &Nics| Some(one.slot?.line() / one.sharing.max(1) as f64 * one.count as f64);
    let unreadable =
        |one: &Nics| one.slot.is_some_and(|slot| (slot.nccl() - UNREADABLE).abs() < 0.05);
    let all: Option<f64> = nics.iter().map(through).sum();
    nics.iter().any(unreadable) && all.is_some_and(|all| busbw > all)
}

/// The links of the GPU with the fewest. One GPU alone shows none that matter.
fn nvlink(gpus: &[&DumpedGpu], sm: Option<u32>, known: Option<NvLink>) -> Option<NvLink> {
    let least = gpus.iter().map(|gpu| gpu.nvlink).fold(f64::INFINITY, f64::min);
    let most = gpus.iter().map(|gpu| gpu.nvlink).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    // Where a GPU has fewer links than another some are down, and how many carry bytes is not known.
    let even = most - least < 0.1;
    // Releases take a link of Hopper for 20.0 or 20.6, of Blackwell for 40.0 or 40.1.
    let each = sm.and_then(nccl_link).into_iter().flat_map(|each| [each, each.floor()]);
    let counted =
        each.map(|each| least / each).find(|count| even && (count - count.round()).abs() < 0.02);
    let switched = gpus.iter().all(|gpu| gpu.switched);
    Some(NvLink {
        links: counted.map(|count| count.round() as u32).filter(|count| *count > 0),
        line: known.as_ref().and_then(|known| known.line).or(sm.and_then(line)),
        switched,
        meshed: known.as_ref().and_then(|known| known.meshed),
        multicast: known.as_ref().and_then(|known| known.multicast),
        domain: known.map_or(gpus.len(), |known| known.domain),
    })
}

/// GB/s of one NVLink in one direction (NVIDIA's data sheets of V100, A100, H100, B200).
fn line(sm: u32) -> Option<f64> {
    match sm {
        70..=80 | 90 => Some(25.0),
        100..110 => Some(50.0),
        _ => None,
    }
}

/// What the devices that NCCL found are; NICs of a plugin are none of the three, with headers about as long as RoCE's.
fn kind(library: &[NcclFacts]) -> NicKind {
    let devices = || library.iter().flat_map(|facts| &facts.net_devices).map(|device| &device.what);
    let links = |word: &str| {
        devices().any(|device| device.link.as_ref().is_some_and(|link| link.starts_with(word)))
    };
    let networks = || library.iter().flat_map(|facts| facts.networks.keys());
    match (links("IB"), links("RoCE")) {
        (true, _) => NicKind::InfiniBand,
        (false, true) => NicKind::Roce,
        _ if networks().count() > 0 && networks().all(|network| network == "Socket") => {
            NicKind::Ethernet
        }
        _ => NicKind::Roce,
    }
}

/// The ports of one host, alike ones together.
fn nics(
    dump: &TopologyDump,
    kind: NicKind,
    link: impl Fn(Option<f64>) -> Option<PcieLink>,
) -> Vec<Nics> {
    let Some(system) = dump.nets.iter().map(|net| net.system).min() else { return Vec::new() };
    let fastest = dump.nets.iter().map(|net| net.rate).fold(0.0, f64::max);
    let used = |net: &&DumpedNet| net.system == system && net.rate > fastest * SLOWER_SHARE;
    let mut groups: Vec<Nics> = Vec::new();
    for net in dump.nets.iter().filter(used) {
        let unread = kind == NicKind::Ethernet && (net.rate - UNREADABLE_PORT).abs() < 1e-6;
        let rate = Some(net.rate * 8.0).filter(|_| !unread);
        let one =
            Nics { count: 1, rate, kind, mtu: None, slot: link(net.slot), sharing: net.sharing };
        let same = |group: &&mut Nics| Nics { count: 1, ..(**group).clone() } == one;
        match groups.iter_mut().find(same) {
            Some(group) => group.count += 1,
            None => groups.push(one),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use busbw_core::record::Figures;
    use busbw_hardware::machine::{GpuModel, Node};
    use busbw_library_logs::nccl::parse;
    use busbw_logs::measurement::Row;

    use super::*;

    fn machine(gpus: usize, sm: u32) -> Machine {
        let gpu = Some(GpuModel { name: "a GPU".to_owned(), sm: Some(sm) });
        let node = Node { gpus, gpu, nvlink: None, pcie: None, cpu: None, nics: Vec::new() };
        Machine { name: "one".to_owned(), nodes: 2, node, sharp: None }
    }

    fn completed(mut machine: Machine, busbw: Option<f64>, lines: &[&str]) -> Machine {
        let log: String =
            lines.iter().map(|line| format!("n1:1:1 [0] NCCL INFO {line}\n")).collect();
        let rows = vec![Row {
            out_of_place: Some(Figures { busbw, ..Figures::default() }),
            ..Row::default()
        }];
        let run = Measurement { library: vec![parse(&log)], rows, ..Measurement::default() };
        complete(&mut machine, &run);
        machine
    }

    #[test]
    fn a_narrow_slot_and_links_that_could_not_be_read() {
        let lines = |gpu: &str| {
            [
                "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>".to_owned(),
                "=== System : maxBw 24.0 totalBw 24.0 ===".to_owned(),
                "CPU/0 (1/2/-1)".to_owned(),
                format!("+ PCI[{gpu}] - GPU/81000 (0)"),
                "+ PCI[12.0] - NIC/D1000".to_owned(),
                "              + NET[25.0] - NET/0 (7a852d0003f6ce75/1/25.000000)".to_owned(),
            ]
        };
        let of = |gpu: &str, busbw: Option<f64>| {
            let lines = lines(gpu);
            completed(machine(1, 80), busbw, &lines.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let told = of("24.0", Some(11.57));
        let nics = Nics {
            count: 1,
            rate: Some(200.0),
            kind: NicKind::InfiniBand,
            mtu: None,
            slot: PcieLink::new(3, 16),
            sharing: 1,
        };
        assert_eq!((told.node.pcie, told.node.nics), (PcieLink::new(4, 16), vec![nics]));
        let untold = of("12.0", Some(11.57));
        assert_eq!((untold.node.pcie, untold.node.nics[0].slot), (None, None));
        assert_eq!(of("24.0", Some(20.0)).node.nics[0].slot, None, "the result refutes it");
        // Another communicator's, of fewer GPUs, tells nothing of the host's.
        let fewer = lines("24.0");
        let fewer =
            completed(machine(2, 80), None, &fewer.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(fewer, machine(2, 80));
    }

    #[test]
    fn links_of_gpus_are_counted() {
        for (sm, rate, links) in
            [(90, "370.8", Some(18)), (90, "360.0", Some(18)), (80, "133.0", None)]
        {
            let nvl = format!("              + NVL[{rate}] - NVS/0-0");
            let told = completed(
                machine(1, sm),
                None,
                &[
                    "=== System : maxBw 1.0 totalBw 1.0 ===",
                    "CPU/0 (1/2/-1)",
                    "+ PCI[48.0] - GPU/1b000 (0)",
                    &nvl,
                ],
            );
            let nvlink = told.node.nvlink.unwrap();
            assert_eq!(
                (nvlink.links, nvlink.line, nvlink.switched),
                (links, Some(25.0), true),
                "{rate}"
            );
        }
    }
}
