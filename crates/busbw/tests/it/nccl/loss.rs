//! What becomes of a run on GPUs when something breaks in it: who, where, which exit code, and nothing
//! left. Not faults of ranks in general (`faults`).

use std::time::Duration;

use busbw_core::{exit::Exit, fault::Phase, record::Status};
use rustix::process::Signal;

use super::shims::{LIMIT, bench, run};
use crate::processes::{
    aftermath,
    bench::Ended,
    cells::{Shape, all_passed, run_cells},
};

const WORDS: &str = "all_reduce -g 2 -b 1K -e 4K -n 2 --batches 1";

fn words(shape: Shape, last: usize) -> String {
    let name = if shape == Shape::Processes { "all_reduce" } else { "all_reduce_perf" };
    format!("{name} {} -b 1K -e {last}K -f 2 -n 1 --batches 1 -w 1", shape.words())
}

/// What every broken run must look like, besides leaving nothing, which ends in `end`.
#[track_caller]
fn is_broken(ended: &Ended, exit: Exit) {
    ended.exits(i32::from(exit.code())).is_cut_short_and_shown_again();
    let record = ended.read_record();
    assert_eq!(record.rows.len(), ended.rows().len());
    let end = record.end.unwrap();
    assert_eq!((end.status, end.exit), (Status::Failed, exit));
    assert!(ended.stderr.contains(&end.message.unwrap()), "{}", ended.stderr);
}

/// Every phase × killed or stopped × first or last rank × processes or threads.
#[test]
fn ranks_that_die_or_stop_in_every_phase() {
    let mut cells = Vec::new();
    for phase in Phase::ALL {
        for action in ["kill", "stop"] {
            for rank in [0, 2] {
                cells.extend(Shape::BOTH.map(|shape| (phase, action, rank, shape)));
            }
        }
    }
    let outcomes = run_cells(&cells, 14, |(phase, action, rank, shape)| {
        let row = if phase == Phase::End { 2 } else { 0 };
        let name = phase.name();
        let fault = format!("--fault rank={rank},phase={name},row={row},do={action}");
        let ended = run(&format!("{} {fault}", words(shape, 2)), &[]);
        is_broken(&ended, Exit::RankLost);
        match shape {
            Shape::Processes => ended.says(&format!("busbw: rank {rank} (process ")),
            Shape::Threads => ended.says("busbw: ranks 0-2 (process "),
        };
        let place = match phase {
            Phase::Start => "at the start",
            Phase::Warmup => "while warming up before row 0",
            Phase::Timed => "while timing row 0",
            Phase::Verify => "while verifying row 0",
            Phase::End => "at the end",
        };
        ended.says(place).says(if action == "kill" {
            "killed by signal 9"
        } else {
            "been stopped"
        });
    });
    all_passed(&outcomes, |(phase, action, rank, shape)| {
        format!("{} {action} rank {rank} {shape:?}", phase.name())
    });
}

/// NCCL itself dies, or fails, while ranks join and later.
#[test]
fn nccl_fails() {
    for name in ["all_reduce -g 2", "all_reduce_perf -g 2", "all_reduce_perf -t 2 -g 1"] {
        let words = format!("{name} -b 1K -e 4K -n 2 --batches 1");
        for (variable, value, exit, says) in [
            ("INIT_ERROR", "1", Exit::Library, "planted by BUSBW_SHIM_INIT_ERROR"),
            ("INIT_DIE", "1", Exit::RankLost, "killed by signal 9 (SIGKILL) "),
            ("ASYNC_ERROR", "1:5", Exit::Library, "remote process exited or there was a network"),
            ("DIE", "1:5", Exit::RankLost, "killed by signal 9 (SIGKILL) "),
        ] {
            let ended = run(&words, &[(&format!("BUSBW_SHIM_{variable}"), value)]);
            is_broken(&ended, exit);
            ended.says(says);
            if exit == Exit::Library {
                ended.says("NCCL 2.28.9 at ").says("NCCL_DEBUG=INFO logs more");
            }
        }
    }
}

/// Ranks that wait within NCCL all wait alike: who keeps them is not known, so all are named.
#[test]
fn nccl_hangs() {
    let mut cells = Vec::new();
    for fault in
        [("BUSBW_SHIM_INIT_HANG", "1", "at the start"), ("BUSBW_SHIM_HANG", "1:5", "row 0")]
    {
        for (layout, who) in [
            ("all_reduce -g 2", "rank 0 (process "),
            ("all_reduce_perf -g 2", "ranks 0, 1 (process "),
            ("all_reduce_perf -t 2 -g 1", "ranks 0, 1 (process "),
        ] {
            cells.push((fault, layout, who));
        }
    }
    let outcomes = run_cells(&cells, cells.len(), |((variable, value, place), layout, who)| {
        let words = format!("{layout} -b 1K -e 4K -n 2 --batches 1 -T 2");
        let ended = run(&words, &[(variable, value)]);
        is_broken(&ended, Exit::Timeout);
        ended.says("NCCL operation timed out after 2 s (-T), ").says(place).says(who);
        ended.says("still inside NCCL");
    });
    all_passed(&outcomes, |((variable, ..), layout, _)| format!("{variable} {layout}"));
}

/// A rank that does not even come to NCCL is known.
#[test]
fn a_rank_that_does_not_arrive_is_named() {
    let fault = "--fault rank=1,phase=start,row=0,do=stop -T 2";
    let ended = run(&format!("{WORDS} {fault}"), &[]);
    is_broken(&ended, Exit::Timeout);
    ended.says("rank 1 (process ").says(" did not arrive within 2 s (-T), ").says("at the start");
}

/// Once, and again while the first is being answered.
#[test]
fn interrupted() {
    for times in [1, 2] {
        let slow = [("BUSBW_SHIM_OPERATION_US", "2000")];
        let mut running = bench(&format!("{WORDS} -N 0"), &slow).start();
        running.at_row(2);
        for _ in 0..times {
            aftermath::signal(running.pid(), aftermath::interrupt());
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = running.end(LIMIT);
        ended.exits(130).is_cut_short_and_shown_again();
        assert!(ended.rows().len() >= 2);
        assert_eq!(ended.read_record().end.unwrap().status, Status::Interrupted);
    }
}

/// The supervisor dies: its ranks go with it, whatever NCCL does.
#[test]
fn ranks_go_with_their_supervisor() {
    let mut running = bench(&format!("{WORDS} -N 0"), &[]).start();
    running.at_row(1);
    aftermath::signal(running.pid(), Signal::KILL);
    let ended = running.end_leaving_nothing_after(LIMIT, LIMIT);
    assert_eq!(ended.signal(), Some(9));
}
