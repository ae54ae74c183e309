//! Collectives step by step: every message of every rank is a flow that waits for those before it.
//! Not for many ranks: a ring of n has 2 n² messages. It is what `pipelines` are held against, and it shows transients.

use busbw_core::Collective;

use super::groups::Group;
use super::pipelines::tree_edges;
use super::wave::Place;
use crate::fabric::Port;
use crate::flows::{Flow, Share, merge};

/// What every message takes beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hop {
    /// Microseconds of a message between hosts.
    pub between_us: f64,
    /// Microseconds of a message within a host.
    pub within_us: f64,
}

/// Ranks of a group in the order of hosts: the host's place in the group, and whether the next rank is on another host.
fn ranks(group: &Group) -> Vec<(usize, bool)> {
    let hosts = group.members.len();
    let of_member = |(at, member): (usize, &super::groups::Member)| {
        let last = member.gpus.len() - 1;
        (0..=last).map(move |gpu| (at, gpu == last && hosts > 1)).collect::<Vec<_>>()
    };
    group.members.iter().enumerate().flat_map(of_member).collect()
}

/// Adds a ring's messages: `rounds` × (n−1) steps of a chunk of `chunk` bytes, on every lane an equal part.
/// all_reduce has 2 rounds, all_gather and reduce_scatter 1 (Patarasuk, Yuan, JPDC 69(2), 2009). `None` where a host is cut off.
pub fn ring(
    place: &Place<'_>,
    collective: Collective,
    group: &Group,
    size: f64,
    hop: Hop,
    flows: &mut Vec<Flow>,
) -> Option<()> {
    let ranks = ranks(group);
    let n = ranks.len();
    let steps = (n - 1) * if collective == Collective::AllReduce { 2 } else { 1 };
    let lanes = group.members.iter().map(|member| member.lanes.len()).max().unwrap_or(1);
    for lane in 0..lanes {
        let begin = flows.len();
        for step in 0..steps {
            for (rank, (member, leaves)) in ranks.iter().enumerate() {
                let (path, latency_us) = edge(place, group, *member, *leaves, lane, hop)?;
                // The chunk came from the rank before, and the step before is sent.
                let before = |rank: usize| (begin + (step - 1) * n + rank) as u32;
                let after = match step {
                    0 => Vec::new(),
                    _ => vec![before(rank), before((rank + n - 1) % n)],
                };
                let bytes = size / n as f64 / lanes as f64;
                flows.push(Flow { bytes, path, latency_us, after, start_us: 0.0 });
            }
        }
    }
    Some(())
}

fn edge(
    place: &Place<'_>,
    group: &Group,
    member: usize,
    leaves: bool,
    lane: usize,
    hop: Hop,
) -> Option<(Vec<Share>, f64)> {
    let port = |member: usize| {
        let member = &group.members[member];
        let lane = usize::from(member.lanes[lane % member.lanes.len()]);
        Port { host: member.host, lane }
    };
    let mut path = Vec::new();
    if leaves {
        let next = (member + 1) % group.members.len();
        place.built.cross(port(member), port(next), 0, 1.0, &mut path).then_some(())?;
        merge(&mut path);
        return Some((path, hop.between_us));
    }
    let host = group.members[member].host;
    path.push(Share { link: place.built.inside(host), weight: place.inside_weight(host) });
    Some((path, hop.within_us))
}

/// Adds the messages of an all_reduce over the double binary tree with one rank on every host, in `chunks` chunks of each half
/// (Sanders, Speck, Träff, Parallel Computing 35(12), 2009). `None` where a host is cut off.
pub fn double_tree(
    place: &Place<'_>,
    group: &Group,
    size: f64,
    chunks: usize,
    hop: Hop,
    flows: &mut Vec<Flow>,
) -> Option<()> {
    let hosts = group.members.len();
    let bytes = size / 2.0 / chunks as f64;
    let latency_us = hop.between_us;
    for tree in 0..2 {
        let edges = tree_edges(hosts, tree);
        let root = (0..hosts).find(|node| edges.iter().all(|(child, _)| child != node))?;
        let (begin, per_chunk) = (flows.len(), 2 * edges.len());
        let up = |chunk: usize, edge: usize| (begin + chunk * per_chunk + edge) as u32;
        let down = |chunk: usize, edge: usize| up(chunk, edges.len() + edge);
        let into = |node: usize| edges.iter().enumerate().filter(move |(_, (_, to))| *to == node);
        for chunk in 0..chunks {
            for (at, (child, _)) in edges.iter().enumerate() {
                let mut after: Vec<u32> = into(*child).map(|(edge, _)| up(chunk, edge)).collect();
                after.extend(chunk.checked_sub(1).map(|before| up(before, at)));
                let path = tree_edge(place, group, edges[at])?;
                flows.push(Flow { bytes, path, latency_us, after, start_us: 0.0 });
            }
            for (at, (child, parent)) in edges.iter().enumerate() {
                let mut after: Vec<u32> = if *parent == root {
                    into(root).map(|(edge, _)| up(chunk, edge)).collect()
                } else {
                    let to_parent = edges.iter().position(|(node, _)| node == parent);
                    to_parent.map(|edge| down(chunk, edge)).into_iter().collect()
                };
                after.extend(chunk.checked_sub(1).map(|before| down(before, at)));
                let path = tree_edge(place, group, (*parent, *child))?;
                flows.push(Flow { bytes, path, latency_us, after, start_us: 0.0 });
            }
        }
    }
    Some(())
}

fn tree_edge(place: &Place<'_>, group: &Group, edge: (usize, usize)) -> Option<Vec<Share>> {
    let port = |member: usize| {
        let member = &group.members[member];
        Port { host: member.host, lane: usize::from(member.lanes[0]) }
    };
    let mut path = Vec::new();
    place.built.cross(port(edge.0), port(edge.1), 0, 1.0, &mut path).then_some(())?;
    merge(&mut path);
    Some(path)
}
