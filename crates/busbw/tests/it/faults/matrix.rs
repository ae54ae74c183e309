//! The fault matrix: phase x rank x fault x processes or threads x collective, every cell a run of
//! its own whose end, message, rows, record and aftermath are all looked at.
//! Not faults from outside (`kill`, `stop`, `signals`, `supervisor`).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use busbw_core::{Collective, exit::Exit, fault::Phase, record::Status};

use crate::processes::{
    aftermath,
    bench::{Bench, Ended, SOON},
    cells::{Outcome, Shape, all_passed, run_cells},
};

/// Cells at a time.
const POOL: usize = 20;

/// Ranks of every cell.
const RANKS: usize = 3;

/// Symmetrical with barriers within each operation; one rank works for all; all work, and one for
/// itself: in gather only the root moves anything, where in broadcast it is everybody else.
const COLLECTIVES: [Collective; 3] =
    [Collective::AllReduce, Collective::Broadcast, Collective::Gather];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Kill,
    Stop,
    /// With -T, which is shorter than the supervisor's own timeouts. Of processes only: where a
    /// process stops with all ranks, nobody is left whose time could run out.
    StopPastDeadline,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    phase: Phase,
    rank: usize,
    what: What,
    shape: Shape,
    collective: Collective,
}

/// Those that sleep longest first.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for what in [What::Stop, What::StopPastDeadline, What::Kill] {
        for shape in Shape::BOTH {
            if (what, shape) == (What::StopPastDeadline, Shape::Threads) {
                continue;
            }
            for collective in COLLECTIVES {
                for phase in Phase::ALL {
                    for rank in [0, RANKS - 1] {
                        cells.push(Cell { phase, rank, what, shape, collective });
                    }
                }
            }
        }
    }
    cells
}

impl Cell {
    /// The row of the fault, the message's words for the place, and the rows before it, of four.
    fn place(self) -> (u64, &'static str, usize) {
        match self.phase {
            Phase::Start => (0, "at the start", 0),
            Phase::Warmup => (0, "while warming up before row 0", 0),
            Phase::Timed => (2, "while timing row 2", 2),
            Phase::Verify => (2, "while verifying row 2", 2),
            Phase::End => (4, "at the end", 4),
        }
    }

    fn words(self) -> String {
        let (action, deadline) = match self.what {
            What::Kill => ("kill", ""),
            What::Stop => ("stop", ""),
            What::StopPastDeadline => ("stop", "-T 2"),
        };
        format!(
            "{} {} -b 1K -e 8K -n 1 --batches 1 {deadline} --fault rank={},phase={},row={},do={action}",
            self.collective.name(),
            self.shape.words(),
            self.rank,
            self.phase.name(),
            self.place().0
        )
    }

    /// Runs and judges it.
    ///
    /// # Panics
    /// When anything is not as it must be.
    fn run(self) -> Ended {
        let ended = Bench::new(&self.words()).start().end(SOON);
        let exit = match self.what {
            What::Kill | What::Stop => Exit::RankLost,
            What::StopPastDeadline => Exit::Timeout,
        };
        ended.exits(exit.code().into()).is_cut_short_and_shown_again();
        let record = ended.read_record();
        let end = record.end.unwrap();
        assert_eq!((end.status, end.exit), (Status::Failed, exit));
        // A process dies or stops with all its threads, perhaps before rank 0 has reported the last
        // row; of several processes, those that are whole report it.
        let rows = self.place().2;
        let least = rows - usize::from(self.phase == Phase::End && self.shape == Shape::Threads);
        assert!((least..=rows).contains(&ended.rows().len()), "{}", ended.stdout);
        assert_eq!(record.rows.len(), ended.rows().len());

        let device = record.run.devices.iter().find(|device| device.rank == self.rank).unwrap();
        let who = match self.shape {
            Shape::Processes => format!("rank {}", self.rank),
            Shape::Threads => "ranks 0-2".to_owned(),
        };
        let message = end.message.unwrap();
        ended.says(&format!("busbw: {message}; rows measured so far: busbw show "));
        assert!(
            message.starts_with(&format!("{who} (process {} on {}) ", device.pid, device.host)),
            "{message}"
        );
        self.names_the_place(&message);
        let (how, what_to_do): (_, &[&str]) = match self.what {
            // Whatever else runs out of memory on this machine just then is mentioned as well.
            What::Kill => {
                ("killed by signal 9 (SIGKILL)", &["check who sent the signal", "lower -e or -g"])
            }
            What::Stop => ("been stopped for 5 s", &["Continue a stopped process with kill -CONT"]),
            What::StopPastDeadline => ("did not arrive within 2 s (-T)", &["Raise -T"]),
        };
        assert!(message.contains(how), "{message}");
        assert!(what_to_do.iter().any(|text| message.contains(text)), "{message}");
        ended
    }

