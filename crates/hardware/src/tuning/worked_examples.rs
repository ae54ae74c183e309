//! The model against what NCCL printed: predictions of a public log, and tables of two others.
//! Not against measured times: those it does not claim.

use crate::topology::NcclPath;
use proptest::prelude::*;

use super::*;
use crate::limits::{Algorithm, RankPlacement};
use crate::machine::{CpuVendor, Machine, NicKind, Nics, ready};
use busbw_core::Collective;

fn graph(channels: u32, intra: f32, inter: f32, paths: (NcclPath, NcclPath)) -> Graph {
    Graph {
        channels,
        bw_intra: intra,
        bw_inter: inter,
        type_intra: paths.0,
        type_inter: paths.1,
        same_channels: true,
        latency_inter: 0.0,
    }
}

fn communicator(
    minor: u32,
    nodes: usize,
    ranks: usize,
    sm: u32,
    ring: Graph,
    tree: Graph,
) -> Communicator {
    Communicator {
        version: Version::last_of(minor),
        nodes,
        ranks,
        sm,
        mixed_sm: false,
        cpu: Some(CpuVendor::Intel),
        mixed_cpu: false,
        channels: 2 * ring.channels,
        nvls_channels: 0,
        nvswitch: false,
        nvls: false,
        collnet: None,
        graphs: Graphs {
            ring,
            tree,
            plain_tree: false,
            collnet_direct: Graph::NONE,
            collnet_chain: Graph::NONE,
            nvls: Graph::NONE,
        },
    }
}

/// nccl#1453: NCCL 2.22, 3 nodes of 8 H100, 16 channels.
/// `8589934592 Bytes -> Algo 1 proto 2 time 86069.968750`
/// `128 Bytes -> Algo 0 proto 0 time 25.214764`
#[test]
fn predictions_of_a_public_log() {
    let paths = (NcclPath::Nvl, NcclPath::Pix);
    let each = graph(16, 12.0, 12.0, paths);
    let mut comm = communicator(22, 3, 24, 90, each, each);
    comm.channels = 16;
    comm.graphs.plain_tree = true;
    let choice = comm.choose(Collective::AllReduce, 8_589_934_592).expect("covered");
    assert_eq!((choice.best.algorithm, choice.best.protocol), (Algorithm::Ring, Protocol::Simple));
    assert_eq!(format!("{:.6}", choice.best.us), "86069.968750");
    let choice = comm.choose(Collective::AllReduce, 128).expect("covered");
    assert_eq!((choice.best.algorithm, choice.best.protocol), (Algorithm::Tree, Protocol::Ll));
    assert_eq!(format!("{:.6}", choice.best.us), "25.214764");
}

/// A printed table, `latency/bandwidth` by LL, LL128, Simple.
fn agrees(comm: &Communicator, collective: Collective, algorithm: Algorithm, printed: [&str; 3]) {
    let table = Table::new(comm, collective).expect("covered");
    for (protocol, printed) in Protocol::ALL.into_iter().zip(printed) {
        let got = match table.entry(algorithm, protocol) {
            Some(entry) => format!("{:.1}/{:.1}", entry.latency, entry.bandwidth),
            None => "0.0/0.0".to_owned(),
        };
        assert_eq!(got, printed, "{collective:?} {algorithm} {protocol:?}");
    }
}

