//! A wave: the flows of all groups of a dimension at once, for one byte of the size column, and how long they take.
//! Not NCCL's share of the time (`answer`). A wave is linear in the size: one simulation serves all sizes.

use busbw_core::Collective;

use super::alltoall::{self, Each};
use super::groups::{self, Group};
use super::hypercube;
use super::loads::Loads;
use super::pipelines;
use super::rooted;
use crate::fabric::{Balance, Built};
use crate::flows::{Bounds, End, Flow, Share, classes, last, merge};

/// How bytes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// A ring over all ranks; a chain for collectives with a root.
    Ring,
    /// Chains in hosts, a double binary tree between them.
    Tree,
    /// NVSwitches in hosts, the same trees between them.
    NvlsTree,
    /// Exchanges at distances that double (PAT), one rank a host.
    Pat,
    /// Every pair by itself, each rank to the next, each with a root, or with ranks ever further away.
    Direct,
}

/// What the flows of groups took.
#[derive(Debug, Clone, PartialEq)]
pub struct Wave {
    /// Microseconds for each byte of the size column; infinite where a host is cut off.
    pub us_per_byte: f64,
    /// The most that it can be, where flows were too many to be simulated to the end; else the same.
    pub most_us_per_byte: f64,
    /// What held the last flow back; empty without flows.
    pub held_by: String,
}

/// Bytes of the size column of a simulation: large, so that rounding does not matter.
const SIZE_BYTES: f64 = 1e9;

/// The time may be too short by this share, where there are more than `EXACT_CLASSES`.
pub const TOLERANCE_SHARE: f64 = 0.005;

/// See `TOLERANCE_SHARE`.
const EXACT_CLASSES: usize = 2000;

/// Most flows of an alltoall that are kept, to be simulated: about 300 MiB.
const MAX_KEPT: usize = 1_000_000;

/// What a wave needs to know of the place.
pub struct Place<'a> {
    /// The fabric's links.
    pub built: &'a Built,
    /// How they are shared out.
    pub balance: Balance,
    /// GPUs of an island.
    pub gpus_per_island: usize,
    /// GPUs of each island that are used.
    pub used: Vec<usize>,
    /// Blocks and pods.
    pub shape: &'a crate::fabric::Shape,
}

impl<'a> Place<'a> {
    /// A place for these groups.
    pub fn new(
        built: &'a Built,
        balance: Balance,
        shape: &'a crate::fabric::Shape,
        gpus_per_island: usize,
        groups: &[Group],
    ) -> Place<'a> {
        Place { built, balance, gpus_per_island, used: groups::used(shape.hosts, groups), shape }
    }

    /// The lane of a GPU of an island.
    pub fn lane_of(&self, gpu: u16) -> u16 {
        (usize::from(gpu) * self.shape.lanes.count / self.gpus_per_island) as u16
    }

    /// What one byte that one GPU sends within a host takes of the links of all its GPUs: those without ranks carry nothing.
    pub fn inside_weight(&self, host: usize) -> f64 {
        self.gpus_per_island as f64 / self.used[host].max(1) as f64
    }
}

/// The flows of a collective among groups for `SIZE_BYTES`; `None` where a host is cut off.
pub fn flows(
    place: &Place<'_>,
    collective: Collective,
    way: Way,
    groups: &[Group],
    size: f64,
) -> Option<Vec<Flow>> {
    let mut flows = Vec::new();
    match way {
        Way::Direct if collective == Collective::SendRecv => {
            pipelines::to_next(place, groups, size, &mut flows)?;
        }
        Way::Direct if matches!(collective, Collective::Gather | Collective::Scatter) => {
            rooted::flows(place, collective, groups, size, &mut flows)?;
        }
        Way::Direct => exchange(place, groups, size, &mut |bytes, path| {
            flows.push(kept(bytes, path));
        })?,
        _ => {
            for (at, group) in groups.iter().enumerate() {
                pipelines::of_group(place, collective, way, group, at as u64, size, &mut flows)?;
            }
        }
    }
    Some(flows)
}

fn kept(bytes: f64, path: &[Share]) -> Flow {
    let mut path = path.to_vec();
    merge(&mut path);
    Flow { bytes, path, ..Flow::default() }
}

