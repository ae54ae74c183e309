//! Where the ranks of a run are on a machine, and which of them share an NVLink domain.
//! Not how a launcher places them.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Where ranks are: `per_node` on each of `nodes`, neighbours on one node first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlacement {
    /// Nodes that hold ranks.
    pub nodes: usize,
    /// Ranks on each.
    pub per_node: usize,
    /// How ranks of one node reach each other.
    pub inside: Inside,
    /// Where their buffers are.
    pub memory: Memory,
    /// Whether TCP sockets carry what goes by the network, though the machine has RDMA NICs.
    pub sockets: bool,
    /// NICs of a node that are used, where fewer than it has (NCCL_IB_HCA).
    pub nics: Option<usize>,
}

/// How ranks of one node reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inside {
    /// By the best that the machine has: NVLink, or else PCIe.
    Best,
    /// Through host memory (NCCL_P2P_DISABLE): over each GPU's PCIe link.
    HostMemory,
    /// By the network (NCCL_P2P_DISABLE and NCCL_SHM_DISABLE): RDMA NICs, or sockets, whose bytes stay
    /// in the host (interface `lo`).
    Network,
}

/// Where buffers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// In the GPUs.
    Gpu,
    /// In the host.
    Host,
}

impl RankPlacement {
    /// `per_node` ranks with GPU buffers on each of `nodes`.
    pub const fn new(nodes: usize, per_node: usize) -> RankPlacement {
        RankPlacement {
            nodes,
            per_node,
            inside: Inside::Best,
            memory: Memory::Gpu,
            sockets: false,
            nics: None,
        }
    }

    /// `ranks` that fill a machine's nodes one after the other. `None` where they would not be
    /// alike: more than there are GPUs, or a last node with fewer.
    pub fn filling(machine: &Machine, ranks: usize) -> Option<RankPlacement> {
        let gpus = machine.node.gpus.max(1);
        let nodes = ranks.div_ceil(gpus);
        let even = nodes > 0 && nodes <= machine.nodes && ranks.is_multiple_of(nodes);
        even.then(|| RankPlacement::new(nodes, ranks / nodes))
    }

    /// Ranks in all.
    pub const fn ranks(&self) -> usize {
        self.nodes.saturating_mul(self.per_node)
    }

    /// Nodes whose GPUs share an NVLink domain; 1 where NVLink ends at the node.
    pub fn nodes_joined(&self, machine: &Machine) -> usize {
        self.islands(machine).map_or(1, |islands| islands.nodes)
    }

    /// The groups of nodes that share an NVLink domain, or single nodes.
    pub(crate) fn islands(&self, machine: &Machine) -> Option<Islands> {
        let node = &machine.node;
        let spans = match &node.nvlink {
            Some(nvlink) if self.inside == Inside::Best && self.memory == Memory::Gpu => {
                (nvlink.domain / node.gpus.max(1)).max(1)
            }
            _ => 1,
        };
        let nodes = spans.min(self.nodes);
        let count = self.nodes.div_ceil(nodes.max(1));
        (nodes > 0 && self.per_node > 0 && self.nodes.is_multiple_of(nodes)).then(|| Islands {
            count,
            nodes,
            ranks: nodes.saturating_mul(self.per_node),
        })
    }
}

/// Alike groups of ranks within which no NIC is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Islands {
    /// Groups.
    pub count: usize,
    /// Nodes of each.
    pub nodes: usize,
    /// Ranks of each.
    pub ranks: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Node, NvLink};

    fn machine(nodes: usize, gpus: usize, domain: usize) -> Machine {
        let nvlink = NvLink {
            links: Some(18),
            line: Some(50.0),
            switched: true,
            meshed: None,
            multicast: None,
            domain,
        };
        let node =
            Node { gpus, gpu: None, nvlink: Some(nvlink), pcie: None, cpu: None, nics: Vec::new() };
        Machine { name: "test".to_owned(), nodes, node, sharp: None }
    }

    #[test]
    fn domains_may_span_nodes() {
        let rack = machine(18, 4, 72);
        let islands = RankPlacement::new(2, 4).islands(&rack).expect("even");
        assert_eq!((islands.count, islands.nodes, islands.ranks), (1, 2, 8));
        let alone = machine(2, 4, 4);
        let islands = RankPlacement::new(2, 4).islands(&alone).expect("even");
        assert_eq!((islands.count, islands.ranks), (2, 4));
        let racks = machine(36, 4, 72);
        assert_eq!(RankPlacement::new(36, 4).islands(&racks).expect("even").count, 2);
        assert_eq!(RankPlacement::new(19, 4).islands(&racks), None);
        assert_eq!(RankPlacement::new(0, 4).islands(&racks), None);
    }

    #[test]
    fn filling_a_machine() {
        let two = machine(2, 8, 8);
        assert_eq!(RankPlacement::filling(&two, 16), Some(RankPlacement::new(2, 8)));
        assert_eq!(RankPlacement::filling(&two, 6), Some(RankPlacement::new(1, 6)));
        assert_eq!(RankPlacement::filling(&two, 12), Some(RankPlacement::new(2, 6)));
        assert_eq!(RankPlacement::filling(&two, 9), None);
        assert_eq!(RankPlacement::filling(&two, 17), None);
        assert_eq!(RankPlacement::filling(&two, 0), None);
    }
}