/// NCCL 2.27.7 on two A100 with 12 NVLinks: the table that it printed.
#[test]
fn table_of_two_a100() {
    let paths = (NcclPath::Nvl, NcclPath::Pix);
    let (ring, tree) = (graph(12, 20.0, 20.0, paths), graph(12, 40.0, 40.0, paths));
    let mut comm = communicator(27, 1, 2, 80, ring, tree);
    for graph in [&mut comm.graphs.collnet_direct, &mut comm.graphs.collnet_chain] {
        graph.type_intra = NcclPath::Nvl;
    }
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    for collective in [Broadcast, Reduce] {
        agrees(&comm, collective, Algorithm::Ring, ["7.2/87.7", "15.9/220.8", "11.8/240.0"]);
        agrees(&comm, collective, Algorithm::Tree, ["0.0/0.0"; 3]);
    }
    for collective in [AllGather, ReduceScatter] {
        agrees(&comm, collective, Algorithm::Ring, ["7.2/175.4", "15.9/441.6", "11.8/480.0"]);
    }
    agrees(&comm, AllReduce, Algorithm::Tree, ["8.0/37.9", "16.5/112.0", "16.4/144.0"]);
    agrees(&comm, AllReduce, Algorithm::Ring, ["7.8/87.7", "17.8/220.8", "15.2/240.0"]);
    for collective in [AllGather, AllReduce] {
        let printed = ["0.8/0.0", "0.8/0.0", "39.2/0.0"];
        agrees(&comm, collective, Algorithm::CollNetDirect, printed);
    }
    agrees(&comm, AllReduce, Algorithm::CollNetChain, ["0.0/0.0", "0.0/0.0", "35.6/0.0"]);
    agrees(&comm, AllGather, Algorithm::Pat, ["0.0/0.0"; 3]);
    // And what the log says was used from 8 MiB to 8 GiB: rings, Simple, all 24 channels.
    for power in 23..=33 {
        let choice = comm.choose(AllReduce, 1 << power).expect("covered");
        assert_eq!(
            (choice.best.algorithm, choice.best.protocol),
            (Algorithm::Ring, Protocol::Simple)
        );
        assert_eq!(choice.channels, 24);
    }
}

/// NCCL 2.26 on two nodes of two V100 over PCIe: the table that it printed.
#[test]
fn table_of_two_nodes_of_v100() {
    let paths = (NcclPath::Sys, NcclPath::Sys);
    let (ring, tree) = (graph(2, 2.4, 2.4, paths), graph(2, 2.4, 2.4, paths));
    let mut comm = communicator(26, 2, 4, 70, ring, tree);
    comm.graphs.nvls = Graph::NONE;
    use Collective::{AllGather, AllReduce, Broadcast};
    agrees(&comm, Broadcast, Algorithm::Ring, ["9.3/2.4", "18.0/0.0", "22.4/4.8"]);
    agrees(&comm, AllGather, Algorithm::Ring, ["11.3/3.2", "23.0/0.0", "33.8/6.4"]);
    agrees(&comm, AllReduce, Algorithm::Tree, ["18.8/0.6", "34.8/0.0", "44.4/2.2"]);
    agrees(&comm, AllReduce, Algorithm::Ring, ["16.0/1.6", "32.0/0.0", "59.2/3.2"]);
    agrees(&comm, AllReduce, Algorithm::CollNetDirect, ["0.8/0.0", "0.8/0.0", "39.2/0.0"]);
    agrees(&comm, AllReduce, Algorithm::CollNetChain, ["0.0/0.0", "0.0/0.0", "35.6/0.0"]);
    agrees(&comm, AllReduce, Algorithm::Nvls, ["0.0/0.0", "0.0/0.0", "18.0/0.0"]);
    agrees(&comm, AllReduce, Algorithm::NvlsTree, ["0.0/0.0", "0.0/0.0", "28.0/0.0"]);
}

fn guess(machine: &Machine, nodes: usize, per_node: usize) -> Communicator {
    let placement = RankPlacement::new(nodes, per_node);
    infer(machine, &placement, Version::last_of(28)).expect("all is known").communicator
}

/// Our own logs of 2.28.9 on 8 H200 without multicast: `24 coll channels`, and 2 for two nodes of four
/// and for eight of one over an interface of 10 Gb/s. Two A100 with 12 links (a public log): 12
/// channels of 20, trees of 40.
#[test]
fn guessed_graphs_are_those_that_logs_have() {
    let mut h200 = ready("dgx-h200").expect("ready");
    h200.node.nvlink.as_mut().expect("NVLink").multicast = Some(false);
    let comm = guess(&h200, 1, 8);
    assert_eq!((comm.channels, comm.nvls_channels), (24, 0));
    let kind = NicKind::Ethernet;
    let slow = Nics { count: 1, rate: Some(10.0), kind, mtu: None, slot: None, sharing: 1 };
    h200.node.nics = vec![slow];
    for (nodes, per_node) in [(2, 4), (8, 1)] {
        let comm = guess(&h200, nodes, per_node);
        assert_eq!((comm.channels, comm.nvls_channels), (2, 0), "{nodes} nodes");
    }
    let comm = guess(&ready("dgx-a100").expect("ready"), 1, 2);
    assert_eq!((comm.graphs.ring.channels, comm.graphs.ring.bw_intra), (12, 20.0));
    assert_eq!((comm.graphs.tree.channels, comm.graphs.tree.bw_intra), (12, 40.0));
}

