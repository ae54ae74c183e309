//! The resources of a machine that bytes cross, each with three rates that are never mixed.
//! Not the number of bytes (`traffic`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::framing;
use super::placement::{Inside, Islands, Memory, RankPlacement};
use crate::machine::{GpuModel, Machine, Nics, PcieLink, models};

/// A part of a machine that bytes cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// All NVLinks of one GPU.
    NvLink,
    /// The PCIe link of one GPU.
    GpuPcie,
    /// NVLinks and PCIe link of one GPU together, where either may carry bytes.
    GpuLinks,
    /// The link between the sockets of a node.
    BetweenSockets,
    /// All NICs of a node, or of the nodes that share an NVLink domain, together.
    Nic,
    /// The PCIe slots of these NICs together.
    NicSlot,
}

impl Resource {
    /// Its name in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::NvLink => "NVLink",
            Resource::GpuPcie => "PCIe of the GPU",
            Resource::GpuLinks => "NVLink and PCIe of the GPU",
            Resource::BetweenSockets => "link between sockets",
            Resource::Nic => "NIC",
            Resource::NicSlot => "PCIe slot",
        }
    }

    /// The same on a machine whose GPUs' links may have another name.
    pub fn name_on(self, machine: &Machine) -> String {
        self.name().replace("NVLink", machine.links_called())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The rates of a resource in one direction, GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The physical rate.
    pub line: f64,
    /// Line rate less framing; none where packet sizes are not known.
    pub payload: Option<f64>,
    /// The rate in NCCL's own model: an expectation, not a limit.
    pub nccl: Option<f64>,
}

impl Capacity {
    /// Payload rate, else line rate.
    pub fn best(&self) -> f64 {
        self.payload.unwrap_or(self.line)
    }

    /// A part of it.
    fn scaled(self, part: f64) -> Capacity {
        let of = |rate: f64| rate * part;
        Capacity { line: of(self.line), payload: self.payload.map(of), nccl: self.nccl.map(of) }
    }
}

/// A capacity, or the fact that is missing.
pub(super) struct Known {
    pub capacity: Result<Capacity, String>,
    /// Facts that were assumed from the GPU's model.
    pub assumed: Option<String>,
}

impl From<Result<Capacity, String>> for Known {
    fn from(capacity: Result<Capacity, String>) -> Known {
        Known { capacity, assumed: None }
    }
}

/// All NVLinks of a GPU. Unknown links are assumed to be all that the model has.
pub(super) fn nvlink(machine: &Machine) -> Known {
    let Some(nvlink) = &machine.node.nvlink else {
        return Err(format!("the {} of a GPU", machine.links_called())).into();
    };
    let gpu = machine.node.gpu.as_ref();
    let model = gpu.and_then(|gpu| models::find(&gpu.name));
    let assumed = match (nvlink.links, model.and_then(|model| model.links)) {
        (None, Some(links)) => Some(format!(
            "NVLinks of a GPU: {links}, as many as {} has",
            gpu.map_or("the model", |gpu| gpu.name.as_str())
        )),
        _ => None,
    };
    let links = nvlink_links(machine);
    let line = nvlink.line.or(model.and_then(|model| model.line));
    let capacity = match (links, line) {
        (Some(links), Some(line)) => {
            let links = f64::from(links);
            Ok(Capacity {
                line: links * line,
                payload: None,
                nccl: match model {
                    Some(model) if model.is_meshed() => Some(links * RCCL_LINK),
                    _ => gpu.and_then(sm).and_then(nccl_link).map(|each| links * each),
                },
            })
        }
        (None, _) => Err(format!("how many {} links a GPU has", machine.links_called())),
        (_, None) => Err(format!("the GB/s of one {} link", machine.links_called())),
    };
    Known { capacity, assumed }
}

/// The NVLinks that ranks of an island have to each other. NVSwitches join all links to all; without,
/// each link goes to one GPU, and those to GPUs without a rank carry nothing: at most as many as even
/// shares rounded up.
pub(super) fn nvlink_between(machine: &Machine, islands: &Islands) -> Known {
    let all = nvlink(machine);
    let (Some(links), Some(nvlink)) = (nvlink_links(machine), &machine.node.nvlink) else {
        return all;
    };
    let others = nvlink.domain.min(machine.node.gpus).saturating_sub(1);
    let reached = islands.ranks.saturating_sub(1);
    if nvlink.switched || reached >= others || links == 0 {
        return all;
    }
    let links = links as usize;
    let part = (links.div_ceil(others) * reached).min(links) as f64 / links as f64;
    Known { capacity: all.capacity.map(|capacity| capacity.scaled(part)), ..all }
}

