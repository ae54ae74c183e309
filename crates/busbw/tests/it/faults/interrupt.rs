//! Ctrl-C in every phase: to the supervisor alone or to all processes of the terminal, once or twice,
//! with ranks at work and with one that is stopped.
//! Not other signals and odd orders (`signals`).

use std::time::{Duration, Instant};

use busbw_core::{exit::Exit, record::Status};
use rustix::process::{Pid, kill_process_group};

use crate::processes::{
    aftermath,
    bench::{Bench, SOON},
    cells::{Moment, Shape, all_passed, run_cells},
};

const POOL: usize = 6;

#[derive(Debug, Clone, Copy)]
struct Cell {
    moment: Moment,
    shape: Shape,
    whole_group: bool,
    twice: bool,
}

impl Cell {
    /// Runs and judges it; how long it took from the last signal to the end.
    fn run(self) -> Duration {
        let mut running = Bench::new(&self.moment.words(self.shape)).start();
        self.moment.reach(&mut running, self.shape);
        let (pid, signal) = (running.pid(), aftermath::interrupt());
        let send = || match Pid::from_raw(pid as i32) {
            Some(group) if self.whole_group => drop(kill_process_group(group, signal)),
            _ => aftermath::signal(pid, signal),
        };
        send();
        if self.twice {
            std::thread::sleep(Duration::from_millis(30));
            send();
        }
        let begun = Instant::now();
        let ended = running.end(SOON);
        let took = begun.elapsed();
        ended.exits(130).is_cut_short_and_shown_again();
        self.moment.has_its_rows(&ended, self.shape);
        // A supervisor that is held up ends itself after some seconds, with the same code but without
        // a record's end: that there is one shows that it was not held up.
        let record = ended.read_record();
        assert_eq!(record.rows.len(), ended.rows().len());
        let end = record.end.unwrap();
        assert_eq!((end.status, end.exit), (Status::Interrupted, Exit::Interrupted));
        ended.says(&format!("busbw: interrupted by signal {} (SIG", signal.as_raw()));
        ended.says("rows measured so far: busbw show ");
        took
    }
}

#[test]
fn in_every_phase() {
    let mut cells = Vec::new();
    for moment in Moment::all() {
        for shape in Shape::BOTH {
            for whole_group in [false, true] {
                cells.extend([false, true].map(|twice| Cell { moment, shape, whole_group, twice }));
            }
        }
    }
    let begun = Instant::now();
    let outcomes = run_cells(&cells, POOL, Cell::run);
    let passed: Vec<Duration> = outcomes.iter().filter_map(|o| o.result.clone().ok()).collect();
    aftermath::tell(&format!(
        "interrupts: {} cells, {} passed, slowest {:.1} s from the last signal to the end, all in {:.1} s",
        cells.len(),
        passed.len(),
        passed.iter().max().map_or(0.0, Duration::as_secs_f64),
        begun.elapsed().as_secs_f64()
    ));
    all_passed(&outcomes, |cell| format!("{cell:?}"));
    assert_eq!(outcomes.len(), cells.len());
}
