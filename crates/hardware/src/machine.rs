//! A machine as far as limits need it: alike nodes, their GPUs and NICs, and what joins them.
//! Not the tree of devices of one host (`topology`), and not what was measured on it.
//!
//! What is not known is `None`, so that a limit can say what it lacks instead of guessing.

use serde::{Deserialize, Serialize};

pub mod file;
pub mod models;
pub mod pcie;
pub mod ready;

pub use file::{BadMachineFile, parse, write};
pub use pcie::PcieLink;
pub use ready::ready;

/// `nodes` hosts that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// What people call it.
    pub name: String,
    /// Hosts.
    pub nodes: usize,
    /// One of them.
    pub node: Node,
    /// Whether the switches between nodes reduce (SHARP).
    pub sharp: Option<bool>,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// GPUs; 0 where ranks are processes on processors.
    pub gpus: usize,
    /// Their model.
    pub gpu: Option<GpuModel>,
    /// NVLink, `None` where there is none. A machine whose NVLink is there but not known has one
    /// with `links: None`.
    pub nvlink: Option<NvLink>,
    /// The PCIe link of each GPU, at its narrowest place up to the root or the shared switch.
    pub pcie: Option<PcieLink>,
    /// The processors.
    pub cpu: Option<Cpu>,
    /// The NICs that carry traffic between nodes, in groups that are alike.
    pub nics: Vec<Nics>,
}

/// A GPU's model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuModel {
    /// Such as `H100 SXM` or what NVML says.
    pub name: String,
    /// Compute capability × 10, such as 90.
    pub sm: Option<u32>,
}

/// NVLink of each GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NvLink {
    /// Links a GPU. Unknown, the model's full count is assumed, and the limit says so.
    pub links: Option<u32>,
    /// GB/s of one link in one direction, line rate (NVLink 3 and 4: 25, NVLink 5: 50).
    pub line: Option<f64>,
    /// Whether the links end in NVSwitches, so that any pair of GPUs has all of them.
    pub switched: bool,
    /// Without switches: whether every pair of GPUs has links of its own. Where it is unknown, some
    /// pairs may reach each other over PCIe only.
    pub meshed: Option<bool>,
    /// Whether the switches multicast and reduce (NVLink SHARP, which NVLS needs).
    pub multicast: Option<bool>,
    /// GPUs in one NVLink domain: `Node::gpus`, or more where it spans nodes (MNNVL).
    pub domain: usize,
}

/// The processors of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Who made them: NCCL's constants depend on it.
    pub vendor: CpuVendor,
    /// Sockets.
    pub sockets: Option<usize>,
    /// GB/s between two sockets in one direction, line rate.
    pub between_sockets: Option<f64>,
}

/// Who made a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuVendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Arm's architecture: Grace, Graviton.
    Arm,
    /// Zhaoxin.
    Zhaoxin,
    /// IBM POWER.
    Power,
}

/// NICs of a node that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nics {
    /// How many; a port of a NIC with two ports counts as one.
    pub count: usize,
    /// Gb/s of one, line rate of one direction.
    pub rate: Option<f64>,
    /// What its packets are.
    pub kind: NicKind,
    /// InfiniBand and RoCE: the path MTU in bytes of payload; Ethernet: the interface's MTU.
    pub mtu: Option<u32>,
    /// The PCIe link that it sits on, at its narrowest place up to the root or the GPU's switch.
    pub slot: Option<PcieLink>,
    /// How many of these NICs (ports, functions) share one slot.
    pub sharing: usize,
}

/// What a NIC's packets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NicKind {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Ethernet and UDP (RoCEv2).
    Roce,
    /// TCP by sockets.
    Ethernet,
}

impl Machine {
    /// Two hosts with one NIC each and nothing else that is known: what two ports send to each other.
    pub fn of_ports(name: &str, nics: Nics) -> Machine {
        let node =
            Node { gpus: 0, gpu: None, nvlink: None, pcie: None, cpu: None, nics: vec![nics] };
        Machine { name: name.to_owned(), nodes: 2, node, sharp: None }
    }

    /// Ranks that fill it, one for each GPU.
    pub fn gpus(&self) -> usize {
        self.nodes * self.node.gpus
    }

    /// What its GPUs' own links are called: AMD's are no NVLinks, though they are counted as such.
    pub fn links_called(&self) -> &'static str {
        let name = self.node.gpu.as_ref().map_or("", |gpu| gpu.name.as_str());
        if is_amd(name) { "xGMI" } else { "NVLink" }
    }
}

/// Whether a GPU's name is one of AMD's: `AMD Instinct MI300X`, `MI250`, `gfx942`.
pub fn is_amd(name: &str) -> bool {
    let mut words = name.split_ascii_whitespace();
    words.any(|word| {
        let numbered = |begin| {
            word.strip_prefix(begin)
                .is_some_and(|rest: &str| rest.starts_with(|digit: char| digit.is_ascii_digit()))
        };
        matches!(word, "AMD" | "Instinct" | "Radeon") || numbered("MI") || numbered("gfx")
    })
}

impl NicKind {
    /// Every kind.
    pub const ALL: [NicKind; 3] = [NicKind::InfiniBand, NicKind::Roce, NicKind::Ethernet];

    /// As a machine file says it.
    pub const fn name(self) -> &'static str {
        match self {
            NicKind::InfiniBand => "infiniband",
            NicKind::Roce => "roce",
            NicKind::Ethernet => "ethernet",
        }
    }

    /// Whether NCCL uses it without sockets; it then prefers it whatever the sockets' speed.
    pub const fn rdma(self) -> bool {
        !matches!(self, NicKind::Ethernet)
    }
}
