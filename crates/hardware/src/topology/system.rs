//! The tree of one host: processors, PCI devices below them, GPUs and NICs on these, and their links.
//! Not where it was read from, and no judgement.

use serde::{Deserialize, Serialize};

use super::{Ends, PcieReading};

/// One host. Devices come after their parents, so that iterating over them walks down the tree.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct System {
    /// Form of the XML that it belongs to: 1 NCCL, 2 RCCL.
    pub version: u32,
    /// Its name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Processors, one a NUMA node.
    pub cpus: Vec<Cpu>,
    /// PCI switches, GPUs, NICs and other functions.
    pub devices: Vec<Device>,
}

/// A NUMA node and its cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// NUMA node; -1 where the machine does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<i32>,
    /// The socket that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u32>,
    /// Its cores as a hexadecimal mask, 32 bits between commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// x86_64, arm64, ppc64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// GenuineIntel, AuthenticAMD and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// As the processor numbers itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<i64>,
    /// See `family`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<i64>,
    /// Which host it is, where a file holds several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_hash: Option<u64>,
    /// Network interfaces without a PCI device: bridges, interfaces of virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<Net>,
}

/// The parent of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parent {
    /// A processor, by its index in [`System::cpus`].
    Cpu(usize),
    /// A PCI switch, by its index in [`System::devices`].
    Device(usize),
}

/// A PCI function, or a switch: its upstream port stands for all of it, as NCCL has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Domain, bus, device, function: 0000:3b:00.0.
    pub address: String,
    /// Its parent.
    pub parent: Parent,
    /// Class, subclass, interface: 0x030200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// Who made the chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<u16>,
    /// Which chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u16>,
    /// Who made the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem_vendor: Option<u16>,
    /// Which card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem_device: Option<u16>,
    /// Its link to its parent, at both ends.
    pub link: Ends,
    /// The host bridge above it, such as pci0000:3a.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bridge: Option<String>,
    /// Switches that it is joined to beside the tree, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// The GPU that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// Network interfaces that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<Net>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gpu {
    /// The driver's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Product name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Compute capability × 10: 90. In RCCL's files: compute units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm: Option<u32>,
    /// AMD's name of its kind, such as gfx942.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcn: Option<String>,
    /// RCCL's number of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<u64>,
    /// NCCL's rank on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Whether NICs can reach its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gdr: Option<bool>,
    /// NVLinks and xGMI, bundled by what they lead to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<GpuLink>,
    /// NVLink generation, where the driver says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_version: Option<u32>,
    /// Links that it has, up or not, where the driver says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_in_all: Option<u32>,
    /// NVLink to its own processor: MB/s of one of them, and how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c2c: Option<(u32, u32)>,
    /// Registration with the NVLink fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
}

/// A GPU's registration in an NVLink fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// not-supported, not-started, in-progress, completed, failed.
    pub state: String,
    /// The cluster's number, hexadecimal; none within one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Which GPUs of the cluster reach each other.
    pub clique: u32,
}

/// What joins GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuLinkKind {
    /// NVIDIA's.
    NvLink,
    /// AMD's.
    Xgmi,
}

/// Links of one GPU to one other chip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLink {
    /// NVLink or xGMI.
    pub kind: GpuLinkKind,
    /// PCI address of the other end.
    pub target: String,
    /// Number of links.
    pub count: u32,
    /// PCI class of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
}

/// What is at the other end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A GPU.
    Gpu,
    /// An NVSwitch.
    Switch,
    /// A processor.
    Cpu,
    /// Not known.
    Unknown,
}

impl GpuLink {
    /// What it leads to, by the class of the other end: 0x0680 is an NVSwitch, with interface 1 a
    /// processor (NCCL 2.30.7, src/graph/topo.cc, ncclTopoAddNvLinks).
    pub const fn leads_to(&self) -> Target {
        match self.class {
            Some(0x06_8000) => Target::Switch,
            Some(0x06_8001) => Target::Cpu,
            Some(class) if class >> 16 == 0x03 || class >> 16 == 0x12 => Target::Gpu,
            _ => Target::Unknown,
        }
    }
}

/// The protocol of a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetKind {
    /// InfiniBand.
    Infiniband,
    /// RDMA over Ethernet.
    Roce,
    /// Ethernet by the kernel's sockets.
    Socket,
}

/// A port's state, as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortState {
    /// ACTIVE, INIT, DOWN; up, down for Ethernet.
    pub logical: String,
    /// LinkUp, Polling, Disabled; nothing for Ethernet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub physical: String,
}

impl PortState {
    /// Whether traffic can go through it.
    pub fn is_up(&self) -> bool {
        matches!(self.logical.as_str(), "ACTIVE" | "up" | "unknown")
    }
}

/// A network interface or a port of one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Net {
    /// mlx5_0, eth0.
    pub name: String,
    /// NCCL's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<u32>,
    /// Line rate of one direction, Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbps: Option<u32>,
    /// Port; 0 of what has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// The adapter's number, which its ports share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<u64>,
    /// Latency that NCCL assumes, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
    /// Maximum of connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maxconn: Option<u32>,
    /// Whether it can reach GPU memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gdr: Option<bool>,
    /// Whether the network reduces (SHARP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coll: Option<bool>,
    /// Its protocol, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<NetKind>,
    /// Its state, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PortState>,
    /// Largest packet: RDMA's MTU, or the interface's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// The fastest port that is announced, Mb/s: 1600 Gb/s (NVIDIA ConnectX-9); those that are sold have 800 (ConnectX-8).
