//! Signals that tell a run to end: to the supervisor, to everybody, twice, and too early.
//! Not the supervisor's sudden death (`supervisor`), not readers that pause (`paused`).

use busbw_core::{exit::Exit, record::Status};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::processes::{
    aftermath,
    bench::{Bench, Ended, SOON},
    cells::Early,
};

const DEADLY: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

const FOREVER: &str = "all_reduce -g 3 -b 64 -e 4K -n 5 -N 0";

fn is_interrupted(ended: &Ended, by: Signal, at_least: usize) {
    ended.exits(130).is_cut_short_and_shown_again();
    assert!(ended.rows().len() >= at_least, "{}", ended.stdout);
    let record = ended.read_record();
    assert_eq!(record.rows.len(), ended.rows().len());
    let end = record.end.unwrap();
    assert_eq!((end.status, end.exit), (Status::Interrupted, Exit::Interrupted));
    ended.says(&format!("interrupted by signal {} (SIG", by.as_raw()));
    ended.says("rows measured so far: busbw show ");
}

#[test]
fn to_the_supervisor() {
    for signal in DEADLY.into_iter().filter(|signal| aftermath::is_delivered(*signal)) {
        let mut running = Bench::new(FOREVER).start();
        running.at_row(20);
        aftermath::signal(running.pid(), signal);
        is_interrupted(&running.end(SOON), signal, 20);
    }
}

/// Ctrl-C reaches every process of a terminal, and timeout(1) and schedulers do the same with
/// SIGTERM: that is an interruption, not the loss of a rank.
#[test]
fn to_the_whole_group() {
    for signal in DEADLY.into_iter().filter(|signal| aftermath::is_delivered(*signal)) {
        for threads in ["-g 3", "-t 3 -g 1"] {
            let words = format!("all_reduce {threads} -b 64 -e 4K -n 5 -N 0");
            let mut running = Bench::new(&words).start();
            running.at_row(20);
            let group = Pid::from_raw(running.pid() as i32).unwrap();
            kill_process_group(group, signal).unwrap();
            is_interrupted(&running.end(SOON), signal, 20);
        }
    }
}

/// The ranks' signals come first, and the supervisor's when they have ended: it is stopped meanwhile,
/// so that it learns of both in this order.
#[test]
fn to_the_ranks_first() {
    let mut running = Bench::new(FOREVER).start();
    let ranks = running.at_row(20);
    aftermath::signal(running.pid(), Signal::STOP);
    for rank in ranks {
        aftermath::signal(rank, Signal::TERM);
    }
    aftermath::until(SOON, "the ranks' end", || running.ranks().is_empty().then_some(()));
    aftermath::signal(running.pid(), Signal::TERM);
    aftermath::signal(running.pid(), Signal::CONT);
    is_interrupted(&running.end(SOON), Signal::TERM, 20);
}

/// At every step of the start. Before there is anything to interrupt, the signal may still have its
/// default meaning.
#[test]
fn at_the_very_start() {
    for step in Early::STEPS {
        let mut running = Bench::new(FOREVER).start();
        step.reach(&mut running);
        aftermath::signal(running.pid(), aftermath::interrupt());
        let ended = running.end_leaving_nothing_after(SOON, SOON);
        if ended.signal().is_none() {
            is_interrupted(&ended, aftermath::interrupt(), 0);
        }
    }
}

/// Rows of launches that are not shown yet are shown when there is no more to come.
#[test]
fn between_launches() {
    let words = "all_gather -g 2 -b 1K -e 2K -n 20000 --batches 2 --repeat 3";
    let mut running = Bench::new(words).start();
    let ranks = |running: &mut crate::processes::bench::Running| {
        Some(running.ranks()).filter(|ranks| ranks.len() == 2)
    };
    let first = aftermath::until(SOON, "ranks", || ranks(&mut running));
    aftermath::until(SOON, "the second launch", || {
        ranks(&mut running).filter(|second| second[0] != first[0])
    });
    aftermath::signal(running.pid(), aftermath::interrupt());
    let ended = running.end(SOON);
    ended.exits(130).is_cut_short_and_shown_again();
    assert_eq!(ended.rows().len(), 2, "{}\n{}", ended.stdout, ended.stderr);
}