/// By the rules of the search, with no log to hold them against: 12 × 30 within 8 H100, where NVLS has
/// 8 heads of 40; 8 × 48 over 8 NICs of 50 GB/s between two of them, 16 channels when doubled.
#[test]
fn guessed_graphs_follow_the_search() {
    let h100 = ready("dgx-h100").expect("ready");
    let comm = guess(&h100, 1, 8);
    assert_eq!((comm.graphs.ring.channels, comm.graphs.ring.bw_intra), (12, 30.0));
    let table = Table::new(&comm, Collective::AllReduce).expect("covered");
    let nvls = table.entry(Algorithm::Nvls, Protocol::Simple).expect("NVLS");
    assert!((nvls.bandwidth * 14.0 / 8.0 - 476.0).abs() < 0.1, "{nvls:?}");
    let comm = guess(&Machine { nodes: 2, ..h100 }, 2, 8);
    assert_eq!((comm.graphs.ring.channels, comm.graphs.ring.bw_inter), (8, 48.0));
    assert_eq!((comm.channels, comm.graphs.nvls.bw_intra), (16, 45.0));
}

proptest! {
    /// Times grow with size but where a correction changes, are never negative, and the entry chosen
    /// is the least; nothing panics in any release.
    #[test]
    fn predictions_are_sane(
        minor in 18u32..=30, nodes in 1usize..6, per_node in 1usize..9, which in 0usize..6,
        sm in prop::sample::select(vec![60u32, 70, 80, 86, 90, 100, 103, 120]),
        channels in 1u32..32, speed in 0.1f32..90.0, power in 0u32..36, heads in 0u32..9,
        cpu in prop::sample::select(vec![None, Some(CpuVendor::Amd), Some(CpuVendor::Arm)]),
    ) {
        let each = graph(channels, speed, speed, (NcclPath::Nvl, NcclPath::Pix));
        let mut comm = communicator(minor, nodes, nodes * per_node, sm, each, each);
        comm.cpu = cpu;
        comm.nvls = heads > 0;
        comm.nvswitch = comm.nvls;
        comm.graphs.nvls = graph(heads, speed, speed, (NcclPath::Nvl, NcclPath::Pix));
        comm.graphs.collnet_direct = comm.graphs.nvls;
        comm.graphs.collnet_chain = comm.graphs.nvls;
        comm.collnet = comm.nvls.then_some(CollNet { heads: 8, all_gather: true, reduce_scatter: true });
        let collective = [
            Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
            Collective::Broadcast, Collective::Reduce, Collective::AllToAll,
        ][which];
        let choice = comm.choose(collective, 1 << power);
        let covered = collective != Collective::AllToAll && comm.ranks > 1;
        prop_assert_eq!(choice.is_some(), covered);
        let Some(choice) = choice else { return Ok(()) };
        for other in &choice.all {
            prop_assert!(other.us.is_finite() && other.us > 0.0, "{:?}", other);
            prop_assert!(choice.best.us <= other.us);
        }
        prop_assert!(choice.channels >= 1 && choice.threads >= 96 && choice.threads <= 672);
        // No correction depends on the size but a tree's: rings and switches only take longer.
        let later = comm.choose(collective, 1 << (power + 1)).expect("as covered");
        for (now, then) in choice.all.iter().zip(&later.all) {
            let steady = !matches!(now.algorithm, Algorithm::Tree | Algorithm::NvlsTree);
            prop_assert!(!steady || then.us >= now.us, "{:?} {:?}", now, then);
        }
    }
}
