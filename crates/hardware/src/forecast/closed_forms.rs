//! The simulator against closed forms: rings, double binary trees and alltoall on non-blocking and 2:1 fabrics, within 1 %.
//! Not measurements: both sides are models.

use busbw_core::Collective;

use super::groups::{self, Group, Placement};
use super::steps::{self, Hop};
use super::wave::{self, Place, Wave, Way};
use crate::fabric::{Balance, Built, Fabric, Shape, file};
use crate::flows::{BYTES_PER_US, simulate};

/// GB/s of data of a NIC of 400 Gb/s with InfiniBand's framing at 4096 bytes.
const NIC: f64 = 50.0 * 4096.0 / (4096.0 + 26.0);
const INSIDE: f64 = 450.0;
const WITHIN: f64 = 0.01;
const SIZES: [f64; 7] = [8.0, 4096.0, 262_144.0, 1e6, 64e6, 1e9, 8.6e9];
const HOP: Hop = Hop { between_us: 14.0, within_us: 3.4 };

/// Hosts of one NIC, so that what is asked of a NIC is asked of a host, or of eight.
fn fabric(hosts: usize, eight: bool, ports: usize, ratio: f64, tiers: usize) -> Fabric {
    let above = "[[tiers]]\nports = 128\nrate = 400\n".repeat(tiers - 1);
    let text = format!(
        "machine = \"dgx-h100\"\nhosts = {hosts}\n[[tiers]]\nports = {ports}\nrate = 400\n{}{above}",
        if tiers > 1 { format!("oversubscription = {ratio}\n") } else { String::new() }
    );
    let machine = |name: &str| {
        let mut machine = file::ready_machine(name)?;
        if !eight {
            machine.node.gpus = 1;
            machine.node.nics[0].count = 1;
            machine.node.nvlink = None;
        }
        Ok(machine)
    };
    file::parse(&text, &machine).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn group(fabric: &Fabric, shape: &Shape, placement: Placement, gpus: usize) -> Vec<Group> {
    groups::place(fabric, &shape.lanes, placement, gpus, &[(0..gpus).collect()])
}

/// Microseconds of the bytes of a way, by trunks and classes.
fn bytes_us(
    fabric: &Fabric,
    placement: Placement,
    collective: Collective,
    way: Way,
    gpus: usize,
) -> f64 {
    let shape = Shape::of(fabric).expect("built");
    let built = Built::new(fabric, &shape, &[], Balance::Trunks, INSIDE).expect("no failure");
    let groups = group(fabric, &shape, placement, gpus);
    let place = Place::new(&built, Balance::Trunks, &shape, fabric.gpus_per_island(), &groups);
    Wave::of(&place, collective, way, &groups).us_per_byte
}

#[track_caller]
fn near(got: f64, expected: f64, what: &str) {
    assert!((got / expected - 1.0).abs() <= WITHIN, "{what}: {got}, by hand {expected}");
}

/// T = 2 (n−1) α + 2 (n−1)/n S/B (Patarasuk, Yuan 2009): B is a NIC's rate where no two edges share a link, and at 2:1 with
/// neighbours on different leaves half of it.
#[test]
fn rings_message_by_message() {
    for (hosts, ratio, slow) in
        [(2, 1.0, 1.0), (5, 1.0, 1.0), (16, 1.0, 1.0), (16, 2.0, 2.0), (24, 2.0, 2.0)]
    {
        // 12-port leaves: 6 or 8 hosts each.
        let fabric = fabric(hosts.max(16), false, 12, ratio, 2);
        let shape = Shape::of(&fabric).expect("built");
        let groups = group(&fabric, &shape, Placement::Packed, hosts);
        let mut groups = groups;
        if slow > 1.0 {
            // Every edge leaves its leaf: hosts of all leaves in turn.
            let blocks = shape.blocks;
            groups[0].members.sort_by_key(|member| {
                (member.host % shape.hosts_per_block, member.host / shape.hosts_per_block % blocks)
            });
        }
        let built = Built::new(&fabric, &shape, &[], Balance::Spray, INSIDE).expect("no failure");
        let place = Place::new(&built, Balance::Spray, &shape, 1, &groups);
        for collective in [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter]
        {
            for size in SIZES {
                let mut flows = Vec::new();
                steps::ring(&place, collective, &groups[0], size, HOP, &mut flows).expect("whole");
                let end = simulate(&built.capacity, &flows, 0.0).end_us();
                let n = hosts as f64;
                let rounds = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
                let steps = rounds * (n - 1.0);
                let full = if slow > 1.0 { full_leaf_share(&groups[0], &shape) } else { 1.0 };
                let by_hand = steps * (HOP.between_us + size / n / (NIC / full * BYTES_PER_US));
                near(end, by_hand, &format!("{collective:?} of {size} over {hosts}, {ratio}:1"));
                let wave = Wave::of(&place, collective, Way::Ring, &groups).us_per_byte * size;
                near(steps * HOP.between_us + wave, by_hand, "as one flow");
            }
        }
    }
}

/// By how much the fullest leaf's uplinks are asked for more than they have.
fn full_leaf_share(group: &Group, shape: &Shape) -> f64 {
    let hosts: Vec<usize> = group.members.iter().map(|member| member.host).collect();
    let mut leaving = vec![0usize; shape.blocks];
    for (from, to) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        if shape.block_of(*from) != shape.block_of(*to) {
            leaving[shape.block_of(*from)] += 1;
        }
    }
    let fullest = leaving.iter().max().copied().unwrap_or(0) as f64;
    (fullest / shape.leaf_up as f64).max(1.0)
}

