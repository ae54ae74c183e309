//! The answer where hashes choose the links, or unequal flows share them: every number of failures is simulated.
//! Not where it can be counted (`exact`).

use busbw_core::Collective;
use busbw_stats::random::Random;

use super::super::answer::ECMP_SEEDS;
use super::super::wave::{Place, Wave};
use super::super::{Unanswerable, alltoall};
use super::chance::Chance;
use super::parts::{Affected, Dimension};
use super::{Beyond, Method, Most, Row, Tolerance, steps};
use crate::fabric::failure::drawn;
use crate::fabric::{Balance, Built, Lost};

/// Draws of random places for each number of failures.
const DRAWS: usize = 100;

/// Fewest of them, where a draw is long.
const FEWEST_DRAWS: usize = 20;

/// Shares of links on the paths of all flows that are simulated for an answer: about a minute on a core. Half of it for the search of
/// the most failures, half for rows.
const MAX_SHARES: usize = 150_000_000;

/// Rows that are reckoned with.
const ROWS: usize = 16;

/// Fills in what may fail. What even spreading over ideal switches would bear bounds it from above, since no hash is faster
/// (`symmetry` tests that). Below, more failures may be better by chance, so that the first number that misses ends it.
///
/// # Errors
/// So many flows that it would take minutes.
pub(super) fn answer(affected: &Affected<'_>, answer: &mut Tolerance) -> Result<(), Unanswerable> {
    let simulated = Simulated { affected, of: answer.of };
    let hashes = match affected.dimensions.iter().any(|one| one.hashed) {
        true => ECMP_SEEDS as usize,
        false => 1,
    };
    let of_a_row = MAX_SHARES / 2 / ROWS / simulated.shares();
    let draws = of_a_row.saturating_sub(2 * hashes).min(DRAWS);
    if draws < FEWEST_DRAWS {
        return Err(Unanswerable::TooLong);
    }
    answer.method = Method::Simulated { hashes, draws };
    if !affected.met() {
        return Ok(());
    }
    let may: Vec<usize> = affected.groups.iter().map(|group| affected.bearable(group)).collect();
    // The group that bears the least; of several the first that carries anything.
    let capped = (0..may.len()).filter(|at| may[*at] < affected.groups[*at].parts.len());
    let weakest = capped.min_by_key(|at| may[*at]).unwrap_or(0);
    let tries = MAX_SHARES / 4 / simulated.shares() / hashes;
    let together = &affected.groups[weakest].parts;
    let worst = simulated.most(
        &|failed| simulated.lost(&together[..failed]),
        (may[weakest], together.len()),
        tries,
    );
    let apart = apart(affected, &may);
    let best = simulated.most(
        &|failed| simulated.lost(&apart[..failed]),
        (apart.len(), apart.len()),
        tries,
    );
    let last = best.failed + 1;
    let marked = [worst.failed, worst.failed + 1, best.failed, last];
    for failed in steps(last, answer.parts, &marked) {
        let concentrated = failed.min(together.len());
        answer.rows.push(Row {
            failed,
            worst: simulated.median(&simulated.lost(&together[..concentrated])).busbw,
            best: simulated.median(&simulated.lost(&apart[..failed.min(apart.len())])).busbw,
            chance: simulated.chance(failed, draws),
        });
    }
    (answer.worst, answer.best) = (Some(worst), Some(best));
    Ok(())
}

/// Parts in the order in which even spreading bears them best: one of each group in turn, first those that carry nothing.
fn apart(affected: &Affected<'_>, may: &[usize]) -> Vec<usize> {
    let mut order = Vec::new();
    let most = may.iter().max().copied().unwrap_or(0);
    let carries = |group: usize| affected.strain(&affected.groups[group], 1).0 > 0.0;
    let (used, idle): (Vec<usize>, Vec<usize>) = (0..may.len()).partition(|group| carries(*group));
    order.extend(idle.iter().flat_map(|group| affected.groups[*group].parts.iter().copied()));
    for round in 0..most {
        let still = used.iter().filter(|group| may[**group] > round);
        order.extend(still.map(|group| affected.groups[*group].parts[round]));
    }
    order
}

struct Simulated<'a> {
    affected: &'a Affected<'a>,
    of: usize,
}

/// What a simulation, or the median of several, left.
struct Left {
    /// Of the dimension that is shown.
    busbw: f64,
    met: bool,
    /// The dimension that misses its target by most, and what held it back.
    missed: usize,
    limited_by: String,
    cut_off: bool,
}

