//! The communicator as the model needs it: version, ranks, processors and the graphs that NCCL found.
//! Not their source: a log (`from_log`), or `inference`.

use crate::topology::NcclPath;
use serde::{Deserialize, Serialize};

use crate::limits::Algorithm;
use crate::machine::CpuVendor;

/// A release of NCCL 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// 28 of 2.28.9.
    pub minor: u32,
    /// 9 of 2.28.9.
    pub patch: u32,
}

impl Version {
    /// Releases whose model is known here; of 2.18 the last patch. 2.31 replaced src/graph/tuning.cc by src/tuning/, which is not
    /// ported: its predictions are to be had from the library itself alone (ncclGroupSimulateEnd).
    pub const KNOWN: std::ops::RangeInclusive<u32> = 18..=30;

    /// The last patch of a release.
    pub const fn last_of(minor: u32) -> Version {
        Version { minor, patch: u32::MAX }
    }

    /// The release of a text such as `2.28.9+cuda13.0`; without a patch the last one. `None` for a release whose model is
    /// not known, an earlier or a later one.
    pub fn from_text(text: &str) -> Option<Version> {
        let mut parts = text.trim().split(['.', '+', '-']);
        let (major, minor) = (parts.next()?, parts.next()?.parse::<u32>().ok()?);
        if major != "2" || !Version::KNOWN.contains(&minor) {
            return None;
        }
        let patch = parts.next().and_then(|patch| patch.parse().ok()).unwrap_or(u32::MAX);
        Some(Version { minor, patch })
    }

    /// The release of `ncclGetVersion`'s number: 22809 is 2.28.9.
    pub fn from_code(code: u32) -> Option<Version> {
        Version::from_text(&format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100))
    }

    /// Whether it is 2.`minor`.`patch` or later.
    pub(super) fn from(self, minor: u32, patch: u32) -> bool {
        self >= Version { minor, patch }
    }
}

/// A graph as the search left it and all ranks agreed on it (`Pattern …` of the log, the least of all
/// ranks).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Channels of the graph; the communicator has twice as many, or more.
    pub channels: u32,
    /// GB/s of a channel within a node.
    pub bw_intra: f32,
    /// GB/s of a channel between nodes.
    pub bw_inter: f32,
    /// The longest path within a node.
    pub type_intra: NcclPath,
    /// The longest path to a NIC.
    pub type_inter: NcclPath,
    /// Whether all channels use the same path.
    pub same_channels: bool,
    /// The NIC's latency, microseconds (`latency` of NCCL's XML).
    pub latency_inter: f32,
}

impl Graph {
    /// No graph found.
    pub const NONE: Graph = Graph {
        channels: 0,
        bw_intra: 0.0,
        bw_inter: 0.0,
        type_intra: NcclPath::Loc,
        type_inter: NcclPath::Loc,
        same_channels: true,
        latency_inter: 0.0,
    };
}

/// The graphs of a communicator; NVLSTree uses that of NVLS, PAT that of trees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Graphs {
    /// Pattern 4.
    pub ring: Graph,
    /// Pattern 1, 2 or 3.
    pub tree: Graph,
    /// Whether trees are of pattern 3: sends and receives of a node at one GPU.
    pub plain_tree: bool,
    /// Pattern 6.
    pub collnet_direct: Graph,
    /// Pattern 3 over the network's switches.
    pub collnet_chain: Graph,
    /// Pattern 5.
    pub nvls: Graph,
}

impl Graphs {
    pub(super) fn of(&self, algorithm: Algorithm) -> Graph {
        match algorithm {
            Algorithm::Ring => self.ring,
            Algorithm::Tree | Algorithm::Pat => self.tree,
            Algorithm::CollNetDirect => self.collnet_direct,
            Algorithm::CollNetChain => self.collnet_chain,
            Algorithm::Nvls | Algorithm::NvlsTree => self.nvls,
            Algorithm::Direct => Graph::NONE,
        }
    }
}

/// The capabilities of a CollNet plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollNet {
    /// GPUs of a node with a NIC of their own.
    pub heads: usize,
    /// Whether it gathers (`iallgather`).
    pub all_gather: bool,
    /// Whether it scatters reductions (`ireducescatter`).
    pub reduce_scatter: bool,
}

/// A communicator, as far as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Communicator {
    /// NCCL's release.
    pub version: Version,
    /// Nodes; those of one NVLink domain count as one.
    pub nodes: usize,
    /// Ranks.
    pub ranks: usize,
    /// The least compute capability × 10.
    pub sm: u32,
    /// Whether compute capabilities differ.
    pub mixed_sm: bool,
    /// Vendor of the processors; none where unknown or mixed.
    pub cpu: Option<CpuVendor>,
    /// Whether processors of several vendors take part.
    pub mixed_cpu: bool,
    /// Channels of the communicator (`… coll channels` of the log).
    pub channels: u32,
    /// Its NVLS channels.
    pub nvls_channels: u32,
    /// Whether there are NVSwitches.
    pub nvswitch: bool,
    /// Whether NVLS is supported and on.
    pub nvls: bool,
    /// Whether the network reduces, and how.
    pub collnet: Option<CollNet>,
    /// The graphs that the search found.
    pub graphs: Graphs,
}

impl Communicator {
    /// Ranks of a node, as NCCL's integer division has it.
    pub(super) fn per_node(&self) -> usize {
        self.ranks / self.nodes.max(1)
    }

    /// The same with its fraction.
    pub(super) fn ppn(&self) -> f32 {
        self.ranks as f32 / self.nodes.max(1) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        let minor = |text: &str| Version::from_text(text).map(|version| version.minor);
        assert_eq!(minor("2.28.9+cuda13.0"), Some(28));
        assert_eq!(minor("2.18"), Some(18));
        for unknown in ["2.17.1", "2.31.2", "2.41.1", "1.18", "", "2", "2.x", "3.1"] {
            assert_eq!(minor(unknown), None, "{unknown}");
        }
        assert_eq!(Version::from_code(22809), Some(Version { minor: 28, patch: 9 }));
        assert_eq!(Version::from_text("2.28"), Some(Version::last_of(28)));
        assert!(Version::last_of(28).from(28, 9) && !Version::last_of(28).from(29, 0));
    }
}