/// The same for many more ranks, with eight NICs a host: hosts send 2 (n−1)/n S over eight NICs together.
#[test]
fn rings_of_many_ranks() {
    for hosts in [2, 3, 31, 128, 512] {
        let fabric = fabric(512, true, 64, 1.0, 3);
        let n = (8 * hosts) as f64;
        let wave =
            bytes_us(&fabric, Placement::Packed, Collective::AllReduce, Way::Ring, 8 * hosts);
        near(wave, 2.0 * (n - 1.0) / n / (8.0 * NIC * BYTES_PER_US), &format!("{hosts} hosts"));
        let wave =
            bytes_us(&fabric, Placement::Packed, Collective::Broadcast, Way::Ring, 8 * hosts);
        near(wave, 1.0 / (8.0 * NIC * BYTES_PER_US), &format!("broadcast, {hosts} hosts"));
    }
    // 2:1, hosts in a random order: nearly every edge leaves its leaf, and a leaf has half as many links up.
    let fabric = fabric(256, true, 96, 2.0, 2);
    let wave = bytes_us(&fabric, Placement::Scattered(3), Collective::AllReduce, Way::Ring, 2048);
    let shape = Shape::of(&fabric).expect("built");
    let all = group(&fabric, &shape, Placement::Scattered(3), 2048);
    let leaving = full_leaf_share(&all[0], &Shape { leaf_up: shape.leaf_up / 8, ..shape.clone() });
    assert!(leaving > 1.5, "{leaving}");
    near(wave, 2.0 * 2047.0 / 2048.0 * leaving / (8.0 * NIC * BYTES_PER_US), "scattered at 2:1");
}