/// Number of NVLinks of a GPU, as described or from its model.
pub fn nvlink_links(machine: &Machine) -> Option<u32> {
    let gpu = machine.node.gpu.as_ref();
    let model = gpu.and_then(|gpu| models::find(&gpu.name)).and_then(|model| model.links);
    machine.node.nvlink.as_ref()?.links.or(model)
}

/// Compute capability × 10 of a GPU, as described or from its model.
pub fn sm(gpu: &GpuModel) -> Option<u32> {
    gpu.sm.or_else(|| models::find(&gpu.name)?.sm)
}

/// Rate of one NVLink in the model of NCCL 2.30, GB/s, by compute capability (src/graph/topo.h,
/// `SM60_NVLINK_BW` to `SM100_NVLINK_BW`). Its 2.18 has 20.0 for sm90, 2.25 and 2.26 40.0 for sm100.
pub fn nccl_link(sm: u32) -> Option<f64> {
    match sm {
        60..70 => Some(18.0),
        86 => Some(12.0),
        70..90 => Some(20.0),
        90..100 => Some(20.6),
        100.. => Some(40.1),
        _ => None,
    }
}

/// Rate of one xGMI link of MI300 and MI350 in the model of RCCL, GB/s (src/graph/topo.h, `GFX94X_XGMI_WIDTH` and
/// `GFX95X_XGMI_WIDTH`).
const RCCL_LINK: f64 = 48.0;

/// The PCIe link of a GPU.
pub(super) fn gpu_pcie(machine: &Machine) -> Known {
    match machine.node.pcie {
        Some(link) => Ok(of_link(link, 1.0)).into(),
        None => Err("the PCIe link of a GPU".to_owned()).into(),
    }
}

fn of_link(link: PcieLink, count: f64) -> Capacity {
    Capacity {
        line: link.line() * count,
        payload: link.payload().map(|each| each * count),
        nccl: Some(link.nccl() * count),
    }
}

/// GB/s at which a GPU reaches others of its host in one direction: over NVLink, else its PCIe link; payload where it is known.
///
/// # Errors
/// The fact that is missing.
pub(crate) fn gpu_rate(machine: &Machine) -> Result<f64, String> {
    let known = if machine.node.nvlink.is_some() { nvlink(machine) } else { gpu_pcie(machine) };
    known.capacity.map(|capacity| capacity.best())
}

/// NVLinks and PCIe link of a GPU together. NCCL has no constant for both.
pub(super) fn gpu_links(machine: &Machine) -> Known {
    let (nvlink, pcie) = (nvlink(machine), gpu_pcie(machine));
    let capacity = nvlink.capacity.and_then(|nvlink| {
        let pcie = pcie.capacity?;
        let payload = pcie.payload.map(|payload| nvlink.line + payload);
        Ok(Capacity { line: nvlink.line + pcie.line, payload, nccl: None })
    });
    Known { capacity, assumed: nvlink.assumed }
}

/// The link between the sockets of a node.
pub(super) fn between_sockets(machine: &Machine) -> Option<Capacity> {
    let cpu = machine.node.cpu.as_ref()?;
    let line = cpu.between_sockets?;
    Some(Capacity { line, payload: None, nccl: None })
}

/// The groups of NICs that carry a run: RDMA where there is any, since NCCL prefers it whatever the
/// sockets' speed. Sockets may use any of them.
fn carriers<'m>(machine: &'m Machine, placement: &RankPlacement) -> Vec<&'m Nics> {
    let nics = || machine.node.nics.iter().filter(|nics| nics.count > 0);
    let rdma = !placement.sockets && nics().any(|nics| nics.kind.rdma());
    nics().filter(|nics| !rdma || nics.kind.rdma()).collect()
}

/// NICs of an island that are used.
pub(super) fn nics_used(machine: &Machine, placement: &RankPlacement, islands: &Islands) -> usize {
    let all = carriers(machine, placement).iter().map(|nics| nics.count).sum::<usize>();
    placement.nics.unwrap_or(all).min(all).saturating_mul(islands.nodes)
}

