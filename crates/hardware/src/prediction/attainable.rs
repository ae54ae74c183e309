//! The share of a link's rate that NCCL's algorithms attain on it, as a range with its basis.
//! Not the limit, which is the whole of it, and not a time.

use serde::Serialize;

use super::calibration::rated;
use crate::limits::resource::sm;
use crate::limits::{Algorithm, Load, Resource};
use crate::machine::{Machine, NicKind, is_amd};

/// Half-width that is added to the least and the most of a kind's own points. A judgement, not a measurement: it stands for
/// other sites, releases of NCCL, drivers and firmware. docs/plan.md scores it.
const MARGIN_OF_OWN_POINTS: f64 = 0.06;

/// The same where the points are of other algorithms on the same kind of link.
const MARGIN_OF_BORROWED_POINTS: f64 = 0.12;

/// Without points: from this share of what NCCL's constants say up to the whole payload.
const LEAST_SHARE_OF_NCCL: f64 = 0.85;

/// Without constants of NCCL either: from this share of the payload up.
const LEAST_SHARE_UNKNOWN: f64 = 0.5;

/// A kind of link, on which results of one machine tell of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// NVLink of GPUs of one architecture: compute capability / 10.
    NvLink(u32),
    /// AMD's links.
    Xgmi,
    /// InfiniBand and RoCE.
    Rdma,
}

impl Kind {
    /// Of a resource of a machine; `None` for one that has no public results.
    pub(super) fn of(machine: &Machine, resource: Resource) -> Option<Kind> {
        match resource {
            Resource::NvLink => {
                let gpu = machine.node.gpu.as_ref()?;
                if is_amd(&gpu.name) { Some(Kind::Xgmi) } else { Some(Kind::NvLink(sm(gpu)? / 10)) }
            }
            Resource::Nic => {
                let rdma = machine.node.nics.iter().any(|nics| nics.kind != NicKind::Ethernet);
                rdma.then_some(Kind::Rdma)
            }
            _ => None,
        }
    }

    fn name(self) -> String {
        match self {
            Kind::NvLink(architecture) => match architecture {
                7 => "NVLink of V100".to_owned(),
                8 => "NVLink of A100".to_owned(),
                9 => "NVLink of Hopper".to_owned(),
                10 => "NVLink of Blackwell".to_owned(),
                other => format!("NVLink of sm{other}x"),
            },
            Kind::Xgmi => "xGMI".to_owned(),
            Kind::Rdma => "RDMA NICs".to_owned(),
        }
    }
}

/// Algorithms that load a link alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Rings, trees and chains: each GPU passes on.
    Chains,
    /// The switches reduce.
    Nvls,
    /// The switches reduce, and trees join nodes.
    NvlsTree,
    /// Sends and receives of pairs.
    Direct,
}

impl Group {
    pub(super) const fn of(algorithm: Algorithm) -> Group {
        match algorithm {
            Algorithm::Nvls => Group::Nvls,
            Algorithm::NvlsTree => Group::NvlsTree,
            Algorithm::Direct => Group::Direct,
            _ => Group::Chains,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Group::Chains => "rings and trees",
            Group::Nvls => "NVLS",
            Group::NvlsTree => "NVLSTree",
            Group::Direct => "sends and receives",
        }
    }

    /// The groups whose points stand for this one where it has none, the nearest first.
    const fn neighbours(self) -> &'static [Group] {
        match self {
            Group::Chains => &[Group::Direct],
            Group::Direct => &[Group::Chains],
            Group::Nvls => &[Group::NvlsTree],
            Group::NvlsTree => &[Group::Nvls],
        }
    }
}

/// What a range rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Basis {
    /// Public results of the same algorithms on the same kind of link.
    Known {
        /// How many.
        points: usize,
        /// On what.
        of: String,
    },
    /// Public results of other algorithms on the same kind of link.
    Borrowed {
        /// How many.
        points: usize,
        /// On what.
        of: String,
    },
    /// No public result is in the table: NCCL's own constant up to the limit.
    Nccl,
    /// Neither results nor a constant.
    Unknown,
}

impl Basis {
    /// Whether results of the same algorithms on the same kind of link stand behind it.
    pub const fn is_known(&self) -> bool {
        matches!(self, Basis::Known { .. })
    }
}

/// The shares of a link's payload rate (line rate where there is none) that are expected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attainable {
    /// The least.
    pub low: f64,
    /// The middle.
    pub middle: f64,
    /// The most; never above 1.
    pub high: f64,
    /// What this rests on.
    pub basis: Basis,
}

/// What an algorithm attains of a resource that it loads.
pub fn attainable(machine: &Machine, algorithm: Algorithm, load: &Load) -> Attainable {
    let group = Group::of(algorithm);
    let kind = Kind::of(machine, load.resource);
    let of = |group: Group| {
        let all = rated().iter().filter(|one| Some(one.kind) == kind && one.group == group);
        all.map(|one| one.share).collect::<Vec<f64>>()
    };
    // NICs and slots do not know whether the GPUs or the switches reduced.
    let own = match load.resource {
        Resource::Nic if group == Group::Nvls || group == Group::NvlsTree => Group::Chains,
        _ => group,
    };
    let about = |group: Group| {
        kind.map_or(String::new(), |kind| format!("{} on {}", group.name(), kind.name()))
    };
    let shares = of(own);
    if !shares.is_empty() {
        let basis = Basis::Known { points: shares.len(), of: about(own) };
        return range(&shares, MARGIN_OF_OWN_POINTS, basis);
    }
    for &near in own.neighbours() {
        let shares = of(near);
        if !shares.is_empty() {
            let basis = Basis::Borrowed { points: shares.len(), of: about(near) };
            return range(&shares, MARGIN_OF_BORROWED_POINTS, basis);
        }
    }
    let constant = load.capacity.nccl.map(|nccl| nccl / load.capacity.best());
    let (low, basis) = match constant {
        // For NICs NCCL's constant is the line rate, which tells nothing.
        Some(share) if share < 1.0 => (share * LEAST_SHARE_OF_NCCL, Basis::Nccl),
        _ => (LEAST_SHARE_UNKNOWN, Basis::Unknown),
    };
    Attainable { low, middle: f64::midpoint(low, 1.0), high: 1.0, basis }
}

fn range(shares: &[f64], margin: f64, basis: Basis) -> Attainable {
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    let (low, high) = (least * (1.0 - margin), (most * (1.0 + margin)).min(1.0));
    Attainable { low, middle: f64::midpoint(low, high), high, basis }
}