/// The flows of an alltoall, pair by pair, whatever is alike.
pub(super) fn by_pairs(place: &Place<'_>, groups: &[Group], size: f64) -> Option<Vec<Flow>> {
    let mut flows = Vec::new();
    alltoall::by_pairs(place, groups, size, &mut |bytes, path| flows.push(kept(bytes, path)))?;
    Some(flows)
}

/// The flows of an alltoall, one at a time.
fn exchange(place: &Place<'_>, groups: &[Group], size: f64, each: &mut Each<'_>) -> Option<()> {
    match place.balance {
        Balance::Trunks => alltoall::by_classes(place, groups, size, each),
        _ => alltoall::by_pairs(place, groups, size, each),
    }
}

impl Wave {
    /// How long the flows of a collective among groups take that start together.
    pub fn of(place: &Place<'_>, collective: Collective, way: Way, groups: &[Group]) -> Wave {
        let end = match way {
            Way::Direct if collective == Collective::AllToAll => of_alltoall(place, groups),
            Way::Direct if collective == Collective::HyperCube => in_steps(place, groups),
            _ => flows(place, collective, way, groups, SIZE_BYTES)
                .map(|flows| of_flows(place, &flows)),
        };
        let Some(End { least_us, most_us, held_by }) = end else {
            return Wave {
                us_per_byte: f64::INFINITY,
                most_us_per_byte: f64::INFINITY,
                held_by: "a host that is cut off".to_owned(),
            };
        };
        Wave {
            us_per_byte: least_us / SIZE_BYTES,
            most_us_per_byte: most_us / SIZE_BYTES,
            held_by: held_by.map(|link| place.built.name(link)).unwrap_or_default(),
        }
    }
}

/// Flows are added up first, and kept only where that does not decide.
fn of_alltoall(place: &Place<'_>, groups: &[Group]) -> Option<End> {
    let capacity = &place.built.capacity;
    if let Some(loads) = Loads::of_level_alltoall(place, groups) {
        let us = loads.us_per_byte(capacity) * SIZE_BYTES;
        let end = End { least_us: us, most_us: us, held_by: loads.busiest(capacity) };
        return us.is_finite().then_some(end);
    }
    let mut bounds = Bounds::new(capacity.len());
    exchange(place, groups, SIZE_BYTES, &mut |bytes, path| bounds.add(bytes, path))?;
    let end = bounds.end(capacity);
    if end.is_within(0.0) || bounds.flows() > MAX_KEPT {
        return Some(end);
    }
    let mut flows = Vec::with_capacity(bounds.flows());
    exchange(place, groups, SIZE_BYTES, &mut |bytes, path| flows.push(kept(bytes, path)))?;
    Some(simulated(place, &flows))
}

/// Steps of a hypercube, each after the one before. The one that takes longest says what holds it back.
fn in_steps(place: &Place<'_>, groups: &[Group]) -> Option<End> {
    let mut all = End { least_us: 0.0, most_us: 0.0, held_by: None };
    let mut longest_us = 0.0;
    for step in 0..hypercube::steps(groups) {
        let end = of_flows(place, &hypercube::step(place, groups, SIZE_BYTES, step)?);
        all.least_us += end.least_us;
        all.most_us += end.most_us;
        if end.least_us > longest_us {
            (longest_us, all.held_by) = (end.least_us, end.held_by);
        }
    }
    Some(all)
}

fn of_flows(place: &Place<'_>, flows: &[Flow]) -> End {
    let mut bounds = Bounds::new(place.built.capacity.len());
    flows.iter().for_each(|flow| bounds.add(flow.bytes, &flow.path));
    let end = bounds.end(&place.built.capacity);
    if end.is_within(0.0) { end } else { simulated(place, flows) }
}

fn simulated(place: &Place<'_>, flows: &[Flow]) -> End {
    let merged = classes(&place.built.capacity, flows);
    let tolerance = if merged.flows.len() > EXACT_CLASSES { TOLERANCE_SHARE } else { 0.0 };
    let end = last(&merged.capacity, &merged.flows, tolerance);
    // Classes renumber links, from the fewest that matter.
    End { held_by: end.held_by.map(|link| merged.a_link[link as usize]), ..end }
}
