//! The resources that a run's bytes cross on a machine, each with its bytes and its rates.
//! Not how many bytes an algorithm sends (`traffic`), and not which of them sets a bound (`bound`).

use super::algorithm::Algorithm;
use super::bound::{Limit, Load, to_busbw};
use super::placement::{Islands, Memory, RankPlacement};
use super::resource::{self, Fabric, Known, Resource};
use super::traffic::{self, Crossing, Ranks};
use crate::machine::Machine;
use busbw_core::Collective;

/// A machine with the placement of ranks on it.
pub(super) struct Site<'a> {
    pub machine: &'a Machine,
    pub placement: &'a RankPlacement,
    pub islands: &'a Islands,
    pub fabric: Fabric,
    pub crossing: &'a Crossing,
}

/// Fills a limit's loads, and names what is missing.
pub(super) fn collect(limit: &mut Limit, site: &Site<'_>) {
    inside(limit, site);
    outside(limit, site);
}

fn add(limit: &mut Limit, resource: Resource, bytes: [f64; 2], known: Known, needed: bool) {
    let [bytes, bytes_at_most] = bytes;
    if bytes <= 0.0 {
        return;
    }
    match known.capacity {
        Ok(capacity) => {
            let line_busbw = capacity.line / bytes * to_busbw(limit.collective, limit.ranks);
            limit.loads.push(Load { resource, bytes, bytes_at_most, capacity, line_busbw });
            limit.assumed.extend(known.assumed);
        }
        Err(fact) if needed => limit.missing.push(fact),
        Err(fact) => limit.unchecked.push(fact),
    }
}

/// The loads of traffic between ranks of one island.
fn inside(limit: &mut Limit, site: &Site<'_>) {
    let Site { machine, placement, islands, crossing, .. } = *site;
    let alone = islands.count == 1;
    match site.fabric {
        Fabric::NvLink => {
            // A ring leaves at a GPU that has a NIC; with one for each, all leave in turn. With fewer,
            // which pass on everything and which leave in turn is NCCL's choice.
            let each = resource::nics_used(machine, placement, islands) >= islands.ranks;
            let most = if each { crossing.relieved } else { crossing.inside };
            let bytes = [crossing.relieved, most + passed_on(limit.collective, site)];
            let links = resource::nvlink_between(machine, islands);
            add(limit, Resource::NvLink, bytes, links, alone);
        }
        Fabric::NvLinkAndPcie => {
            let bytes = least_of_a_gpu(limit.algorithm, crossing.gpu);
            let links = resource::gpu_links(machine);
            add(limit, Resource::GpuLinks, [bytes; 2], links, alone);
            if placement.per_node < machine.node.gpus {
                let links = machine.links_called();
                limit.unchecked.push(format!("which {links} links join the GPUs that ran"));
            }
            if let Some(bytes) = leaving_a_domain(limit, site) {
                let pcie = resource::gpu_pcie(machine);
                add(limit, Resource::GpuPcie, [bytes; 2], pcie, false);
            }
        }
        Fabric::Pcie => {
            let bytes = [crossing.gpu; 2];
            add(limit, Resource::GpuPcie, bytes, resource::gpu_pcie(machine), alone);
            between_sockets(limit, site);
        }
        Fabric::HostMemory if alone => limit.missing.push("the rate of host memory".to_owned()),
        Fabric::HostMemory if crossing.inside > 0.0 => {
            limit.unchecked.push("the rate of host memory".to_owned());
        }
        Fabric::HostMemory | Fabric::Network => {}
    }
}

/// What a scatter's root passes to the GPUs of its receivers' rails, beside what its own island keeps (PXN).
fn passed_on(collective: Collective, site: &Site<'_>) -> f64 {
    if collective != Collective::Scatter || site.islands.count < 2 {
        return 0.0;
    }
    let beyond = |gpus| resource::nics_beyond(site.machine, site.placement, site.islands, gpus);
    site.crossing.outside * (1.0 - beyond(site.placement.per_node) / beyond(1))
}

/// Where GPUs differ in their links, the one with fewest may be the end of a chain, which passes on S
/// only, while others pass on more.
fn least_of_a_gpu(algorithm: Algorithm, bytes: f64) -> f64 {
    match algorithm {
        Algorithm::Tree | Algorithm::CollNetDirect | Algorithm::CollNetChain => bytes.min(1.0),
        _ => bytes,
    }
}

