//! Judges results by their limit: how close they come to it, and what the bottleneck is.
//! Not the sentence for people, and not the evidence. All thresholds of these words are here.

use serde::{Deserialize, Serialize};

use super::bound::{Expectation, Limit};
use super::resource::Resource;

/// From this share of the limit a result is at the limit; from this share of what NCCL expects, as expected.
const AT_LIMIT_SHARE: f64 = 0.95;

/// Healthy machines reach this share of the limit, or of what NCCL expects.
const HEALTHY_SHARE: f64 = 0.7;

/// Below this share of the limit the limiting resource no longer explains a result.
const FAR_BELOW_SHARE: f64 = 0.5;

/// An algorithm is unlikely to have run where the result is this many times what NCCL expects of it.
const UNLIKELY_FACTOR: f64 = 1.1;

/// Results of one machine that differ by more than this factor differ because of their settings.
const SETTINGS_FACTOR: f64 = 1.25;

/// Latency floor of an operation where it was not measured, microseconds.
const DEFAULT_LATENCY_FLOOR_US: f64 = 10.0;

/// A result rates a link only where its time is at least this many latency floors.
const FLOORS_TO_RATE_A_LINK: f64 = 10.0;

/// The judgement of results by their limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What limits them.
    #[serde(alias = "verdict")]
    pub bottleneck: Bottleneck,
    /// The best result, percent of the limit.
    pub percent: Option<f64>,
    /// The best result, percent of what NCCL expects.
    pub of_expected: Option<f64>,
    /// How close the best result comes to the limit; none without a limit.
    #[serde(alias = "standing")]
    pub rating: Option<Rating>,
}

/// What limits a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Bottleneck {
    /// The resource that sets the limit explains the result.
    SetBy {
        /// Which resource.
        resource: Resource,
    },
    /// None of the resources: they allow far more, or settings alone change the result.
    #[serde(alias = "not-the-line")]
    Elsewhere {
        /// The resources that were considered.
        considered: Vec<Resource>,
    },
    /// Software: the start of operations takes much of the time, with too few bytes to rate a link.
    Software,
    /// The result is above its limit: the description of the machine, the algorithm or the result is wrong.
    AboveLimit,
    /// Unknown without more facts.
    Unknown {
        /// The facts that are missing.
        missing: Vec<String>,
    },
}

/// How close a result comes to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rating {
    /// Above the limit.
    Above,
    /// At the limit.
    At,
    /// Below the limit, and at what NCCL expects.
    AsExpected,
    /// As close as healthy machines come.
    Healthy,
    /// Below: something else than the limiting resource costs a part.
    Below,
    /// So far below that the limiting resource does not explain it.
    FarBelow,
}

impl Judgement {
    /// A judgement without a limit: `missing` are the facts that it would need.
    pub fn unknown(missing: Vec<String>) -> Judgement {
        let bottleneck = Bottleneck::Unknown { missing };
        Judgement { bottleneck, percent: None, of_expected: None, rating: None }
    }
}

impl Expectation {
    /// Whether the expectation is so far below a busbw in GB/s that the algorithm is unlikely to have run.
    pub fn is_far_below(&self, busbw: f64) -> bool {
        busbw > self.high * UNLIKELY_FACTOR
    }
}

/// Judges results of one machine that differ at most in their settings. `busbw` is in GB/s, `bytes` is
/// the size column, `latency_floor_us` the time of the smallest operations in microseconds, where known.
pub fn judge(limit: &Limit, bytes: u64, busbw: &[f64], latency_floor_us: Option<f64>) -> Judgement {
    let rates = || busbw.iter().copied().filter(|rate| rate.is_finite());
    let (best, least) = (rates().fold(0.0, f64::max), rates().fold(f64::INFINITY, f64::min));
    let expected = limit.expects.as_ref().filter(|expects| expects.low > 0.0);
    let of_expected = expected.map(|expects| best / expects.low);
    let of_limit = limit.percent(best).map(|percent| percent / 100.0);
    let rating = of_limit.map(|part| limit.rating(best, part, of_expected));
    Judgement {
        bottleneck: limit.bottleneck_of(bytes, [least, best], rating, latency_floor_us),
        percent: of_limit.map(|part| part * 100.0),
        of_expected: of_expected.map(|part| part * 100.0),
        rating,
    }
}