/// T = 2 log2(n) α + S/B × what the busiest host sends (`limits::trees`); in chunks, which fill the pipeline.
#[test]
fn double_trees_message_by_message() {
    for hosts in [2usize, 4, 8, 13, 16] {
        let fabric = fabric(16, false, 12, 1.0, 2);
        let shape = Shape::of(&fabric).expect("built");
        let built = Built::new(&fabric, &shape, &[], Balance::Spray, INSIDE).expect("no failure");
        let groups = group(&fabric, &shape, Placement::Packed, hosts);
        let place = Place::new(&built, Balance::Spray, &shape, 1, &groups);
        let (size, chunks) = (1e9, 300);
        let mut flows = Vec::new();
        let none = Hop { between_us: 0.0, within_us: 0.0 };
        steps::double_tree(&place, &groups[0], size, chunks, none, &mut flows).expect("whole");
        let end = simulate(&built.capacity, &flows, 0.0).end_us();
        let sent = match hosts {
            2 => 1.0,
            _ => 2.0,
        };
        let by_hand = sent * size / (NIC * BYTES_PER_US);
        let wave = Wave::of(&place, Collective::AllReduce, Way::Tree, &groups).us_per_byte * size;
        near(wave, by_hand, &format!("{hosts} hosts as one flow"));
        // The first chunk goes up and down before the last one starts to.
        let deep = 2.0 * hosts.ilog2() as f64 + 2.0;
        assert!(end >= by_hand * 0.999, "{hosts} hosts: {end}, by hand {by_hand}");
        let filled = by_hand * (1.0 + deep / chunks as f64);
        assert!(end <= filled * 1.01, "{hosts} hosts: {end}, by hand {filled}");
    }
}

/// A tree of many hosts: 2 S a host, 1.5 S with three, S with two; at 2:1 what leaves a leaf counts, and nothing of a ring does.
#[test]
fn double_trees_of_many_ranks() {
    for (hosts, sent) in [(2, 1.0), (3, 1.5), (4, 2.0), (64, 2.0), (511, 2.0)] {
        let fabric = fabric(512, true, 64, 1.0, 3);
        let wave =
            bytes_us(&fabric, Placement::Packed, Collective::AllReduce, Way::NvlsTree, 8 * hosts);
        near(wave, sent / (8.0 * NIC * BYTES_PER_US), &format!("{hosts} hosts"));
    }
}

/// A tree at 2:1, hosts packed: with blocks of h hosts, h a power of two, only the first of a block and, with every second block,
/// one more edge leave it, so that the edges between blocks are NCCL's tree over blocks and those pairs. A block that is
/// an inner node has four in one tree and two in the mirrored one: six edges by S/2, 3 S over a leaf's uplinks, whatever h.
#[test]
fn double_trees_at_two_to_one_packed() {
    // Hosts of 8 NICs: 8 h down, 4 h up. A host sends 2 S over 8 NICs.
    for (hosts_per_leaf, ports) in [(2, 24), (4, 48), (8, 96), (16, 192)] {
        for leaves in [4, 8, 16] {
            let hosts = hosts_per_leaf * leaves;
            let fabric = fabric(hosts, true, ports, 2.0, 2);
            let shape = Shape::of(&fabric).expect("built");
            assert_eq!(
                (shape.hosts_per_block, shape.leaf_up),
                (hosts_per_leaf, 4 * hosts_per_leaf)
            );
            let host = 2.0 / (8.0 * NIC);
            let leaf = 3.0 / (shape.leaf_up as f64 * NIC);
            let collective = Collective::AllReduce;
            let wave = bytes_us(&fabric, Placement::Packed, collective, Way::NvlsTree, 8 * hosts);
            let what = format!("{leaves} leaves of {hosts_per_leaf} hosts");
            near(wave, host.max(leaf) / BYTES_PER_US, &what);
            assert_eq!(leaf > host, hosts_per_leaf == 2, "{what}: both cases are there");
        }
    }
}

