//! Ranks that are killed: by the run's own fault in every phase, and from outside.
//! Not ranks that stop or supervisors that die.

use std::time::Duration;

use model::{exit::Exit, fault::Phase, record::Status};
use rustix::process::Signal;

use super::{
    aftermath,
    bench::{Bench, Ended},
};

/// How long the other ranks may take to end.
const LIMIT: Duration = Duration::from_secs(5);

/// What every run with a lost rank must look like, with so many rows before.
fn is_lost(ended: &Ended, row_counts: &[usize]) {
    ended.exits(6, LIMIT).is_cut_short_and_shown_again();
    let record = ended.read_record();
    assert!(row_counts.contains(&ended.rows().len()), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(record.rows.len(), ended.rows().len());
    let end = record.end.unwrap();
    assert_eq!((end.status, end.exit), (Status::Failed, Exit::RankLost));
    assert!(ended.stderr.contains(&end.message.unwrap()), "{}", ended.stderr);
    ended.says(&format!("busbw show {}", ended.record.display()));
}

/// The fault's row, the message's words, and the rows measured before it, of four.
fn expected(phase: Phase) -> (u64, &'static str, usize) {
    match phase {
        Phase::Start => (0, "at the start", 0),
        Phase::Warmup => (0, "while warming up before row 0", 0),
        Phase::Timed => (2, "while timing row 2", 2),
        Phase::Verify => (2, "while verifying row 2", 2),
        Phase::End => (4, "at the end", 4),
    }
}

fn kill_in(phase: Phase, rank: usize) {
    let (row, place, rows) = expected(phase);
    let words = |shape: &str| {
        format!(
            "all_reduce {shape} -b 1K -e 8K -n 5 --fault rank={rank},phase={},row={row},do=kill",
            phase.name()
        )
    };

    let ended = Bench::new(&words("-g 3")).run();
    is_lost(&ended, &[rows]);
    let run = ended.read_record().run;
    let device = run.devices.iter().find(|device| device.rank == rank).unwrap();
    let (pid, host) = (device.pid, &device.host);
    ended.says(&format!(
        "busbw: rank {rank} (process {pid} on {host}) was killed by signal 9 (SIGKILL) {place}"
    ));

    // A process dies with all its threads: the message names them all, and this one's place. The
    // last row is rank 0's to report, which may die before it does.
    let ended = Bench::new(&words("-t 3 -g 1")).run();
    is_lost(&ended, if phase == Phase::End { &[3, 4] } else { std::slice::from_ref(&rows) });
    let pid = ended.read_record().run.devices[0].pid;
    ended.says(&format!("busbw: ranks 0, 1, 2 (process {pid} on {host}) were killed by signal 9"));
    let at = ended.stderr.find(place).unwrap_or_else(|| panic!("{place}: {}", ended.stderr));
    // Behind it the row's size, where it is known, and which ranks, where they were at several places.
    let behind = &ended.stderr[at + place.len()..];
    let behind = match behind.split_once(" bytes)") {
        Some((size, rest)) if !size.contains([';', ')']) => rest,
        _ => behind,
    };
    let ranks = behind.strip_prefix(" (").and_then(|text| text.split_once(')'));
    assert!(ranks.is_none_or(|(ranks, _)| ranks.contains(&rank.to_string())), "{}", ended.stderr);
}

#[test]
fn in_every_phase_rank_0() {
    Phase::ALL.into_iter().for_each(|phase| kill_in(phase, 0));
}

#[test]
fn in_every_phase_the_last_rank() {
    Phase::ALL.into_iter().for_each(|phase| kill_in(phase, 2));
}

/// At any moment, with any deadly signal, whichever rank.
#[test]
fn from_outside() {
    let cases = [(Signal::KILL, 0), (Signal::USR1, 1), (Signal::TERM, 2), (Signal::HUP, 0)];
    for (number, (signal, rank)) in cases.into_iter().enumerate() {
        if !aftermath::is_heard(signal) {
            continue;
        }
        let mut running = Bench::new("all_gather -g 3 -b 64 -e 4K -n 5 -N 0").start();
        let ranks = running.at_row(3 + 7 * number);
        assert_eq!(ranks.len(), 3);
        aftermath::signal(ranks[rank], signal);
        let ended = running.end(2 * LIMIT);
        assert!(ended.rows().len() >= 3 + 7 * number);
        is_lost(&ended, &[ended.rows().len()]);
        ended.says(&format!("busbw: rank {rank} (process {} on ", ranks[rank]));
        ended.says(&format!("was killed by signal {} (SIG", signal.as_raw()));
    }
}

/// Right after the start there may be no rank yet, or ranks that have not joined.
#[test]
fn before_they_have_joined() {
    for round in 0..6 {
        let mut running = Bench::new("all_gather -g 3 -b 64 -e 64 -n 5 -N 0").start();
        let ranks = aftermath::until(LIMIT, "a rank", || {
            Some(running.ranks()).filter(|ranks| !ranks.is_empty())
        });
        std::thread::sleep(Duration::from_micros(500 * round));
        let victim = ranks[ranks.len() - 1];
        aftermath::signal(victim, Signal::KILL);
        let ended = running.end(LIMIT);
        is_lost(&ended, &[ended.rows().len()]);
        ended.says(&format!("(process {victim} on "));
    }
}

/// With --repeat, the rows of earlier launches are kept when a later one is lost.
#[test]
fn in_the_second_launch() {
    let mut running =
        Bench::new("all_gather -g 2 -b 1K -e 2K -n 20000 --batches 2 --repeat 3").start();
    let first =
        aftermath::until(LIMIT, "ranks", || Some(running.ranks()).filter(|ranks| ranks.len() == 2));
    let second = aftermath::until(2 * LIMIT, "the second launch's ranks", || {
        Some(running.ranks()).filter(|ranks| ranks.len() == 2 && ranks[0] != first[0])
    });
    aftermath::signal(second[1], Signal::KILL);
    let ended = running.end(3 * LIMIT);
    ended.exits(6, 3 * LIMIT).is_cut_short_and_shown_again();
    assert_eq!(ended.rows().len(), 2, "{}\n{}", ended.stdout, ended.stderr);
    ended.says(&format!("(process {} on ", second[1]));
}
