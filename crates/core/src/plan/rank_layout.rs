//! Which process and which thread holds which ranks. A **rank thread** starts operations and reads
//! the clock, for one rank or for several.
//! Not which rank belongs to which communicator, beyond listing them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Plan;

/// The distribution of ranks over processes and threads. In every variant, rank = (process ·
/// threads + thread) · devices + device, where process counts those that a launcher started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RankLayout {
    /// A process per device with `threads` rank threads of one rank each: `host`, and busbw's own
    /// names.
    #[default]
    Processes,
    /// One process, or each that a launcher started, with `threads` rank threads of `devices` ranks
    /// each, as in nccl-tests (src/common.cu:1565-1600).
    Threads,
    /// Each process that a launcher started, with a rank thread for each of its ranks.
    Launched,
    /// One rank thread that stands for every rank: no bytes move.
    Alone,
}

impl Plan {
    /// The number of world ranks.
    pub fn ranks(&self) -> usize {
        self.launched * self.ranks_each()
    }

    /// Ranks of each process that a launcher started; without one all of them.
    pub fn ranks_each(&self) -> usize {
        self.threads * self.devices
    }

    /// The number of rank threads of all processes.
    pub fn rank_threads(&self) -> usize {
        match self.rank_layout {
            RankLayout::Processes | RankLayout::Launched => self.ranks(),
            RankLayout::Threads => self.launched * self.threads,
            RankLayout::Alone => 1,
        }
    }

    /// The number of processes that hold ranks.
    pub fn processes(&self) -> usize {
        match self.rank_layout {
            RankLayout::Processes => self.devices,
            RankLayout::Threads | RankLayout::Launched => self.launched,
            RankLayout::Alone => 1,
        }
    }

    /// The rank threads of one process, in the order of its threads.
    pub fn rank_threads_of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let (threads, processes) = (self.rank_threads(), self.processes().max(1));
        let (mine, step) = match self.rank_layout {
            RankLayout::Processes => (process..threads, processes),
            RankLayout::Threads | RankLayout::Launched | RankLayout::Alone => {
                let each = threads / processes;
                (process * each..(process + 1) * each, 1)
            }
        };
        mine.step_by(step)
    }

    /// The process of a rank thread.
    pub fn process(&self, thread: usize) -> usize {
        let processes = self.processes().max(1);
        match self.rank_layout {
            RankLayout::Processes => thread % processes,
            RankLayout::Threads | RankLayout::Launched | RankLayout::Alone => {
                thread / (self.rank_threads() / processes).max(1)
            }
        }
    }

    /// The world ranks that a rank thread holds.
    pub fn ranks_of(&self, thread: usize) -> Range<usize> {
        let each = self.ranks() / self.rank_threads().max(1);
        thread * each..(thread + 1) * each
    }

    /// The rank thread that holds a rank.
    pub fn rank_thread(&self, rank: usize) -> usize {
        rank * self.rank_threads() / self.ranks().max(1)
    }

    /// World ranks of every communicator, by the first rank of each.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
        for rank in 0..self.ranks() {
            let colour = self.colour(rank);
            match groups.iter_mut().find(|(c, _)| *c == colour) {
                Some((_, ranks)) => ranks.push(rank),
                None => groups.push((colour, vec![rank])),
            }
        }
        groups.into_iter().map(|(_, ranks)| ranks).collect()
    }

    /// Colour of a rank's communicator; 0 without a split.
    pub fn colour(&self, rank: usize) -> u64 {
        self.colours.get(rank).copied().unwrap_or(0)
    }

    /// A rank thread whose ranks belong to several communicators, if there is one: it could not
    /// time them separately.
    pub fn thread_spanning_communicators(&self) -> Option<usize> {
        (0..self.rank_threads()).find(|thread| {
            let mut colours = self.ranks_of(*thread).map(|rank| self.colour(rank));
            let first = colours.next();
            colours.any(|colour| Some(colour) != first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rank_layout: RankLayout, threads: usize, devices: usize) -> Plan {
        Plan { rank_layout, threads, devices, ..Plan::example() }
    }

    /// Every rank is held exactly once, and every reverse function leads back there.
    #[test]
    fn everybody_has_one_seat() {
        let here = [RankLayout::Processes, RankLayout::Threads, RankLayout::Alone];
        let launched =
            [RankLayout::Threads, RankLayout::Launched].map(|rank_layout| (rank_layout, 3));
        for (rank_layout, launched) in
            here.map(|rank_layout| (rank_layout, 1)).into_iter().chain(launched)
        {
            for (threads, devices) in (1..5).flat_map(|t| (1..5).map(move |g| (t, g))) {
                let plan = Plan { launched, ..plan(rank_layout, threads, devices) };
                let mut held = Vec::new();
                for process in 0..plan.processes() {
                    for thread in plan.rank_threads_of(process) {
                        assert_eq!(plan.process(thread), process);
                        for rank in plan.ranks_of(thread) {
                            assert_eq!(plan.rank_thread(rank), thread);
                            held.push(rank);
                        }
                    }
                }
                held.sort_unstable();
                assert!(held.into_iter().eq(0..plan.ranks()), "{plan:?}");
            }
        }
    }

    #[test]
    fn as_documented() {
        let by_process = plan(RankLayout::Processes, 2, 3);
        assert_eq!((by_process.rank_threads(), by_process.processes()), (6, 3));
        assert_eq!(by_process.rank_threads_of(1).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(by_process.ranks_of(4), 4..5);
        let by_thread = plan(RankLayout::Threads, 2, 3);
        assert_eq!((by_thread.rank_threads(), by_thread.processes()), (2, 1));
        assert_eq!(by_thread.ranks_of(1), 3..6);
        assert_eq!(plan(RankLayout::Alone, 2, 3).ranks_of(0), 0..6);
        let launched = |rank_layout| Plan { launched: 4, ..plan(rank_layout, 2, 3) };
        let theirs = launched(RankLayout::Threads);
        assert_eq!((theirs.ranks(), theirs.rank_threads(), theirs.processes()), (24, 8, 4));
        assert_eq!(
            (theirs.rank_threads_of(1).collect::<Vec<_>>(), theirs.ranks_of(3)),
            (vec![2, 3], 9..12)
        );
        let ours = launched(RankLayout::Launched);
        assert_eq!((ours.rank_threads(), ours.processes(), ours.process(7)), (24, 4, 1));
        assert_eq!(ours.rank_threads_of(3).collect::<Vec<_>>(), (18..24).collect::<Vec<_>>());
    }

    #[test]
    fn a_driver_of_two_communicators_is_found() {
        let split = |rank_layout, colours: &[u64]| {
            Plan { colours: colours.to_vec(), ..plan(rank_layout, 2, 2) }
                .thread_spanning_communicators()
        };
        assert_eq!(split(RankLayout::Threads, &[0, 0, 1, 1]), None);
        assert_eq!(split(RankLayout::Threads, &[0, 0, 0, 1]), Some(1));
        assert_eq!(split(RankLayout::Processes, &[0, 1, 0, 1]), None);
        assert_eq!(split(RankLayout::Threads, &[]), None);
    }
}
