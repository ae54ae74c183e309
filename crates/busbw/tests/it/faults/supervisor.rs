//! The supervisor's sudden death: nobody is left who could clean up, and nothing may be left.
//! Not its orderly end (`signals`, `interrupt`).

use std::time::{Duration, Instant};

use busbw_core::fault::Phase;
use rustix::process::Signal;

use crate::processes::{
    aftermath,
    bench::{Bench, SOON},
    cells::{Early, Moment, Shape, all_passed, run_cells},
};

const POOL: usize = 6;

#[derive(Debug, Clone, Copy)]
struct Cell {
    moment: Moment,
    shape: Shape,
    /// Whether it was stopped before, as a debugger or Ctrl-Z does.
    stopped: bool,
}

impl Cell {
    fn run(self) {
        let mut running = Bench::new(&self.moment.words(self.shape)).start();
        self.moment.reach(&mut running, self.shape);
        if self.stopped {
            aftermath::signal(running.pid(), Signal::STOP);
            std::thread::sleep(Duration::from_millis(200));
        }
        aftermath::signal(running.pid(), Signal::KILL);
        let ended = running.end_leaving_nothing_after(SOON, SOON);
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
        self.moment.has_its_rows(&ended, self.shape);
        let (shown, said, code) = ended.show();
        if matches!(self.moment, Moment::Joining | Moment::Held(Phase::Start)) && shown.is_empty() {
            // It had not begun: ranks may be off before the supervisor has noted that all are there.
            assert!(code == Some(2) && said.contains("is empty: its run ended before"), "{said}");
            return;
        }
        // What it had recorded can be read, and shown as it was: all that was printed, and at most
        // one row more, since a row is recorded before it is printed.
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("this record has no end: its writer was killed"), "{said}");
        let more = shown.strip_prefix(&ended.stdout).unwrap_or_else(|| panic!("{shown}"));
        assert!(ended.stdout.is_empty() || more.lines().count() <= 1, "{more}");
    }
}

#[test]
fn takes_its_ranks_along_in_every_phase() {
    let mut cells = Vec::new();
    for moment in Moment::all() {
        for shape in Shape::BOTH {
            cells.extend([false, true].map(|stopped| Cell { moment, shape, stopped }));
        }
    }
    let begun = Instant::now();
    let outcomes = run_cells(&cells, POOL, Cell::run);
    let passed = outcomes.iter().filter(|o| o.result.is_ok()).count();
    aftermath::tell(&format!(
        "supervisor killed: {} cells, {passed} passed, all in {:.1} s",
        cells.len(),
        begun.elapsed().as_secs_f64()
    ));
    all_passed(&outcomes, |cell| format!("{cell:?}"));
    assert_eq!(outcomes.len(), cells.len());
}

/// While rows come one after the other.
#[test]
fn between_rows() {
    for shape in Shape::BOTH {
        let words = format!("all_reduce {} -b 64 -e 4K -n 5 -N 0", shape.words());
        let mut running = Bench::new(&words).start();
        running.at_row(10);
        aftermath::signal(running.pid(), Signal::KILL);
        let ended = running.end_leaving_nothing_after(SOON, SOON);
        assert!(ended.read_record().rows.len() >= 10);
        let more = ended.shown().strip_prefix(&ended.stdout).unwrap().lines().count();
        assert!(more <= 1, "{more}");
    }
}

/// At every step of the start.
#[test]
fn at_the_very_start() {
    for step in Early::STEPS {
        let mut running = Bench::new("all_reduce -g 3 -b 64 -e 4K -n 5 -N 0").start();
        step.reach(&mut running);
        aftermath::signal(running.pid(), Signal::KILL);
        running.end_leaving_nothing_after(SOON, SOON);
    }
}