/// The same where every edge leaves its leaf: edges join hosts that are a power of two apart, and never two of three leaves that
/// take hosts in turn. Hosts have four edges in both trees, so that a leaf of h hosts sends 2 h S over h/2 links: 4 S / B, twice
/// a non-blocking fabric's; message by message, too.
#[test]
fn double_trees_at_two_to_one_apart() {
    for (ratio, times) in [(1.0, 1.0), (2.0, 2.0)] {
        let ports = if ratio > 1.0 { 12 } else { 16 };
        let fabric = fabric(24, false, ports, ratio, 2);
        let shape = Shape::of(&fabric).expect("built");
        assert_eq!((shape.hosts_per_block, shape.blocks), (8, 3));
        let built = Built::new(&fabric, &shape, &[], Balance::Spray, INSIDE).expect("no failure");
        let mut groups = group(&fabric, &shape, Placement::Packed, 24);
        groups[0].members.sort_by_key(|member| (member.host % 8, member.host / 8));
        let place = Place::new(&built, Balance::Spray, &shape, 1, &groups);
        let (size, chunks) = (1e9, 300);
        let by_hand = times * 2.0 * size / (NIC * BYTES_PER_US);
        let wave = Wave::of(&place, Collective::AllReduce, Way::Tree, &groups).us_per_byte * size;
        near(wave, by_hand, &format!("{ratio}:1 as one flow"));
        let mut flows = Vec::new();
        let none = Hop { between_us: 0.0, within_us: 0.0 };
        steps::double_tree(&place, &groups[0], size, chunks, none, &mut flows).expect("whole");
        let end = simulate(&built.capacity, &flows, 0.0).end_us();
        // The first chunk goes up and down before the last one starts to.
        let deep = 2.0 * 24usize.ilog2() as f64 + 2.0;
        assert!(end >= by_hand * 0.99, "{ratio}:1: {end}, by hand {by_hand}");
        assert!(
            end <= by_hand * (1.0 + deep / chunks as f64) * 1.01,
            "{ratio}:1: {end}, by hand {by_hand}"
        );
    }
}

/// T = α + (n−p)/n p S over p NICs of a host; what leaves a leaf of h hosts, (n−hp)/n h p S, over its uplinks.
#[test]
fn alltoall_of_many_ranks() {
    for (ratio, ports) in [(1.0, 64), (2.0, 96)] {
        for hosts in [2, 7, 8, 9, 24, 64, 256] {
            let fabric = fabric(256, true, ports, ratio, 2);
            let shape = Shape::of(&fabric).expect("built");
            let wave =
                bytes_us(&fabric, Placement::Packed, Collective::AllToAll, Way::Direct, 8 * hosts);
            let (n, h) = (8.0 * hosts as f64, shape.hosts_per_block as f64);
            let host = (n - 8.0) / n / NIC;
            // The fullest leaf: all its hosts send to all others.
            let leaf = |h: f64| (n - 8.0 * h) / n * 8.0 * h / (shape.leaf_up as f64 * NIC);
            let inside = (7.0 / n + (n - 8.0) / n * 7.0 / 8.0) / INSIDE;
            let last = hosts as f64 - h * (hosts as f64 / h).floor();
            let most = host.max(leaf(h.min(hosts as f64))).max(leaf(last)).max(inside);
            near(wave, most / BYTES_PER_US, &format!("{hosts} hosts, {ratio}:1"));
        }
    }
}

/// sendrecv: one NIC's rate, whatever the number of hosts.
#[test]
fn sendrecv_is_held_by_one_nic() {
    let fabric = fabric(64, true, 64, 1.0, 2);
    for hosts in [2, 9, 64] {
        let wave =
            bytes_us(&fabric, Placement::Packed, Collective::SendRecv, Way::Direct, 8 * hosts);
        near(wave, 1.0 / (NIC * BYTES_PER_US), &format!("{hosts} hosts"));
    }
}

