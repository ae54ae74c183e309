//! What results say about their limit: how far they are from it, and what that is put down to.
//! Not the sentence for people, and not the proof. Every threshold of such words is here.

use serde::{Deserialize, Serialize};

use super::bound::{Expectation, Limit};
use super::resource::Resource;

/// From this part of the limit on a result is at it, and of what NCCL expects, as expected.
const AT: f64 = 0.95;

/// Healthy machines reach this part of the limit, or of what NCCL expects.
const HEALTHY: f64 = 0.7;

/// Below this part of the limit a resource no longer explains a result.
const FAR_BELOW: f64 = 0.5;

/// An algorithm of which NCCL expects less than the result by this factor is hardly the one that ran.
const OUTDONE: f64 = 1.1;

/// Results of one machine that differ by more than this differ by their settings.
const SETTINGS: f64 = 1.25;

/// Microseconds that starting an operation takes where nobody has measured it.
const START_US: f64 = 10.0;

/// A result says something about links where its time is this many times that of starting.
const STARTS: f64 = 10.0;

/// What results say about their limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What they are put down to.
    pub verdict: Verdict,
    /// The best of them in percent of the limit.
    pub percent: Option<f64>,
    /// The same of what NCCL expects.
    pub of_expected: Option<f64>,
    /// How far from the limit; `None` without one.
    pub standing: Option<Standing>,
}

/// What results are put down to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
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
    /// Starting operations takes much of the time: too few bytes to judge a link by.
    Software,
    /// The result is above its limit: machine, algorithm or measurement are not what they seem.
    AboveLimit,
    /// Not to be told without more facts.
    Unknown {
        /// What would settle it.
        missing: Vec<String>,
    },
}

/// How far a result is from its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Above it.
    Above,
    /// At it.
    At,
    /// Below it, and what NCCL expects.
    AsExpected,
    /// As healthy machines are.
    Healthy,
    /// Something else takes a part.
    Below,
    /// The limit explains nothing.
    FarBelow,
}

impl Judgement {
    /// Not to be told without facts.
    pub fn unknown(missing: Vec<String>) -> Judgement {
        let verdict = Verdict::Unknown { missing };
        Judgement { verdict, percent: None, of_expected: None, standing: None }
    }
}

impl Expectation {
    /// Whether a busbw in GB/s is so far above it that the algorithm is hardly the one that ran.
    pub fn outdone_by(&self, busbw: f64) -> bool {
        busbw > self.high * OUTDONE
    }
}

/// Judges results of one machine that differ at most in their settings; `busbw` in GB/s, `bytes` of
/// the size column. `start_us` is what an operation takes however small it is, where that is known.
pub fn judge(limit: &Limit, bytes: u64, busbw: &[f64], start_us: Option<f64>) -> Judgement {
    let rates = || busbw.iter().copied().filter(|rate| rate.is_finite());
    let (best, least) = (rates().fold(0.0, f64::max), rates().fold(f64::INFINITY, f64::min));
    let expected = limit.expects.as_ref().filter(|expects| expects.low > 0.0);
    let of_expected = expected.map(|expects| best / expects.low);
    let of_limit = limit.percent(best).map(|percent| percent / 100.0);
    let standing = of_limit.map(|part| limit.standing(best, part, of_expected));
    Judgement {
        verdict: limit.verdict(bytes, [least, best], standing, start_us),
        percent: of_limit.map(|part| part * 100.0),
        of_expected: of_expected.map(|part| part * 100.0),
        standing,
    }
}

impl Limit {
    fn standing(&self, busbw: f64, of_limit: f64, of_expected: Option<f64>) -> Standing {
        let at_least = |part: f64| of_limit >= part || of_expected.is_some_and(|of| of >= part);
        match of_limit {
            _ if self.payload.as_ref().is_some_and(|bound| bound.exceeded_by(busbw)) => {
                Standing::Above
            }
            AT.. => Standing::At,
            _ if at_least(AT) => Standing::AsExpected,
            _ if at_least(HEALTHY) => Standing::Healthy,
            FAR_BELOW.. => Standing::Below,
            _ => Standing::FarBelow,
        }
    }

