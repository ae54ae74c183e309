//! Converts a host into a [`Machine`] of one node, which limits need; several hosts in one file are as many nodes.
//! Not a guess: facts that the source lacks stay `None`.

use std::collections::BTreeMap;

use super::{Device, Matrix, Net, NetKind, System, Target, Word, gpu_model, rates};
use crate::machine::{Cpu, CpuVendor, GpuModel, Machine, NicKind, Nics, Node, NvLink, PcieLink};

/// A host as a machine of one node; the hosts that NVLink joins as one machine of as many nodes.
pub fn machine_of_system(system: &System, name: &str) -> Machine {
    let gpus = system.gpus();
    let first = gpus.first().and_then(|gpu| system.devices.get(*gpu));
    let sm = |device: &Device| device.gpu.as_ref().filter(|gpu| gpu.gcn.is_none())?.sm;
    let gpu = first.and_then(|device| Some(GpuModel { name: gpu_model(device)?, sm: sm(device) }));
    let slowest = gpus.iter().map(|gpu| narrowest(system, *gpu)).reduce(slower).flatten();
    let nodes = system.hosts();
    let node = Node {
        gpus: gpus.len() / nodes,
        gpu,
        nvlink: nvlink(system, &gpus),
        pcie: slowest,
        cpu: cpu(system),
        nics: nics(system),
    };
    Machine { name: name.to_owned(), nodes, node, sharp: None }
}

/// The links of the GPU with the fewest: the slowest GPU is the bottleneck.
fn nvlink(system: &System, gpus: &[usize]) -> Option<NvLink> {
    let all: Vec<_> =
        gpus.iter().filter_map(|gpu| system.devices.get(*gpu)?.gpu.as_ref()).collect();
    // Templates name GPUs' places only: whether they have NVLink is not known then.
    if all.len() < gpus.len() {
        return Some(NvLink {
            links: None,
            line: None,
            switched: true,
            meshed: None,
            multicast: None,
            domain: gpus.len(),
        });
    }
    let each = || {
        all.iter()
            .map(|gpu| gpu.links.iter().fold(0_u32, |count, link| count.saturating_add(link.count)))
    };
    each().max().filter(|most| *most > 0)?;
    // Where some have links and others none, their number is not one of all GPUs.
    let fewest = each().min().filter(|fewest| *fewest > 0);
    let line = all.first().and_then(|gpu| rates::gpu_link_line(gpu));
    let mut ends = all.iter().flat_map(|gpu| &gpu.links);
    let switched = ends.any(|link| link.leads_to() == Target::Switch);
    let domain = gpus.len();
    let meshed = Some(meshed(system, gpus));
    Some(NvLink { links: fewest, line, switched, meshed, multicast: None, domain })
}

/// Whether every GPU has links to every other.
fn meshed(system: &System, gpus: &[usize]) -> bool {
    let devices: Vec<&Device> = gpus.iter().filter_map(|gpu| system.devices.get(*gpu)).collect();
    devices.iter().enumerate().all(|(at, device)| {
        let leads = |to: &Device| {
            let mut links = device.gpu.iter().flat_map(|gpu| &gpu.links);
            links.any(|link| link.target == to.address)
        };
        devices.iter().enumerate().all(|(other, to)| other == at || leads(to))
    })
}

/// The narrowest link from a device up to the switch that it shares with a GPU or an adapter, or else
/// up to the processor; none where one of them is not known.
fn narrowest(system: &System, device: usize) -> Option<PcieLink> {
    let mut least = system.devices.get(device)?.reading().link()?;
    for switch in system.above(device) {
        let mut others = system
            .devices
            .iter()
            .enumerate()
            .filter(|(at, other)| *at != device && (other.is_gpu() || other.is_nic()));
        if others.any(|(at, _)| system.above(at).contains(&switch)) {
            break;
        }
        let up = system.devices.get(switch)?.reading().link()?;
        if up.line() < least.line() {
            least = up;
        }
    }
    Some(least)
}

fn slower(a: Option<PcieLink>, b: Option<PcieLink>) -> Option<PcieLink> {
    let (a, b) = (a?, b?);
    Some(if b.line() < a.line() { b } else { a })
}

fn cpu(system: &System) -> Option<Cpu> {
    let first = system.cpus.first()?;
    let vendor = match (first.vendor.as_deref(), first.arch.as_deref()) {
        (Some("GenuineIntel"), _) => CpuVendor::Intel,
        (Some("AuthenticAMD"), _) => CpuVendor::Amd,
        (Some("CentaurHauls" | "  Shanghai  "), _) => CpuVendor::Zhaoxin,
        (_, Some("arm64" | "aarch64")) => CpuVendor::Arm,
        (_, Some("ppc64" | "ppc64le")) => CpuVendor::Power,
        _ => return None,
    };
    let mut sockets: Vec<u32> = system.cpus.iter().filter_map(|cpu| cpu.socket).collect();
    sockets.sort_unstable();
    sockets.dedup();
    let sockets = (!sockets.is_empty()).then_some(sockets.len());
    Some(Cpu { vendor, sockets, between_sockets: None })
}

