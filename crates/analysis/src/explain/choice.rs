//! Of which algorithm a limit is, how that is known, and what else may have run: as data, and as it is
//! told. Not the limits (`busbw_hardware::limits`). A bound never proves an algorithm; it excludes others.

use busbw_core::quantity::{list, rate};
use busbw_hardware::limits::{self, Algorithm, Candidate, Limit, Possible};
use serde::Serialize;

/// Bounds within this part of each other are the same in a sentence.
const SAME: f64 = 0.01;

/// The algorithm whose limit a result is held against.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// It.
    pub algorithm: Algorithm,
    /// How it is known.
    pub basis: Basis,
    /// Algorithms that the machine could run and whose bound the result does not exceed.
    pub explained_by: Vec<Algorithm>,
    /// Algorithms whose bound the result exceeds, so that they did not run; these bounds, GB/s.
    pub excluded: Vec<(Algorithm, f64)>,
    /// Of those that explain it, the ones of which NCCL expects far less; how much, GB/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlikely: Vec<(Algorithm, f64)>,
    /// Where none explains it as far as the machine is known: those that would, and if what is true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<(Algorithm, String)>,
}

/// Why this algorithm's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// NCCL's own lines name it for this size.
    Said,
    /// Only it, or others with the same bound, explains the result.
    OnlyExplanation,
    /// It has the lowest bound of those that explain the result and are not unlikely.
    LowestBound,
    /// It explains the result if something is true that nothing says.
    Conditional,
    /// None explains it; this one has the highest bound.
    Exceeded,
}