    /// The phase and row; which of the ranks were there, where they were at several places.
    fn names_the_place(self, message: &str) {
        let place = self.place().1;
        let at = message.find(place).unwrap_or_else(|| panic!("no '{place}' in {message}"));
        let behind = &message[at + place.len()..];
        // The row's size, where it is known.
        let behind = match behind.split_once(" bytes)") {
            Some((size, rest)) if !size.contains([';', ')']) => rest,
            _ => behind,
        };
        let ranks = behind.strip_prefix(" (").and_then(|text| text.split_once(')'));
        if let (Shape::Threads, Some((ranks, _))) = (self.shape, ranks) {
            assert!(ranks.contains(&self.rank.to_string()), "{message}");
        }
    }

    /// Its place on every axis.
    fn axes(self) -> [(&'static str, String); 5] {
        [
            ("phase", self.phase.name().to_owned()),
            ("rank", self.rank.to_string()),
            ("fault", format!("{:?}", self.what)),
            ("ranks are", format!("{:?}", self.shape)),
            ("collective", self.collective.name().to_owned()),
        ]
    }
}

/// A table of what ran and passed on every axis.
fn summary(outcomes: &[Outcome<Cell, Ended>], took: Duration) -> String {
    let mut counts: BTreeMap<(&str, String), [usize; 2]> = BTreeMap::new();
    for outcome in outcomes {
        for axis in outcome.cell.axes() {
            let [ran, passed] = counts.entry(axis).or_default();
            *ran += 1;
            *passed += usize::from(outcome.result.is_ok());
        }
    }
    let ended: Vec<(&Ended, Cell)> =
        outcomes.iter().filter_map(|o| Some((o.result.as_ref().ok()?, o.cell))).collect();
    let mut text = format!("{:<12} {:<18} {:>5} {:>7}\n", "axis", "value", "cells", "passed");
    for ((axis, value), [ran, passed]) in counts {
        text += &format!("{axis:<12} {value:<18} {ran:>5} {passed:>7}\n");
    }
    text += &format!("{:<31} {:>5} {:>7}\n", "all", outcomes.len(), ended.len());
    for (which, what) in ["shared memory", "sockets"].into_iter().enumerate() {
        let seen = ended.iter().filter(|(ended, _)| ended.seen[which]).count();
        text += &format!("{what} seen while the cell ran, and gone after it: {seen}\n");
    }
    if let Some((slowest, cell)) = ended.iter().max_by_key(|(ended, _)| ended.took) {
        text += &format!("slowest: {:.1} s, {}\n", slowest.took.as_secs_f64(), cell.words());
    }
    if let Some((slowest, cell)) = ended.iter().max_by_key(|(ended, _)| ended.reacted) {
        let reacted = slowest.reacted.as_secs_f64();
        text += &format!("slowest from the fault to the end: {reacted:.1} s, {}\n", cell.words());
    }
    text + &format!("all cells, {POOL} at a time: {:.1} s\n", took.as_secs_f64())
}

#[test]
fn every_cell() {
    let cells = cells();
    let faults = cells.iter().filter(|cell| cell.what != What::StopPastDeadline).count();
    assert_eq!(faults, Phase::ALL.len() * 2 * 2 * 2 * COLLECTIVES.len());
    let begun = Instant::now();
    let outcomes = run_cells(&cells, POOL, |cell| cell.run());
    aftermath::tell(&format!("the matrix\n{}", summary(&outcomes, begun.elapsed())));
    all_passed(&outcomes, |cell| cell.words());
    assert_eq!(outcomes.len(), cells.len());
    // Looking from outside can miss a moment, not all of them: else nothing was checked.
    for which in 0..2 {
        let seen =
            outcomes.iter().filter(|o| o.result.as_ref().is_ok_and(|e| e.seen[which])).count();
        assert!(seen * 10 >= cells.len() * 9, "{seen}");
    }
}
