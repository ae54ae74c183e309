//! Of which algorithm a limit is, how that is known, and what else may have run: as data, and as it is
//! told. Not the limits (`busbw_hardware::limits`). A bound never proves an algorithm; it excludes others.

use busbw_core::quantity::{list, rate};
use busbw_hardware::limits::{self, Algorithm, Candidate, Limit, Possible};
use serde::Serialize;

/// Bounds that differ by less than this share (1 %) count as equal.
const EQUAL_BOUNDS_SHARE: f64 = 0.01;

/// The algorithm whose limit applies to a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// Which algorithm.
    pub algorithm: Algorithm,
    /// Why this one.
    pub basis: Basis,
    /// Algorithms that the machine could run and whose bound the result does not exceed.
    pub explained_by: Vec<Algorithm>,
    /// Algorithms whose bound the result exceeds, so that they did not run, with that bound in GB/s.
    pub excluded: Vec<(Algorithm, f64)>,
    /// Algorithms that explain the result but for which NCCL expects far less, with that busbw in GB/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlikely: Vec<(Algorithm, f64)>,
    /// Where no algorithm explains the result on the machine as known: those that would, each with the
    /// condition that must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<(Algorithm, String)>,
}

/// Why this algorithm's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// NCCL's log names it for this size.
    Logged,
    /// A setting of the run names it (NCCL_ALGO), and the result does not exceed its bound.
    Setting,
    /// Only it, or others with the same bound, explains the result.
    OnlyExplanation,
    /// It has the lowest bound of those that explain the result and are not unlikely.
    LowestBound,
    /// It explains the result only under a condition that no source confirms.
    Conditional,
    /// None explains it; this one has the highest bound.
    Exceeded,
}

/// The candidate whose bound applies, and why; `logged` is the algorithm that NCCL's log names, `set` the one of NCCL_ALGO.
pub(super) fn choose(
    candidates: &[Candidate],
    logged: Option<Algorithm>,
    set: Option<Algorithm>,
    busbw: f64,
) -> Option<(&Limit, Choice)> {
    let explained_by = limits::explaining(candidates, busbw);
    let possible = || candidates.iter().filter(|one| one.possible == Possible::Yes);
    let excluded = possible().filter_map(|one| {
        let bound = one.limit.payload.as_ref().filter(|bound| bound.exceeded_by(busbw))?;
        // People know the line rate; the payload bound is named only where the line rate allows the result.
        let line = one.limit.line.as_ref()?.busbw;
        Some((one.limit.algorithm, if busbw > line { line } else { bound.busbw }))
    });
    let mut choice = Choice {
        algorithm: Algorithm::Ring,
        basis: Basis::Logged,
        excluded: excluded.collect(),
        unlikely: Vec::new(),
        conditions: Vec::new(),
        explained_by,
    };
    let named = |wanted| candidates.iter().find(|one| one.limit.algorithm == wanted);
    let chosen = if let Some(logged) = logged.and_then(named) {
        &logged.limit
    } else if let Some(set) = set.filter(|set| choice.explained_by.contains(set)).and_then(named) {
        choice.basis = Basis::Setting;
        &set.limit
    } else if choice.explained_by.is_empty() {
        choice.conditions = limits::conditional(candidates, busbw);
        choice.basis = Basis::Conditional;
        let conditional = choice.conditions.iter().filter_map(|(algorithm, _)| named(*algorithm));
        match by_bound(conditional.map(|one| &one.limit).collect()).first() {
            Some(lowest) => *lowest,
            None => {
                choice.basis = Basis::Exceeded;
                let figure = |limit: &&Limit| bound(limit).unwrap_or(0.0);
                let all = possible().map(|one| &one.limit);
                all.max_by(|a, b| figure(a).total_cmp(&figure(b)))?
            }
        }
    } else {
        let left = choice.explained_by.iter().filter_map(|one| Some(&named(*one)?.limit));
        let (likely, rest) = split_unlikely(left.collect(), busbw);
        choice.unlikely = rest;
        let first = *likely.first()?;
        let same = likely.iter().all(|one| {
            bound(one) <= bound(first).map(|most| most * (1.0 + EQUAL_BOUNDS_SHARE))
                && bound(one).is_some()
                && one.bottleneck == first.bottleneck
        });
        let only = (same || likely.len() == 1) && choice.unlikely.is_empty();
        choice.basis = if only { Basis::OnlyExplanation } else { Basis::LowestBound };
        first
    };
    choice.algorithm = chosen.algorithm;
    Some((chosen, choice))
}

fn bound(limit: &Limit) -> Option<f64> {
    limit.payload.as_ref().map(|bound| bound.busbw)
}

