//! A wave: the flows of all groups of a dimension at once, for one byte of the size column, and how long they take.
//! Not NCCL's share of the time (`answer`). A wave is linear in the size: one simulation serves all sizes.

use busbw_core::Collective;

use super::groups::{self, Group};
use super::{alltoall, pipelines};
use crate::fabric::{Balance, Built};
use crate::flows::{Flow, classes, simulate};

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
    /// Every pair by itself, or each rank to the next.
    Direct,
}

/// The flows of groups, and what they took.
#[derive(Debug, Clone, PartialEq)]
pub struct Wave {
    /// Microseconds for each byte of the size column; infinite where a host is cut off.
    pub us_per_byte: f64,
    /// What held the last flow back; empty without flows.
    pub held_by: String,
    /// Flows, and classes of them that were simulated.
    pub flows: [usize; 2],
}

/// Bytes of the size column of a simulation: large, so that rounding does not matter.
const SIZE_BYTES: f64 = 1e9;

/// Flows that end within this share of their time end together, where there are more than `EXACT_CLASSES`.
const TOLERANCE_SHARE: f64 = 0.005;

/// See `TOLERANCE_SHARE`.
const EXACT_CLASSES: usize = 2000;

/// What a wave needs to know of the place.
pub struct Place<'a> {
    /// The fabric's links.
    pub built: &'a Built,
    /// How they are shared out.
    pub balance: Balance,
    /// GPUs of a host.
    pub gpus_per_host: usize,
    /// GPUs of each host that are used.
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
        gpus_per_host: usize,
        groups: &[Group],
    ) -> Place<'a> {
        Place { built, balance, gpus_per_host, used: groups::used(shape.hosts, groups), shape }
    }

    /// What one byte that one GPU sends within a host takes of the links of all its GPUs: those without ranks carry nothing.
    pub fn inside_weight(&self, host: usize) -> f64 {
        self.gpus_per_host as f64 / self.used[host].max(1) as f64
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
        Way::Direct if place.balance == Balance::Trunks => {
            alltoall::by_classes(place, groups, size, &mut flows)?;
        }
        Way::Direct => alltoall::by_pairs(place, groups, size, &mut flows)?,
        _ => {
            for (at, group) in groups.iter().enumerate() {
                pipelines::of_group(place, collective, way, group, at as u64, size, &mut flows)?;
            }
        }
    }
    Some(flows)
}

impl Wave {
    /// Simulates the flows of a collective among groups that start together.
    pub fn of(place: &Place<'_>, collective: Collective, way: Way, groups: &[Group]) -> Wave {
        let Some(flows) = flows(place, collective, way, groups, SIZE_BYTES) else {
            return Wave {
                us_per_byte: f64::INFINITY,
                held_by: "a host that is cut off".to_owned(),
                flows: [0; 2],
            };
        };
        Wave::of_flows(place, &flows)
    }

    fn of_flows(place: &Place<'_>, flows: &[Flow]) -> Wave {
        let merged = classes(&place.built.capacity, flows);
        let count = merged.flows.len();
        let tolerance = if count > EXACT_CLASSES { TOLERANCE_SHARE } else { 0.0 };
        // Classes renumber links, from the fewest that matter.
        let outcome = simulate(&merged.capacity, &merged.flows, tolerance);
        let held_by = outcome.last().and_then(|last| outcome.held_by[last]);
        Wave {
            us_per_byte: outcome.end_us() / SIZE_BYTES,
            held_by: held_by
                .map(|link| place.built.name(merged.a_link[link as usize]))
                .unwrap_or_default(),
            flows: [flows.len(), count],
        }
    }
}