/// hypercube: chunks of S/n, 1, 2 and 4 of them within a host of eight, 8, 16 … to other hosts by each GPU's own NIC; at 2:1 a step
/// between leaves has half of that.
#[test]
fn a_hypercubes_steps_follow_one_another() {
    let by_hand = |hosts: usize, leaf: usize, slow: f64| {
        let n = 8.0 * hosts as f64;
        let steps = (0..hosts.ilog2()).map(|step| {
            let rate = if 1 << step < leaf { NIC } else { NIC / slow };
            8.0 * f64::from(1 << step) / n / rate
        });
        7.0 / n / INSIDE + steps.sum::<f64>()
    };
    for (ports, ratio) in [(64, 1.0), (24, 2.0)] {
        let fabric = fabric(64, true, ports, ratio, 2);
        let shape = Shape::of(&fabric).expect("built");
        for hosts in [1, 2, 4, 16, 64] {
            let collective = Collective::HyperCube;
            let wave = bytes_us(&fabric, Placement::Packed, collective, Way::Direct, 8 * hosts);
            let expected = by_hand(hosts, shape.hosts_per_block, ratio) / BYTES_PER_US;
            near(wave, expected, &format!("{hosts} hosts, {ratio}:1"));
        }
    }
}

/// Every byte that is sent arrives once: the flows of a way carry what the closed forms say.
#[test]
fn an_empty_wave_takes_nothing() {
    let fabric = fabric(64, true, 64, 1.0, 2);
    let shape = Shape::of(&fabric).expect("built");
    let built = Built::new(&fabric, &shape, &[], Balance::Trunks, INSIDE).expect("no failure");
    let place = Place::new(&built, Balance::Trunks, &shape, 8, &[]);
    let flows = wave::flows(&place, Collective::AllToAll, Way::Direct, &[], 1e9);
    assert_eq!(flows.map(|flows| flows.len()), Some(0));
}

/// A root receives by the NIC of its own GPU, (n−g)/n S of n ranks, g of them on its host; it sends by the rails of all receivers,
/// over its own GPU's links but for its own rail; on one host each moves (g−1)/g S over one GPU's links.
#[test]
fn roots_gather_by_one_nic_and_scatter_by_all() {
    let gather = |fabric: &Fabric, placement, gpus| {
        bytes_us(fabric, placement, Collective::Gather, Way::Direct, gpus) * BYTES_PER_US
    };
    let scatter = |fabric: &Fabric, gpus| {
        bytes_us(fabric, Placement::Packed, Collective::Scatter, Way::Direct, gpus) * BYTES_PER_US
    };
    for hosts in [2, 3, 16, 40] {
        let fabric = fabric(hosts, true, 64, 1.0, 2);
        let n = 8.0 * hosts as f64;
        let away = (n - 8.0) / n;
        for placement in [Placement::Packed, Placement::Scattered(3), Placement::ByRail] {
            near(gather(&fabric, placement, 8 * hosts), away / NIC, "gather");
        }
        let over_links = 7.0 / n + away * 7.0 / 8.0;
        near(scatter(&fabric, 8 * hosts), (over_links / INSIDE).max(away / 8.0 / NIC), "scatter");
    }
    let one = fabric(2, true, 64, 1.0, 2);
    near(gather(&one, Placement::Packed, 8), 7.0 / 8.0 / INSIDE, "gather on a host");
    near(scatter(&one, 8), 7.0 / 8.0 / INSIDE, "scatter on a host");
    // Groups of a host each have a root of their own, with its own links.
    let shape = Shape::of(&one).expect("built");
    let built = Built::new(&one, &shape, &[], Balance::Trunks, INSIDE).expect("no failure");
    let pairs: Vec<Vec<usize>> = (0..8).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
    let pairs = groups::place(&one, &shape.lanes, Placement::Packed, 16, &pairs);
    let place = Place::new(&built, Balance::Trunks, &shape, one.gpus_per_island(), &pairs);
    let us = Wave::of(&place, Collective::Gather, Way::Direct, &pairs).us_per_byte;
    near(us * BYTES_PER_US, 0.5 / INSIDE, "gather in pairs");
    // Hosts of one NIC: both ways it is that of the root.
    let single = fabric(24, false, 12, 2.0, 2);
    near(gather(&single, Placement::Packed, 24), 23.0 / 24.0 / NIC, "gather, hosts of one GPU");
    near(scatter(&single, 24), 23.0 / 24.0 / NIC, "scatter, hosts of one GPU");
}
