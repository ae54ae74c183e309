//! A guess of the graphs that NCCL's search would find on a machine, from its lists of speeds.
//! Not the search itself: a log's `Pattern …` lines are what it really found, and come first.
//!
//! The search (src/graph/search.cc) tries speeds from the highest that a link allows, and keeps the
//! first number of channels whose sum no lower speed beats; then it splits wide channels in two.

use super::communicator::{Communicator, Graph, Graphs, Version};
use super::speeds;
use crate::limits::RankPlacement;
use crate::limits::resource::{nvlink_links, sm};
use crate::machine::Machine;
use crate::topology::NcclPath;

/// A guess, and what it was made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// The communicator.
    pub communicator: Communicator,
    /// What was guessed, in words.
    pub guessed: Vec<String>,
}

/// Guesses the communicator of a run.
///
/// # Errors
/// The names of the facts that are missing.
pub fn infer(
    machine: &Machine,
    placement: &RankPlacement,
    version: Version,
) -> Result<Inferred, Vec<String>> {
    let node = &machine.node;
    let mut missing = Vec::new();
    let capability = node.gpu.as_ref().and_then(sm);
    if capability.is_none() {
        missing.push("compute capability of the GPU".to_owned());
    }
    let total = match (
        &node.nvlink,
        nvlink_links(machine),
        capability.and_then(|sm| speeds::link(version, sm)),
    ) {
        (Some(_), Some(links), Some(each)) => Some((f64::from(links) * each) as f32),
        (Some(_), _, _) => None,
        (None, _, _) => node.pcie.map(|link| link.nccl() as f32),
    };
    if total.is_none() {
        missing.push("links of the GPU".to_owned());
    }
    let Some(islands) = placement.islands(machine) else {
        missing.push("ranks that fill NVLink domains or nodes alike".to_owned());
        return Err(missing);
    };
    let several = islands.count > 1;
    let nic = node.nics.iter().find_map(|nics| {
        let slot = nics.slot.map_or(f64::INFINITY, |slot| slot.nccl() / nics.sharing.max(1) as f64);
        nics.rate.map(|rate| ((rate / 8.0).min(slot) as f32, nics.count))
    });
    if several && nic.is_none() {
        missing.push("rate of a NIC".to_owned());
    }
    let (Some(capability), Some(total), true) = (capability, total, missing.is_empty()) else {
        return Err(missing);
    };
    let search = Search { sm: capability, total, ranks: islands.ranks, version };
    let switched = node.nvlink.as_ref().is_some_and(|nvlink| nvlink.switched);
    let nvls = switched
        && capability >= 90
        && islands.ranks > 1
        && node.nvlink.as_ref().is_some_and(|nvlink| nvlink.multicast != Some(false));
    let joined = if node.nvlink.is_some() { NcclPath::Nvl } else { NcclPath::Phb };
    let (ring, tree, switch) = match nic {
        Some(nic) if several => search.between(nic, islands.nodes, joined),
        _ => search.within(joined),
    };
    let nvls_graph = if nvls { switch } else { Graph::NONE };
    let mut channels =
        (2 * ring.channels.min(tree.channels)).min(2 * speeds::most_channels(version));
    if capability >= 90 && several && ring.bw_intra > 45.0 && channels < 16 {
        channels *= 2;
    }
    let nvls_channels = if nvls { speeds::nvls_channels(version, capability, several) } else { 0 };
    let communicator = Communicator {
        version,
        nodes: islands.count,
        ranks: placement.ranks(),
        sm: capability,
        mixed_sm: false,
        cpu: node.cpu.as_ref().map(|cpu| cpu.vendor),
        mixed_cpu: false,
        channels: channels.max(nvls_channels),
        nvls_channels,
        nvswitch: switched,
        nvls,
        collnet: None,
        graphs: Graphs {
            ring,
            tree,
            plain_tree: islands.ranks == 1,
            collnet_direct: Graph::NONE,
            collnet_chain: Graph::NONE,
            nvls: nvls_graph,
        },
    };
    let mut guessed = vec![format!(
        "{} ring channels of {} GB/s from NCCL's lists of speeds; NCCL_DEBUG_SUBSYS=GRAPH says them",
        ring.channels, ring.bw_intra
    )];
    if node.nvlink.as_ref().is_some_and(|nvlink| nvlink.multicast.is_none()) && nvls {
        guessed.push("NVLink multicast is on".to_owned());
    }
    if several && node.cpu.is_none() {
        guessed.push("processors are not AMD's".to_owned());
    }
    Ok(Inferred { communicator, guessed })
}

struct Search {
    sm: u32,
    /// GB/s of a GPU's links together.
    total: f32,
    /// Ranks of an island.
    ranks: usize,
    version: Version,
}

/// Part of a speed below which the search tries no further.
const WORTH_TRYING: f32 = 0.49;