impl Simulated<'_> {
    /// Shares of links on the paths of one simulation, about; of an alltoall its connections, which are only added up.
    fn shares(&self) -> usize {
        let Affected { question, .. } = self.affected;
        if question.collective == Collective::AllToAll {
            let pairs = self.affected.dimensions.iter().map(|one| alltoall::pairs(&one.members));
            return pairs.fold(1, usize::saturating_add).saturating_mul(question.connections);
        }
        let hosts: usize = self
            .affected
            .dimensions
            .iter()
            .flat_map(|one| &one.members)
            .map(|group| {
                group.members.len() * group.members.first().map_or(1, |one| one.lanes.len())
            })
            .sum();
        (hosts * question.connections * 8).max(1)
    }

    fn lost(&self, failed: &[usize]) -> Lost {
        let mut lost = Lost::new();
        for (link, keeps) in failed.iter().flat_map(|part| self.affected.parts.links_of(*part)) {
            *lost.entry(link).or_insert(1.0) *= keeps;
        }
        lost
    }

    fn wave(&self, dimension: &Dimension, lost: &Lost, seed: u64) -> Wave {
        let Affected { question, shape, inside, .. } = *self.affected;
        let balance = match dimension.hashed {
            true => Balance::Ecmp { seed, connections: question.connections },
            false => Balance::Trunks,
        };
        let built = Built::without(&question.fabric, shape, lost, balance, inside);
        let gpus = question.fabric.gpus_per_island();
        let place = Place::new(&built, balance, shape, gpus, &dimension.members);
        Wave::of(&place, question.collective, dimension.way, &dimension.members)
    }

    fn left(&self, waves: &[Wave]) -> Left {
        let dimensions = &self.affected.dimensions;
        let busbw = |at: usize| dimensions[at].busbw(waves[at].us_per_byte);
        let kept = |at: usize| busbw(at) / dimensions[at].whole.target;
        let missed = (0..waves.len()).min_by(|a, b| kept(*a).total_cmp(&kept(*b))).unwrap_or(0);
        Left {
            busbw: busbw(self.of),
            met: kept(missed) >= 1.0 - 1e-9,
            missed,
            limited_by: waves[missed].held_by.clone(),
            cut_off: waves[missed].us_per_byte.is_infinite(),
        }
    }

    /// The median over hashes, dimension by dimension, as the forecast has it.
    fn median(&self, lost: &Lost) -> Left {
        let of = |dimension: &Dimension| {
            let hashes = if dimension.hashed { ECMP_SEEDS } else { 1 };
            let first = self.affected.question.seed;
            let mut waves: Vec<Wave> =
                (0..hashes).map(|at| self.wave(dimension, lost, first.wrapping_add(at))).collect();
            waves.sort_by(|a, b| a.us_per_byte.total_cmp(&b.us_per_byte));
            waves.swap_remove(waves.len() / 2)
        };
        let waves: Vec<Wave> = self.affected.dimensions.iter().map(of).collect();
        self.left(&waves)
    }

    /// The most failures of some places before the first number that misses the target: at most `bound.0`, of `bound.1` there.
    fn most(&self, lost: &dyn Fn(usize) -> Lost, bound: (usize, usize), tries: usize) -> Most {
        let (bound, all) = bound;
        for failed in 1..=bound.min(tries) {
            let left = self.median(&lost(failed));
            if !left.met {
                return Most { failed: failed - 1, at_least: false, then: Some(self.beyond(left)) };
            }
        }
        if bound > tries {
            return Most { failed: tries, at_least: true, then: None };
        }
        let then = (bound < all).then(|| self.beyond(self.median(&lost(bound + 1))));
        Most { failed: bound, at_least: false, then }
    }

    fn beyond(&self, left: Left) -> Beyond {
        Beyond {
            busbw: left.busbw,
            dimension: self.affected.dimensions[left.missed].whole.name.clone(),
            limited_by: left.limited_by,
            at: None,
            cut_off: left.cut_off,
        }
    }

    /// How often random places, each with a hash of its own, meet the target.
    fn chance(&self, failed: usize, draws: usize) -> Chance {
        let all = self.affected.parts.count();
        let met = (0..draws as u64).filter(|draw| {
            let chosen = drawn(&mut Random::new(*draw), failed, all);
            let lost = self.lost(&chosen);
            let seed = self.affected.question.seed.wrapping_add(*draw);
            let waves: Vec<Wave> =
                self.affected.dimensions.iter().map(|one| self.wave(one, &lost, seed)).collect();
            self.left(&waves).met
        });
        Chance::drawn(met.count(), draws)
    }
}
