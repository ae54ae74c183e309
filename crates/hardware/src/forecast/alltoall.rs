//! alltoall as flows: host pairs one by one, or classes of pairs between hosts that are alike.
//! Not rounds: all pairs send at once, as a fluid. What two hosts are told apart by is here; `flows::classes` merges what is left.

use std::collections::HashMap;

use busbw_core::pattern::derive_seed;

use super::groups::{Group, Member};
use super::pipelines::towards;
use super::wave::Place;
use crate::fabric::Port;
use crate::flows::Share;

/// Bytes and path of a flow, whose links may be named several times.
pub type Each<'a> = dyn FnMut(f64, &[Share]) + 'a;

/// A flow for every pair of hosts and lane of the receiver, one at a time: of thousands of hosts they are too many to be kept.
/// `None` where a host is cut off.
pub fn by_pairs(place: &Place<'_>, groups: &[Group], size: f64, each: &mut Each<'_>) -> Option<()> {
    let mut path = Vec::new();
    for (key, group) in groups.iter().enumerate() {
        for from in &group.members {
            within(place, group, from, size, each);
            for to in group.members.iter().filter(|to| to.host != from.host) {
                for (own, lane, bytes) in lanes(place, group, from, to, size) {
                    path.clear();
                    let (a, b) = (port(from, own), port(to, lane));
                    place.built.cross(a, b, key as u64, 1.0, &mut path).then_some(())?;
                    each(bytes, &path);
                }
            }
        }
    }
    Some(())
}

/// How many flows `by_pairs` makes between hosts.
pub fn pairs(groups: &[Group]) -> usize {
    let of = |group: &Group| {
        let lanes: usize = group.members.iter().map(|member| member.lanes.len()).sum();
        lanes * group.members.len().saturating_sub(1)
    };
    groups.iter().map(of).fold(0, usize::saturating_add)
}

fn port(member: &Member, lane: u16) -> Port {
    Port { host: member.host, lane: usize::from(lane) }
}

/// Lanes from one host to another, and the bytes of each: what all ranks here send to the ranks there that use it.
fn lanes(
    place: &Place<'_>,
    group: &Group,
    from: &Member,
    to: &Member,
    size: f64,
) -> Vec<(u16, u16, f64)> {
    let each = size / group.ranks as f64 * from.gpus.len() as f64;
    let ways = to.lanes.iter().enumerate().map(|(at, lane)| {
        let there = to.gpus.iter().filter(|gpu| place.lane_of(**gpu) == *lane).count() as f64;
        let own = from.lanes[at % from.lanes.len()];
        (towards(from, own, *lane), *lane, each * there)
    });
    ways.collect()
}

/// What ranks of one host send each other, and what they pass to the GPU of the receiver's lane.
pub(super) fn within(
    place: &Place<'_>,
    group: &Group,
    member: &Member,
    size: f64,
    each: &mut Each<'_>,
) {
    let (n, here) = (group.ranks as f64, member.gpus.len() as f64);
    let passed = if member.lanes.len() > 1 { (n - here) * (here - 1.0) / here } else { 0.0 };
    let bytes = size / n * here * (here - 1.0 + passed);
    let weight = place.inside_weight(member.host);
    if bytes > 0.0 {
        each(bytes, &[Share { link: place.built.inside(member.host), weight }]);
    }
}

/// Hosts that are alike in a block, blocks that are alike in a pod, pods that are alike.
struct Alike<'a> {
    member: &'a Member,
    /// Numbers of the classes, and how many of the last are in one of the one before.
    pod: (usize, usize),
    block: (usize, usize),
    hosts: usize,
}

/// A flow for every class of pairs: alike are hosts of the same groups, over links of the same rates, in blocks and pods with
/// equally many such hosts. Only for trunks. `None` where a host is cut off.
pub fn by_classes(
    place: &Place<'_>,
    groups: &[Group],
    size: f64,
    each: &mut Each<'_>,
) -> Option<()> {
    let classes = alike(place, groups);
    for (group, alike) in groups.iter().zip(&classes) {
        for from in alike {
            within(place, group, from.member, size, each);
            for to in alike {
                between(place, group, from, to, size, each)?;
            }
        }
    }
    Some(())
}

fn between(
    place: &Place<'_>,
    group: &Group,
    from: &Alike<'_>,
    to: &Alike<'_>,
    size: f64,
    each: &mut Each<'_>,
) -> Option<()> {
    let same_pod = from.pod.0 == to.pod.0;
    let same_block = same_pod && from.block.0 == to.block.0;
    let same_host = same_block && from.member.host == to.member.host;
    // How many of one class a host of the other has in its own block, in other blocks of its pod, and in other pods.
    let seen = |of: &Alike<'_>| {
        [
            if same_block { of.hosts - usize::from(same_host) } else { 0 },
            if same_pod { of.hosts * (of.block.1 - usize::from(same_block)) } else { 0 },
            of.hosts * of.block.1 * (of.pod.1 - usize::from(same_pod)),
        ]
    };
    for (turn, (peers, sources)) in seen(to).into_iter().zip(seen(from)).enumerate() {
        if peers == 0 {
            continue;
        }
        for (own, lane, bytes) in lanes(place, group, from.member, to.member, size) {
            let (a, b) = (port(from.member, own), port(to.member, lane));
            let path = trunks(place, turn, (a, peers as f64, from), (b, sources as f64, to))?;
            each(bytes, &path);
        }
    }
    Some(())
}

