//! The path between any two devices of a host, in nvidia-smi's words and in NCCL's.
//! Not its bandwidth.

use std::collections::HashMap;

use super::{Endpoint, Gpu, GpuLinkKind, Matrix, NcclPath, Parent, System, Target, Word};

/// A host, prepared for questions about paths through it.
pub struct Paths<'a> {
    system: &'a System,
    /// Switches above each device, the nearest first.
    above: Vec<Vec<usize>>,
    /// The same for NCCL, which merges some switches.
    above_for_nccl: Vec<Vec<usize>>,
    by_address: HashMap<&'a str, usize>,
}

impl<'a> Paths<'a> {
    /// Prepares a host.
    pub fn of(system: &'a System) -> Paths<'a> {
        let above: Vec<Vec<usize>> = (0..system.devices.len()).map(|d| system.above(d)).collect();
        let above_for_nccl = above.iter().map(|above| flattened(system, above)).collect();
        let addresses = system.devices.iter().enumerate().rev();
        let by_address = addresses.map(|(at, device)| (device.address.as_str(), at)).collect();
        Paths { system, above, above_for_nccl, by_address }
    }

    /// The path between two devices, by their indices, in nvidia-smi's words. Where nothing tells host
    /// bridges apart, as in NCCL's files, PHB stands for PHB and NODE.
    pub fn word(&self, a: usize, b: usize) -> Word {
        if a == b {
            return Word::Itself;
        }
        match self.direct(a, b) {
            Some((GpuLinkKind::NvLink, links)) => return Word::NvLink(links),
            Some((GpuLinkKind::Xgmi, links)) => return Word::Xgmi(links),
            None => {}
        }
        let devices = &self.system.devices;
        let (Some(one), Some(other)) = (devices.get(a), devices.get(b)) else { return Word::Sys };
        match bridges(&self.above, a, b) {
            Some((0, 0)) => return Word::Pix,
            // Functions of one card.
            _ if one.slot() == other.slot() && self.system.host(a) == self.system.host(b) => {
                return Word::Pix;
            }
            Some(_) => return Word::Pxb,
            None => {}
        }
        if !self.same_cpu(a, b) {
            return Word::Sys;
        }
        match (&one.host_bridge, &other.host_bridge) {
            (Some(one), Some(other)) if one != other => Word::Node,
            _ => Word::Phb,
        }
    }

    /// The path between two devices, by their indices, in NCCL's words.
    pub fn nccl(&self, a: usize, b: usize) -> NcclPath {
        if a == b {
            return NcclPath::Loc;
        }
        if self.direct(a, b).is_some() {
            return NcclPath::Nvl;
        }
        if self.through_a_gpu(a, b) {
            return NcclPath::Nvb;
        }
        match bridges(&self.above_for_nccl, a, b) {
            Some((0, 0)) => return NcclPath::Pix,
            Some(_) => return NcclPath::Pxb,
            None => {}
        }
        if self.system.host(a) != self.system.host(b) {
            return NcclPath::Net;
        }
        if !self.same_cpu(a, b) {
            return NcclPath::Sys;
        }
        match (self.has_c2c(a), self.has_c2c(b)) {
            (true, true) => NcclPath::C2c,
            (true, false) | (false, true) => NcclPath::P2c,
            (false, false) => NcclPath::Phb,
        }
    }

    /// The matrix of all GPUs, and of all NICs on PCI devices under the numbers that nvidia-smi would
    /// give them.
    pub fn matrix(&self) -> Matrix {
        let ends = self.ends();
        let cells = ends.iter().map(|(row, _)| {
            let words = ends.iter().map(|(column, _)| Some(self.word(*row, *column)));
            words.collect()
        });
        let mut cells: Vec<Vec<Option<Word>>> = cells.collect();
        // Ports of one function: not each other, and with nothing between.
        for (at, row) in cells.iter_mut().enumerate() {
            for (to, word) in row.iter_mut().enumerate().filter(|(to, _)| *to != at) {
                if ends.get(at).map(|end| end.0) == ends.get(to).map(|end| end.0) {
                    *word = Some(Word::Pix);
                }
            }
        }
        Matrix { endpoints: ends.into_iter().map(|(_, endpoint)| endpoint).collect(), cells }
    }

    /// Rows of a matrix: the device of each, and its name.
    pub fn ends(&self) -> Vec<(usize, Endpoint)> {
        let gpus = self.system.gpus();
        let of_cpu = |device: usize| {
            let cpu = self.cpu(device).and_then(|cpu| self.system.cpus.get(cpu));
            cpu.and_then(|cpu| cpu.numa).filter(|numa| *numa >= 0).map(|numa| numa.to_string())
        };
        let mut ends: Vec<(usize, Endpoint)> = gpus
            .iter()
            .map(|gpu| {
                let name = self.system.gpu_name(*gpu);
                (*gpu, Endpoint { name, numa: of_cpu(*gpu), ..Endpoint::default() })
            })
            .collect();
        let mut nics: Vec<(usize, String)> = Vec::new();
        for (device, net) in self.system.nets() {
            let name = &self.system.devices[device].nets[net].name;
            nics.push((device, name.clone()));
        }
        // A template has adapters without interfaces.
        let bare = self.system.devices.iter().enumerate();
        let bare = bare.filter(|(_, device)| device.is_nic() && device.nets.is_empty());
        nics.extend(bare.map(|(at, device)| (at, device.address.clone())));
        ends.extend(nics.into_iter().enumerate().map(|(number, (device, name))| {
            let (known, numa) = (Some(name), of_cpu(device));
            let name = format!("NIC{number}");
            (device, Endpoint { name, device: known, numa, ..Endpoint::default() })
        }));
        ends
    }

    /// The processor above a device, directly or through switches.
    pub fn cpu(&self, device: usize) -> Option<usize> {
        let top = self.above.get(device)?.last().copied().unwrap_or(device);
        match self.system.devices.get(top)?.parent {
            Parent::Cpu(cpu) => Some(cpu),
            Parent::Device(_) => None,
        }
    }

    fn same_cpu(&self, a: usize, b: usize) -> bool {
        self.cpu(a) == self.cpu(b)
    }

    fn gpu(&self, at: usize) -> Option<&'a Gpu> {
        self.system.devices.get(at)?.gpu.as_ref()
    }

