//! The ways NCCL moves a collective's bytes, by the names that it prints.
//! Not this program's own algorithms on one host (`busbw_core::algorithm`).

use std::fmt;

use serde::{Deserialize, Serialize};

use busbw_core::Collective;

/// An algorithm of NCCL, which decides the bytes on each link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Chains within a node, a double binary tree between nodes.
    Tree,
    /// Rings over all ranks.
    Ring,
    /// The network's switches reduce; within a node every GPU with every other.
    CollNetDirect,
    /// The network's switches reduce; within a node a chain.
    CollNetChain,
    /// The NVSwitches multicast and reduce; between nodes the network's switches.
    Nvls,
    /// The NVSwitches within a node, a double binary tree between nodes.
    NvlsTree,
    /// Parallel aggregated trees, one rank a node.
    Pat,
    /// Every pair of ranks by itself: sends and receives, and kernels over symmetric memory.
    Direct,
}

impl Algorithm {
    /// Every algorithm; the first seven in NCCL's order (src/include/nccl_common.h).
    pub const ALL: [Algorithm; 8] = [
        Algorithm::Tree,
        Algorithm::Ring,
        Algorithm::CollNetDirect,
        Algorithm::CollNetChain,
        Algorithm::Nvls,
        Algorithm::NvlsTree,
        Algorithm::Pat,
        Algorithm::Direct,
    ];

    /// Its name for NCCL_ALGO.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Tree => "Tree",
            Algorithm::Ring => "Ring",
            Algorithm::CollNetDirect => "CollNetDirect",
            Algorithm::CollNetChain => "CollNetChain",
            Algorithm::Nvls => "NVLS",
            Algorithm::NvlsTree => "NVLSTree",
            Algorithm::Pat => "PAT",
            Algorithm::Direct => "direct",
        }
    }

    /// The algorithm of a name in either of NCCL's spellings: `NVLSTree`, `NVLS_TREE`.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
        let wanted = plain(name);
        Algorithm::ALL.into_iter().find(|known| plain(known.name()) == wanted)
    }

    /// Whether NCCL has it for a collective; `Direct` is what is left to collectives of sends and
    /// receives, and what symmetric memory does (NCCL 2.27 on).
    pub const fn serves(self, collective: Collective) -> bool {
        match collective {
            Collective::AllReduce => !matches!(self, Algorithm::Pat),
            Collective::AllGather | Collective::ReduceScatter => matches!(
                self,
                Algorithm::Ring
                    | Algorithm::Nvls
                    | Algorithm::CollNetDirect
                    | Algorithm::Pat
                    | Algorithm::Direct
            ),
            Collective::Broadcast | Collective::Reduce => matches!(self, Algorithm::Ring),
            _ => matches!(self, Algorithm::Direct),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_spellings() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::from_name("NVLS_TREE"), Some(Algorithm::NvlsTree));
        assert_eq!(Algorithm::from_name("COLLNET_DIRECT"), Some(Algorithm::CollNetDirect));
        assert_eq!(Algorithm::from_name("ringo"), None);
    }

    #[test]
    fn every_collective_is_served() {
        for collective in Collective::ALL {
            assert!(Algorithm::ALL.into_iter().any(|algorithm| algorithm.serves(collective)));
        }
    }
}