/// The bytes that a GPU sends over PCIe where NVLink joins parts of a node, such as pairs by bridges: what leaves
/// a part leaves it over the PCIe links of its GPUs, just as it would leave a node.
fn leaving_a_domain(limit: &Limit, site: &Site<'_>) -> Option<f64> {
    let node = &site.machine.node;
    let domain = node.nvlink.as_ref()?.domain;
    let filled = site.placement.per_node == node.gpus;
    if domain >= node.gpus || !filled || !node.gpus.is_multiple_of(domain.max(1)) {
        return None;
    }
    let domain = domain.max(1);
    let ranks = Ranks { all: limit.ranks, island: domain, islands: limit.ranks / domain };
    let crossing = traffic::crossing(limit.collective, limit.algorithm, ranks).ok()?;
    Some(least_of_a_gpu(limit.algorithm, crossing.outside) / domain as f64)
}

/// RDMA NICs on both sockets are an alternative path between them, which NCCL uses where it is faster.
fn between_sockets(limit: &mut Limit, site: &Site<'_>) {
    let Site { machine, placement, islands, crossing, .. } = *site;
    let cpu = machine.node.cpu.as_ref();
    if cpu.and_then(|cpu| cpu.sockets).is_none_or(|sockets| sockets < 2) {
        return;
    }
    let beside = machine.node.nics.iter().any(|nics| nics.kind.rdma()) && !placement.sockets;
    let spread = islands.nodes == 1 && placement.per_node == machine.node.gpus;
    match (crossing.sockets, resource::between_sockets(machine)) {
        (Some(bytes), Some(capacity)) if spread && !beside => {
            add(limit, Resource::BetweenSockets, [bytes; 2], Ok(capacity).into(), false);
        }
        (_, None) => limit.unchecked.push("the rate between sockets".to_owned()),
        _ => {}
    }
}

/// The loads of traffic between islands, and within an island whose ranks use NICs.
fn outside(limit: &mut Limit, site: &Site<'_>) {
    let Site { machine, placement, islands, crossing, .. } = *site;
    let ranks = islands.ranks as f64;
    let by_nics = site.fabric == Fabric::Network;
    // Without NVLink, PCIe and shared memory, all that a GPU sends crosses a NIC's slot. With a NIC
    // for each GPU it crosses the line as well; traffic between two GPUs that share one stays inside it.
    let all = crossing.gpu * ranks;
    let each = resource::nics_used(machine, placement, islands) >= islands.ranks;
    let line = if by_nics && each { all } else { crossing.outside };
    let slot = if by_nics { all } else { crossing.outside };
    if slot <= 0.0 {
        return;
    }
    let [nics, slots] = resource::network(machine, placement, islands);
    // A message of one rank may leave over all NICs; over those of some GPUs alone, each carries more.
    let gpus = placement.memory == Memory::Gpu && machine.node.gpus > 0;
    let of_gpus = match limit.collective {
        // A root passes what it sends over NVLink to the GPUs of the receivers' rails, if they have ranks (PXN).
        Collective::Scatter if site.fabric == Fabric::NvLink => Some(placement.per_node),
        Collective::SendRecv | Collective::Gather | Collective::Scatter => Some(1),
        _ => None,
    };
    let crowd = match of_gpus.filter(|_| gpus && !by_nics) {
        Some(count) => resource::nics_beyond(machine, placement, islands, count),
        None => 1.0,
    };
    // Of a NIC and its slot only the narrower one can be what holds such a message back.
    let rate = |known: &Known| known.capacity.as_ref().map_or(f64::INFINITY, |one| one.line);
    let slot_crowd = if rate(&slots) < rate(&nics) { crowd } else { 1.0 };
    add(limit, Resource::Nic, [line, line * crowd], nics, true);
    add(limit, Resource::NicSlot, [slot, slot * slot_crowd], slots, line <= 0.0);
    if gpus && !limit.loads.iter().any(|load| load.resource == Resource::GpuPcie) {
        add(limit, Resource::GpuPcie, [slot / ranks; 2], resource::gpu_pcie(machine), false);
    }
}
