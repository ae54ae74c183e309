//! hypercube as flows: in each step every rank exchanges with the one whose number differs in one bit, twice as many bytes as before.
//! Not their latency (`answer`). Ranks are numbered island by island.

use std::collections::BTreeMap;

use super::groups::{Group, Placement};
use super::pipelines::towards;
use super::question::Unanswerable;
use super::wave::Place;
use crate::fabric::Port;
use crate::flows::{Flow, Share, merge};

/// Whether these groups of a dimension can be asked for.
///
/// # Errors
/// Ranks are no power of two, or which of them are on one island is not what is modelled.
pub fn check(dimension: &str, placement: Placement, groups: &[Group]) -> Result<(), Unanswerable> {
    let refused = |text: String| Err(Unanswerable::HyperCube(text));
    for group in groups {
        let ranks = group.ranks;
        if !ranks.is_power_of_two() {
            return refused(format!(
                "it needs a power of two of ranks, and {dimension} has {ranks}"
            ));
        }
        if group.per_host().is_none() {
            let hosts = group.members.len();
            return refused(format!(
                "the {ranks} ranks of {dimension} fill {hosts} hosts or NVLink domains unevenly: ask for as many on each"
            ));
        }
        if placement == Placement::ByRail && ranks > group.members.len() {
            return refused(
                "its ranks are taken as numbered host by host: place them packed or scattered"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Steps of these groups, whose ranks are a power of two.
pub fn steps(groups: &[Group]) -> u32 {
    groups.iter().map(|group| group.ranks.max(1).ilog2()).max().unwrap_or(0)
}

/// The flows of a step, counted from 0, for `size` bytes of the size column; `None` where a host is cut off.
pub fn step(place: &Place<'_>, groups: &[Group], size: f64, step: u32) -> Option<Vec<Flow>> {
    let mut flows = Vec::new();
    for (key, group) in groups.iter().enumerate() {
        if step >= group.ranks.ilog2() {
            continue;
        }
        let bytes = size / group.ranks as f64 * f64::from(1u32 << step);
        let ranks: Vec<(usize, u16)> = group
            .members
            .iter()
            .enumerate()
            .flat_map(|(at, member)| member.gpus.iter().map(move |gpu| (at, *gpu)))
            .collect();
        let mut within = vec![0.0; group.members.len()];
        // Ranks of an island that use the same lanes to the same island are one flow.
        let mut between: BTreeMap<[usize; 2], BTreeMap<[u16; 2], f64>> = BTreeMap::new();
        for (rank, (at, gpu)) in ranks.iter().enumerate() {
            let (to, peer) = ranks[rank ^ (1 << step)];
            if to == *at {
                within[to] += bytes;
                continue;
            }
            let own = towards(&group.members[*at], place.lane_of(*gpu), place.lane_of(peer));
            let lanes = between.entry([*at, to]).or_default();
            *lanes.entry([own, place.lane_of(peer)]).or_default() += bytes;
        }
        for (member, bytes) in group.members.iter().zip(within) {
            if bytes > 0.0 {
                let weight = place.inside_weight(member.host);
                let path = vec![Share { link: place.built.inside(member.host), weight }];
                flows.push(Flow { bytes, path, ..Flow::default() });
            }
        }
        for ([from, to], lanes) in between {
            for ([own, lane], bytes) in lanes {
                let port = |at: usize, lane: u16| Port {
                    host: group.members[at].host,
                    lane: usize::from(lane),
                };
                let mut path = Vec::new();
                let (a, b) = (port(from, own), port(to, lane));
                place.built.cross(a, b, key as u64, 1.0, &mut path).then_some(())?;
                merge(&mut path);
                flows.push(Flow { bytes, path, ..Flow::default() });
            }
        }
    }
    Some(flows)
}
