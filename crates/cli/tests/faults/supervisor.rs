//! The supervisor's sudden death: nobody is left who could clean up, and nothing may be left.
//! Not its orderly end (`signals`).

use std::time::Duration;

use rustix::process::Signal;

use super::{
    aftermath,
    bench::{Bench, SOON},
};

/// How long ranks may outlive it.
const AFTER: Duration = Duration::from_secs(2);

#[test]
fn takes_its_ranks_along() {
    for (shape, stopped) in [("-g 3", false), ("-t 3 -g 1", false), ("-g 3", true)] {
        let mut running = Bench::new(&format!("all_reduce {shape} -b 64 -e 4K -n 5 -N 0")).start();
        let ranks = running.at_row(10);
        assert!(!ranks.is_empty());
        if stopped {
            aftermath::signal(ranks[1], Signal::STOP);
        }
        aftermath::signal(running.pid(), Signal::KILL);
        let ended = running.end_leaving_nothing_after(SOON, AFTER);
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
        // What it had recorded can be read, and shown as it was: all that was printed, and at most
        // one row more, since a row is recorded before it is printed.
        assert!(ended.read_record().rows.len() >= 10);
        assert!(ended.read_record().end.is_none());
        let shown = ended.shown();
        let more = shown.strip_prefix(&ended.stdout).unwrap();
        assert!(more.lines().count() <= 1, "{more}");
    }
}

/// Whatever the ranks are about just then.
#[test]
fn at_the_very_start() {
    for round in 0..12 {
        let running = Bench::new("all_reduce -g 3 -b 64 -e 4K -n 5 -N 0").start();
        std::thread::sleep(Duration::from_micros(800 * round));
        aftermath::signal(running.pid(), Signal::KILL);
        running.end_leaving_nothing_after(SOON, AFTER);
    }
}