/// How many times fewer NICs so many GPUs of one host have than a whole island: NCCL sends messages of one
/// rank to one peer over the NICs nearest to a GPU, shared out among the GPUs as near to them
/// (`ncclTopoGetLocalNet` in src/graph/topo.cc).
pub(super) fn nics_beyond(
    machine: &Machine,
    placement: &RankPlacement,
    islands: &Islands,
    gpus: usize,
) -> f64 {
    let all = nics_used(machine, placement, islands).max(1);
    let nodes = islands.nodes.max(1);
    let each = all.div_ceil(machine.node.gpus.max(1).saturating_mul(nodes)).max(1);
    let own = each.saturating_mul(gpus.max(1)).min(all / nodes).max(1);
    all as f64 / own as f64
}

/// All NICs of an island, and their slots.
pub(super) fn network(
    machine: &Machine,
    placement: &RankPlacement,
    islands: &Islands,
) -> [Known; 2] {
    let groups = carriers(machine, placement);
    let all: usize = groups.iter().map(|nics| nics.count).sum();
    if all == 0 {
        let missing =
            || Err("the NICs between hosts: how many a host has, and their Gb/s".to_owned()).into();
        return [missing(), missing()];
    }
    // Which of them are left out is not known, so all are cut alike.
    let used = placement.nics.map_or(1.0, |nics| nics.min(all) as f64 / all as f64);
    let scale = used * islands.nodes as f64;
    let sum = |each: &dyn Fn(&Nics) -> Option<f64>| {
        groups.iter().map(|nics| each(nics).map(|one| one * nics.count as f64 * scale)).sum()
    };
    let line: Option<f64> = sum(&framing::line);
    let nic = line.map(|line| Capacity { line, payload: sum(&framing::payload), nccl: Some(line) });
    let slots = |rate: &dyn Fn(PcieLink) -> Option<f64>| {
        sum(&|nics: &Nics| Some(rate(nics.slot?)? / nics.sharing.max(1) as f64))
    };
    let slot = slots(&|link| Some(link.line())).map(|line| Capacity {
        line,
        payload: slots(&|link| link.payload()),
        nccl: slots(&|link| Some(link.nccl())),
    });
    [
        nic.ok_or_else(|| "the rate of a NIC".to_owned()).into(),
        slot.ok_or_else(|| "the PCIe slot of a NIC".to_owned()).into(),
    ]
}

/// The link that carries bytes between ranks of one island.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fabric {
    /// NVLink joins every pair of them: nothing goes beside it.
    NvLink,
    /// NVLink joins some pairs, or it is not known whether all: bytes go over NVLink or PCIe.
    NvLinkAndPcie,
    /// Each GPU's PCIe link: to other GPUs, to host memory, and to `lo`.
    Pcie,
    /// RDMA NICs, also within a node.
    Network,
    /// Host memory of processes, whose rate is not known here.
    HostMemory,
}

/// The link that carries bytes between ranks of one island.
pub(super) fn fabric(machine: &Machine, placement: &RankPlacement, islands: &Islands) -> Fabric {
    let mut nics = carriers(machine, placement).into_iter();
    if placement.memory == Memory::Host || machine.node.gpus == 0 {
        return Fabric::HostMemory;
    }
    match (placement.inside, &machine.node.nvlink) {
        (Inside::Network, _) if !placement.sockets && nics.any(|nics| nics.kind.rdma()) => {
            Fabric::Network
        }
        (Inside::Best, Some(nvlink)) => {
            let pairs = nvlink.switched || nvlink.meshed == Some(true) || machine.node.gpus <= 2;
            if pairs && nvlink.domain >= islands.ranks {
                Fabric::NvLink
            } else {
                Fabric::NvLinkAndPcie
            }
        }
        _ => Fabric::Pcie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_reckons_links_by_compute_capability() {
        for (sm, each) in
            [(60, 18.0), (70, 20.0), (80, 20.0), (86, 12.0), (90, 20.6), (100, 40.1), (103, 40.1)]
        {
            assert_eq!(nccl_link(sm), Some(each), "sm{sm}");
        }
        assert_eq!(nccl_link(52), None);
    }
}
