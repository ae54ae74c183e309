//! The verdict on a matrix: the slow subjects, by how much, with which confidence, and the normal
//! level.
//! Not how it is reached, and not whether the normal level is good enough: limits say that.

use serde::{Deserialize, Serialize};

use super::{Unit, subject::Subject};

/// The assessment of the figures of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PairsAssessment {
    /// The measurement that it rests on.
    pub basis: Basis,
    /// Unit of the figures.
    pub unit: Unit,
    /// The host of each rank.
    pub hosts: Vec<usize>,
    /// The normal level of each class; none for classes without a figure.
    pub levels: Vec<Level>,
    /// The slow subjects, the most certain first. Empty: no subject stands out, as in an evenly
    /// slow fabric, too.
    #[serde(default, rename = "findings")]
    pub slow: Vec<SlowSubject>,
    /// Classes without a verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<Unjudged>,
    /// Subjects that were suspected at first, and were not slow when measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared: Vec<Subject>,
}

/// The measurement that a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A first look: its slow subjects are suspicions, to be measured again.
    FirstLook,
    /// A retest of the suspects, by its own figures alone.
    Retest,
}

/// The normal level of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Level {
    /// Name of the class.
    pub class: String,
    /// Median of the cells that no subject slows, in the verdict's unit.
    pub value: f64,
    /// Standard deviation of a cell, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_percent: Option<f64>,
    /// Cells of the class.
    pub cells: usize,
    /// Median number of samples of a cell.
    pub samples: usize,
}

/// A slow subject, as figures; [`PairsAssessment::findings`] has it in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SlowSubject {
    /// The subject.
    pub subject: Subject,
    /// Others that would look the same in these figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Subject>,
    /// The only class in which it is slow, where it has figures of other classes too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Percent that bandwidth is lower, or time longer, than the level.
    pub slower_percent: f64,
    /// Additional microseconds, where times were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_us: Option<f64>,
    /// Its cells that are slow by at least half of that.
    pub slow_cells: usize,
    /// Its cells that were measured.
    pub cells: usize,
    /// Confidence level: 1 less the probability that chance alone names a subject like it, over all
    /// that could be named.
    pub confidence: f64,
}

/// A class without a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unjudged {
    /// Its name.
    pub class: String,
    /// Why.
    pub why: Why,
}

/// Why a class has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A single cell: it has no peer.
    NoPeers,
    /// Few cells with one sample each: noise cannot be separated from a difference.
    FewSamples,
    /// Most cells were slow in different ways: a disturbance affected all of them.
    Disturbed,
}

/// The thresholds of a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The probability of any false alarm on a healthy machine.
    pub false_alarms: f64,
    /// The smallest slowness that is reported: 0.05 is 5 % more time.
    pub smallest: f64,
    /// By how much pairs of a healthy machine may differ permanently, or for one launch; only the
    /// excess counts.
    pub tolerated: f64,
}

/// What moves the bytes of pairs: it determines how much those of a healthy machine differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    /// GPUs and NICs. Their bandwidths are alike; their latencies depend on the processors that
    /// start them, and differ from launch to launch.
    Devices,
    /// Processors, whose caches and pages differ in each launch.
    Processors,
}

impl Rule {
    /// For a first look: a false suspicion costs no more than a second measurement.
    pub const fn liberal(unit: Unit, mover: Mover) -> Rule {
        Rule { false_alarms: 0.2, ..Rule::of(unit, mover, 0.01) }
    }

    /// For a retest. A tenth of the promised 1 in 50, since correlated noise and a second matrix
    /// take their shares.
    pub const fn strict(unit: Unit, mover: Mover) -> Rule {
        Rule { false_alarms: 0.002, ..Rule::of(unit, mover, 0.0) }
    }

    /// As docs/pairs.md found healthy machines to differ; `less` is subtracted from the smallest
    /// slowness.
    const fn of(unit: Unit, mover: Mover, less: f64) -> Rule {
        let (tolerated, smallest) = match (unit, mover) {
            (Unit::GigabytesPerSecond, Mover::Devices) => (0.02, 0.05),
            (Unit::Microseconds, Mover::Devices) => (0.10, 0.13),
            (_, Mover::Processors) => (0.10, 0.12),
        };
        Rule { false_alarms: 1.0, smallest: smallest - less, tolerated }
    }
}

impl SlowSubject {
    /// Logarithm of how many times as long it takes.
    pub(super) fn effect(&self, unit: Unit) -> f64 {
        let part = self.slower_percent / 100.0;
        if unit.more_is_better() { -(-part).ln_1p() } else { part.ln_1p() }
    }
}
