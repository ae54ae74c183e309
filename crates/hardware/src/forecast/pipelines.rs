//! Rings, trees and PAT as flows: a pipeline moves at one pace, so that all its edges are one flow over many links.
//! Not its steps one by one (`steps`), to which this is held, and no latency.

use busbw_core::Collective;

use super::groups::{Group, Member};
use super::wave::{Place, Way};
use crate::fabric::Port;
use crate::flows::{Flow, Share, merge};

/// Adds a group's pipelines: one for each lane, and each tree. `None` where a host is cut off.
pub fn of_group(
    place: &Place<'_>,
    collective: Collective,
    way: Way,
    group: &Group,
    key: u64,
    size: f64,
    flows: &mut Vec<Flow>,
) -> Option<()> {
    let n = group.ranks as f64;
    if group.ranks < 2 {
        return Some(());
    }
    let lanes = group.members.iter().map(|member| member.lanes.len()).max().unwrap_or(1);
    match way {
        Way::Ring => {
            let (sent, closes) = match collective {
                Collective::AllReduce => (2.0 * (n - 1.0) / n, true),
                Collective::Broadcast | Collective::Reduce => (1.0, false),
                _ => ((n - 1.0) / n, true),
            };
            for lane in 0..lanes {
                let path = ring(place, group, lane, key, closes)?;
                flows.push(Flow { bytes: sent * size / lanes as f64, path, ..Flow::default() });
            }
        }
        Way::Tree | Way::NvlsTree => {
            for (tree, lane) in (0..2).flat_map(|tree| (0..lanes).map(move |lane| (tree, lane))) {
                let path = double_tree(place, group, way, tree, lane, key)?;
                flows.push(Flow { bytes: size / 2.0 / lanes as f64, path, ..Flow::default() });
            }
        }
        Way::Pat => {
            for lane in 0..lanes {
                let path = doubling(place, group, lane, key)?;
                let bytes = (n - 1.0) / n * size / lanes as f64;
                flows.push(Flow { bytes, path, ..Flow::default() });
            }
        }
        Way::Direct => {}
    }
    Some(())
}

fn port(group: &Group, member: usize, lane: usize) -> Port {
    let member = &group.members[member];
    let lanes = &member.lanes;
    Port { host: member.host, lane: usize::from(lanes[lane % lanes.len()]) }
}

/// A ring leaves each host once, and passes all its other ranks.
fn ring(
    place: &Place<'_>,
    group: &Group,
    lane: usize,
    key: u64,
    closes: bool,
) -> Option<Vec<Share>> {
    let hosts = group.members.len();
    let mut path = Vec::new();
    for (at, member) in group.members.iter().enumerate() {
        let sends = match member.gpus.len() {
            ranks if hosts == 1 && closes => ranks,
            ranks => ranks - 1,
        };
        if sends > 0 {
            let weight = sends as f64 * place.inside_weight(member.host);
            path.push(Share { link: place.built.inside(member.host), weight });
        }
        if hosts > 1 && (closes || at + 1 < hosts) {
            let (from, to) = (port(group, at, lane), port(group, (at + 1) % hosts, lane));
            place.built.cross(from, to, key, 1.0, &mut path).then_some(())?;
        }
    }
    merge(&mut path);
    Some(path)
}

/// The parent of a node in NCCL's binary tree that alternates leaves and inner nodes, with root 0
/// (`ncclGetBtree`, src/graph/trees.cc).
fn btree_parent(nodes: usize, node: usize) -> Option<usize> {
    if node == 0 {
        return None;
    }
    let bit = 1 << node.trailing_zeros();
    let up = (node ^ bit) | (bit << 1);
    Some(if up >= nodes { node ^ bit } else { up })
}

/// Edges of the first or second tree (child, parent): the second is the first mirrored, or shifted by one where the number is
/// odd (`ncclGetDtree`).
pub fn tree_edges(nodes: usize, tree: usize) -> Vec<(usize, usize)> {
    let of_tree = |node: usize| match tree {
        0 => node,
        _ if nodes % 2 == 1 => (node + 1) % nodes,
        _ => nodes - 1 - node,
    };
    let edges = (1..nodes).filter_map(|node| Some((node, btree_parent(nodes, node)?)));
    edges.map(|(node, parent)| (of_tree(node), of_tree(parent))).collect()
}

