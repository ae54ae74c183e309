//! How the `host` backend can run a collective, and which way is the fastest at which size.
//! Not the steps themselves (`busbw-shm`) and not the measuring of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Collective;
pub use crate::collective::Algorithm;

/// An algorithm, and how it stores what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// Who moves what.
    pub algorithm: Algorithm,
    /// Whether results go past the caches, straight to memory.
    #[serde(default)]
    pub streamed: bool,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.algorithm {
            Algorithm::Slot => "slot",
            Algorithm::Pull => "pull",
            Algorithm::Push => "push",
            Algorithm::Share => "share",
        })?;
        f.write_str(if self.streamed { " streamed" } else { "" })
    }
}

impl Algorithm {
    /// The ways to run a collective, the one for the smallest messages first.
    pub const fn of(collective: Collective) -> &'static [Algorithm] {
        collective.spec().algorithms
    }
}

impl Choice {
    /// Every way to run a collective, with both kinds of stores where there is a choice: a slot is
    /// read again at once, so it stays in the caches.
    pub fn of(collective: Collective) -> impl Iterator<Item = Choice> {
        Algorithm::of(collective).iter().flat_map(|&algorithm| {
            let kinds: &[bool] =
                if algorithm == Algorithm::Slot { &[false] } else { &[false, true] };
            kinds.iter().map(move |&streamed| Choice { algorithm, streamed })
        })
    }
}

/// What is fastest for one collective over a number of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The collective.
    pub collective: Collective,
    /// Ranks of the communicator.
    pub ranks: usize,
    /// The largest size that was measured, bytes of the count argument; 0 when nothing was.
    pub measured_to: u64,
    /// From which size on, in bytes of the count argument, which choice; ascending, from 0.
    pub steps: Vec<(u64, Choice)>,
}

/// The time of one way at one size, by all ranks' agreement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Bytes of the count argument.
    pub size: u64,
    /// The way.
    pub choice: Choice,
    /// Microseconds of one operation.
    pub us: f64,
}

/// A way must be this much faster than the one of the next smaller size to take its place: noise
/// alone is to make no steps.
const WORTH_A_STEP: f64 = 0.97;

impl Table {
    /// What holds where nothing was measured: slots up to 4 KiB, stores past the caches from 8 MiB.
    pub fn unmeasured(collective: Collective, ranks: usize) -> Table {
        let ways = Algorithm::of(collective);
        let direct = ways.last().copied().unwrap_or(Algorithm::Pull);
        let cached = |algorithm| Choice { algorithm, streamed: false };
        let mut steps = vec![(0, cached(ways.first().copied().unwrap_or(direct)))];
        if ways.len() > 1 {
            steps.push(((4 << 10) + 1, cached(direct)));
        }
        steps.push((8 << 20, Choice { algorithm: direct, streamed: true }));
        Table { collective, ranks, measured_to: 0, steps }
    }

