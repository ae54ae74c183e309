//! The algorithms that may have run, each with its limit, and those that a result excludes.
//! Not the one that ran: a bound excludes algorithms, only the log proves one.

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::bound::{Limit, limit};
use super::placement::{Inside, Memory, RankPlacement};
use super::resource::sm;
use crate::machine::{Machine, NicKind};
use busbw_core::Collective;

/// An algorithm that may have run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The algorithm and its limit.
    pub limit: Limit,
    /// Whether the machine has what it needs.
    pub possible: Possible,
}

/// Whether a machine has what an algorithm needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Possible {
    /// As far as the machine is known.
    Yes,
    /// Under a condition that no source confirms; it is not assumed.
    If(String),
    /// No, for a reason.
    No(String),
}

/// Every algorithm that NCCL has for a collective, with its limit.
pub fn candidates(
    machine: &Machine,
    collective: Collective,
    placement: &RankPlacement,
) -> Vec<Candidate> {
    Algorithm::ALL
        .into_iter()
        .filter(|algorithm| algorithm.serves(collective))
        .map(|algorithm| Candidate {
            limit: limit(machine, collective, algorithm, placement),
            possible: possible(machine, collective, algorithm, placement),
        })
        .collect()
}

/// The candidates that a busbw in GB/s does not exclude: possible, with a bound not below it. Those of
/// unknown limit stay.
pub fn explaining(candidates: &[Candidate], busbw: f64) -> Vec<Algorithm> {
    let allows = |limit: &Limit| match &limit.payload {
        Some(bound) => !bound.exceeded_by(busbw),
        None => true,
    };
    candidates
        .iter()
        .filter(|candidate| candidate.possible == Possible::Yes && allows(&candidate.limit))
        .map(|candidate| candidate.limit.algorithm)
        .collect()
}

/// Candidates that would allow a busbw in GB/s under a condition that no source confirms, with it.
pub fn conditional(candidates: &[Candidate], busbw: f64) -> Vec<(Algorithm, String)> {
    let allows = |limit: &Limit| limit.payload.as_ref().is_some_and(|b| !b.exceeded_by(busbw));
    let all = candidates.iter().filter(|candidate| allows(&candidate.limit));
    all.filter_map(|candidate| match &candidate.possible {
        Possible::If(why) => Some((candidate.limit.algorithm, why.clone())),
        Possible::Yes | Possible::No(_) => None,
    })
    .collect()
}

fn possible(
    machine: &Machine,
    collective: Collective,
    algorithm: Algorithm,
    placement: &RankPlacement,
) -> Possible {
    let Some(islands) = placement.islands(machine) else { return Possible::Yes };
    let several = islands.count > 1;
    let sharp = || match machine.sharp {
        Some(true) => Possible::Yes,
        Some(false) => Possible::No("the switches do not reduce".to_owned()),
        None if no_infiniband(machine) => Possible::No("SHARP takes InfiniBand".to_owned()),
        None => Possible::If("the switches reduce (SHARP)".to_owned()),
    };
    match algorithm {
        Algorithm::Ring | Algorithm::Tree => Possible::Yes,
        Algorithm::CollNetDirect | Algorithm::CollNetChain if !several => {
            Possible::No("one node needs no network".to_owned())
        }
        Algorithm::CollNetDirect | Algorithm::CollNetChain => sharp(),
        Algorithm::NvlsTree if !several => {
            Possible::No("one NVLink domain needs no tree".to_owned())
        }
        Algorithm::Nvls | Algorithm::NvlsTree => match nvls(machine, placement, islands.ranks) {
            Possible::Yes if algorithm == Algorithm::Nvls && several => sharp(),
            other => other,
        },
        Algorithm::Pat if islands.ranks == 1 && several => Possible::Yes,
        Algorithm::Pat => Possible::No("it takes one rank a node".to_owned()),
        // Between nodes NCCL has no other way for these; for reductions and gathers it does this by
        // symmetric memory alone, which nothing says was used.
        Algorithm::Direct if Algorithm::Ring.serves(collective) => {
            if several {
                Possible::No("symmetric memory does not reach other nodes".to_owned())
            } else {
                Possible::If("buffers are in symmetric memory (NCCL 2.27 on)".to_owned())
            }
        }
        Algorithm::Direct => Possible::Yes,
    }
}

/// Whether the NICs are known, and none is of InfiniBand, whose switches alone have SHARP.
fn no_infiniband(machine: &Machine) -> bool {
    let nics = &machine.node.nics;
    !nics.is_empty() && nics.iter().all(|nics| nics.kind != NicKind::InfiniBand)
}

/// NVLS needs Hopper or later, NVSwitches, and their multicast.
fn nvls(machine: &Machine, placement: &RankPlacement, ranks: usize) -> Possible {
    let no = |why: &str| Possible::No(why.to_owned());
    if placement.inside != Inside::Best || placement.memory != Memory::Gpu {
        return no("GPUs do not reach each other over NVLink in this run");
    }
    let Some(nvlink) = &machine.node.nvlink else { return no("there is no NVLink") };
    if ranks < 2 || nvlink.domain < ranks {
        return no("it takes two GPUs in an NVLink domain");
    }
    if !nvlink.switched && nvlink.links.is_some() {
        return no("there is no NVSwitch");
    }
    if nvlink.multicast == Some(false) {
        return no("NVLink multicast is off");
    }
    match machine.node.gpu.as_ref().and_then(sm) {
        Some(sm) if sm < 90 => no("GPUs before Hopper do not have it"),
        _ if !nvlink.switched => Possible::If("the GPUs are joined by NVSwitches".to_owned()),
        _ if ranks == 2 => Possible::If("this release of NCCL does it with two GPUs".to_owned()),
        _ => Possible::Yes,
    }
}
