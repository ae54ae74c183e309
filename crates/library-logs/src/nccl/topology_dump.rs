//! The topology that NCCL prints of a node (GRAPH): its GPUs and NICs, their links, the paths between them.
//! Not a measurement: every figure is of NCCL's own model (its src/graph/topo.cc, `ncclTopoPrintRec`; paths.cc).

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::message::Origin;
use super::tally::keep;

/// The most hosts that are kept, devices of one print, and devices of all prints that have begun and not ended.
const MAX_HOSTS: usize = 512;
const MAX_DEVICES: usize = 1024;
const MAX_OPEN_DEVICES: usize = 1 << 16;

/// A node as one of its ranks printed it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TopologyDump {
    /// The rank's host, as NCCL prints it.
    pub host: String,
    /// The GPUs of the communicator on this node; of all hosts that NVLink joins with it.
    pub gpus: Vec<DumpedGpu>,
    /// The NICs' ports. A communicator within a node has none.
    pub nets: Vec<DumpedNet>,
}

/// A GPU of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DumpedGpu {
    /// Its bus number, with the system's number before it from 2.19 on: `0-1b000`.
    pub id: String,
    /// GB/s of its PCIe link, up to the switch that it shares or to the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<f64>,
    /// GB/s of all its NVLinks (xGMI links) to GPUs and switches together.
    pub nvlink: f64,
    /// Whether some of them end at a switch.
    pub switched: bool,
    /// The shortest path to a NIC, in NCCL's words: `PIX`, `PHB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_nic: Option<String>,
}

/// A NIC's port.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DumpedNet {
    /// The number of its system; 0 before 2.19.
    pub system: u64,
    /// GB/s of the port.
    pub rate: f64,
    /// GB/s of its NIC's PCIe link, up to the switch that it shares or to the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<f64>,
    /// Ports on this link.
    pub sharing: usize,
}

/// A rank: host, process, device.
type Rank = (String, u32, Option<u32>);

/// What has been read so far.
#[derive(Debug, Default)]
pub(super) struct TopologyDumps {
    /// Prints that have begun and not ended.
    open: HashMap<Rank, Tree>,
    open_devices: usize,
    by_host: BTreeMap<String, TopologyDump>,
    left_out: u64,
}

/// The lines of one print, as a tree.
#[derive(Debug, Default)]
struct Tree {
    devices: Vec<Device>,
    /// The devices that the next line may be under, each with the column at which its own begins.
    under: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Device {
    kind: &'static str,
    id: String,
    above: Option<usize>,
    /// GB/s of the link to what is above.
    link: f64,
    nvlink: f64,
    switched: bool,
    nets: Vec<f64>,
}

const KINDS: [&str; 5] = ["CPU", "PCI", "GPU", "NIC", "NVS"];

impl TopologyDumps {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, origin: Origin<'_>, text: &str, cut: bool) -> Option<()> {
        let column = text.len() - text.trim_start_matches(' ').len();
        let said = text.get(column..)?;
        let begins = said.starts_with("=== System : maxBw ");
        let ends = said.starts_with("======");
        let device = said.starts_with("+ ")
            || said.starts_with("NET/")
            || KINDS.iter().any(|kind| said.starts_with(kind));
        if cut || !(begins || ends || device) {
            return None;
        }
        let rank = (keep(origin.host), origin.pid, origin.device);
        if begins {
            self.close(&rank);
            if self.open_devices >= MAX_OPEN_DEVICES {
                self.left_out += 1;
            } else {
                // One without a device counts as one.
                self.open_devices += 1;
                self.open.insert(rank, Tree::default());
            }
            return Some(());
        }
        if ends {
            return self.close(&rank);
        }
        if let Some((device, paths)) = said.split_once(" :") {
            return self.by_host.get_mut(&rank.0)?.path(device, paths);
        }
        let tree = self.open.get_mut(&rank).filter(|_| self.open_devices < MAX_OPEN_DEVICES)?;
        let before = tree.devices.len();
        tree.line(column, said)?;
        self.open_devices += tree.devices.len() - before;
        Some(())
    }

    /// Keeps the print of a rank that ends: of a host, the one with the most GPUs.
    fn close(&mut self, rank: &Rank) -> Option<()> {
        let tree = self.open.remove(rank)?;
        self.open_devices = self.open_devices.saturating_sub(tree.devices.len() + 1);
        let dump = tree.finish(&rank.0);
        let known = self.by_host.get(&rank.0);
        if dump.gpus.is_empty() || known.is_some_and(|known| known.gpus.len() >= dump.gpus.len()) {
            return Some(());
        }
        if self.by_host.len() < MAX_HOSTS || known.is_some() {
            self.by_host.insert(rank.0.clone(), dump);
        } else {
            self.left_out += 1;
        }
        Some(())
    }

    /// One of each host, by its name.
    pub(super) fn finish(mut self, left_out: &mut u64) -> Vec<TopologyDump> {
        let mut ranks: Vec<_> = self.open.keys().cloned().collect();
        ranks.sort();
        for rank in &ranks {
            self.close(rank);
        }
        *left_out += self.left_out;
        self.by_host.into_values().collect()
    }
}