/// Sorted by bound, lowest first; of equal bounds Ring comes first.
fn by_bound(mut limits: Vec<&Limit>) -> Vec<&Limit> {
    let figure = |limit: &Limit| bound(limit).unwrap_or(f64::INFINITY);
    let ring = |limit: &Limit| limit.algorithm != Algorithm::Ring;
    limits.sort_by(|a, b| figure(a).total_cmp(&figure(b)).then(ring(a).cmp(&ring(b))));
    limits
}

/// Splits off the algorithms for which NCCL expects far less than the result; where that is all of
/// them, none is split off.
fn split_unlikely(limits: Vec<&Limit>, busbw: f64) -> (Vec<&Limit>, Vec<(Algorithm, f64)>) {
    let unlikely = |limit: &&Limit| limit.expects.as_ref().is_some_and(|e| e.is_far_below(busbw));
    let (unlikely, likely): (Vec<&Limit>, Vec<&Limit>) = limits.into_iter().partition(unlikely);
    if likely.is_empty() {
        return (by_bound(unlikely), Vec::new());
    }
    let expects = |limit: &&Limit| Some((limit.algorithm, limit.expects.as_ref()?.high));
    let unlikely = unlikely.iter().filter_map(expects).collect();
    (by_bound(likely), unlikely)
}

impl Choice {
    /// Whether the log or a setting names the algorithm.
    fn is_named(&self) -> bool {
        matches!(self.basis, Basis::Logged | Basis::Setting)
    }

    /// The algorithm's name, where the log or a setting names it or the result excludes all others.
    pub(super) fn certain(&self) -> Option<&'static str> {
        let only = self.explained_by.len() == 1 && !self.excluded.is_empty();
        let only = only && self.basis == Basis::OnlyExplanation;
        (only || self.is_named()).then(|| self.algorithm.name())
    }

    /// The algorithm in brackets behind the limit's figure.
    pub(super) fn brief(&self) -> String {
        let name = self.algorithm.name();
        match self.basis {
            Basis::Logged => format!("{name}, by NCCL's log"),
            Basis::Setting => format!("{name}, by NCCL_ALGO"),
            Basis::OnlyExplanation if !self.explained_by.is_empty() => names(&self.explained_by),
            Basis::OnlyExplanation | Basis::Exceeded => name.to_owned(),
            Basis::LowestBound => format!("if {name} ran"),
            Basis::Conditional => {
                let why = self.conditions.iter().find(|(one, _)| *one == self.algorithm);
                why.map_or(name.to_owned(), |(_, why)| format!("{name}, if {why}"))
            }
        }
    }

    /// What the result says about algorithms; empty where NCCL's log or a setting names the algorithm.
    pub(super) fn describe(&self) -> String {
        if self.is_named() || self.basis == Basis::Exceeded {
            return String::new();
        }
        let only = self.only();
        let mut text =
            only.map_or(String::new(), |only| format!(" The result is {}: {only}.", self.above()));
        let name = self.algorithm.name();
        let not = |one: &&Algorithm| **one != self.algorithm && !self.is_unlikely(**one);
        let others: Vec<Algorithm> = self.explained_by.iter().filter(not).copied().collect();
        if !self.unlikely.is_empty() {
            let unlikely: Vec<Algorithm> = self.unlikely.iter().map(|(one, _)| *one).collect();
            let most = self.unlikely.iter().map(|(_, expects)| *expects).fold(0.0, f64::max);
            text.push_str(&format!(
                " NCCL expects no more than {} GB/s of {}, so {} is likelier. NCCL's TUNING log would show which ran.",
                rate(most),
                names(&unlikely),
                names(&[&[self.algorithm], others.as_slice()].concat()),
            ));
        } else if self.basis == Basis::LowestBound {
            text.push_str(&format!(
                " Assumes the {name} algorithm; {} {} possible as well. Rerun with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING to decide.",
                list(&names_of(&others), "and"),
                if others.len() == 1 { "is" } else { "are" }
            ));
        }
        text
    }

    /// `only Tree or NVLSTree explains it`, where the result excludes others.
    pub(super) fn only(&self) -> Option<String> {
        if self.excluded.is_empty() || self.is_named() {
            return None;
        }
        if self.basis == Basis::Conditional {
            let each: Vec<String> = conditions(&self.conditions)
                .iter()
                .map(|(of, why)| format!("{of} if {why}"))
                .collect();
            return Some(format!(
                "only {} explains it; no source says whether that holds",
                list(&each, "or")
            ));
        }
        let some = !self.explained_by.is_empty();
        some.then(|| format!("only {} explains it", names(&self.explained_by)))
    }

    /// Algorithms that would also explain the result under a condition that no source confirms.
    pub(super) fn conditional_alternatives(
        &self,
        candidates: &[Candidate],
        busbw: f64,
    ) -> Option<String> {
        let open = limits::conditional(candidates, busbw);
        let each: Vec<String> =
            conditions(&open).iter().map(|(of, why)| format!("{of} if {why}")).collect();
        let known = self.is_named() || self.basis == Basis::Conditional;
        (!known && !each.is_empty()).then(|| {
            format!(
                "as far as the machine is known; {} would explain it as well",
                list(&each, "and")
            )
        })
    }

    /// `above the bound of Ring (50.00 GB/s)`.
    pub(super) fn above(&self) -> String {
        let bounds: Vec<String> = self
            .excluded
            .iter()
            .map(|(algorithm, bound)| format!("{} ({} GB/s)", algorithm.name(), rate(*bound)))
            .collect();
        let bound = if bounds.len() == 1 { "bound" } else { "bounds" };
        format!("above the {bound} of {}", list(&bounds, "and"))
    }

    fn is_unlikely(&self, algorithm: Algorithm) -> bool {
        self.unlikely.iter().any(|(one, _)| *one == algorithm)
    }
}