impl Search {
    /// Ring, tree and NVLS of a single island.
    fn within(&self, joined: NcclPath) -> (Graph, Graph, Graph) {
        let speeds = speeds::within(self.version, self.sm);
        let most = speeds::most_channels(self.version);
        let (channels, speed) =
            self.best(&speeds, self.total, |speed| ((self.total / speed) as u32).min(most));
        let (channels, speed) = self.split(channels, speed);
        let ring = self.graph(channels, speed, joined);
        // A chain leaves the links of its ends free, and has as many channels as the ring.
        let chain = self.total * self.ranks as f32 / (self.ranks as f32 - 1.0);
        let fits = |speed: &&f32| **speed * channels as f32 <= chain * 1.0001;
        let tree = speeds.iter().find(fits).copied().unwrap_or(speed);
        // NVLS pulls evenly from every GPU.
        let heads = (self.ranks as u32).min(32);
        let pulls = |speed: &&f32| **speed * heads as f32 <= self.total;
        let nvls = match speeds.iter().find(pulls) {
            // Nothing holds the speed between nodes where there is one: it is raised to twice.
            Some(&speed) => {
                let raised = speeds.iter().rev().filter(|next| **next > speed);
                let inter =
                    raised.fold(speed, |at, &next| if at < 2.0 * speed { next } else { at });
                Graph { bw_inter: inter, ..self.graph(heads, speed, joined) }
            }
            None => Graph::NONE,
        };
        (ring, self.graph(channels, tree, joined), nvls)
    }

    /// The same for several islands of `nodes` nodes, by NICs of (GB/s, number a node).
    fn between(&self, nic: (f32, usize), nodes: usize, joined: NcclPath) -> (Graph, Graph, Graph) {
        let speeds = speeds::between(self.version, self.sm);
        let (rate, count) = (nic.0, (nic.1 * nodes) as f32);
        // With a NIC for each GPU rings leave in turn, and NVLink carries all but one part.
        let inside = match self.ranks as f32 {
            1.0 => f32::INFINITY,
            ranks if count >= ranks => self.total * ranks / (ranks - 1.0),
            _ => self.total,
        };
        let most = speeds::most_channels(self.version);
        let of = |speed: f32| {
            let by_nic = ((rate / speed * 1.0001) as u32).saturating_mul(count as u32);
            by_nic.min((inside / speed).min(1e6) as u32).min(most)
        };
        let (channels, speed) = self.best(&speeds, rate, of);
        let (channels, speed) = self.split(channels, speed);
        let joined = if self.ranks == 1 { NcclPath::Loc } else { joined };
        let graph = self.graph(channels, speed, joined);
        // Two nodes' trees may be faster inside than between.
        let faster = |next: &&f32| {
            **next > speed && **next < speed * 2.0 && **next * channels as f32 <= inside.min(1e6)
        };
        let tree = speeds.iter().rev().find(faster).copied().unwrap_or(speed);
        // NVLS pulls evenly from every GPU, and each head has its part of the NICs.
        let heads = (self.ranks as u32).min(32);
        let share = rate.min(rate * count / heads as f32).min(self.total / heads as f32);
        let nvls = match speeds.iter().find(|speed| **speed <= share) {
            Some(&speed) => self.graph(heads, speed, joined),
            None => Graph::NONE,
        };
        (graph, Graph { bw_intra: tree, ..graph }, nvls)
    }

    fn best(&self, speeds: &[f32], most: f32, channels: impl Fn(f32) -> u32) -> (u32, f32) {
        let mut best: Option<(u32, f32)> = None;
        for &speed in speeds.iter().filter(|speed| **speed <= most) {
            match best {
                Some((_, found)) if speed / found <= WORTH_TRYING => break,
                Some((count, found)) if channels(speed) as f32 * speed <= count as f32 * found => {}
                _ => {
                    let count = channels(speed);
                    if count > 0 {
                        best = Some((count, speed));
                    }
                }
            }
        }
        // NCCL's own way out: one slow channel.
        best.unwrap_or((1, 0.1))
    }

    /// Channels of 25 GB/s and more become two of half of it, on Hopper and later from 50 GB/s or
    /// where there are few (`ncclTopoDupChannels`).
    fn split(&self, channels: u32, speed: f32) -> (u32, f32) {
        if speed < 25.0 || self.sm > 80 && speed < 50.0 && channels > 4 {
            return (channels, speed);
        }
        let more = (2 * channels).min(speeds::most_channels(self.version));
        (more, speed / more.div_ceil(channels) as f32)
    }

    fn graph(&self, channels: u32, speed: f32, joined: NcclPath) -> Graph {
        Graph {
            channels,
            bw_intra: speed,
            bw_inter: speed,
            type_intra: joined,
            type_inter: NcclPath::Pix,
            same_channels: true,
            latency_inter: 0.0,
        }
    }
}
