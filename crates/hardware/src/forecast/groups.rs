//! Where the ranks of groups run: hosts, and GPUs of them.
//! Not which links their bytes take (`pipelines`, `alltoall`).

use std::collections::HashMap;

use busbw_stats::random::Random;

use crate::fabric::{Fabric, Lanes};

/// Where ranks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Neighbours fill one host after the other, hosts in the fabric's order.
    Packed,
    /// The same over hosts drawn by a seed from the whole fabric, in a random order.
    Scattered(u64),
    /// Neighbours on the same GPU number of one host after the other, and so on one rail.
    ByRail,
}

/// Ranks of a group on one host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// The host.
    pub host: usize,
    /// Its GPUs.
    pub gpus: Vec<u16>,
    /// The lanes of these GPUs, each once.
    pub lanes: Vec<u16>,
}

/// A group of ranks that communicate, by hosts in the order of their first ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Hosts with ranks.
    pub members: Vec<Member>,
    /// Ranks in all.
    pub ranks: usize,
}

impl Group {
    /// Ranks on each host, where they are as many on all.
    pub fn per_host(&self) -> Option<usize> {
        let first = self.members.first()?.gpus.len();
        self.members.iter().all(|member| member.gpus.len() == first).then_some(first)
    }
}

/// Puts groups of rank numbers onto hosts.
pub fn place(
    fabric: &Fabric,
    lanes: &Lanes,
    placement: Placement,
    gpus: usize,
    ranks: &[Vec<usize>],
) -> Vec<Group> {
    let per_host = fabric.gpus_per_host().max(1);
    let hosts = gpus.div_ceil(per_host).max(1);
    let mut order: Vec<usize> = (0..fabric.hosts).collect();
    if let Placement::Scattered(seed) = placement {
        Random::new(seed).shuffle(&mut order);
    }
    let seat = |rank: usize| match placement {
        Placement::ByRail => (order[rank % hosts], rank / hosts),
        _ => (order[rank / per_host], rank % per_host),
    };
    let group = |ranks: &Vec<usize>| {
        let mut members: Vec<Member> = Vec::new();
        let mut known: HashMap<usize, usize> = HashMap::new();
        for (host, gpu) in ranks.iter().map(|rank| seat(*rank)) {
            let at = *known.entry(host).or_insert_with(|| {
                members.push(Member { host, gpus: Vec::new(), lanes: Vec::new() });
                members.len() - 1
            });
            members[at].gpus.push(gpu as u16);
        }
        for member in &mut members {
            let lane = |gpu: &u16| (*gpu as usize * lanes.count / per_host) as u16;
            member.lanes = member.gpus.iter().map(lane).collect();
            member.lanes.sort_unstable();
            member.lanes.dedup();
        }
        Group { members, ranks: ranks.len() }
    };
    ranks.iter().map(group).collect()
}

/// GPUs of each host that groups use.
pub fn used(hosts: usize, groups: &[Group]) -> Vec<usize> {
    let mut used = vec![0; hosts];
    for member in groups.iter().flat_map(|group| &group.members) {
        used[member.host] += member.gpus.len();
    }
    used
}
