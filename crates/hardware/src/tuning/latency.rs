//! The model's latency of an entry: what it takes to start, and its hops in a row.
//! Not the time per byte (`bandwidth`).

use super::communicator::Communicator;
use super::constants::{self, Hop};
use super::table::Protocol;
use crate::limits::Algorithm;
use crate::topology::NcclPath;
use busbw_core::Collective;

/// Steps of a ring.
pub(super) fn steps(comm: &Communicator, collective: Collective) -> usize {
    let others = comm.ranks.saturating_sub(1);
    match collective {
        Collective::AllReduce => 2 * others,
        Collective::AllGather | Collective::ReduceScatter => others,
        _ => comm.ranks,
    }
}

/// Microseconds.
pub(super) fn latency(
    comm: &Communicator,
    collective: Collective,
    algorithm: Algorithm,
    protocol: Protocol,
) -> f32 {
    let version = comm.version;
    let minor = version.minor;
    let graph = comm.graphs.of(algorithm);
    let several = comm.nodes > 1;
    let base = constants::base(version, algorithm, protocol);
    let hop = |algorithm, to| constants::hop(version, algorithm, protocol, to);
    let inside = if graph.type_intra == NcclPath::Nvl { Hop::NvLink } else { Hop::Pci };
    let intra = hop(algorithm, inside);
    // With one rank a node nothing hides the network: the tree's latency.
    let exposed = minor >= 23 && comm.ppn() == 1.0;
    let mut inter = hop(if exposed { Algorithm::Tree } else { algorithm }, Hop::Net);
    inter += graph.latency_inter;
    if protocol == Protocol::Simple {
        // The flush.
        inter += graph.latency_inter;
    }
    let others = comm.per_node().saturating_sub(1) as f32;
    let log_nodes = comm.nodes.max(1).ilog2() as f32;
    match algorithm {
        Algorithm::Ring => {
            base + match collective {
                Collective::Broadcast | Collective::Reduce => {
                    let to = if several { Hop::Net } else { inside };
                    let simple = protocol == Protocol::Simple && !graph.same_channels;
                    let each = hop(if simple { Algorithm::Tree } else { algorithm }, to);
                    if graph.same_channels { each } else { steps(comm, collective) as f32 * each }
                }
                _ => ring(comm, collective, protocol, intra, inter),
            }
        }
        Algorithm::Tree => base + 2.0 * (others * intra + log_nodes * inter),
        Algorithm::CollNetDirect => {
            // Serving several peers one after the other.
            let each = if minor < 19 { 0.5 } else { 0.4 };
            base + 2.0 * (others.min(1.0) * intra + others * each) + inter
        }
        Algorithm::CollNetChain => base + 2.0 * others * intra + inter,
        Algorithm::Nvls if minor < 19 => {
            base + if several { hop(algorithm, Hop::Net) } else { 0.0 }
        }
        Algorithm::NvlsTree if minor < 19 => {
            base + 2.0 * (comm.nodes as f32 - 1.0) * hop(algorithm, Hop::Net)
        }
        Algorithm::Nvls => intra + if several { inter } else { 0.0 },
        Algorithm::NvlsTree => base + intra + 2.0 * log_nodes * inter,
        // A part that is linear in ranks is left.
        Algorithm::Pat => base + log_nodes * (inter / 3.5) + comm.ranks as f32 * 2.8,
        Algorithm::Direct => 0.0,
    }
}

/// all_reduce, all_gather, reduce_scatter: hops between nodes, and all others, which on several nodes
/// take at least what posting to the network takes.
fn ring(
    comm: &Communicator,
    collective: Collective,
    protocol: Protocol,
    intra: f32,
    inter: f32,
) -> f32 {
    let several = comm.nodes > 1;
    let intra = if several {
        let times = if protocol == Protocol::Simple { 3.0 } else { 1.0 };
        intra.max(constants::net_overhead(comm) * times)
    } else {
        intra
    };
    let between = match collective {
        _ if !several => 0,
        Collective::AllReduce if comm.version.minor < 23 => 2 * comm.nodes,
        Collective::AllReduce => 2 * (comm.nodes - 1),
        _ => comm.nodes - 1,
    };
    let all = steps(comm, collective) as f32;
    (all - between as f32) * intra + between as f32 * inter
}
