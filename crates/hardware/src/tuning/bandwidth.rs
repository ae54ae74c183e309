//! The model's bandwidth of an entry, by size over time (algbw), before any correction for size.
//! Not whether the entry may be used (`table`).

use super::communicator::Communicator;
use super::constants;
use super::table::Protocol;
use crate::limits::Algorithm;
use busbw_core::Collective;

/// GB/s of an algorithm and protocol; 0 where the model leaves the entry out.
pub(super) fn bandwidth(
    comm: &Communicator,
    collective: Collective,
    algorithm: Algorithm,
    protocol: Protocol,
) -> f32 {
    let minor = comm.version.minor;
    let graph = comm.graphs.of(algorithm);
    let Some(channel) = channel(comm, collective, algorithm) else { return 0.0 };
    let channels = f64::from(graph.channels);
    let mut bus = f64::from(graph.channels as f32 * channel);
    let reduces = collective == Collective::AllReduce;
    let gathers = matches!(collective, Collective::AllGather | Collective::ReduceScatter);

    match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Ll) => {
            bus = round((ring_ll(comm, collective) * bus).min(constants::max_ll_bandwidth(comm)))
        }
        (Algorithm::Ring, Protocol::Ll128) => {
            let share = if minor < 23 && comm.ppn() < 2.0 { 0.7 } else { 0.92 };
            bus = round((bus * share).min(channels * constants::max_ring_ll128_bandwidth(comm)));
        }
        (Algorithm::Tree, _) => bus = tree(comm, bus, channels, protocol),
        (Algorithm::Pat, _) => bus = round(bus * if minor < 24 { 0.85 } else { 0.75 }),
        (Algorithm::CollNetDirect | Algorithm::CollNetChain, Protocol::Ll | Protocol::Ll128) => {
            bus = 0.0;
        }
        (Algorithm::CollNetDirect, Protocol::Simple) => {
            bus = collnet_direct(comm, bus, channel, gathers && minor >= 20);
        }
        _ => {}
    }
    if gathers && several_nodes_need_collnet(comm, collective, algorithm) {
        bus = 0.0;
    }
    round(bus * to_algbw(comm, collective, algorithm, reduces, gathers)) as f32
}

/// NCCL keeps bandwidths in 32-bit floats.
fn round(value: f64) -> f64 {
    f64::from(value as f32)
}

/// GB/s of a channel; `None` where NVLS has too few of them.
fn channel(comm: &Communicator, collective: Collective, algorithm: Algorithm) -> Option<f32> {
    let minor = comm.version.minor;
    let graph = comm.graphs.of(algorithm);
    let collnet = matches!(algorithm, Algorithm::CollNetDirect | Algorithm::CollNetChain);
    let plain = if comm.nodes <= 2 || collnet { graph.bw_intra } else { graph.bw_inter };
    let ppn = comm.ppn();
    Some(match algorithm {
        Algorithm::Nvls | Algorithm::NvlsTree if minor >= 28 => {
            if graph.channels < 2 {
                return None;
            }
            let heads = graph.channels as f32;
            let mut intra =
                graph.bw_intra * constants::nvls_efficiency(comm) * (heads - 1.0) / heads;
            intra *= if collective == Collective::AllReduce { 2.0 } else { (ppn - 1.0) / ppn };
            let tree = algorithm == Algorithm::NvlsTree;
            let inter = graph.bw_inter * if comm.nodes <= 2 && tree { 2.0 } else { 1.0 };
            let most = if tree { constants::max_nvls_tree_bandwidth(comm) } else { f32::MAX };
            intra.min(inter).min(most)
        }
        Algorithm::Nvls if minor == 27 && collective != Collective::AllReduce => {
            (graph.bw_intra * (ppn - 1.0) / ppn).min(graph.bw_inter * 0.9)
        }
        Algorithm::Nvls if minor >= 19 => graph.bw_intra.min(graph.bw_inter),
        Algorithm::NvlsTree if minor >= 19 => {
            let inter = if comm.nodes <= 2 { graph.bw_inter } else { graph.bw_inter / 2.0 };
            graph.bw_intra.min(inter)
        }
        _ => plain,
    })
}

