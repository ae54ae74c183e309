//! Bounds where bytes have several ways, or another one than first thought: no true result may exceed
//! them. Not the published results (`limits.rs`).

use busbw_core::Collective::{self, AllReduce, AllToAll};
use busbw_hardware::limits::{
    Algorithm, Bottleneck, Inside, Limit, Possible, RankPlacement, Rating, Resource, candidates,
    conditional, explaining, judge, limit,
};
use busbw_hardware::machine::{Machine, parse};

fn machine(text: &str) -> Machine {
    parse(text).expect("a machine")
}

fn ring(machine: &Machine, placement: RankPlacement) -> Limit {
    limit(machine, AllReduce, Algorithm::Ring, &placement)
}

fn busbw(limit: &Limit) -> f64 {
    limit.line.as_ref().unwrap_or_else(|| panic!("{:?}", limit.missing)).busbw
}

fn near(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 1e-3, "{got} is not {wanted}");
}

/// Eight V100 in a cube: six links each, and not to every other one.
const CUBE: &str = "name = 'cube'
nodes = 1
gpus = 8
model = 'V100 SXM2'
pcie = '3.0 x16'
[nvlink]
links = 6
line = 25.0
switched = false
";

#[test]
fn where_nvlink_joins_some_pairs_bytes_go_over_pcie_beside_it() {
    let cube = machine(CUBE);
    let all = ring(&cube, RankPlacement::new(1, 8));
    near(busbw(&all), 150.0 + 15.754);
    assert_eq!(all.bottleneck, Some(Resource::GpuLinks));
    assert_eq!(all.expects, None, "NCCL has no constant for both together");
    let whole = machine(&format!("{CUBE}meshed = true\n"));
    near(busbw(&ring(&whole, RankPlacement::new(1, 8))), 150.0);
    let unsaid = machine(&CUBE.replace("pcie = '3.0 x16'\n", ""));
    assert_eq!(ring(&unsaid, RankPlacement::new(1, 8)).missing, ["the PCIe link of a GPU"]);
}

/// Two bridges, four GPUs. A ring leaves each pair once: over the PCIe link of one of its GPUs, and a
/// second ring over that of the other.
#[test]
fn pairs_that_are_joined_by_bridges() {
    let pairs = machine(
        "name = 'pairs'
nodes = 1
gpus = 4
model = 'A100 PCIe'
pcie = '4.0 x16'
[nvlink]
links = 12
line = 25.0
switched = false
domain = 2
",
    );
    let all = ring(&pairs, RankPlacement::new(1, 4));
    near(busbw(&all), 2.0 * 31.508);
    assert_eq!(all.bottleneck, Some(Resource::GpuPcie));
    // Each GPU sends S/4 to its neighbour, and S/2 to the other pair.
    let alltoall = limit(&pairs, AllToAll, Algorithm::Direct, &RankPlacement::new(1, 4));
    near(busbw(&alltoall), 31.508 / 0.5 * 0.75);
}

/// Two GPUs of each host share a NIC: rings may leave at both in turn, so that NVLink carries 7/8.
#[test]
fn fewer_nics_than_gpus() {
    let host = machine(
        "machine = 'hgx-h800'\nnodes = 2\n[[nics]]\ncount = 4\nrate = 800.0\nfabric = 'infiniband'\n",
    );
    let limit = ring(&host, RankPlacement::new(2, 8));
    near(busbw(&limit), 200.0 * 8.0 / 7.0);
    let nvlink =
        limit.loads.iter().find(|load| load.resource == Resource::NvLink).expect("crossed");
    near(nvlink.busbw(0.0), 200.0);
    near(limit.expects.expect("known").low, 164.8);
}

/// Sockets of one host reach each other over `lo`.
#[test]
fn sockets_within_a_host_cross_no_nic() {
    let host = |nics: &str| {
        machine(&format!("machine = 'dgx-h100'\nnodes = 2\n[[nics]]\ncount = 8\n{nics}\n"))
    };
    let ethernet = host("rate = 10.0\nfabric = 'ethernet'");
    let rdma = host("rate = 10.0\nfabric = 'roce'");
    let by_network =
        |nodes| RankPlacement { inside: Inside::Network, ..RankPlacement::new(nodes, 8) };
    for (machine, sockets) in [(&ethernet, false), (&rdma, true)] {
        let alone = ring(machine, RankPlacement { sockets, ..by_network(1) });
        assert_eq!(alone.bottleneck, Some(Resource::GpuPcie));
        let two = ring(machine, RankPlacement { sockets, ..by_network(2) });
        // One rank's bytes leave the host over all its NICs: not every rank's.
        near(busbw(&two), 10.0);
    }
    // RDMA NICs, one for each GPU, carry what GPUs of one host exchange.
    near(busbw(&ring(&rdma, by_network(1))), 1.25);
    // Two GPUs that share one meet inside it, at a rate that nobody publishes.
    let shared = RankPlacement { nics: Some(4), ..by_network(1) };
    let shared = ring(&rdma, shared);
    assert!(shared.line.is_none() && !shared.missing.is_empty(), "{shared:?}");
}