/// The candidate whose bound counts, and why; `said` is what NCCL's lines name.
pub(super) fn choose(
    candidates: &[Candidate],
    said: Option<Algorithm>,
    busbw: f64,
) -> Option<(&Limit, Choice)> {
    let explained_by = limits::explaining(candidates, busbw);
    let possible = || candidates.iter().filter(|one| one.possible == Possible::Yes);
    let excluded = possible().filter_map(|one| {
        let bound = one.limit.payload.as_ref().filter(|bound| bound.exceeded_by(busbw))?;
        // The line rate is what people know; where that would allow it, what packets carry does not.
        let line = one.limit.line.as_ref()?.busbw;
        Some((one.limit.algorithm, if busbw > line { line } else { bound.busbw }))
    });
    let mut choice = Choice {
        algorithm: Algorithm::Ring,
        basis: Basis::Said,
        excluded: excluded.collect(),
        unlikely: Vec::new(),
        conditions: Vec::new(),
        explained_by,
    };
    let named = |wanted| candidates.iter().find(|one| one.limit.algorithm == wanted);
    let chosen = if let Some(said) = said.and_then(named) {
        &said.limit
    } else if choice.explained_by.is_empty() {
        choice.conditions = limits::conditional(candidates, busbw);
        choice.basis = Basis::Conditional;
        let conditional = choice.conditions.iter().filter_map(|(algorithm, _)| named(*algorithm));
        match lowest(conditional.map(|one| &one.limit).collect()).first() {
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
        let (likely, rest) = apart(left.collect(), busbw);
        choice.unlikely = rest;
        let first = *likely.first()?;
        let same = likely.iter().all(|one| {
            bound(one) <= bound(first).map(|most| most * (1.0 + SAME))
                && bound(one).is_some()
                && one.culprit == first.culprit
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

/// By their bounds; of equal ones the ring's first: it is what most people think of.
fn lowest(mut limits: Vec<&Limit>) -> Vec<&Limit> {
    let figure = |limit: &Limit| bound(limit).unwrap_or(f64::INFINITY);
    let ring = |limit: &Limit| limit.algorithm != Algorithm::Ring;
    limits.sort_by(|a, b| figure(a).total_cmp(&figure(b)).then(ring(a).cmp(&ring(b))));
    limits
}

/// Those that may well have run, and those of which NCCL expects far less; all, where it does of all.
fn apart(limits: Vec<&Limit>, busbw: f64) -> (Vec<&Limit>, Vec<(Algorithm, f64)>) {
    let outdone = |limit: &&Limit| limit.expects.as_ref().is_some_and(|e| e.outdone_by(busbw));
    let (unlikely, likely): (Vec<&Limit>, Vec<&Limit>) = limits.into_iter().partition(outdone);
    if likely.is_empty() {
        return (lowest(unlikely), Vec::new());
    }
    let expects = |limit: &&Limit| Some((limit.algorithm, limit.expects.as_ref()?.high));
    let unlikely = unlikely.iter().filter_map(expects).collect();
    (lowest(likely), unlikely)
}

impl Choice {
    /// Whose limit it is, in brackets behind the figure.
    pub(super) fn brief(&self) -> String {
        let name = self.algorithm.name();
        match self.basis {
            Basis::Said => format!("{name}, as NCCL says"),
            Basis::OnlyExplanation if !self.explained_by.is_empty() => names(&self.explained_by),
            Basis::OnlyExplanation | Basis::Exceeded => name.to_owned(),
            Basis::LowestBound => format!("if {name} ran"),
            Basis::Conditional => {
                let why = self.conditions.iter().find(|(one, _)| *one == self.algorithm);
                why.map_or(name.to_owned(), |(_, why)| format!("{name}, if {why}"))
            }
        }
    }

    /// What the result tells of algorithms; nothing where NCCL says which one it was.
    pub(super) fn told(&self) -> String {
        if matches!(self.basis, Basis::Said | Basis::Exceeded) {
            return String::new();
        }
        let only = self.only();
        let mut told =
            only.map_or(String::new(), |only| format!(" It is {}: {only}.", self.above()));
        let name = self.algorithm.name();
        let not = |one: &&Algorithm| **one != self.algorithm && !self.is_unlikely(**one);
        let others: Vec<Algorithm> = self.explained_by.iter().filter(not).copied().collect();
        if !self.unlikely.is_empty() {
            let unlikely: Vec<Algorithm> = self.unlikely.iter().map(|(one, _)| *one).collect();
            let most = self.unlikely.iter().map(|(_, expects)| *expects).fold(0.0, f64::max);
            told.push_str(&format!(
                " NCCL expects no more than {} GB/s of {}: {} is likelier, but only the log can tell.",
                rate(most),
                names(&unlikely),
                names(&[&[self.algorithm], others.as_slice()].concat()),
            ));
        } else if self.basis == Basis::LowestBound {
            told.push_str(&format!(
                " That is if {name} ran; {} would be possible as well, and the log would tell.",
                names(&others)
            ));
        }
        told
    }

    /// `only Tree or NVLSTree explains it`, where the result excludes others.
    pub(super) fn only(&self) -> Option<String> {
        if self.excluded.is_empty() || self.basis == Basis::Said {
            return None;
        }
        if self.basis == Basis::Conditional {
            let told: Vec<String> = conditions(&self.conditions)
                .iter()
                .map(|(of, why)| format!("{of} if {why}"))
                .collect();
            return Some(format!("only {} explains it; nothing says so", list(&told, "or")));
        }
        let some = !self.explained_by.is_empty();
        some.then(|| format!("only {} explains it", names(&self.explained_by)))
    }

    /// What else would explain the result, if what is true that nothing says.
    pub(super) fn unless(&self, candidates: &[Candidate], busbw: f64) -> Option<String> {
        let open = limits::conditional(candidates, busbw);
        let told: Vec<String> =
            conditions(&open).iter().map(|(of, why)| format!("{of} if {why}")).collect();
        let known = matches!(self.basis, Basis::Said | Basis::Conditional);
        (!known && !told.is_empty()).then(|| {
            format!("as far as the machine is known; {} would as well", list(&told, "and"))
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

/// Each condition once, with the algorithms that it is for.
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
    let names: Vec<&str> = algorithms.iter().map(|algorithm| algorithm.name()).collect();
    list(&names, "or")
}

#[cfg(test)]
mod tests {
    use busbw_core::Collective;
    use busbw_hardware::{
        limits::{Placement, candidates},
        machine::ready,
    };

    use super::*;

    fn chosen(name: &str, collective: Collective, nodes: usize, each: usize, busbw: f64) -> Choice {
        let machine = ready::ready(name).unwrap();
        let all = candidates(&machine, collective, &Placement::new(nodes, each));
        choose(&all, None, busbw).unwrap().1
    }

    #[test]
    fn the_headline_is_of_no_unlikely_algorithm() {
        // Of NVLS NCCL expects 324.4 there, and its bound is 393.8: below the ring's.
        let gather = chosen("dgx-h100", Collective::AllGather, 1, 8, 363.5);
        assert_eq!(gather.algorithm, Algorithm::Ring);
        assert_eq!(gather.unlikely[0].0, Algorithm::Nvls);
        assert!(gather.told().contains("Ring is likelier"), "{}", gather.told());
        // Two GPUs: NVLS is slower than a ring there, and no release but the newest has it.
        let two = chosen("dgx-h100", Collective::ReduceScatter, 1, 2, 200.0);
        assert_eq!((two.algorithm, two.basis), (Algorithm::Ring, Basis::OnlyExplanation));
    }

    #[test]
    fn switches_that_may_reduce_are_a_condition() {
        let above = chosen("dgx-h100", Collective::AllReduce, 4, 8, 450.0);
        assert_eq!(above.basis, Basis::Conditional);
        assert!(above.told().contains("if the switches reduce (SHARP)"), "{}", above.told());
        assert!(above.brief().contains("if the switches reduce"), "{}", above.brief());
        let never = chosen("dgx-h100", Collective::AllReduce, 4, 8, 5000.0);
        assert_eq!(never.basis, Basis::Exceeded);
    }
}
