//! gather and scatter as flows: every rank with the root, which is the group's first rank.
//! Not their latencies, and no trees: NCCL sends and receives.
//!
//! A root receives by the NICs of its own GPU: NCCL's receiving side passes nothing between GPUs (`recvSetup` of
//! src/transport/net.cc, "We don't support PXN on receive yet"), and senders pass their messages to the GPU on the root's rail.
//! What a root sends leaves by the rails of its receivers.

use busbw_core::Collective;

use super::groups::{Group, Member};
use super::pipelines::towards;
use super::wave::Place;
use crate::fabric::Port;
use crate::flows::{Flow, Share, merge};

/// Adds the flows of all groups. `None` where a host is cut off.
pub fn flows(
    place: &Place<'_>,
    collective: Collective,
    groups: &[Group],
    size: f64,
    flows: &mut Vec<Flow>,
) -> Option<()> {
    let mut roots = vec![0usize; place.used.len()];
    groups.iter().filter_map(|group| group.members.first()).for_each(|root| roots[root.host] += 1);
    for (key, group) in groups.iter().enumerate() {
        let Some((root, others)) = group.members.split_first() else { continue };
        let each = size / group.ranks as f64;
        let own = lane(place, root, 0);
        // The links of one GPU alone carry what the root's island keeps; roots of other groups have theirs.
        let weight = place.gpus_per_island as f64 / roots[root.host] as f64;
        let inside = Share { link: place.built.inside(root.host), weight };
        let here = (root.gpus.len() - 1) as f64 * each;
        if here > 0.0 {
            flows.push(Flow { bytes: here, path: vec![inside], ..Flow::default() });
        }
        for other in others {
            for (theirs, ranks) in by_lane(place, other) {
                let (from, to) = match collective {
                    Collective::Gather => {
                        ((other.host, towards(other, theirs, own)), (root.host, own))
                    }
                    _ => ((root.host, towards(root, own, theirs)), (other.host, theirs)),
                };
                let port = |(host, lane)| Port { host, lane: usize::from(lane) };
                let mut path = Vec::new();
                place.built.cross(port(from), port(to), key as u64, 1.0, &mut path).then_some(())?;
                if collective == Collective::Scatter && from.1 != own {
                    path.push(inside);
                }
                merge(&mut path);
                flows.push(Flow { bytes: ranks as f64 * each, path, ..Flow::default() });
            }
        }
    }
    Some(())
}

/// The lane of a member's rank.
fn lane(place: &Place<'_>, member: &Member, rank: usize) -> u16 {
    place.lane_of(member.gpus[rank])
}

/// The lanes of a member, each with the ranks that have it.
fn by_lane(place: &Place<'_>, member: &Member) -> Vec<(u16, usize)> {
    let of = |at: usize| lane(place, member, at);
    let ranks = |lane: u16| (0..member.gpus.len()).filter(|at| of(*at) == lane).count();
    member.lanes.iter().map(|lane| (*lane, ranks(*lane))).collect()
}