type End<'a> = (Port, f64, &'a Alike<'a>);

/// What the flows of a class that turn at a tier take of one trunk of each kind, per byte of one flow.
fn trunks(place: &Place<'_>, turn: usize, from: End<'_>, to: End<'_>) -> Option<Vec<Share>> {
    let mut path = Vec::new();
    for (down, (port, others, alike)) in [(0, from), (1, to)] {
        let of_block = others * alike.hosts as f64;
        let of_pod = of_block * alike.block.1 as f64;
        let [host, leaf, pod] = place.built.trunks(port, down == 1);
        let mut add = |link: u32, weight: f64| path.push(Share { link, weight });
        add(host, others);
        if turn > 0 || place.shape.rail_of(from.0.lane) != place.shape.rail_of(to.0.lane) {
            add(leaf, of_block);
        }
        if turn > 1 {
            add(pod, of_pod);
        }
    }
    let whole = |share: &Share| place.built.capacity[share.link as usize] > 0.0;
    path.iter().all(whole).then_some(path)
}

/// For every group, the classes of its hosts.
fn alike<'a>(place: &Place<'_>, groups: &'a [Group]) -> Vec<Vec<Alike<'a>>> {
    let shape = place.shape;
    let rate = |link: u32| place.built.capacity[link as usize].to_bits();
    // What a host is: the groups on it with their GPUs, and the rates of its links.
    let mut of_host = vec![0u64; shape.hosts];
    for (number, group) in groups.iter().enumerate() {
        for member in &group.members {
            let gpus = member
                .gpus
                .iter()
                .fold(number as u64, |sum, gpu| derive_seed(sum, u64::from(*gpu)));
            let sum = &mut of_host[member.host];
            *sum = sum.wrapping_add(derive_seed(gpus, 1));
        }
    }
    let mut of_block = vec![0u64; shape.blocks];
    for (host, sum) in of_host.iter_mut().enumerate() {
        for lane in 0..shape.lanes.count {
            for down in [false, true] {
                let [port, ..] = place.built.trunks(Port { host, lane }, down);
                *sum = derive_seed(*sum, rate(port));
            }
        }
        let of_block = &mut of_block[shape.block_of(host)];
        *of_block = of_block.wrapping_add(derive_seed(*sum, 2));
    }
    let mut of_pod = vec![0u64; shape.pods];
    for (block, sum) in of_block.iter_mut().enumerate() {
        let host = block * shape.hosts_per_block;
        let mut pod_rates = 0;
        for lane in 0..shape.lanes.count {
            for down in [false, true] {
                let [_, leaf, pod] = place.built.trunks(Port { host, lane }, down);
                *sum = derive_seed(*sum, rate(leaf));
                pod_rates = derive_seed(pod_rates, rate(pod));
            }
        }
        let of_pod = &mut of_pod[shape.pod_of(block)];
        *of_pod = of_pod.wrapping_add(derive_seed(derive_seed(*sum, pod_rates), 3));
    }
    let pods = counts(of_pod.iter().copied());
    let blocks = counts((0..shape.blocks).map(|at| (shape.pod_of(at), of_block[at])));
    let hosts = counts((0..shape.hosts).map(|at| (shape.block_of(at), of_host[at])));
    // The first pod and block of each kind stand for all.
    let first_pod = first((0..shape.pods).map(|pod| of_pod[pod]));
    let first_block = first((0..shape.blocks).map(|at| (shape.pod_of(at), of_block[at])));
    let of_group = |group: &'a Group| {
        let mut seen = std::collections::HashSet::new();
        let mut classes = Vec::new();
        for member in &group.members {
            let block = shape.block_of(member.host);
            let pod = shape.pod_of(block);
            let of_pod = of_pod[pod];
            let in_block = (block, of_host[member.host]);
            let stands = first_pod[&of_pod] == pod && first_block[&(pod, of_block[block])] == block;
            if stands && seen.insert(in_block) {
                classes.push(Alike {
                    member,
                    pod: (pod, pods[&of_pod]),
                    block: (block, blocks[&(pod, of_block[block])]),
                    hosts: hosts[&in_block],
                });
            }
        }
        classes
    };
    groups.iter().map(of_group).collect()
}

fn counts<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    keys.for_each(|key| *counts.entry(key).or_insert(0) += 1);
    counts
}

fn first<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut first = HashMap::new();
    keys.enumerate().for_each(|(at, key)| {
        first.entry(key).or_insert(at);
    });
    first
}