/// Ports that NCCL would use between nodes: RDMA before sockets whatever their speed, and of them those
/// that are not far slower than the fastest.
fn nics(system: &System) -> Vec<Nics> {
    // Those of one host.
    let first = system.cpus.first().and_then(|cpu| cpu.host_hash);
    let all: Vec<(usize, &Net)> = system
        .nets()
        .into_iter()
        .filter(|(device, _)| system.hosts() == 1 || system.host(*device) == first)
        .filter_map(|(device, net)| Some((device, system.devices.get(device)?.nets.get(net)?)))
        .filter(|(_, net)| net.state.as_ref().is_none_or(|state| state.is_up()))
        .collect();
    let rdma = |net: &Net| net.kind != Some(NetKind::Socket);
    let any_rdma = all.iter().any(|(_, net)| rdma(net));
    let candidates: Vec<(usize, &Net)> =
        all.into_iter().filter(|(_, net)| rdma(net) == any_rdma).collect();
    let fastest = candidates.iter().filter_map(|(_, net)| net.plausible_mbps()).max().unwrap_or(0);
    let used = candidates
        .iter()
        .filter(|(_, net)| net.plausible_mbps().is_none_or(|mbps| mbps > fastest / 3));
    let used: Vec<&(usize, &Net)> = used.collect();
    let mut groups: BTreeMap<(u32, u8, u32, u8, u8, usize), Nics> = BTreeMap::new();
    for (device, net) in &used {
        let slot_of = |at: usize| system.devices.get(at).map_or("", Device::slot);
        let sharing = used.iter().filter(|(other, _)| slot_of(*other) == slot_of(*device)).count();
        let slot = narrowest(system, *device);
        let kind = match net.kind {
            Some(NetKind::Infiniband) => NicKind::InfiniBand,
            Some(NetKind::Socket) => NicKind::Ethernet,
            // Amazon's EFA is none of the three; its headers are about as long as RoCE's.
            Some(NetKind::Roce) | None => NicKind::Roce,
        };
        let (generation, width) = slot.map_or((0, 0), |slot| (slot.generation, slot.width));
        let (mbps, mtu) = (net.plausible_mbps().unwrap_or(0), net.mtu.unwrap_or(0));
        let group =
            groups.entry((mbps, kind as u8, mtu, generation, width, sharing)).or_insert(Nics {
                count: 0,
                rate: net.plausible_mbps().map(|mbps| f64::from(mbps) / 1000.0),
                kind,
                mtu: net.mtu,
                slot,
                sharing,
            });
        group.count += 1;
    }
    if groups.is_empty() {
        return virtual_nics(system).into_iter().collect();
    }
    groups.into_values().rev().collect()
}

/// A virtual machine's interfaces, of unknown speed: NCCL writes 10 Gb/s for any of them.
fn virtual_nics(system: &System) -> Option<Nics> {
    let real = |name: &str| ["eth", "en", "ib"].iter().any(|begin| name.starts_with(begin));
    let count = system.virtual_nets().iter().filter(|net| real(&net.name)).count();
    let kind = NicKind::Ethernet;
    (count > 0).then_some(Nics { count, rate: None, kind, mtu: None, slot: None, sharing: 1 })
}

/// A matrix of nvidia-smi as a machine of one node; it has no rates.
pub fn machine_of_matrix(matrix: &Matrix, name: &str) -> Machine {
    let gpus: Vec<usize> = matrix.gpus().collect();
    let row = |gpu: usize| {
        let others = gpus.iter().filter(move |other| **other != gpu);
        others.map(move |other| match matrix.between(gpu, *other) {
            Some(Word::NvLink(links) | Word::Xgmi(links)) => links,
            _ => 0,
        })
    };
    let each: Vec<Vec<u32>> = gpus.iter().map(|gpu| row(*gpu).collect()).collect();
    let least = each.iter().flatten().copied().min().unwrap_or(0);
    let most = each.iter().flatten().copied().max().unwrap_or(0);
    let in_all = |row: &Vec<u32>| row.iter().fold(0_u32, |sum, links| sum.saturating_add(*links));
    // No GPU has more than 18 links: where a row adds up to more, the same ones lead to every GPU.
    let switched = least == most && each.first().is_some_and(|row| in_all(row) > 18);
    let links = if switched { Some(most) } else { each.iter().map(in_all).min() };
    let links = links.filter(|links| *links > 0);
    let nvlink = (most > 0).then_some(NvLink {
        links,
        line: None,
        switched,
        meshed: Some(least > 0),
        multicast: None,
        domain: gpus.len(),
    });
    let ethernet =
        |at: usize| matrix.endpoints.get(at).is_some_and(|e| e.known_as().starts_with("roce"));
    let count = matrix.nics().count();
    let kind = match matrix.nics().all(ethernet) {
        true => NicKind::Roce,
        false => NicKind::InfiniBand,
    };
    let nics = Nics { count, rate: None, kind, mtu: None, slot: None, sharing: 1 };
    let node = Node {
        gpus: gpus.len(),
        gpu: None,
        nvlink,
        pcie: None,
        cpu: None,
        nics: if count > 0 { vec![nics] } else { Vec::new() },
    };
    Machine { name: name.to_owned(), nodes: 1, node, sharp: None }
}