#[test]
fn what_nobody_says_is_no_reason_to_doubt_a_result() {
    let mut host = machine("machine = 'dgx-h100'\nnodes = 4\n");
    let placement = RankPlacement::new(4, 8);
    let all = candidates(&host, AllReduce, &placement);
    // Four nodes by Tree or NVLSTree: 387.5 at line. Only switches that reduce allow more.
    assert_eq!(explaining(&all, 450.0), []);
    let names: Vec<Algorithm> = conditional(&all, 450.0).iter().map(|one| one.0).collect();
    assert_eq!(names, [Algorithm::CollNetDirect, Algorithm::CollNetChain, Algorithm::Nvls]);
    host.sharp = Some(false);
    assert_eq!(conditional(&candidates(&host, AllReduce, &placement), 450.0), []);
    // NVLS with two GPUs: newer releases only.
    let two = candidates(&host, AllReduce, &RankPlacement::new(1, 2));
    let nvls = two.iter().find(|one| one.limit.algorithm == Algorithm::Nvls).expect("there");
    assert!(matches!(nvls.possible, Possible::If(_)), "{nvls:?}");
}

/// Seven links to seven others: two GPUs of eight have one link to each other.
#[test]
fn without_switches_links_to_gpus_without_ranks_carry_nothing() {
    let mesh = machine(
        "name = 'mesh'
nodes = 1
gpus = 8
model = 'MI300X'
[nvlink]
links = 7
line = 64.0
switched = false
meshed = true
",
    );
    for (ranks, links) in [(2, 1.0), (4, 3.0), (7, 6.0), (8, 7.0)] {
        near(busbw(&ring(&mesh, RankPlacement::new(1, ranks))), links * 64.0);
    }
    let cube = ring(&machine(CUBE), RankPlacement::new(1, 2));
    assert_eq!(cube.unchecked, ["which NVLink links join the GPUs that ran"]);
}

/// NCCL sends messages of one rank over the NICs of its GPU: all of them are the limit, and its own are
/// what is expected, and what a result at their rate is put down to.
#[test]
fn a_message_of_one_rank_is_expected_over_its_own_nics() {
    let two = machine("machine = 'dgx-h100'\nnodes = 2");
    for placement in [RankPlacement::new(2, 8), RankPlacement::new(2, 2)] {
        let limit = limit(&two, Collective::SendRecv, Algorithm::Direct, &placement);
        let expects = limit.expects.as_ref().expect("NCCL's constants are known");
        near(expects.low, 50.0);
        assert!(busbw(&limit) > 100.0, "{limit:?}");
        let judged = judge(&limit, 8 << 30, &[47.9], None);
        assert_eq!(judged.rating, Some(Rating::AsExpected), "{judged:?}");
        assert_eq!(judged.bottleneck, Bottleneck::SetBy { resource: Resource::Nic });
    }
    let slots = "machine = 'dgx-h100'\nnodes = 2\n[[nics]]\ncount = 8\nrate = 400\nfabric = 'infiniband'\nslot = '5.0 x8'";
    let placement = RankPlacement::new(2, 8);
    let narrow = limit(&machine(slots), Collective::SendRecv, Algorithm::Direct, &placement);
    assert_eq!(narrow.bottleneck, Some(Resource::NicSlot));
}

#[test]
fn switches_of_ethernet_have_no_sharp() {
    let roce = "machine = 'dgx-h100'\nnodes = 2\n[[nics]]\ncount = 8\nrate = 400\nfabric = 'roce'";
    for (fabric, conditional_on_it) in
        [(roce.to_owned(), false), (roce.replace("roce", "infiniband"), true)]
    {
        let all = candidates(&machine(&fabric), Collective::AllGather, &RankPlacement::new(2, 8));
        assert_eq!(!conditional(&all, 405.0).is_empty(), conditional_on_it);
    }
}