/// Each condition once, with the algorithms that need it.
fn conditions(all: &[(Algorithm, String)]) -> Vec<(String, &str)> {
    let mut grouped: Vec<(Vec<Algorithm>, &str)> = Vec::new();
    for (algorithm, why) in all {
        match grouped.iter_mut().find(|(_, known)| known == why) {
            Some((algorithms, _)) => algorithms.push(*algorithm),
            None => grouped.push((vec![*algorithm], why)),
        }
    }
    grouped.into_iter().map(|(algorithms, why)| (names(&algorithms), why)).collect()
}

/// `Tree or NVLSTree`.
fn names(algorithms: &[Algorithm]) -> String {
    list(&names_of(algorithms), "or")
}

fn names_of(algorithms: &[Algorithm]) -> Vec<&'static str> {
    algorithms.iter().map(|algorithm| algorithm.name()).collect()
}

#[cfg(test)]
mod tests {
    use busbw_core::Collective;
    use busbw_hardware::{
        limits::{RankPlacement, candidates},
        machine::ready,
    };

    use super::*;

    fn chosen(name: &str, collective: Collective, nodes: usize, each: usize, busbw: f64) -> Choice {
        let machine = ready::ready(name).unwrap();
        let all = candidates(&machine, collective, &RankPlacement::new(nodes, each));
        choose(&all, None, None, busbw).unwrap().1
    }

    #[test]
    fn the_headline_is_of_no_unlikely_algorithm() {
        // Of NVLS NCCL expects 324.4 there, and its bound is 393.8: below the ring's.
        let gather = chosen("dgx-h100", Collective::AllGather, 1, 8, 363.5);
        assert_eq!(gather.algorithm, Algorithm::Ring);
        assert_eq!(gather.unlikely[0].0, Algorithm::Nvls);
        assert!(gather.describe().contains("Ring is likelier"), "{}", gather.describe());
        // Two GPUs: NVLS is slower than a ring there, and no release but the newest has it.
        let two = chosen("dgx-h100", Collective::ReduceScatter, 1, 2, 200.0);
        assert_eq!((two.algorithm, two.basis), (Algorithm::Ring, Basis::OnlyExplanation));
    }

    #[test]
    fn a_setting_is_believed_unless_the_result_refutes_it() {
        let machine = ready::ready("dgx-a100").unwrap();
        let all = candidates(&machine, Collective::AllReduce, &RankPlacement::new(2, 8));
        for (busbw, basis) in [(190.0, Basis::Setting), (210.0, Basis::OnlyExplanation)] {
            let choice = choose(&all, None, Some(Algorithm::Ring), busbw).unwrap().1;
            assert_eq!(choice.basis, basis, "{busbw}");
        }
    }

    #[test]
    fn switches_that_may_reduce_are_a_condition() {
        let above = chosen("dgx-h100", Collective::AllReduce, 4, 8, 450.0);
        assert_eq!(above.basis, Basis::Conditional);
        assert!(
            above.describe().contains("if the switches reduce (SHARP)"),
            "{}",
            above.describe()
        );
        assert!(above.brief().contains("if the switches reduce"), "{}", above.brief());
        let never = chosen("dgx-h100", Collective::AllReduce, 4, 8, 5000.0);
        assert_eq!(never.basis, Basis::Exceeded);
    }
}
