//! Ranks that stop without ending, from outside: only for a while, and with their supervisor.
//! Not for too long or past a deadline (`matrix`), and not ranks that die.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::processes::{
    aftermath,
    bench::{Bench, SOON},
};

/// A debugger, for example: the run goes on as if nothing had been.
#[test]
fn for_a_while() {
    let mut running = Bench::new("all_reduce -g 3 -b 64 -e 64 -n 5 -N 200").start();
    let ranks = running.at_row(5);
    aftermath::signal(ranks[1], Signal::STOP);
    // Seen by the supervisor, and far from the five seconds after which it is lost.
    aftermath::until(SOON, "a stopped rank", || aftermath::is_stopped(ranks[1]).then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    aftermath::signal(ranks[1], Signal::CONT);
    let ended = running.end(SOON);
    ended.exits(0);
    assert_eq!(ended.rows().len(), 200);
}

/// Ctrl-Z stops supervisor and ranks, ranks first here; fg lets them go on however late.
#[test]
fn together_with_the_supervisor() {
    let mut running = Bench::new("all_reduce -g 2 -b 64 -e 64 -n 5 -N 2000").start();
    let ranks = running.at_row(5);
    for rank in &ranks {
        aftermath::signal(*rank, Signal::STOP);
    }
    // The supervisor has seen it.
    std::thread::sleep(Duration::from_millis(100));
    let group = Pid::from_raw(running.pid() as i32).unwrap();
    kill_process_group(group, Signal::STOP).unwrap();
    // Longer than a rank may be stopped while its supervisor runs.
    std::thread::sleep(Duration::from_secs(6));
    aftermath::signal(running.pid(), Signal::CONT);
    std::thread::sleep(Duration::from_millis(300));
    kill_process_group(group, Signal::CONT).unwrap();
    running.at_row(10);
    let ended = running.end(SOON);
    ended.exits(0);
    assert_eq!(ended.rows().len(), 2000);
}
