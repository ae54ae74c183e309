//! The pairs of the retest before a verdict names a subject: suspects with healthy peers, and
//! healthy ranks with each other at the same time.
//! Not the verdict, which is `judge::confirm`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    schedule::{Schedule, in_order, shuffled},
    subject::Subject,
};
use crate::pairs::assessment::PairsAssessment;

/// Passes of a first look.
pub const FIRST_PASSES: usize = 7;

/// Passes of a retest: of nine samples, of which one in twenty is slow, five are slow in 1 of
/// 30,000 cells.
pub const PASSES: usize = 9;

/// Healthy peers of each class against which a suspect is measured again.
const HEALTHY_PEERS: usize = 8;

/// Up to this many ranks everything is measured again.
const MAX_RANKS_IN_FULL: usize = 2 * HEALTHY_PEERS;

/// Idle ranks among which a peer for a control is searched.
const CONTROL_CANDIDATES: usize = 64;

/// The plan of a retest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Retest {
    /// The pairs of each round.
    pub schedule: Schedule,
    /// Passes through the rounds. Each pass gives one sample of a cell.
    pub passes: usize,
}

/// The pairs to measure again to confirm the suspicions of a first look; `None` without suspicions.
/// `schedule` is that of the first look; `class` returns the class of two ranks, `None` where they
/// are not measured.
pub fn plan(
    first: &PairsAssessment,
    schedule: &Schedule,
    class: impl Fn(usize, usize) -> Option<usize>,
) -> Option<Retest> {
    if first.slow.is_empty() {
        return None;
    }
    let ranks = first.hosts.len();
    let mut rounds = Rounds { class, suspects: suspects(first), ranks, rounds: Vec::new() };
    if ranks <= MAX_RANKS_IN_FULL {
        return Some(Retest { schedule: schedule.clone(), passes: PASSES });
    }
    for subject in subjects(first) {
        rounds.accused(subject, &first.hosts);
    }
    for suspect in rounds.suspects.clone() {
        rounds.peers(suspect);
    }
    let rounds = rounds.with_controls();
    Some(Retest { schedule: Schedule { rounds }, passes: PASSES })
}

fn subjects(first: &PairsAssessment) -> impl Iterator<Item = Subject> + '_ {
    let of = |slow: &'_ crate::pairs::assessment::SlowSubject| {
        let mut all = vec![slow.subject];
        all.extend(&slow.alternatives);
        all
    };
    first.slow.iter().flat_map(of)
}

fn suspects(first: &PairsAssessment) -> BTreeSet<usize> {
    subjects(first).flat_map(|subject| subject.ranks(&first.hosts)).collect()
}

struct Rounds<F> {
    class: F,
    suspects: BTreeSet<usize>,
    ranks: usize,
    /// Each of pairs of one class.
    rounds: Vec<Round>,
}

#[derive(Default)]
struct Round {
    class: usize,
    busy: BTreeSet<usize>,
    pairs: Vec<[usize; 2]>,
}

impl<F: Fn(usize, usize) -> Option<usize>> Rounds<F> {
    /// Adds a pair to the first round of its class where both ranks are free, if it is in none yet.
    fn add(&mut self, a: usize, b: usize) {
        let Some(class) = (self.class)(a, b) else { return };
        let pair = in_order(a, b);
        if a == b || self.rounds.iter().any(|round| round.pairs.contains(&pair)) {
            return;
        }
        let free = |round: &&mut Round| {
            round.class == class && !round.busy.contains(&a) && !round.busy.contains(&b)
        };
        let round = match self.rounds.iter_mut().find(free) {
            Some(round) => round,
            None => {
                self.rounds.push(Round { class, ..Round::default() });
                let Some(last) = self.rounds.last_mut() else { return };
                last
            }
        };
        round.busy.extend(pair);
        round.pairs.push(pair);
    }

    /// The pairs of a suspicion, where these are not simply those of its ranks.
    fn accused(&mut self, subject: Subject, hosts: &[usize]) {
        let of = |host: usize| (0..self.ranks).filter(move |rank| hosts.get(*rank) == Some(&host));
        let (here, there): (Vec<_>, Vec<_>) = match subject {
            Subject::Cell { from, to } => (vec![from], vec![to]),
            Subject::Link { between: [a, b] } => (vec![a], vec![b]),
            Subject::Path { from, to } => (of(from).collect(), of(to).collect()),
            Subject::Paths { between: [a, b] } => (of(a).collect(), of(b).collect()),
            Subject::Host { host } => (of(host).collect(), of(host).collect()),
            _ => return,
        };
        for shift in 0..there.len().min(HEALTHY_PEERS) {
            for (a, b) in here.iter().zip(there.iter().cycle().skip(shift)) {
                self.add(*a, *b);
            }
        }
    }

    /// Pairs a suspect with healthy ranks of each class, drawn at random, so that they are of all
    /// hosts.
    fn peers(&mut self, suspect: usize) {
        let mut left = BTreeMap::<usize, usize>::new();
        for peer in shuffled(self.ranks, suspect as u64) {
            let Some(class) = (self.class)(suspect, peer) else { continue };
            let left = left.entry(class).or_insert(HEALTHY_PEERS);
            if *left > 0 && peer != suspect && !self.suspects.contains(&peer) {
                *left -= 1;
                self.add(suspect, peer);
            }
        }
    }

    /// Healthy idle ranks are paired, so that each round has a control.
    fn with_controls(mut self) -> Vec<Vec<[usize; 2]>> {
        let mut known: BTreeSet<_> = self.rounds.iter().flat_map(|r| r.pairs.clone()).collect();
        for (number, round) in self.rounds.iter_mut().enumerate() {
            let free = |rank: &usize| !self.suspects.contains(rank) && !round.busy.contains(rank);
            let mut idle: Vec<usize> = (0..self.ranks).filter(free).collect();
            // Another order in each round, so that ranks get other peers.
            let start = number % idle.len().max(1);
            idle.rotate_left(start);
            while let Some(rank) = idle.pop() {
                let fits = |peer: &usize| {
                    (self.class)(rank, *peer) == Some(round.class)
                        && !known.contains(&in_order(rank, *peer))
                };
                if let Some(at) = idle.iter().take(CONTROL_CANDIDATES).position(fits) {
                    let pair = in_order(rank, idle.remove(at));
                    known.insert(pair);
                    round.pairs.push(pair);
                }
            }
        }
        self.rounds.into_iter().map(|round| round.pairs).collect()
    }
}