    fn verdict(
        &self,
        bytes: u64,
        [least, best]: [f64; 2],
        standing: Option<Standing>,
        start_us: Option<f64>,
    ) -> Verdict {
        if bytes == 0 {
            return Verdict::Software;
        }
        let (Some(standing), Some(resource)) = (standing, self.culprit) else {
            return Verdict::Unknown { missing: self.missing.clone() };
        };
        if standing == Standing::Above {
            return Verdict::AboveLimit;
        }
        if best <= 0.0 {
            return Verdict::Unknown { missing: vec!["a result".to_owned()] };
        }
        let below = matches!(standing, Standing::Below | Standing::FarBelow);
        if below && self.too_short(bytes, best, start_us) {
            return Verdict::Software;
        }
        if best <= least * SETTINGS && standing != Standing::FarBelow {
            return Verdict::SetBy { resource };
        }
        if best > least * SETTINGS || self.assumed.is_empty() {
            let considered = self.loads.iter().map(|load| load.resource).collect();
            return Verdict::NotTheLine { considered };
        }
        let mut missing = self.assumed.clone();
        missing.push("NCCL's log (NCCL_DEBUG=INFO)".to_owned());
        Verdict::Unknown { missing }
    }

    /// Whether starting an operation takes a good part of the time of `bytes` at a busbw.
    fn too_short(&self, bytes: u64, busbw: f64, start_us: Option<f64>) -> bool {
        let (Some(at_limit), Some(percent)) = (self.time_us(bytes as f64), self.percent(busbw))
        else {
            return false;
        };
        let took = at_limit / (percent / 100.0);
        at_limit < START_US || took < STARTS * start_us.unwrap_or(START_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Algorithm, Placement, limit};
    use crate::machine::ready;
    use busbw_core::Collective;

    /// A ring on eight H100: 450 GB/s by NVLink, of which NCCL expects 370.8.
    fn ring(bytes: u64, busbw: f64, start_us: Option<f64>) -> (Verdict, Option<Standing>) {
        let machine = ready("dgx-h100").expect("built in");
        let placement = Placement::new(1, 8);
        let limit = limit(&machine, Collective::AllReduce, Algorithm::Ring, &placement);
        let judged = judge(&limit, bytes, &[busbw], start_us);
        (judged.verdict, judged.standing)
    }

    #[test]
    fn from_above_the_limit_to_far_below_it() {
        let set_by = Verdict::SetBy { resource: Resource::NvLink };
        for (busbw, standing) in [
            (449.0, Standing::At),
            (370.0, Standing::AsExpected),
            (300.0, Standing::Healthy),
            (250.0, Standing::Below),
        ] {
            assert_eq!(ring(1 << 33, busbw, None), (set_by.clone(), Some(standing)), "{busbw}");
        }
        assert_eq!(ring(1 << 33, 460.0, None), (Verdict::AboveLimit, Some(Standing::Above)));
        let far = ring(1 << 33, 200.0, None);
        assert_eq!(far.1, Some(Standing::FarBelow));
        assert!(matches!(far.0, Verdict::NotTheLine { .. }), "{far:?}");
    }

    #[test]
    fn small_messages_say_nothing_of_links() {
        // 1 MiB takes 4 us at the limit.
        assert_eq!(ring(1 << 20, 50.0, None).0, Verdict::Software);
        // 64 MiB take 261 us at the limit, and 522 us here: 12 starts of 43 us.
        assert_eq!(ring(64 << 20, 225.0, Some(60.0)).0, Verdict::Software);
        assert!(matches!(ring(64 << 20, 224.0, Some(43.0)).0, Verdict::NotTheLine { .. }));
        assert_eq!(ring(0, 0.0, None).0, Verdict::Software);
    }
}
