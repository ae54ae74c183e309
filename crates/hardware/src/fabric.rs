//! A fabric: alike hosts, and the tiers of switches between them, as a folded Clos (fat tree).
//! Not what a collective takes on it (`forecast`), and not its packets.
//!
//! From the hosts up: every NIC has one port on each of `planes` planes, which are alike and apart. In a plane, hosts that
//! share their leaf switches are a block; a block has one leaf for each rail. Blocks that share their second tier are a pod.
//! Where an NVLink domain spans several hosts, the domain stands wherever a host is named here, but for `Fabric`'s own fields: it
//! is an island, whose GPUs exchange nothing over the fabric.

use crate::machine::{Machine, Nics};

pub mod alike;
pub mod failure;
pub mod file;
pub mod layout;
pub mod links;
pub mod picture;
pub mod ready;
pub mod shape;

pub use alike::{Alike, alike};
pub use failure::{BadFailure, Failure, Part, Parts};
pub use file::{BadFabricFile, parse};
pub use links::{Balance, Built, Lost, Port};
pub use ready::example;
pub use shape::{LinkClass, Shape};

/// A fabric as it is written, with everything that was left out filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// What people call it.
    pub name: String,
    /// A host: `Machine::nodes` is not read.
    pub machine: Machine,
    /// Number of hosts.
    pub hosts: usize,
    /// Leaf switches that the NICs of a host are spread over, in each plane.
    pub rails: usize,
    /// Planes that the ports of a NIC are spread over.
    pub planes: usize,
    /// From the hosts up; the last has no uplinks.
    pub tiers: Vec<Tier>,
    /// How switches choose among equal paths.
    pub routing: Routing,
}

/// The switches of one tier, all alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// Its name, such as `leaf`.
    pub name: String,
    /// Ports of a switch.
    pub ports: usize,
    /// Ports to the tier below.
    pub down: usize,
    /// Ports to the tier above.
    pub up: usize,
    /// Gb/s of a link to the tier below, line rate of one direction.
    pub rate: f64,
    /// Bytes of packet buffer of a switch.
    pub buffer: Option<u64>,
    /// Microseconds that a packet takes through a switch.
    pub latency_us: f64,
    /// Metres of the cables to the tier below.
    pub cable_m: f64,
    /// Switches that the uplinks of one switch below are spread over; where unsaid, the fewest that suffice.
    pub spread: Option<usize>,
}

/// How switches choose among equal paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Every packet by itself, or adaptively: all paths carry the same.
    Spray,
    /// By a hash of each connection's header, which stays on its path.
    Ecmp,
}

/// Microseconds of light in a metre of fibre or copper: 5 ns (IEEE 802.1Qbb, annex O: 5 ns/m is its own worked figure).
pub const CABLE_US_PER_M: f64 = 0.005;

/// The NICs of an island as the fabric sees them.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Lanes {
    /// Groups of NICs that serve the same GPUs, numbered as GPUs are: lane i serves the i-th part of them.
    pub count: usize,
    /// NICs of each.
    pub nics: usize,
    /// GB/s of data of each in one direction, less framing, or of its PCIe slots where these are narrower.
    pub payload: f64,
    /// Share of a link's line rate that is left for data.
    pub framing: f64,
    /// Whether the PCIe slots, not the NICs, are the narrower ones.
    pub by_slot: bool,
}

impl Fabric {
    /// Hosts of an island: those of an NVLink domain, or one.
    pub fn hosts_per_island(&self) -> usize {
        let domain = self.machine.node.nvlink.as_ref().map_or(0, |nvlink| nvlink.domain);
        (domain / self.machine.node.gpus.max(1)).max(1)
    }

    /// Islands; the last may lack hosts, which `Shape::of` refuses.
    pub fn islands(&self) -> usize {
        self.hosts.div_ceil(self.hosts_per_island())
    }

    /// What people call an island.
    pub fn island(&self) -> &'static str {
        if self.hosts_per_island() > 1 { "NVLink domain" } else { "host" }
    }

    /// GPUs of an island.
    pub fn gpus_per_island(&self) -> usize {
        self.machine.node.gpus.saturating_mul(self.hosts_per_island())
    }

    /// GPUs of all hosts.
    pub fn gpus(&self) -> usize {
        self.hosts.saturating_mul(self.machine.node.gpus)
    }

    /// The NICs that carry traffic between hosts: RDMA where there is any, as NCCL prefers it.
    pub fn nics(&self) -> Option<&Nics> {
        nics(&self.machine)
    }

    /// The NICs of an island in groups; `None` where a host has no NIC of known rate, or no GPU.
    pub fn lanes(&self) -> Option<Lanes> {
        let of_host = lanes(&self.machine)?;
        Some(Lanes { count: of_host.count.saturating_mul(self.hosts_per_island()), ..of_host })
    }

    /// Gb/s of a NIC's port.
    pub fn port_rate(&self) -> Option<f64> {
        Some(self.nics()?.rate? / self.planes as f64)
    }
}

/// See `Fabric::nics`.
pub(crate) fn nics(machine: &Machine) -> Option<&Nics> {
    let all = || machine.node.nics.iter().filter(|nics| nics.count > 0);
    all().find(|nics| nics.kind.rdma()).or_else(|| all().next())
}

/// See `Fabric::lanes`.
pub(crate) fn lanes(machine: &Machine) -> Option<Lanes> {
    let nics = nics(machine)?;
    let line = crate::limits::framing::line(nics)?;
    if machine.node.gpus == 0 {
        return None;
    }
    // What is not known of packets is not subtracted, as in `limits`.
    let payload = crate::limits::framing::payload(nics).unwrap_or(line);
    let slot = nics
        .slot
        .map(|slot| slot.payload().unwrap_or_else(|| slot.line()) / nics.sharing.max(1) as f64);
    let count = greatest_divisor(nics.count, machine.node.gpus);
    let each = nics.count / count;
    Some(Lanes {
        count,
        nics: each,
        payload: payload.min(slot.unwrap_or(f64::INFINITY)) * each as f64,
        framing: payload / line,
        by_slot: slot.is_some_and(|slot| slot < payload),
    })
}

fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

impl Routing {
    /// As a file says it.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::Spray => "spray",
            Routing::Ecmp => "ecmp",
        }
    }
}
