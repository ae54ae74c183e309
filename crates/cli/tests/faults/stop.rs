//! Ranks that stop without ending: for too long, past a deadline, and only for a while.
//! Not ranks that die.

use std::{os::unix::process::CommandExt, time::Duration};

use model::{exit::Exit, record::Status};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{aftermath, bench::Bench};

/// Five seconds of patience, and some for a busy machine.
const LIMIT: Duration = Duration::from_secs(8);

#[test]
fn for_too_long() {
    // Two at a time: they mostly sleep.
    let fault = "--fault rank=1,phase=timed,row=1,do=stop";
    let processes = Bench::new(&format!("all_reduce -g 3 -b 1K -e 8K -n 5 {fault}")).start();
    let fault = "--fault rank=2,phase=verify,row=2,do=stop";
    let threads = Bench::new(&format!("all_reduce -t 3 -g 1 -b 1K -e 8K -n 5 {fault}")).start();

    let ended = processes.end(LIMIT);
    ended.exits(6, LIMIT).is_cut_short_and_shown_again();
    let pid = ended.read_record().run.devices[1].pid;
    ended.says(&format!("rank 1 (process {pid} on "));
    ended.says(" has been stopped for 5 s while timing row 1");
    ended.says("kill -CONT");
    assert_eq!(ended.rows().len(), 1);
    let end = ended.read_record().end.unwrap();
    assert_eq!((end.status, end.exit), (Status::Failed, Exit::RankLost));

    let ended = threads.end(LIMIT);
    ended.exits(6, LIMIT).is_cut_short_and_shown_again();
    ended.says("ranks 0, 1, 2 (process ").says(" have been stopped for 5 s ");
    ended.says("while verifying row 2").says("kill -CONT");
    assert_eq!(ended.rows().len(), 2);
}

/// Whether the others wait in an exchange through the supervisor (start) or at a barrier (timed).
#[test]
fn past_a_deadline() {
    for (phase, row, place, rows) in
        [("start", 0, "at the start", 0), ("timed", 2, "while timing row 2", 2)]
    {
        let fault = format!("--fault rank=1,phase={phase},row={row},do=stop");
        let ended = Bench::new(&format!("all_reduce -g 3 -b 1K -e 8K -n 5 -T 1 {fault}")).run();
        ended.exits(4, Duration::from_secs(4)).is_cut_short_and_shown_again();
        let pid = ended.read_record().run.devices.iter().find(|d| d.rank == 1).unwrap().pid;
        ended.says(&format!("rank 1 (process {pid} on "));
        ended.says(&format!(" did not come within 1 s (-T), {place}"));
        assert_eq!(ended.rows().len(), rows);
        assert_eq!(ended.read_record().end.unwrap().exit, Exit::Timeout);
    }
}

/// A debugger, for example: the run goes on as if nothing had been.
#[test]
fn for_a_while() {
    let mut running = Bench::new("all_reduce -g 3 -b 64 -e 64 -n 5 -N 200").start();
    let ranks = running.at_row(5);
    aftermath::signal(ranks[1], Signal::STOP);
    std::thread::sleep(Duration::from_secs(1));
    aftermath::signal(ranks[1], Signal::CONT);
    let ended = running.end(2 * LIMIT);
    ended.exits(0, 2 * LIMIT);
    assert_eq!(ended.rows().len(), 200);
}

/// Ctrl-Z stops supervisor and ranks, ranks first here; fg lets them go on however late.
#[test]
fn together_with_the_supervisor() {
    let mut bench = Bench::new("all_reduce -g 2 -b 64 -e 64 -n 5 -N 2000");
    bench.command.process_group(0);
    let mut running = bench.start();
    let ranks = running.at_row(5);
    for rank in &ranks {
        aftermath::signal(*rank, Signal::STOP);
    }
    // The supervisor has seen it.
    std::thread::sleep(Duration::from_millis(100));
    let group = Pid::from_raw(running.pid() as i32).unwrap();
    kill_process_group(group, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(6));
    aftermath::signal(running.pid(), Signal::CONT);
    std::thread::sleep(Duration::from_millis(300));
    kill_process_group(group, Signal::CONT).unwrap();
    running.at_row(10);
    let ended = running.end(3 * LIMIT);
    ended.exits(0, 3 * LIMIT);
    assert_eq!(ended.rows().len(), 2000);
}
