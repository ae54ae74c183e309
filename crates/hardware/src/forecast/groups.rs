//! Where the ranks of groups run: hosts, and GPUs of them.
//! Not which links their bytes take (`pipelines`, `alltoall`).

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

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

/// Why a text is no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no placement: `packed`, `scattered`, `scattered:SEED` or `rail`")]
pub struct BadPlacement(String);

impl FromStr for Placement {
    type Err = BadPlacement;

    fn from_str(text: &str) -> Result<Placement, BadPlacement> {
        match text.split_once(':') {
            None if text == "packed" => Ok(Placement::Packed),
            None if text == "scattered" => Ok(Placement::Scattered(1)),
            None if text == "rail" => Ok(Placement::ByRail),
            Some(("scattered", seed)) => {
                seed.parse().map(Placement::Scattered).map_err(|_| BadPlacement(text.to_owned()))
            }
            _ => Err(BadPlacement(text.to_owned())),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Packed => f.write_str("packed"),
            Placement::Scattered(seed) => write!(f, "scattered:{seed}"),
            Placement::ByRail => f.write_str("rail"),
        }
    }
}

/// Ranks of a group on one island: a host, or an NVLink domain of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// The island.
    pub host: usize,
    /// Its GPUs.
    pub gpus: Vec<u16>,
    /// The lanes of these GPUs, each once.
    pub lanes: Vec<u16>,
}

/// A group of ranks that communicate, by islands in the order of their first ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Islands with ranks.
    pub members: Vec<Member>,
    /// Ranks in all.
    pub ranks: usize,
}

impl Group {
    /// Ranks on each island, where they are as many on all.
    pub fn per_host(&self) -> Option<usize> {
        let first = self.members.first()?.gpus.len();
        self.members.iter().all(|member| member.gpus.len() == first).then_some(first)
    }
}

impl Member {
    /// Hosts with ranks, of islands whose hosts have so many GPUs.
    pub fn hosts(&self, gpus_per_host: usize) -> usize {
        let mut hosts: Vec<usize> =
            self.gpus.iter().map(|gpu| usize::from(*gpu) / gpus_per_host.max(1)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    }
}

/// Puts groups of rank numbers onto islands.
pub fn place(
    fabric: &Fabric,
    lanes: &Lanes,
    placement: Placement,
    gpus: usize,
    ranks: &[Vec<usize>],
) -> Vec<Group> {
    let per_host = fabric.gpus_per_island().max(1);
    let hosts = gpus.div_ceil(per_host).max(1);
    let mut order: Vec<usize> = (0..fabric.islands()).collect();
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

#[cfg(test)]
mod tests {
    use super::super::job::Job;
    use super::*;
    use crate::fabric::ready::ready;

    #[test]
    fn texts() {
        for text in ["packed", "scattered:7", "rail"] {
            assert_eq!(
                text.parse::<Placement>().map(|placement| placement.to_string()),
                Ok(text.into())
            );
        }
        assert_eq!("scattered".parse(), Ok(Placement::Scattered(1)));
        for text in ["", "scattered:x", "rail:1", "Packed"] {
            assert!(text.parse::<Placement>().is_err(), "{text}");
        }
    }

    #[test]
    fn where_ranks_are() {
        let fabric = ready("clos-2tier").expect("an example");
        let lanes = fabric.lanes().expect("NICs");
        let groups = Job::all(16).groups(0, 16);
        let hosts = |placement| {
            let group = &place(&fabric, &lanes, placement, 16, &groups)[0];
            group.members.iter().map(|member| (member.host, member.gpus.len())).collect::<Vec<_>>()
        };
        assert_eq!(hosts(Placement::Packed), [(0, 8), (1, 8)]);
        assert_eq!(hosts(Placement::ByRail), [(0, 8), (1, 8)]);
        assert_ne!(hosts(Placement::Scattered(1)), hosts(Placement::Scattered(2)));
        let pairs: Job = "tp2,dp".parse::<Job>().expect("a job").fill(16).expect("divides");
        let by_rail = place(&fabric, &lanes, Placement::ByRail, 16, &pairs.groups(0, 16));
        let first: Vec<_> =
            by_rail[0].members.iter().map(|member| (member.host, member.gpus.clone())).collect();
        assert_eq!(first, [(0, vec![0]), (1, vec![0])]);
    }
}