const FASTEST_PORT_MBPS: u32 = 1_600_000;

impl Net {
    /// Mb/s, unless no port is so fast: then the file is wrong. Ports that NCCL merges have their names joined by `+`.
    pub fn plausible_mbps(&self) -> Option<u32> {
        let ports = u32::try_from(self.name.split('+').count()).unwrap_or(u32::MAX);
        self.mbps.filter(|mbps| *mbps <= FASTEST_PORT_MBPS.saturating_mul(ports))
    }

    /// GB/s of one direction, unless no port is so fast.
    pub fn line(&self) -> Option<f64> {
        self.plausible_mbps().map(|mbps| f64::from(mbps) / 8000.0)
    }
}

impl Device {
    /// Whether it is a GPU: said to be one, or a template's place for one (display, accelerator).
    pub fn is_gpu(&self) -> bool {
        self.gpu.is_some()
            || self.nets.is_empty() && matches!(self.class.map(|c| c >> 16), Some(0x03 | 0x12))
    }

    /// Whether it is a network adapter: with interfaces, or a template's place for one.
    pub fn is_nic(&self) -> bool {
        !self.nets.is_empty()
            || self.gpu.is_none() && matches!(self.class.map(|c| c >> 16), Some(0x02))
    }

    /// Whether it is a bridge or switch.
    pub fn is_switch(&self) -> bool {
        self.class.map(|class| class >> 16) == Some(0x06)
    }

    /// The slot: its address without the function.
    pub fn slot(&self) -> &str {
        self.address.rsplit_once('.').map_or(&self.address, |(slot, _)| slot)
    }

    /// Its link under load, as far as that is known: as it is now, or where that is hidden, the better
    /// of what both ends can have. GPUs and switches lower the speed of an idle link, so that of them
    /// only the lanes count.
    pub fn reading(&self) -> PcieReading {
        let Some(best) = self.link.best() else { return self.link.now };
        match self.link.now.link() {
            None => best.into(),
            Some(now) if self.is_gpu() || self.is_switch() => {
                PcieReading { generation: Some(best.generation), width: Some(now.width) }
            }
            Some(now) => now.into(),
        }
    }
}

impl System {
    /// Switches above a device, the nearest first.
    pub fn above(&self, device: usize) -> Vec<usize> {
        let mut above = Vec::new();
        let mut at = device;
        while let Some(Parent::Device(up)) = self.devices.get(at).map(|device| device.parent) {
            // What a device hangs on stands before it; anything else would be a circle.
            if up >= at {
                break;
            }
            above.push(up);
            at = up;
        }
        above
    }

    /// The processor above a device, directly or through switches.
    pub fn cpu(&self, device: usize) -> Option<usize> {
        let top = self.above(device).last().copied().unwrap_or(device);
        match self.devices.get(top)?.parent {
            Parent::Cpu(cpu) => Some(cpu),
            Parent::Device(_) => None,
        }
    }

    /// The host of a device. NCCL joins the files of all hosts that NVLink joins (MNNVL).
    pub fn host(&self, device: usize) -> Option<u64> {
        self.cpus.get(self.cpu(device)?)?.host_hash
    }

    /// Number of hosts that the file holds.
    pub fn hosts(&self) -> usize {
        let mut hosts: Vec<_> = self.cpus.iter().map(|cpu| cpu.host_hash).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len().max(1)
    }

    /// A device by its address.
    pub fn find(&self, address: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.address == address)
    }

    /// GPUs, in the order of their numbers; those of templates in the order of the file.
    pub fn gpus(&self) -> Vec<usize> {
        let mut gpus: Vec<usize> =
            (0..self.devices.len()).filter(|d| self.devices[*d].is_gpu()).collect();
        gpus.sort_by_key(|d| self.devices[*d].gpu.as_ref().and_then(|gpu| gpu.index));
        gpus
    }

    /// Every network interface on a PCI device, as (device, place in its `nets`), by NCCL's number.
    pub fn nets(&self) -> Vec<(usize, usize)> {
        let each = self.devices.iter().enumerate();
        let mut nets: Vec<(usize, usize)> =
            each.flat_map(|(d, device)| (0..device.nets.len()).map(move |n| (d, n))).collect();
        nets.sort_by_key(|(d, n)| self.devices[*d].nets[*n].dev);
        nets
    }

    /// Network interfaces without a PCI device, each name once.
    pub fn virtual_nets(&self) -> Vec<&Net> {
        let mut nets: Vec<&Net> = Vec::new();
        for net in self.cpus.iter().flat_map(|cpu| &cpu.nets) {
            if !nets.iter().any(|known| known.name == net.name) {
                nets.push(net);
            }
        }
        nets
    }

    /// The usual name of a GPU: GPU0; by its index where it has no number.
    pub fn gpu_name(&self, device: usize) -> String {
        let number = self.devices.get(device).and_then(|device| device.gpu.as_ref()?.index);
        match number {
            Some(index) => format!("GPU{index}"),
            None => {
                let place = self.gpus().iter().position(|gpu| *gpu == device).unwrap_or(0);
                format!("GPU{place}")
            }
        }
    }
}
