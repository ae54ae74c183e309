//! Ranks that are killed from outside, at moments that nobody chose.
//! Not the run's own fault in every phase (`matrix`), not ranks that stop or supervisors that die.

use busbw_core::{exit::Exit, record::Status};
use rustix::process::Signal;

use crate::processes::{
    aftermath,
    bench::{Bench, Ended, SOON},
};

/// What every run with a lost rank must look like.
fn is_lost(ended: &Ended) {
    ended.exits(6).is_cut_short_and_shown_again();
    let record = ended.read_record();
    assert_eq!(record.rows.len(), ended.rows().len());
    let end = record.end.unwrap();
    assert_eq!((end.status, end.exit), (Status::Failed, Exit::RankLost));
    assert!(ended.stderr.contains(&end.message.unwrap()), "{}", ended.stderr);
    ended.says(&format!("busbw show {}", ended.record.display()));
}

/// At any moment, with any deadly signal, whichever rank.
#[test]
fn from_outside() {
    let cases = [(Signal::KILL, 0), (Signal::USR1, 1), (Signal::TERM, 2), (Signal::HUP, 0)];
    for (number, (signal, rank)) in cases.into_iter().enumerate() {
        if !aftermath::is_delivered(signal) {
            continue;
        }
        let mut running = Bench::new("all_gather -g 3 -b 64 -e 4K -n 5 -N 0").start();
        let ranks = running.at_row(3 + 7 * number);
        assert_eq!(ranks.len(), 3);
        aftermath::signal(ranks[rank], signal);
        let ended = running.end(SOON);
        assert!(ended.rows().len() >= 3 + 7 * number);
        is_lost(&ended);
        ended.says(&format!("busbw: rank {rank} (process {} on ", ranks[rank]));
        ended.says(&format!("was killed by signal {} (SIG", signal.as_raw()));
    }
}

/// Right after the start there may be no rank yet, or ranks that have not joined.
#[test]
fn before_they_have_joined() {
    for there in [1, 2, 3, 1, 2, 3] {
        let mut running = Bench::new("all_gather -g 3 -b 64 -e 64 -n 5 -N 0").start();
        let ranks = aftermath::until(SOON, "ranks", || {
            Some(running.ranks()).filter(|ranks| ranks.len() >= there)
        });
        let victim = ranks[ranks.len() - 1];
        aftermath::signal(victim, Signal::KILL);
        let ended = running.end(SOON);
        is_lost(&ended);
        ended.says(&format!("(process {victim} on "));
    }
}

/// With --repeat, the rows of earlier launches are kept when a later one is lost.
#[test]
fn in_the_second_launch() {
    let mut running =
        Bench::new("all_gather -g 2 -b 1K -e 2K -n 20000 --batches 2 --repeat 3").start();
    let first =
        aftermath::until(SOON, "ranks", || Some(running.ranks()).filter(|ranks| ranks.len() == 2));
    let second = aftermath::until(SOON, "the second launch's ranks", || {
        Some(running.ranks()).filter(|ranks| ranks.len() == 2 && ranks[0] != first[0])
    });
    aftermath::signal(second[1], Signal::KILL);
    let ended = running.end(SOON);
    ended.exits(6).is_cut_short_and_shown_again();
    assert_eq!(ended.rows().len(), 2, "{}\n{}", ended.stdout, ended.stderr);
    ended.says(&format!("(process {} on ", second[1]));
}
