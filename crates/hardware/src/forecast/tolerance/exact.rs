//! The answer where it can be counted: groups of alike parts share no trunk, and the busiest trunk decides.
//! Not where hashes choose the links (`drawn`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chance::{Chance, Urns};
use super::parts::{Affected, Dimension};
use super::{Beyond, Likely, Most, Row, Tolerance, steps};
use crate::fabric::Alike;

/// Chances of which the number of failures is said.
const LIKELY: [f64; 2] = [0.99, 0.5];

/// Fills in what may fail. Any places of k failures touch some trunk with at most k of one group, so that none costs more than k
/// in the group that bears the least. The best places fill the groups that bear the most; together they bear the sum.
pub(super) fn answer(affected: &Affected<'_>, answer: &mut Tolerance) {
    let may: Vec<usize> = affected.groups.iter().map(|group| affected.bearable(group)).collect();
    if !affected.met() {
        return;
    }
    let capped = may.iter().zip(&affected.groups).filter(|(may, group)| **may < group.parts.len());
    let weakest = capped.min_by_key(|(may, _)| **may).map(|(may, group)| (*may, group));
    let worst = weakest.map_or(answer.parts, |(may, _)| may);
    let best: usize = may.iter().sum();
    let filled = Filled::up_to(affected, best + 1);
    answer.worst = Some(Most {
        failed: worst,
        at_least: false,
        then: weakest.map(|(may, group)| beyond(affected, answer.of, group, may + 1)),
    });
    answer.best = Some(Most {
        failed: best,
        at_least: false,
        then: filled
            .last
            .map(|(group, failed)| beyond(affected, answer.of, &affected.groups[group], failed)),
    });
    let urns =
        Urns::of(affected.groups.iter().zip(&may).map(|(group, may)| (group.parts.len(), *may)));
    for chance in LIKELY {
        answer.likely.push(Likely { chance, failed: most_with(&urns, chance, worst, best) });
    }
    let mut marked = vec![worst, worst + 1, best, best + 1];
    marked.extend(answer.likely.iter().map(|one| one.failed));
    let dimension = &affected.dimensions[answer.of];
    for failed in steps(best + 1, answer.parts, &marked) {
        let us = affected
            .groups
            .iter()
            .map(|group| affected.us_per_byte(dimension, group, failed.min(group.parts.len())).0);
        answer.rows.push(Row {
            failed,
            worst: dimension.busbw(us.fold(dimension.least, f64::max)),
            best: dimension.busbw(filled.us_per_byte(affected, dimension, failed)),
            chance: Chance::exactly(match failed {
                few if few <= worst => 1.0,
                many if many > best => 0.0,
                // Some places miss it: rounding does not make that certain.
                some => urns.chance(some).min(1.0 - 1e-12),
            }),
        });
    }
}

/// The most failures at random that meet the target with a chance. One more never helps: of k + 1 places that meet the target any
/// k do, so that halving finds it.
fn most_with(urns: &Urns, chance: f64, worst: usize, best: usize) -> usize {
    let (mut met, mut missed) = (worst, best + 1);
    while missed - met > 1 {
        let middle = (met + missed) / 2;
        match urns.chance(middle) >= chance {
            true => met = middle,
            false => missed = middle,
        }
    }
    met
}

/// What is left when so many parts of a group have failed.
fn beyond(affected: &Affected<'_>, of: usize, group: &Alike, failed: usize) -> Beyond {
    let (_, missed, trunk) = affected.strain(group, failed);
    let shown = &affected.dimensions[of];
    let busbw =
        |one: &Dimension| one.busbw(affected.us_per_byte(one, group, failed).0.max(one.least));
    let down = 2 * trunk as u32 + u32::from(heavier_down(&affected.dimensions[missed], trunk));
    Beyond {
        busbw: busbw(shown),
        dimension: affected.dimensions[missed].whole.name.clone(),
        limited_by: affected.built.name(down),
        at: Some(affected.built.trunk_name(trunk)),
        cut_off: affected.us_per_byte(&affected.dimensions[missed], group, failed).0.is_infinite(),
    }
}

fn heavier_down(dimension: &Dimension, trunk: usize) -> bool {
    dimension.loads.bytes[2 * trunk + 1] > dimension.loads.bytes[2 * trunk]
}

/// Failures one after the other, each where it strains least.
struct Filled {
    /// The group that each goes to, with how many have failed there.
    order: Vec<(usize, usize)>,
    /// The one after the last that is borne.
    last: Option<(usize, usize)>,
}

/// A strain as a number that sorts: those of f64 that are not negative do by their bits.
fn sortable(strain: f64) -> u64 {
    strain.max(0.0).to_bits()
}

impl Filled {
    fn up_to(affected: &Affected<'_>, most: usize) -> Filled {
        let strain = |group: usize, failed: usize| {
            Reverse((sortable(affected.strain(&affected.groups[group], failed).0), failed, group))
        };
        let mut next: BinaryHeap<_> =
            (0..affected.groups.len()).map(|group| strain(group, 1)).collect();
        let mut order = Vec::new();
        while order.len() < most {
            let Some(Reverse((_, failed, group))) = next.pop() else { break };
            order.push((group, failed));
            if failed < affected.groups[group].parts.len() {
                next.push(strain(group, failed + 1));
            }
        }
        let last = if order.len() == most { order.last().copied() } else { None };
        Filled { order, last }
    }

    /// Microseconds a byte with the first so many failures.
    fn us_per_byte(&self, affected: &Affected<'_>, dimension: &Dimension, failed: usize) -> f64 {
        let all = self.order.iter().take(failed).map(|(group, failed)| {
            affected.us_per_byte(dimension, &affected.groups[*group], *failed).0
        });
        all.fold(dimension.least, f64::max)
    }
}
