//! Which process and which thread holds which ranks. A **driver** is a thread that starts operations
//! and reads the clock, for one rank or for several.
//! Not which rank belongs to which communicator, beyond listing them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Plan;

/// How ranks are seated. Rank = (process · threads + thread) · devices + device in every way of it, where
/// process counts those that a launcher started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seating {
    /// A process per device with `threads` drivers of one rank each: `host`, and busbw's own names.
    #[default]
    Processes,
    /// One process, or each that a launcher started, with `threads` drivers of `devices` ranks each, as
    /// nccl-tests seats them (src/common.cu:1565-1600).
    Threads,
    /// A process for each that a launcher started, with a driver for each of its ranks.
    Launched,
    /// One driver that stands for every rank: nothing moves.
    Alone,
}

impl Plan {
    /// World ranks.
    pub fn ranks(&self) -> usize {
        self.launched * self.ranks_each()
    }

    /// Ranks of each process that a launcher started; without one all of them.
    pub fn ranks_each(&self) -> usize {
        self.threads * self.devices
    }

    /// Drivers of all processes.
    pub fn drivers(&self) -> usize {
        match self.seating {
            Seating::Processes | Seating::Launched => self.ranks(),
            Seating::Threads => self.launched * self.threads,
            Seating::Alone => 1,
        }
    }

    /// Processes that hold ranks.
    pub fn processes(&self) -> usize {
        match self.seating {
            Seating::Processes => self.devices,
            Seating::Threads | Seating::Launched => self.launched,
            Seating::Alone => 1,
        }
    }

    /// Drivers of one process, in the order of its threads.
    pub fn drivers_of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let (drivers, processes) = (self.drivers(), self.processes().max(1));
        let (seats, step) = match self.seating {
            Seating::Processes => (process..drivers, processes),
            Seating::Threads | Seating::Launched | Seating::Alone => {
                let each = drivers / processes;
                (process * each..(process + 1) * each, 1)
            }
        };
        seats.step_by(step)
    }

    /// The process of a driver.
    pub fn process(&self, driver: usize) -> usize {
        let processes = self.processes().max(1);
        match self.seating {
            Seating::Processes => driver % processes,
            Seating::Threads | Seating::Launched | Seating::Alone => {
                driver / (self.drivers() / processes).max(1)
            }
        }
    }

    /// World ranks that a driver holds.
    pub fn ranks_of(&self, driver: usize) -> Range<usize> {
        let each = self.ranks() / self.drivers().max(1);
        driver * each..(driver + 1) * each
    }

    /// The driver that holds a rank.
    pub fn driver(&self, rank: usize) -> usize {
        rank * self.drivers() / self.ranks().max(1)
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

    /// A driver whose ranks belong to several communicators, if there is one: it could not time them
    /// apart.
    pub fn torn_driver(&self) -> Option<usize> {
        (0..self.drivers()).find(|driver| {
            let mut colours = self.ranks_of(*driver).map(|rank| self.colour(rank));
            let first = colours.next();
            colours.any(|colour| Some(colour) != first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::small, *};

    fn plan(seating: Seating, threads: usize, devices: usize) -> Plan {
        Plan { seating, threads, devices, ..Plan::example() }
    }

    /// Every rank sits in exactly one place, and every way back leads there.
    #[test]
    fn everybody_has_one_seat() {
        let here = [Seating::Processes, Seating::Threads, Seating::Alone];
        let launched = [Seating::Threads, Seating::Launched].map(|seating| (seating, 3));
        for (seating, launched) in here.map(|seating| (seating, 1)).into_iter().chain(launched) {
            for (threads, devices) in (1..5).flat_map(|t| (1..5).map(move |g| (t, g))) {
                let plan = Plan { launched, ..plan(seating, threads, devices) };
                let mut seated = Vec::new();
                for process in 0..plan.processes() {
                    for driver in plan.drivers_of(process) {
                        assert_eq!(plan.process(driver), process);
                        for rank in plan.ranks_of(driver) {
                            assert_eq!(plan.driver(rank), driver);
                            seated.push(rank);
                        }
                    }
                }
                seated.sort_unstable();
                assert!(seated.into_iter().eq(0..plan.ranks()), "{plan:?}");
            }
        }
    }

    #[test]
    fn as_documented() {
        let by_process = plan(Seating::Processes, 2, 3);
        assert_eq!((by_process.drivers(), by_process.processes()), (6, 3));
        assert_eq!(by_process.drivers_of(1).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(by_process.ranks_of(4), 4..5);
        let by_thread = plan(Seating::Threads, 2, 3);
        assert_eq!((by_thread.drivers(), by_thread.processes()), (2, 1));
        assert_eq!(by_thread.ranks_of(1), 3..6);
        assert_eq!(plan(Seating::Alone, 2, 3).ranks_of(0), 0..6);
        let launched = |seating| Plan { launched: 4, ..plan(seating, 2, 3) };
        let theirs = launched(Seating::Threads);
        assert_eq!((theirs.ranks(), theirs.drivers(), theirs.processes()), (24, 8, 4));
        assert_eq!(
            (theirs.drivers_of(1).collect::<Vec<_>>(), theirs.ranks_of(3)),
            (vec![2, 3], 9..12)
        );
        let ours = launched(Seating::Launched);
        assert_eq!((ours.drivers(), ours.processes(), ours.process(7)), (24, 4, 1));
        assert_eq!(ours.drivers_of(3).collect::<Vec<_>>(), (18..24).collect::<Vec<_>>());
    }

    #[test]
    fn a_driver_of_two_communicators_is_found() {
        let split = |seating, colours: &[u64]| {
            Plan { colours: colours.to_vec(), ..plan(seating, 2, 2) }.torn_driver()
        };
        assert_eq!(split(Seating::Threads, &[0, 0, 1, 1]), None);
        assert_eq!(split(Seating::Threads, &[0, 0, 0, 1]), Some(1));
        assert_eq!(split(Seating::Processes, &[0, 1, 0, 1]), None);
        assert_eq!(split(Seating::Threads, &[]), None);
    }
}
