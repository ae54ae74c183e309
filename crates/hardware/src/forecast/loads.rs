//! What a wave puts onto every trunk: bytes of each for a byte of the size column.
//! Not how long they take: where all flows carry the same, that follows (`Loads::level`); else `wave` simulates it.

use busbw_core::Collective;

use super::alltoall;
use super::groups::{Group, Member};
use super::wave::{self, Place, Way};
use crate::fabric::{Balance, Port};
use crate::flows::Flow;

/// Bytes of links.
#[derive(Debug, Clone, PartialEq)]
pub struct Loads {
    /// Bytes of every link per byte of the size column, by the numbers of `Built::capacity`.
    pub bytes: Vec<f64>,
    /// Whether the busiest link alone decides the time. So it does where all flows that share links carry the same number of
    /// bytes: progressive filling first stops at the least level, capacity over weights; all flows have at least that rate, and
    /// none gets less when others end. So all end by bytes / level, before which the link of that level cannot end.
    pub level: bool,
}

/// Most pairs of hosts of an alltoall whose ranks are not spread evenly.
const MAX_PAIRS: usize = 2_000_000;

impl Loads {
    /// The loads of a collective among groups, by trunks; `None` where they are too many to be counted one by one.
    pub fn of(
        place: &Place<'_>,
        collective: Collective,
        way: Way,
        groups: &[Group],
    ) -> Option<Loads> {
        if way != Way::Direct || collective != Collective::AllToAll {
            return Some(Loads::of_flows(
                place,
                &wave::flows(place, collective, way, groups, 1.0)?,
            ));
        }
        if groups.iter().all(|group| even(place, group)) {
            return Some(Loads::of_even_alltoall(place, groups));
        }
        let pairs: usize = groups.iter().map(|group| group.members.len().pow(2)).sum();
        if pairs > MAX_PAIRS {
            return None;
        }
        Some(Loads::of_flows(place, &wave::by_pairs(place, groups, 1.0)?))
    }

    /// Microseconds a byte of the busiest link: no wave is faster.
    pub fn us_per_byte(&self, capacity: &[f64]) -> f64 {
        let times = self.bytes.iter().zip(capacity).filter(|(bytes, _)| **bytes > 0.0);
        times.map(|(bytes, rate)| bytes / rate).fold(0.0, f64::max)
    }

    /// The link that is busy for the longest, the first of several.
    pub fn busiest(&self, capacity: &[f64]) -> Option<u32> {
        let most = self.us_per_byte(capacity) * (1.0 - 1e-9);
        let mut links = self.bytes.iter().zip(capacity);
        let busiest = links.position(|(bytes, rate)| *bytes > 0.0 && bytes / rate >= most);
        busiest.map(|link| link as u32)
    }

    /// The loads of an alltoall over trunks, where its ranks are spread evenly and the busiest link alone decides the time.
    pub fn of_level_alltoall(place: &Place<'_>, groups: &[Group]) -> Option<Loads> {
        let even = place.balance == Balance::Trunks && groups.iter().all(|one| even(place, one));
        even.then(|| Loads::of_even_alltoall(place, groups)).filter(|loads| loads.level)
    }

    fn of_flows(place: &Place<'_>, flows: &[Flow]) -> Loads {
        let mut bytes = vec![0.0; place.built.capacity.len()];
        for flow in flows {
            for share in &flow.path {
                bytes[share.link as usize] += flow.bytes * share.weight;
            }
        }
        let inner = |flow: &&Flow| flow.path.iter().all(|share| place.built.is_inside(share.link));
        let crossing: Vec<&Flow> = flows.iter().filter(|flow| !inner(flow)).collect();
        let apart = crossing
            .iter()
            .all(|flow| !flow.path.iter().any(|share| place.built.is_inside(share.link)));
        let level = match apart {
            // Flows within a host have one link, which is never idle.
            true => alike(crossing.iter().map(|flow| flow.bytes)),
            false => alike(flows.iter().map(|flow| flow.bytes)),
        };
        Loads { bytes, level }
    }

    /// Ranks of a group on as many GPUs of every host, at the same lanes: every pair of hosts exchanges the same.
    fn of_even_alltoall(place: &Place<'_>, groups: &[Group]) -> Loads {
        let mut bytes = vec![0.0; place.built.capacity.len()];
        let mut flows = Vec::new();
        for group in groups {
            let (n, hosts) = (group.ranks as f64, group.members.len());
            let Some(first) = group.members.first() else { continue };
            let (here, lanes) = (first.gpus.len() as f64, first.lanes.len() as f64);
            // From one host to one other, by one lane.
            let each = here * here / lanes / n;
            if hosts > 1 {
                flows.push(each);
            }
            for lane in first.lanes.iter().copied() {
                let port =
                    |at: usize| Port { host: group.members[at].host, lane: usize::from(lane) };
                let mut within = std::collections::BTreeMap::<u32, usize>::new();
                for at in 0..hosts {
                    // Trunks of a host, its leaf and its pod, upwards.
                    for trunk in place.built.trunks(port(at), false) {
                        *within.entry(trunk).or_insert(0) += 1;
                    }
                }
                for (trunk, inside) in within {
                    let crossing = (inside * (hosts - inside)) as f64 * each;
                    bytes[trunk as usize] += crossing;
                    bytes[trunk as usize + 1] += crossing;
                }
            }
            for member in &group.members {
                alltoall::within(place, group, member, 1.0, &mut |carried, path| {
                    path.iter()
                        .for_each(|share| bytes[share.link as usize] += carried * share.weight);
                });
            }
        }
        Loads { bytes, level: alike(flows.into_iter()) }
    }
}

/// As many ranks on each host, as many of them at each lane, the same lanes.
fn even(place: &Place<'_>, group: &Group) -> bool {
    let lanes = place.shape.lanes.count;
    let of_lanes = |member: &Member| {
        let mut ranks = vec![0usize; lanes];
        for gpu in &member.gpus {
            ranks[usize::from(*gpu) * lanes / place.gpus_per_island] += 1;
        }
        ranks
    };
    let Some(first) = group.members.first().map(of_lanes) else { return true };
    let most = first.iter().max().copied().unwrap_or(0);
    first.iter().all(|ranks| *ranks == 0 || *ranks == most)
        && group.members.iter().all(|member| of_lanes(member) == first)
}

fn alike(bytes: impl Iterator<Item = f64>) -> bool {
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for one in bytes {
        (least, most) = (least.min(one), most.max(one));
    }
    most <= least * (1.0 + 1e-9) || most == 0.0
}
