//! What a result says about its limit: the resource, something else, or nothing without more facts.
//! Not the sentence for people, and not the proof: each verdict needs its confirmation.

use serde::{Deserialize, Serialize};

use super::bound::Limit;
use super::resource::Resource;

/// Below this part of the limit a resource no longer explains a result.
const FAR_BELOW: f64 = 0.5;

/// Results of one machine that differ by more than this differ by their settings.
const SETTINGS: f64 = 1.25;

/// Under this time at the limit, microseconds, starting an operation takes longer than its bytes.
const START_US: f64 = 10.0;

/// What a result says about its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// The resource that sets the limit explains the result.
    SetBy {
        /// It.
        resource: Resource,
    },
    /// None of the resources explains it: they allow far more, or settings alone change it.
    NotTheLine {
        /// The resources that were considered.
        considered: Vec<Resource>,
    },
    /// No bytes to speak of: starting operations takes the time.
    Software,
    /// The result is above its limit: machine, algorithm or measurement are not what they seem.
    AboveLimit,
    /// Not to be told without more facts.
    Unknown {
        /// What would settle it.
        missing: Vec<String>,
    },
}

/// Judges results of one machine that differ at most in their settings; `busbw` in GB/s, `bytes` of
/// the size column.
pub fn judge(limit: &Limit, bytes: u64, busbw: &[f64]) -> Verdict {
    if bytes == 0 {
        return Verdict::Software;
    }
    let best = busbw.iter().copied().filter(|rate| rate.is_finite()).fold(0.0, f64::max);
    let least = busbw.iter().copied().filter(|rate| rate.is_finite()).fold(f64::INFINITY, f64::min);
    let (Some(bound), Some(resource)) = (&limit.payload, limit.culprit) else {
        return Verdict::Unknown { missing: limit.missing.clone() };
    };
    if bound.exceeded_by(best) {
        return Verdict::AboveLimit;
    }
    let far_below = best < bound.busbw * FAR_BELOW;
    if far_below && limit.time_us(bytes as f64).is_some_and(|us| us < START_US) {
        return Verdict::Software;
    }
    if best <= 0.0 {
        return Verdict::Unknown { missing: vec!["a result".to_owned()] };
    }
    if best > least * SETTINGS {
        return limit.not_the_line();
    }
    if !far_below {
        return Verdict::SetBy { resource };
    }
    if limit.assumed.is_empty() {
        return limit.not_the_line();
    }
    let mut missing = limit.assumed.clone();
    missing.push("NCCL's log (NCCL_DEBUG=INFO)".to_owned());
    Verdict::Unknown { missing }
}

impl Limit {
    fn not_the_line(&self) -> Verdict {
        Verdict::NotTheLine { considered: self.loads.iter().map(|load| load.resource).collect() }
    }
}
