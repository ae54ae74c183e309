//! The model's table as NCCL prints it at start (TUNING): latency and bandwidth of every entry, 0
//! where it may not be used.
//! Not a time: that depends on the size (`time`).

use crate::topology::NcclPath;
use serde::{Deserialize, Serialize};

use super::bandwidth::bandwidth;
use super::communicator::Communicator;
use super::latency::latency;
use crate::limits::Algorithm;
use busbw_core::Collective;

/// NCCL's protocol: how data and flags are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// 4 bytes of data, 4 of flag.
    #[serde(rename = "LL")]
    Ll,
    /// 120 of 128 bytes.
    #[serde(rename = "LL128")]
    Ll128,
    /// Large chunks, and a flag apart.
    #[serde(rename = "Simple")]
    Simple,
}

impl Protocol {
    /// In NCCL's order.
    pub const ALL: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

    /// Its name for NCCL_PROTO.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
            Protocol::Simple => "Simple",
        }
    }

    /// The protocol of a name, in any case.
    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
    }
}

/// An entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// Its protocol.
    pub protocol: Protocol,
    /// Latency, microseconds.
    pub latency: f32,
    /// Bandwidth as algbw, GB/s; 0 where the entry may not be used.
    pub bandwidth: f32,
}

/// The table of one collective, in NCCL's order of algorithms and protocols.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The collective.
    pub collective: Collective,
    /// Entries that the model fills in; NCCL prints zeros for the others.
    pub entries: Vec<Entry>,
}

impl Table {
    /// The table of a communicator; `None` for collectives that the model does not cover, and for
    /// one rank.
    pub fn new(comm: &Communicator, collective: Collective) -> Option<Table> {
        if !collective.spec().tuned_by_nccl
            || comm.ranks < 2
            || comm.nodes == 0
            || comm.nodes > comm.ranks
        {
            return None;
        }
        let mut entries = Vec::new();
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                if !modelled(comm, collective, algorithm, protocol) {
                    continue;
                }
                let enabled = enabled(comm, algorithm, protocol, collective);
                let rate = bandwidth(comm, collective, algorithm, protocol);
                entries.push(Entry {
                    algorithm,
                    protocol,
                    latency: latency(comm, collective, algorithm, protocol),
                    bandwidth: if enabled { rate } else { 0.0 },
                });
            }
        }
        Some(Table { collective, entries })
    }

    /// One entry.
    pub fn entry(&self, algorithm: Algorithm, protocol: Protocol) -> Option<&Entry> {
        let is = |entry: &&Entry| entry.algorithm == algorithm && entry.protocol == protocol;
        self.entries.iter().find(is)
    }
}

/// Whether the model computes an entry at all.
fn modelled(
    comm: &Communicator,
    collective: Collective,
    algorithm: Algorithm,
    protocol: Protocol,
) -> bool {
    let minor = comm.version.minor;
    let by_switch = matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
    if by_switch && protocol != Protocol::Simple {
        return false;
    }
    if by_switch && minor >= 28 && comm.graphs.nvls.channels < 2 {
        return false;
    }
    match collective {
        Collective::AllReduce => !matches!(algorithm, Algorithm::Pat | Algorithm::Direct),
        Collective::AllGather | Collective::ReduceScatter => match algorithm {
            Algorithm::Ring => true,
            Algorithm::Nvls => minor >= 19,
            Algorithm::CollNetDirect => minor >= 20,
            // One rank a node, and atomics of sm60.
            Algorithm::Pat => {
                minor >= 23
                    && protocol == Protocol::Simple
                    && comm.nodes == comm.ranks
                    && (comm.sm >= 60 || minor < 26)
            }
            _ => false,
        },
        _ => algorithm == Algorithm::Ring,
    }
}

/// Maximum of ranks of a node for CollNetDirect (NCCL_MAX_DIRECT_ARITY + 1).
const MAX_COLLNET_DIRECT_RANKS: usize = 8;

/// Maximum of ranks of a node for NVLS, except all_reduce (NCCL_MAX_NVLS_ARITY).
const MAX_NVLS_RANKS: usize = 32;

/// Whether an entry may be used, without NCCL_ALGO and NCCL_PROTO.
fn enabled(
    comm: &Communicator,
    algorithm: Algorithm,
    protocol: Protocol,
    collective: Collective,
) -> bool {
    let several = comm.nodes > 1;
    let by_algorithm = match algorithm {
        Algorithm::NvlsTree => several && comm.nvls,
        Algorithm::Nvls => {
            comm.nvls
                && (!several || comm.collnet.is_some())
                && (collective == Collective::AllReduce || comm.per_node() <= MAX_NVLS_RANKS)
        }
        Algorithm::CollNetDirect => {
            comm.collnet.is_some() && comm.nvswitch && comm.per_node() <= MAX_COLLNET_DIRECT_RANKS
        }
        Algorithm::CollNetChain => {
            comm.collnet.is_some() && comm.per_node() <= MAX_COLLNET_DIRECT_RANKS
        }
        _ => true,
    };
    by_algorithm && (protocol != Protocol::Ll128 || ll128(comm, algorithm))
}

/// LL128 relies on 128 bytes arriving at once: NVLink, and networks close to the GPU.
fn ll128(comm: &Communicator, algorithm: Algorithm) -> bool {
    let minor = comm.version.minor;
    let graph = comm.graphs.of(algorithm);
    let farthest = if comm.sm >= 90 { NcclPath::Pxn } else { NcclPath::Pxb };
    let capability = match (minor, comm.sm) {
        (27.., sm) => sm >= 70,
        (25.., 100 | 120) => true,
        (_, sm) => matches!(sm, 70 | 80 | 90),
    };
    // Before 2.27, P2C was not among the paths, or farther than PXN.
    let near = graph.type_inter <= farthest && (minor >= 27 || graph.type_inter != NcclPath::P2c);
    let alike = !comm.mixed_sm || comm.sm >= 90 && minor >= 30;
    near && graph.type_intra <= NcclPath::Nvb && alike && capability
}
