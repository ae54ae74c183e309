//! The ranks of a run, split into communicators of one size whose ranks are evenly spaced: tensor, data and expert parallel groups.
//! Not the communicators themselves, and not NCCL_TESTS_SPLIT (`split`), which splits all of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Plan;

/// Which ranks have a communicator together: every rank is in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Partition {
    /// Ranks of each communicator.
    pub ranks: usize,
    /// The difference between the numbers of a communicator's rank and its next one: 1 where they are neighbours.
    pub stride: usize,
}

impl Partition {
    /// Whether `ranks` ranks can be split so, each in one communicator of the same size.
    pub fn divides(self, ranks: usize) -> bool {
        let block = self.ranks.checked_mul(self.stride);
        block.is_some_and(|block| block > 0 && ranks > 0 && ranks.is_multiple_of(block))
    }

    /// The communicator of each of `ranks` ranks, by its lowest rank.
    pub fn colours(self, ranks: usize) -> Vec<u64> {
        let block = (self.ranks * self.stride).max(1);
        let lowest = |rank: usize| rank - rank % block + rank % self.stride.max(1);
        (0..ranks).map(|rank| lowest(rank) as u64).collect()
    }
}

/// `8`, or `4, 8 apart`.
impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { ranks, stride } = self;
        write!(f, "{ranks}")?;
        if *stride > 1 {
            write!(f, ", {stride} apart")?;
        }
        Ok(())
    }
}

impl Plan {
    /// The partitions by which this plan's calls are made, each once.
    pub fn partitions(&self) -> Vec<Partition> {
        let mut all = Vec::new();
        let classes = self.calls.iter().flat_map(|calls| &calls.classes);
        for partition in classes.filter_map(|class| class.partition) {
            if !all.contains(&partition) {
                all.push(partition);
            }
        }
        all
    }

    /// The plan of a backend whose communicators are a partition's: buffers as large as its calls need.
    pub fn of_partition(&self, partition: Partition) -> Plan {
        let classes = self.calls.iter().flat_map(|calls| &calls.classes);
        let own = classes.filter(|class| class.partition == Some(partition));
        let max_bytes = own.map(|class| class.bytes).max().unwrap_or(self.max_bytes);
        let colours = partition.colours(self.ranks());
        Plan { colours, max_bytes, min_bytes: max_bytes, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_and_ranks_that_are_apart() {
        let colours = |ranks, stride, of| Partition { ranks, stride }.colours(of);
        assert_eq!(colours(2, 1, 4), [0, 0, 2, 2]);
        assert_eq!(colours(2, 2, 4), [0, 1, 0, 1]);
        assert_eq!(colours(2, 2, 8), [0, 1, 0, 1, 4, 5, 4, 5]);
        assert_eq!(colours(4, 2, 8), [0, 1, 0, 1, 0, 1, 0, 1]);
    }

    /// Any that divides makes communicators of its size, whose ranks are as far apart as it says.
    #[test]
    fn every_rank_is_in_one_communicator() {
        for ranks in 1..=17 {
            for stride in 1..=17 {
                let partition = Partition { ranks, stride };
                for of in 1..=70 {
                    if !partition.divides(of) {
                        continue;
                    }
                    let colours = partition.colours(of);
                    for lowest in &colours {
                        let own: Vec<usize> = (0..of).filter(|r| colours[*r] == *lowest).collect();
                        let spaced: Vec<usize> =
                            (0..ranks).map(|n| *lowest as usize + n * stride).collect();
                        assert_eq!(own, spaced, "{partition:?} of {of}");
                    }
                }
            }
        }
        assert!(!Partition { ranks: 3, stride: 1 }.divides(4));
        assert!(!Partition { ranks: 2, stride: 4 }.divides(4));
        assert!(!Partition { ranks: 0, stride: 1 }.divides(4));
        assert!(!Partition { ranks: usize::MAX, stride: 2 }.divides(4));
    }
}