impl Limit {
    fn rating(&self, busbw: f64, of_limit: f64, of_expected: Option<f64>) -> Rating {
        let at_least = |part: f64| of_limit >= part || of_expected.is_some_and(|of| of >= part);
        match of_limit {
            _ if self.payload.as_ref().is_some_and(|bound| bound.exceeded_by(busbw)) => {
                Rating::Above
            }
            AT_LIMIT_SHARE.. => Rating::At,
            _ if at_least(AT_LIMIT_SHARE) => Rating::AsExpected,
            _ if at_least(HEALTHY_SHARE) => Rating::Healthy,
            FAR_BELOW_SHARE.. => Rating::Below,
            _ => Rating::FarBelow,
        }
    }

    fn bottleneck_of(
        &self,
        bytes: u64,
        [least, best]: [f64; 2],
        rating: Option<Rating>,
        latency_floor_us: Option<f64>,
    ) -> Bottleneck {
        if bytes == 0 {
            return Bottleneck::Software;
        }
        let (Some(rating), Some(resource)) = (rating, self.bottleneck) else {
            return Bottleneck::Unknown { missing: self.missing.clone() };
        };
        if rating == Rating::Above {
            return Bottleneck::AboveLimit;
        }
        if best <= 0.0 {
            return Bottleneck::Unknown { missing: vec!["a result".to_owned()] };
        }
        let below = matches!(rating, Rating::Below | Rating::FarBelow);
        if below && self.too_short(bytes, best, latency_floor_us) {
            return Bottleneck::Software;
        }
        if best <= least * SETTINGS_FACTOR && rating != Rating::FarBelow {
            return Bottleneck::SetBy { resource };
        }
        if best > least * SETTINGS_FACTOR || self.assumed.is_empty() {
            let considered = self.loads.iter().map(|load| load.resource).collect();
            return Bottleneck::Elsewhere { considered };
        }
        let mut missing = self.assumed.clone();
        missing.push("NCCL's log (NCCL_DEBUG=INFO)".to_owned());
        Bottleneck::Unknown { missing }
    }

    /// Whether starting an operation takes a good part of the time of `bytes` at a busbw.
    fn too_short(&self, bytes: u64, busbw: f64, latency_floor_us: Option<f64>) -> bool {
        let (Some(at_limit), Some(percent)) = (self.time_us(bytes as f64), self.percent(busbw))
        else {
            return false;
        };
        let took = at_limit / (percent / 100.0);
        at_limit < DEFAULT_LATENCY_FLOOR_US
            || took < FLOORS_TO_RATE_A_LINK * latency_floor_us.unwrap_or(DEFAULT_LATENCY_FLOOR_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Algorithm, RankPlacement, limit};
    use crate::machine::ready;
    use busbw_core::Collective;

    /// A ring on eight H100: 450 GB/s by NVLink, of which NCCL expects 370.8.
    fn ring(bytes: u64, busbw: f64, latency_floor_us: Option<f64>) -> (Bottleneck, Option<Rating>) {
        let machine = ready("dgx-h100").expect("built in");
        let placement = RankPlacement::new(1, 8);
        let limit = limit(&machine, Collective::AllReduce, Algorithm::Ring, &placement);
        let judged = judge(&limit, bytes, &[busbw], latency_floor_us);
        (judged.bottleneck, judged.rating)
    }

    #[test]
    fn from_above_the_limit_to_far_below_it() {
        let set_by = Bottleneck::SetBy { resource: Resource::NvLink };
        for (busbw, rating) in [
            (449.0, Rating::At),
            (370.0, Rating::AsExpected),
            (300.0, Rating::Healthy),
            (250.0, Rating::Below),
        ] {
            assert_eq!(ring(1 << 33, busbw, None), (set_by.clone(), Some(rating)), "{busbw}");
        }
        assert_eq!(ring(1 << 33, 460.0, None), (Bottleneck::AboveLimit, Some(Rating::Above)));
        let far = ring(1 << 33, 200.0, None);
        assert_eq!(far.1, Some(Rating::FarBelow));
        assert!(matches!(far.0, Bottleneck::Elsewhere { .. }), "{far:?}");
    }

    #[test]
    fn small_messages_say_nothing_of_links() {
        // 1 MiB takes 4 us at the limit.
        assert_eq!(ring(1 << 20, 50.0, None).0, Bottleneck::Software);
        // 64 MiB take 261 us at the limit, and 522 us here: 12 starts of 43 us.
        assert_eq!(ring(64 << 20, 225.0, Some(60.0)).0, Bottleneck::Software);
        assert!(matches!(ring(64 << 20, 224.0, Some(43.0)).0, Bottleneck::Elsewhere { .. }));
        assert_eq!(ring(0, 0.0, None).0, Bottleneck::Software);
    }
}
