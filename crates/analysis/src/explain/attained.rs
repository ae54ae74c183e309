//! What published runs on healthy machines reach, where that is far from what the links allow: NVLS over many GPUs.
//! Not a limit (`limit`), and not NCCL's own expectation, which such runs do not reach either.

use busbw_core::Collective;
use busbw_hardware::machine::models;
use serde::Serialize;

use super::context::Context;

/// A result is as good as a published one from this share of it on: repetitions differ by as much.
const AS_GOOD_SHARE: f64 = 0.95;

/// What published runs reach.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attained {
    /// busbw, GB/s; of published runs on fewer and on more GPUs, the lower one.
    pub busbw: f64,
    /// Who measured it, on how many GPUs.
    pub source: &'static str,
}

impl Attained {
    /// Whether a busbw in GB/s is as good.
    pub(super) fn reached_by(&self, busbw: f64) -> bool {
        busbw >= self.busbw * AS_GOOD_SHARE
    }
}

/// A published result whose ranks are all in one NVLink domain. What counts of the GPU are its NVLinks: GB300 has those of GB200.
struct Point {
    gpu: &'static str,
    collective: Collective,
    ranks: usize,
    attained: Attained,
}

const POINTS: [Point; 2] = [
    Point {
        gpu: "GB200",
        collective: Collective::AllReduce,
        ranks: 8,
        attained: Attained {
            busbw: 811.0,
            source: "8 GB200 on 2 hosts: busbw references, 2x4-gb200-mnnvl",
        },
    },
    Point {
        gpu: "GB200",
        collective: Collective::AllReduce,
        ranks: 72,
        attained: Attained {
            busbw: 770.0,
            source: "racks of GB200: about 770 in NVIDIA's baseline (llmb.nvidia.com), 835 to 847 in CoreWeave's README of nccl-tests",
        },
    },
];

/// What published runs of a run's test reach on as many of its GPUs, or on fewer and on more of them.
pub(super) fn of(context: &Context<'_>) -> Option<Attained> {
    let run = context.run;
    let known = context.machine.as_ref()?;
    let placement = known.placement.as_ref().ok()?;
    let gpu = models::find(&known.machine.node.gpu.as_ref()?.name)?.name;
    // Their ranks need no network.
    let joined = placement.nodes_joined(&known.machine) == placement.nodes;
    let collective = run.collective().filter(|_| joined)?;
    at(gpu, collective, placement.ranks())
}

fn at(gpu: &str, collective: Collective, ranks: usize) -> Option<Attained> {
    let links = |gpu: &str| models::find(gpu).map(|model| (model.links, model.line));
    let same = |one: &&Point| links(one.gpu) == links(gpu) && one.collective == collective;
    let alike = || POINTS.iter().filter(same);
    let fewer = alike().filter(|one| one.ranks <= ranks).max_by_key(|one| one.ranks)?;
    let more = alike().filter(|one| one.ranks >= ranks).min_by_key(|one| one.ranks)?;
    let lower = if more.attained.busbw < fewer.attained.busbw { more } else { fewer };
    Some(lower.attained.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references;

    #[test]
    fn between_points_the_lower_one_counts() {
        let found = |ranks| at("GB200", Collective::AllReduce, ranks).map(|one| one.busbw);
        assert_eq!([8, 16, 72].map(found), [Some(811.0), Some(770.0), Some(770.0)]);
        assert!(at("GB300", Collective::AllReduce, 72).is_some(), "it has the same NVLinks");
        // Beyond them nothing is known.
        assert_eq!([4, 144].map(found), [None, None]);
        assert_eq!(at("H100 SXM", Collective::AllReduce, 8), None);
        assert_eq!(at("GB200", Collective::AllGather, 8), None);
    }

    #[test]
    fn a_reference_has_the_figure() {
        let runs = references::find("2x4-gb200-mnnvl").unwrap().runs().unwrap();
        let peaks = runs.iter().filter_map(|run| run.peak()?.figure());
        let best = peaks.fold(0.0, f64::max);
        assert!((best / 811.0 - 1.0).abs() < 0.005, "{best}");
    }
}