    fn has_c2c(&self, at: usize) -> bool {
        self.gpu(at).is_some_and(|gpu| gpu.c2c.is_some())
    }

    /// Links between two GPUs: to each other, or both to NVSwitches, which join all of them.
    fn direct(&self, a: usize, b: usize) -> Option<(GpuLinkKind, u32)> {
        let (one, other) = (self.gpu(a)?, self.gpu(b)?);
        let to = |gpu: &Gpu, target: &str| {
            let links = gpu.links.iter().filter(|link| link.target == target);
            links.fold((0_u32, None), |(count, _), link| {
                (count.saturating_add(link.count), Some(link.kind))
            })
        };
        let (there, kind) = to(one, &self.system.devices.get(b)?.address);
        let (back, back_kind) = to(other, &self.system.devices.get(a)?.address);
        let straight = match (there, back) {
            (0, back) => back,
            (there, 0) => there,
            (there, back) => there.min(back),
        };
        if straight > 0 {
            let nvlink = [kind, back_kind].contains(&Some(GpuLinkKind::NvLink));
            let kind = if nvlink { GpuLinkKind::NvLink } else { GpuLinkKind::Xgmi };
            return Some((kind, straight));
        }
        let switched = |gpu: &Gpu| {
            let links = gpu.links.iter().filter(|link| link.leads_to() == Target::Switch);
            links.fold(0_u32, |count, link| count.saturating_add(link.count))
        };
        let links = switched(one).min(switched(other));
        (links > 0).then_some((GpuLinkKind::NvLink, links))
    }

    /// Whether a third GPU has links to both.
    fn through_a_gpu(&self, a: usize, b: usize) -> bool {
        let (Some(one), Some(_)) = (self.gpu(a), self.gpu(b)) else { return false };
        let mut thirds = one.links.iter().filter_map(|link| self.by_address.get(&*link.target));
        thirds.any(|third| *third != b && self.direct(*third, b).is_some())
    }
}

/// How many switches lie below the lowest one that is above both, on each side.
fn bridges(above: &[Vec<usize>], a: usize, b: usize) -> Option<(usize, usize)> {
    let (one, other) = (above.get(a)?, above.get(b)?);
    one.iter().enumerate().find_map(|(up, switch)| {
        other.iter().position(|there| there == switch).map(|down| (up, down))
    })
}

/// Broadcom's switches show themselves as two levels although they are one; NCCL takes the lower level
/// out (NCCL 2.30.7, src/graph/topo.cc, getBcmGen, ncclTopoFlattenBcmSwitches).
fn flattened(system: &System, above: &[usize]) -> Vec<usize> {
    let broadcom = |at: usize| {
        let device = system.devices.get(at)?;
        (device.vendor? == 0x1000 && device.subsystem_vendor? == 0x1000)
            .then_some((device.device?, device.subsystem_device? >> 12))
    };
    let kept = above.iter().enumerate().filter(|(place, switch)| {
        let upper = above.get(place + 1).and_then(|upper| broadcom(*upper));
        !matches!(
            (broadcom(**switch), upper),
            (Some((0xc010, 0xa)), Some((0xc010, 0xa))) | (Some((0xc030, 1)), Some((0xc030, 0)))
        )
    });
    kept.map(|(_, switch)| *switch).collect()
}