    /// From timings of several ways at several sizes. A size lies half-way, in its logarithm, between
    /// those that were measured to take the way of the larger one.
    pub fn measured(collective: Collective, ranks: usize, timings: &[Timing]) -> Table {
        let mut sizes: Vec<u64> = timings.iter().map(|t| t.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut table = Table { collective, ranks, measured_to: 0, steps: Vec::new() };
        let mut before = 0;
        for size in sizes {
            let at = |choice| {
                timings.iter().find(|t| t.size == size && t.choice == choice).map(|t| t.us)
            };
            let here = timings.iter().filter(|t| t.size == size);
            let Some(best) = here.min_by(|a, b| a.us.total_cmp(&b.us)) else { continue };
            let previous = table.steps.last().map(|(_, choice)| *choice);
            let stays = previous.and_then(at).is_some_and(|us| best.us > us * WORTH_A_STEP);
            if previous != Some(best.choice) && !stays {
                let from = if table.steps.is_empty() { 0 } else { middle(before, size) };
                table.steps.push((from, best.choice));
            }
            (before, table.measured_to) = (size, size);
        }
        if table.steps.is_empty() { Table::unmeasured(collective, ranks) } else { table }
    }

    /// Whether this can be a table at all: steps from 0 upwards, of ways to run its collective. One
    /// that was read from a file may be anything.
    pub fn is_sound(&self) -> bool {
        let ascending = self.steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let exists = |choice| Choice::of(self.collective).any(|way| way == choice);
        self.steps.first().is_some_and(|(from, _)| *from == 0)
            && ascending
            && self.steps.iter().all(|(_, choice)| exists(*choice))
    }

    /// The choices that apply at `size` bytes of the count argument, the best first; the others are
    /// for when it cannot run.
    pub fn at(&self, size: u64) -> impl Iterator<Item = Choice> {
        let applies = self.steps.partition_point(|(from, _)| *from <= size).max(1) - 1;
        self.steps.iter().skip(applies).map(|(_, choice)| *choice)
    }
}

/// Half-way between two sizes in their logarithms.
fn middle(a: u64, b: u64) -> u64 {
    ((a.max(1) as f64) * (b as f64)).sqrt() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Choice = Choice { algorithm: Algorithm::Slot, streamed: false };
    const SHARE: Choice = Choice { algorithm: Algorithm::Share, streamed: false };

    fn timings(us: &[(u64, f64, f64)]) -> Vec<Timing> {
        us.iter()
            .flat_map(|&(size, slot, share)| {
                [Timing { size, choice: SLOT, us: slot }, Timing { size, choice: SHARE, us: share }]
            })
            .collect()
    }

    fn best(table: &Table, size: u64) -> Choice {
        table.at(size).next().unwrap()
    }

    #[test]
    fn the_fastest_wins_where_it_was_measured() {
        let us = timings(&[(64, 1.0, 2.0), (1024, 1.5, 2.0), (16384, 9.0, 3.0)]);
        let table = Table::measured(Collective::AllReduce, 2, &us);
        assert_eq!(table.steps.len(), 2);
        for (size, choice) in [(0, SLOT), (4000, SLOT), (4200, SHARE), (1 << 40, SHARE)] {
            assert_eq!(best(&table, size), choice, "{size}");
        }
        assert_eq!(table.measured_to, 16384);
    }

    #[test]
    fn noise_makes_no_steps() {
        let us = timings(&[(64, 1.0, 1.01), (256, 1.0, 0.99), (1024, 1.0, 0.98), (4096, 2.0, 1.0)]);
        let table = Table::measured(Collective::AllReduce, 2, &us);
        assert_eq!(table.steps, [(0, SLOT), (2049, SHARE)]);
    }

    #[test]
    fn a_table_is_steps_upwards_from_0_of_ways_that_exist() {
        let table = |collective, steps: &[(u64, Choice)]| Table {
            steps: steps.to_vec(),
            ..Table::unmeasured(collective, 2)
        };
        let all_reduce = |steps| table(Collective::AllReduce, steps);
        assert!(all_reduce(&[(0, SLOT), (9, SHARE), (10, SLOT)]).is_sound());
        assert!(!all_reduce(&[]).is_sound());
        assert!(!all_reduce(&[(1, SLOT)]).is_sound());
        assert!(!all_reduce(&[(0, SLOT), (9, SHARE), (8, SLOT)]).is_sound());
        assert!(!all_reduce(&[(0, SLOT), (0, SHARE)]).is_sound());
        assert!(!all_reduce(&[(0, Choice { streamed: true, ..SLOT })]).is_sound());
        assert!(!table(Collective::HyperCube, &[(0, SLOT)]).is_sound());
        assert!(!table(Collective::Gather, &[(0, SLOT), (9, SHARE)]).is_sound());
    }

    #[test]
    fn every_collective_has_a_table_without_measurement() {
        for collective in Collective::ALL {
            let table = Table::unmeasured(collective, 2);
            assert!(table.is_sound(), "{collective:?}");
            for size in [0, 1, 8, 4096, 4097, 1 << 20, 1 << 40] {
                let choice = best(&table, size);
                assert!(Choice::of(collective).any(|c| c == choice), "{collective:?} {size}");
            }
            assert_eq!(Table::measured(collective, 2, &[]), table);
        }
    }
}
