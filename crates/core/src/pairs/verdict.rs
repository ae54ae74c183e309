//! What a matrix says: who is slow, by how much, how sure that is, and what the others reach.
//! Not how it is found, and not whether the others reach enough: that is for limits to say.

use serde::{Deserialize, Serialize};

use super::{Unit, subject::Subject};

/// What figures of pairs say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// On what it rests.
    pub basis: Basis,
    /// Unit of the figures.
    pub unit: Unit,
    /// The host of each rank.
    pub hosts: Vec<usize>,
    /// What is normal in each class; none of classes without a figure.
    pub levels: Vec<Level>,
    /// Who is slow, the surest first. Empty: nobody stands out, which an evenly slow fabric does not
    /// either.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Classes of which nothing can be said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<Unjudged>,
    /// Who was suspected at first, and was not slow when measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared: Vec<Subject>,
}

/// On what a verdict rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// One look: its findings are suspicions, to be measured again.
    FirstLook,
    /// Suspects measured again, by those figures alone.
    Retest,
}

/// What is normal in a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Level {
    /// Name of the class.
    pub class: String,
    /// Median of the cells that nobody slows, in the verdict's unit.
    pub value: f64,
    /// Standard deviation of a cell, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_percent: Option<f64>,
    /// Cells of the class.
    pub cells: usize,
    /// Median number of samples of a cell.
    pub samples: usize,
}

/// Somebody slow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Who.
    pub subject: Subject,
    /// Others who would look the same in these figures: which of them it is cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Subject>,
    /// The class in which alone it is slow, where it has figures of others too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Percent that bandwidth is lower, or time longer, than the level.
    pub slower_percent: f64,
    /// Microseconds that it takes longer, where times were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_us: Option<f64>,
    /// Cells of it that are slow by at least half of that.
    pub slow_cells: usize,
    /// Cells of it that were measured.
    pub cells: usize,
    /// 1 less the probability, of all accusations that were possible, that chance alone makes one
    /// like it.
    pub confidence: f64,
}

/// A class of which nothing can be said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unjudged {
    /// Its name.
    pub class: String,
    /// Why.
    pub why: Why,
}

/// Why nothing can be said of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A single cell: it has no peer.
    NoPeers,
    /// Few cells with one sample each: nothing tells noise from a difference.
    FewSamples,
    /// Most cells were slow in different ways: something disturbed all of them.
    Disturbed,
}

/// When somebody is called slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// How often chance may accuse anybody at all on a healthy machine.
    pub false_alarms: f64,
    /// The smallest slowness that is called one: 0.05 is 5 % more time.
    pub smallest: f64,
    /// By how much pairs of a healthy machine may differ for good, or for the length of a launch; only what
    /// is more counts.
    pub tolerated: f64,
}

/// Who moves the bytes of pairs, which tells how much those of a healthy machine differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    /// GPUs and NICs. Their bandwidths are alike; their latencies are those of the processors that start
    /// them, and differ from launch to launch.
    Devices,
    /// Processors, whose caches and pages lie otherwise in each launch.
    Processors,
}

impl Rule {
    /// For a first look, whose suspicions cost no more than measuring again.
    pub const fn liberal(unit: Unit, mover: Mover) -> Rule {
        Rule { false_alarms: 0.2, ..Rule::of(unit, mover, 0.01) }
    }

    /// For accusations. A tenth of the 1 in 50 that is promised, since noise in stretches and a
    /// second matrix take their parts.
    pub const fn strict(unit: Unit, mover: Mover) -> Rule {
        Rule { false_alarms: 0.002, ..Rule::of(unit, mover, 0.0) }
    }

    /// As docs/pairs.md found healthy machines to differ; `less` is taken from the smallest slowness.
    const fn of(unit: Unit, mover: Mover, less: f64) -> Rule {
        let (tolerated, smallest) = match (unit, mover) {
            (Unit::GigabytesPerSecond, Mover::Devices) => (0.02, 0.05),
            (Unit::Microseconds, Mover::Devices) => (0.10, 0.13),
            (_, Mover::Processors) => (0.10, 0.12),
        };
        Rule { false_alarms: 1.0, smallest: smallest - less, tolerated }
    }
}

impl Finding {
    /// Logarithm of how many times as long it takes.
    pub(super) fn effect(&self, unit: Unit) -> f64 {
        let part = self.slower_percent / 100.0;
        if unit.more_is_better() { -(-part).ln_1p() } else { part.ln_1p() }
    }
}

impl Verdict {
    /// Whether nobody is slow, and every class could be judged.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty() && self.unjudged.is_empty()
    }
}