fn ring_ll(comm: &Communicator, collective: Collective) -> f64 {
    let dear = matches!(collective, Collective::AllReduce | Collective::Reduce);
    match comm.version.minor {
        21.. => 0.5,
        _ if comm.nodes > 1 || dear => 1.0 / 4.0,
        _ => 1.0 / 3.0,
    }
}

fn tree(comm: &Communicator, bus: f64, channels: f64, protocol: Protocol) -> f64 {
    let mut bus = round((bus * 0.92).min(channels * constants::max_tree_bandwidth(comm)));
    match protocol {
        Protocol::Ll => bus = round((bus / 3.8).min(constants::max_ll_bandwidth(comm))),
        Protocol::Ll128 => {
            let share = if comm.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
            bus = round((bus * share).min(channels * constants::max_tree_ll128_bandwidth(comm)));
        }
        Protocol::Simple => {}
    }
    if comm.graphs.plain_tree { round(bus * 0.85) } else { bus }
}

fn collnet_direct(comm: &Communicator, bus: f64, channel: f32, gathers: bool) -> f64 {
    let graph = comm.graphs.collnet_direct;
    let ppn = comm.ppn();
    if gathers && comm.version.minor >= 27 {
        return f64::from(ppn * graph.bw_intra.min(graph.bw_inter * 0.9));
    }
    if gathers {
        // Between what was measured with 1 and with 8 ranks a node.
        let eight = (ppn - 1.0) / 7.0;
        let share = f64::from(eight) * 0.85 + f64::from(1.0 - eight) * 0.95;
        return round(f64::from(ppn * channel) * share);
    }
    if graph.channels == 0 {
        return 0.0;
    }
    // Every GPU would have to have a NIC of its own.
    let mut factor = (f64::from(ppn) / f64::from(graph.channels)) as f32;
    factor -= (factor - 1.0) / 2.0;
    let bus = round(bus / f64::from(factor));
    if comm.sm >= 90 { round(bus * 0.85) } else { bus }
}

/// all_gather and reduce_scatter over several nodes by NVLS or CollNetDirect: the network must do its
/// part, and every rank must have a NIC.
fn several_nodes_need_collnet(
    comm: &Communicator,
    collective: Collective,
    algorithm: Algorithm,
) -> bool {
    let concerned = match algorithm {
        Algorithm::CollNetDirect => comm.version.minor >= 20,
        Algorithm::Nvls => comm.version.minor >= 27,
        _ => false,
    };
    if !concerned || comm.nodes <= 1 {
        return false;
    }
    let Some(collnet) = comm.collnet else { return true };
    let does = match collective {
        Collective::AllGather => collnet.all_gather,
        _ => collnet.reduce_scatter,
    };
    !does || comm.per_node() > collnet.heads
}

/// From what the busiest link carries to size over time.
fn to_algbw(
    comm: &Communicator,
    collective: Collective,
    algorithm: Algorithm,
    reduces: bool,
    gathers: bool,
) -> f64 {
    let minor = comm.version.minor;
    let (ranks, nodes) = (comm.ranks as f64, comm.nodes as f64);
    let steps = super::latency::steps(comm, collective) as f64;
    let kept = gathers
        && match algorithm {
            Algorithm::Ring => false,
            Algorithm::CollNetDirect => minor >= 20,
            _ => minor >= 23,
        };
    if kept {
        return 1.0;
    }
    match algorithm {
        Algorithm::Ring => ranks / steps,
        Algorithm::Nvls | Algorithm::NvlsTree if minor >= 28 => ranks / steps,
        Algorithm::NvlsTree if minor < 19 && reduces && nodes > 1.0 => {
            0.7 * nodes / (2.0 * (nodes - 1.0))
        }
        Algorithm::Nvls | Algorithm::NvlsTree => 5.0 / 6.0,
        _ => 0.5,
    }
}