impl TopologyDump {
    /// `GPU/0-1b000 :GPU/0-1b000 (0/5000.0/LOC) NET/0-0 (3/24.0/PHB)`: the paths of one device, hops first.
    fn path(&mut self, device: &str, paths: &str) -> Option<()> {
        let Some(id) = device.strip_prefix("GPU/") else { return Some(()) };
        let gpu = self.gpus.iter_mut().find(|gpu| gpu.id == id)?;
        let mut words = paths.split_ascii_whitespace();
        let mut least: Option<(u32, &str)> = None;
        while let (Some(to), Some(path)) = (words.next(), words.next()) {
            let parts = path.trim_start_matches('(').trim_end_matches(')').split_once('/');
            let Some((hops, rest)) = parts.filter(|_| to.starts_with("NET/")) else { continue };
            let (Ok(hops), Some(word)) = (hops.parse(), rest.rsplit('/').next()) else { continue };
            if least.is_none_or(|(known, _)| hops < known) {
                least = Some((hops, word));
            }
        }
        gpu.to_nic = least.map(|(_, word)| keep(word)).or(gpu.to_nic.take());
        Some(())
    }
}

impl Tree {
    /// `CPU/0-0 (1/1/5)` at the beginning, `+ PCI[48.0] - NIC/0-1a000` and `+ NET[50.0] - NET/0-0 (…)` below it.
    fn line(&mut self, column: usize, said: &str) -> Option<()> {
        let Some(link) = said.strip_prefix("+ ") else {
            self.under.clear();
            return self.add(said, None, 0.0, column);
        };
        while self.under.last().is_some_and(|(begins, _)| *begins > column) {
            self.under.pop();
        }
        let (kind, rest) = link.split_once('[')?;
        let (rate, device) = rest.split_once("] - ")?;
        let rate: f64 = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)?;
        let (_, above) = *self.under.last()?;
        match kind {
            "PCI" => {
                let begins = column + said.len() - device.len();
                self.add(device, Some(above), rate, begins)?;
            }
            "NVL" | "XGMI" if device.starts_with("GPU/") || device.starts_with("NVS/") => {
                let gpu = self.devices.get_mut(above)?;
                gpu.nvlink += rate;
                gpu.switched |= device.starts_with("NVS/");
            }
            // Its rate in brackets has one decimal, the one behind it six.
            "NET" => {
                let exact =
                    device.trim_end().strip_suffix(')').and_then(|net| net.rsplit('/').next());
                let exact = exact.and_then(|exact| exact.parse().ok());
                let nic = self.devices.get_mut(above).filter(|nic| nic.nets.len() < MAX_DEVICES)?;
                nic.nets
                    .push(exact.filter(|exact: &f64| (exact - rate).abs() < 0.1).unwrap_or(rate));
            }
            // Between processors, and from a GPU to its processor.
            _ => {}
        }
        Some(())
    }

    fn add(&mut self, device: &str, above: Option<usize>, link: f64, begins: usize) -> Option<()> {
        let (kind, rest) = device.split_once('/')?;
        let kind = KINDS.into_iter().find(|known| *known == kind)?;
        let id = keep(rest.split([' ', '\t']).next()?);
        if self.devices.len() >= MAX_DEVICES {
            return None;
        }
        self.under.push((begins, self.devices.len()));
        let (nvlink, switched, nets) = (0.0, false, Vec::new());
        self.devices.push(Device { kind, id, above, link, nvlink, switched, nets });
        Some(())
    }

    fn finish(self, host: &str) -> TopologyDump {
        let mut dump = TopologyDump { host: host.to_owned(), ..TopologyDump::default() };
        for (at, device) in self.devices.iter().enumerate() {
            let pci = device.above.map(|_| self.narrowest(at));
            if device.kind == "GPU" {
                dump.gpus.push(DumpedGpu {
                    id: device.id.clone(),
                    pci,
                    nvlink: device.nvlink,
                    switched: device.switched,
                    to_nic: None,
                });
            }
            let system = device
                .id
                .split_once('-')
                .and_then(|(system, _)| u64::from_str_radix(system, 16).ok());
            dump.nets.extend(device.nets.iter().map(|rate| DumpedNet {
                system: system.unwrap_or(0),
                rate: *rate,
                slot: pci,
                sharing: device.nets.len(),
            }));
        }
        // The same GPU may stand under two processors' lines of other releases.
        dump.gpus.sort_by(|a, b| a.id.cmp(&b.id));
        dump.gpus.dedup_by(|a, b| a.id == b.id);
        dump
    }

    /// GB/s of the narrowest link from a device up to the switch that it shares with another one, or to the processor.
    fn narrowest(&self, device: usize) -> f64 {
        let mut least = f64::INFINITY;
        let mut at = device;
        // Whatever is above a device was printed before it.
        while let Some(Device { above: Some(above), link, .. }) = self.devices.get(at) {
            least = least.min(*link);
            let ends = |one: &Device| {
                one.above == Some(*above) && (one.kind != "PCI" || self.has_ends(one))
            };
            let others =
                self.devices.iter().enumerate().filter(|(other, one)| *other != at && ends(one));
            if self.devices.get(*above).is_none_or(|up| up.kind != "PCI") || others.count() > 0 {
                break;
            }
            at = *above;
        }
        least
    }

    /// Whether a GPU or a NIC is somewhere below a switch.
    fn has_ends(&self, switch: &Device) -> bool {
        let below = |one: &Device| {
            let mut above = one.above;
            while let Some(up) = above.and_then(|up| self.devices.get(up)) {
                if up.id == switch.id && up.kind == switch.kind {
                    return true;
                }
                above = up.above;
            }
            false
        };
        self.devices.iter().any(|one| one.kind != "PCI" && below(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(lines: &[&str]) -> Vec<TopologyDump> {
        let mut dumps = TopologyDumps::default();
        let origin = Origin { host: "n1", pid: 7, device: Some(0) };
        for line in lines {
            assert!(dumps.read(origin, line, false).is_some(), "{line}");
        }
        dumps.finish(&mut 0)
    }

    #[test]
    fn the_slot_of_a_nic_and_its_path() {
        let all = dumps(&[
            "=== System : maxBw 24.0 totalBw 24.0 ===",
            "CPU/1 (1/2/-1)",
            "+ SYS[5000.0] - CPU/0",
            "+ PCI[24.0] - GPU/81000 (0)",
            "+ PCI[12.0] - NIC/D1000",
            "              + NET[3.1] - NET/0 (7a852d0003f6ce75/1/3.125000)",
            "CPU/0 (1/2/-1)",
            "+ SYS[5000.0] - CPU/1",
            "==========================================",
            "GPU/81000 :GPU/81000 (0/5000.000000/LOC) CPU/1 (1/24.000000/PHB) NET/0 (3/12.000000/PHB) ",
            "NET/0 :GPU/81000 (3/12.000000/PHB) NET/0 (0/5000.000000/LOC) ",
        ]);
        let [dump] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((dump.host.as_str(), dump.gpus.len(), dump.nets.len()), ("n1", 1, 1));
        let gpu = &dump.gpus[0];
        assert_eq!((gpu.pci, gpu.nvlink, gpu.to_nic.as_deref()), (Some(24.0), 0.0, Some("PHB")));
        let net = DumpedNet { system: 0, rate: 3.125, slot: Some(12.0), sharing: 1 };
        assert_eq!(dump.nets, [net]);
    }

    #[test]
    fn switches_of_both_kinds() {
        let all = dumps(&[
            "=== System : maxBw 370.8 totalBw 370.8 ===",
            "CPU/0-0 (1/1/5)",
            "+ PCI[24.0] - PCI/0-19000 (1000c03010000000)",
            "              + PCI[48.0] - GPU/0-1b000 (0)",
            "                            + NVL[370.8] - NVS/0-0",
            "              + PCI[48.0] - NIC/0-1a000",
            "                            + NET[50.0] - NET/0-0 (0/4cbb47000303c09c/1/50.000000)",
            "                            + NET[50.0] - NET/0-1 (0/4cbb47000303c09c/2/50.000000)",
            // Its switch leads to nothing else.
            "+ PCI[24.0] - PCI/0-41000 (1000c03010000000)",
            "              + PCI[48.0] - GPU/0-43000 (1)",
            "                            + NVL[20.0] - GPU/0-1b000",
            "                            + NVL[40.0] - GPU/0-52000",
            "==========================================",
        ]);
        let gpus: Vec<_> =
            all[0].gpus.iter().map(|gpu| (gpu.pci, gpu.nvlink, gpu.switched)).collect();
        assert_eq!(gpus, [(Some(48.0), 370.8, true), (Some(24.0), 60.0, false)]);
        let nets: Vec<_> = all[0].nets.iter().map(|net| (net.slot, net.sharing)).collect();
        assert_eq!(nets, [(Some(48.0), 2), (Some(48.0), 2)]);
    }

    #[test]
    fn what_is_of_no_print_is_left_alone() {
        let mut dumps = TopologyDumps::default();
        let origin = Origin { host: "n1", pid: 7, device: None };
        for text in
            ["CPU/0-0 (1/1/5)", "+ PCI[1.0] - GPU/0-1 (0)", "NET/IB : Using", "Connected all rings"]
        {
            assert_eq!(dumps.read(origin, text, false), None, "{text}");
        }
        assert!(dumps.read(origin, "=== System : maxBw 1.0 totalBw 1.0 ===", false).is_some());
        // Another process's, a cut one, and one that is damaged.
        let other = Origin { pid: 8, ..origin };
        assert_eq!(dumps.read(other, "CPU/0-0 (1/1/5)", false), None);
        assert_eq!(dumps.read(origin, "CPU/0-0 (1/1/5)", true), None);
        assert_eq!(dumps.read(origin, "+ PCI[x] - GPU/0-1 (0)", false), None);
        assert!(dumps.finish(&mut 0).is_empty(), "a print without a GPU is none");
    }
}
