//! Tables of runs: what their cells have in common, and how they run side by side, since they mostly
//! sleep.
//! Not what any table asks of its cells.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use busbw_core::fault::Phase;

use super::{
    aftermath,
    bench::{Ended, Running, SOON, rows},
};

/// Three ranks, as processes or as threads of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Processes,
    Threads,
}

impl Shape {
    pub const BOTH: [Shape; 2] = [Shape::Processes, Shape::Threads];

    pub fn words(self) -> &'static str {
        match self {
            Shape::Processes => "-g 3",
            Shape::Threads => "-t 3 -g 1",
        }
    }
}

/// Where a run is when something happens to it from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A rank's process is there, and has hardly joined.
    Joining,
    /// The last rank has stopped itself there, and the others wait for it.
    Held(Phase),
    /// A phase so long that it does not end.
    Busy(Phase),
}

impl Moment {
    pub fn all() -> Vec<Moment> {
        let busy = [Phase::Warmup, Phase::Timed, Phase::Verify].map(Moment::Busy);
        let held = Phase::ALL.map(Moment::Held);
        [Moment::Joining].into_iter().chain(held).chain(busy).collect()
    }

    /// A run that gets there.
    pub fn words(self, shape: Shape) -> String {
        let usual = "-n 1 --batches 1 -w 1";
        let more = match self {
            Moment::Joining => format!("{usual} -N 0"),
            Moment::Held(phase) => {
                let (name, row) = (phase.name(), Moment::row(phase));
                format!("{usual} --fault rank=2,phase={name},row={row},do=stop")
            }
            Moment::Busy(Phase::Warmup) => "-n 1 --batches 1 -w 100000000".to_owned(),
            Moment::Busy(Phase::Verify) => "-n 1 --batches 1 -w 0 -c 100000000".to_owned(),
            Moment::Busy(_) => "-n 100000000 --batches 1 -w 0".to_owned(),
        };
        format!("all_reduce {} -b 1K -e 8K {more}", shape.words())
    }

    fn row(phase: Phase) -> usize {
        match phase {
            Phase::Start | Phase::Warmup => 0,
            Phase::Timed | Phase::Verify => 2,
            Phase::End => 4,
        }
    }

    /// Waits until a run of this shape is there, with the rows before.
    pub fn reach(self, running: &mut Running, shape: Shape) {
        match self {
            Moment::Joining => {
                aftermath::until(SOON, "a rank", || (!running.ranks().is_empty()).then_some(()));
            }
            Moment::Held(_) => {
                aftermath::until(SOON, "a stopped rank", || {
                    let ranks = running.ranks();
                    ranks.last().is_some_and(|pid| aftermath::is_stopped(*pid)).then_some(())
                });
                // What the others still had to do. Before the start there may be no table.
                if let Moment::Held(phase) = self
                    && phase != Phase::Start
                {
                    // A rank that stops its own process may take the last report with it.
                    let silent = phase == Phase::End && shape == Shape::Threads;
                    let least = Moment::row(phase) - usize::from(silent);
                    aftermath::until(SOON, "the rows before", || {
                        let table = running.stdout();
                        let there = table.contains("(elements)") && rows(&table).len() >= least;
                        there.then_some(())
                    });
                }
            }
            Moment::Busy(_) => {
                aftermath::until(SOON, "a table's head", || {
                    running.ranks();
                    running.stdout().contains("(elements)").then_some(())
                });
                // Well into the phase; nothing depends on how far.
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }

    /// That the rows before are there: all of them, or one less where the process that reports them
    /// stopped with the rank that was to stop.
    #[track_caller]
    pub fn has_its_rows(self, ended: &Ended, shape: Shape) {
        let has = ended.rows().len();
        match self {
            Moment::Joining => {}
            Moment::Held(Phase::End) if shape == Shape::Threads => {
                assert!((3..=4).contains(&has), "{}", ended.stdout);
            }
            Moment::Held(phase) => assert_eq!(has, Moment::row(phase), "{}", ended.stdout),
            Moment::Busy(_) => assert_eq!(has, 0, "{}", ended.stdout),
        }
    }
}

/// How far a run that has just been started has come.
#[derive(Debug, Clone, Copy)]
pub enum Early {
    /// The program runs, and has perhaps done nothing yet.
    Spawned,
    /// Its record exists.
    Record,
    /// So many of its rank processes exist.
    Ranks(usize),
    /// The head of its table is on stdout.
    Head,
}

impl Early {
    /// Every step of a run with three rank processes, in their order.
    pub const STEPS: [Early; 6] = [
        Early::Spawned,
        Early::Record,
        Early::Ranks(1),
        Early::Ranks(2),
        Early::Ranks(3),
        Early::Head,
    ];

    /// Waits until the run is there.
    pub fn reach(self, running: &mut Running) {
        aftermath::until(SOON, &format!("{self:?}"), || {
            let there = match self {
                Early::Spawned => true,
                Early::Record => running.home.path().join("record.jsonl").exists(),
                Early::Ranks(count) => running.ranks().len() >= count,
                Early::Head => running.stdout().contains("(elements)"),
            };
            there.then_some(())
        });
    }
}

/// What became of a cell.
pub struct Outcome<C, R> {
    pub cell: C,
    pub result: Result<R, String>,
}

/// Runs every cell, so many at a time. A cell that panics has failed; the others go on.
pub fn run_cells<C: Copy + Sync + Send, R: Send>(
    cells: &[C],
    at_a_time: usize,
    run: impl Fn(C) -> R + Sync,
) -> Vec<Outcome<C, R>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(&cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = catch_unwind(AssertUnwindSafe(|| run(cell))).map_err(|panic| {
                        let text = panic.downcast_ref::<String>().cloned();
                        text.unwrap_or_else(|| "it panicked".to_owned())
                    });
                    outcomes.lock().unwrap().push(Outcome { cell, result });
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// That every cell passed.
///
/// # Panics
/// With what was wrong with each of those that did not.
pub fn all_passed<C: Copy, R>(outcomes: &[Outcome<C, R>], name: impl Fn(C) -> String) {
    let failed: Vec<String> = outcomes
        .iter()
        .filter_map(|o| Some(format!("{}\n{}", name(o.cell), o.result.as_ref().err()?)))
        .collect();
    assert!(failed.is_empty(), "{} cells failed:\n{}", failed.len(), failed.join("\n\n"));
}
