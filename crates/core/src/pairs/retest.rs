//! Which pairs are measured again before anybody is accused: suspects against healthy peers, and
//! healthy ranks among each other at the same time.
//! Not the verdict over them, which is `judge::confirm`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    schedule::{Schedule, in_order, shuffled},
    subject::Subject,
    verdict::Verdict,
};

/// How often a first look goes through its schedule.
pub const FIRST_PASSES: usize = 7;

/// How often a retest does: of nine samples, of which one in twenty is slow, five are slow in 1 of
/// 30,000 cells.
pub const PASSES: usize = 9;

/// Healthy peers of each class that a suspect meets.
const PEERS: usize = 8;

/// Up to so many ranks everything is measured again.
const FEW: usize = 2 * PEERS;

/// Of so many idle ranks a peer for a control is looked for.
const NEAR: usize = 64;

/// What is measured again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Retest {
    /// The pairs of each round.
    pub schedule: Schedule,
    /// How often it is gone through. Each pass gives one sample of a cell.
    pub passes: usize,
}

/// What has to be measured again to tell whether the suspicions of a first look hold; none if there
/// are none. `schedule` is that of the first look; `class` tells the class of two ranks, none where
/// they are not to be measured.
pub fn plan(
    first: &Verdict,
    schedule: &Schedule,
    class: impl Fn(usize, usize) -> Option<usize>,
) -> Option<Retest> {
    if first.findings.is_empty() {
        return None;
    }
    let ranks = first.hosts.len();
    let mut rounds = Rounds { class, suspects: suspects(first), ranks, rounds: Vec::new() };
    if ranks <= FEW {
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

fn subjects(first: &Verdict) -> impl Iterator<Item = Subject> + '_ {
    let of = |finding: &'_ super::verdict::Finding| {
        let mut all = vec![finding.subject];
        all.extend(&finding.alternatives);
        all
    };
    first.findings.iter().flat_map(of)
}

fn suspects(first: &Verdict) -> BTreeSet<usize> {
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
    /// Puts a pair into the first round of its class where both are free, if it is in none yet.
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

    /// The pairs of which a suspicion speaks, where these are not simply those of its ranks.
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
        for shift in 0..there.len().min(PEERS) {
            for (a, b) in here.iter().zip(there.iter().cycle().skip(shift)) {
                self.add(*a, *b);
            }
        }
    }

    /// A suspect with healthy ranks of each class, drawn, so that they are of all hosts.
    fn peers(&mut self, suspect: usize) {
        let mut left = BTreeMap::<usize, usize>::new();
        for peer in shuffled(self.ranks, suspect as u64) {
            let Some(class) = (self.class)(suspect, peer) else { continue };
            let left = left.entry(class).or_insert(PEERS);
            if *left > 0 && peer != suspect && !self.suspects.contains(&peer) {
                *left -= 1;
                self.add(suspect, peer);
            }
        }
    }

    /// Healthy ranks that would be idle are paired, so that each round has a standard beside it.
    fn with_controls(mut self) -> Vec<Vec<[usize; 2]>> {
        let mut known: BTreeSet<_> = self.rounds.iter().flat_map(|r| r.pairs.clone()).collect();
        for (number, round) in self.rounds.iter_mut().enumerate() {
            let free = |rank: &usize| !self.suspects.contains(rank) && !round.busy.contains(rank);
            let mut idle: Vec<usize> = (0..self.ranks).filter(free).collect();
            // Another order in each round, so that ranks meet others.
            let start = number % idle.len().max(1);
            idle.rotate_left(start);
            while let Some(rank) = idle.pop() {
                let fits = |peer: &usize| {
                    (self.class)(rank, *peer) == Some(round.class)
                        && !known.contains(&in_order(rank, *peer))
                };
                if let Some(at) = idle.iter().take(NEAR).position(fits) {
                    let pair = in_order(rank, idle.remove(at));
                    known.insert(pair);
                    round.pairs.push(pair);
                }
            }
        }
        self.rounds.into_iter().map(|round| round.pairs).collect()
    }
}