/// Reduces up and broadcasts down at once. In a host a chain sends up and down between neighbours; NVSwitches take 1 + 1/g of
/// each of g GPUs (`limits::traffic`).
fn double_tree(
    place: &Place<'_>,
    group: &Group,
    way: Way,
    tree: usize,
    lane: usize,
    key: u64,
) -> Option<Vec<Share>> {
    let mut path = Vec::new();
    for member in &group.members {
        let ranks = member.gpus.len() as f64;
        let sends = if way == Way::Tree { 2.0 * (ranks - 1.0) } else { ranks + 1.0 };
        if ranks > 1.0 {
            let weight = sends * place.inside_weight(member.host);
            path.push(Share { link: place.built.inside(member.host), weight });
        }
    }
    for (child, parent) in tree_edges(group.members.len(), tree) {
        let (child, parent) = (port(group, child, lane), port(group, parent, lane));
        for (from, to) in [(child, parent), (parent, child)] {
            let key = key * 2 + tree as u64;
            place.built.cross(from, to, key, 1.0, &mut path).then_some(())?;
        }
    }
    merge(&mut path);
    Some(path)
}

/// PAT sends to ranks at distances 1, 2, 4, … (`src/include/collectives.h`): at distance d the min(d, n−d) chunks that
/// Bruck's algorithm has there.
fn doubling(place: &Place<'_>, group: &Group, lane: usize, key: u64) -> Option<Vec<Share>> {
    let hosts = group.members.len();
    let mut path = Vec::new();
    let mut distance = 1;
    while distance < hosts {
        let chunks = distance.min(hosts - distance) as f64 / (hosts - 1) as f64;
        for at in 0..hosts {
            let (from, to) = (port(group, at, lane), port(group, (at + distance) % hosts, lane));
            place.built.cross(from, to, key, chunks, &mut path).then_some(())?;
        }
        distance *= 2;
    }
    merge(&mut path);
    Some(path)
}

/// The lane by which a rank on one host sends to a lane of another: the same one where a GPU there is in the group, since NCCL
/// passes such messages to the GPU on the receiver's rail (PXN); else its own.
pub fn towards(from: &Member, own: u16, to: u16) -> u16 {
    if from.lanes.contains(&to) { to } else { own }
}

/// sendrecv: every rank to the next one, each a flow of its own.
pub fn to_next(
    place: &Place<'_>,
    groups: &[Group],
    size: f64,
    flows: &mut Vec<Flow>,
) -> Option<()> {
    let within = |group: &Group, member: &Member| {
        let closes = group.members.len() == 1 && group.ranks > 1;
        member.gpus.len() - 1 + usize::from(closes)
    };
    let mut sends = vec![0usize; place.used.len()];
    for group in groups {
        for member in &group.members {
            sends[member.host] += within(group, member);
        }
    }
    for (key, group) in groups.iter().enumerate() {
        let hosts = group.members.len();
        for (at, member) in group.members.iter().enumerate() {
            // Between two GPUs of a host each flow has one GPU's links to itself.
            let weight = place.gpus_per_island as f64 / sends[member.host].max(1) as f64;
            let inside = Share { link: place.built.inside(member.host), weight };
            for _ in 0..within(group, member) {
                flows.push(Flow { bytes: size, path: vec![inside], ..Flow::default() });
            }
            if hosts > 1 {
                let next = &group.members[(at + 1) % hosts];
                let own = member.lanes[member.lanes.len() - 1];
                let lane = towards(member, own, next.lanes[0]);
                let from = Port { host: member.host, lane: usize::from(lane) };
                let to = Port { host: next.host, lane: usize::from(next.lanes[0]) };
                let mut path = Vec::new();
                place.built.cross(from, to, key as u64, 1.0, &mut path).then_some(())?;
                merge(&mut path);
                flows.push(Flow { bytes: size, path, ..Flow::default() });
            }
        }
    }
    Some(())
}
