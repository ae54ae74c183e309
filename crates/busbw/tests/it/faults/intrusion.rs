//! Corruption from outside: this process flips bytes in a running rank's receive and check buffers,
//! as a stray write of a driver or a broken memory module would.
//! Not the run's own fault option (`corruption`).

use std::{
    fs::{self, File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::FileExt,
};

use busbw_core::exit::Exit;

use crate::processes::{
    aftermath,
    bench::{Bench, SOON},
};

/// A rank's memfd holds three buffers of equal size: send, recv, check.
#[derive(Clone, Copy)]
enum Part {
    Recv = 1,
    Check = 2,
}

/// Addresses of a rank's own buffers in its process, from /proc/PID/maps.
fn mapping(pid: u32, rank: usize) -> Range<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let name = format!("memfd:busbw-rank-{rank} ");
    let line = maps.lines().find(|line| line.contains(&name)).unwrap();
    let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    number(start)..number(end)
}

fn memory(pid: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// Flips bytes all over `part` until the run has ended or the memory is gone.
fn flip(memory: &File, part: Range<u64>, mut goes_on: impl FnMut() -> bool) {
    let mut at = part.start;
    let mut byte = [0];
    while goes_on() {
        for _ in 0..200 {
            if memory.read_exact_at(&mut byte, at).is_err() {
                return;
            }
            byte[0] ^= 0x55;
            if memory.write_at(&byte, at).is_err() {
                return;
            }
            // A step that is prime to any buffer's size comes everywhere.
            at = part.start + (at - part.start + 1543) % (part.end - part.start);
        }
    }
}

fn is_found(words: &str, rank: usize, part: Part) {
    let mut running = Bench::new(words).start();
    let ranks = running.at_row(1);
    let memory = match memory(ranks[rank]) {
        Ok(memory) => memory,
        Err(e) => return aftermath::waive(&format!("/proc/PID/mem of a rank: {e}")),
    };
    let all = mapping(ranks[rank], rank);
    let each = (all.end - all.start) / 3;
    let start = all.start + part as u64 * each;
    flip(&memory, start..start + each, || running.is_running());
    let ended = running.end(SOON);
    ended.exits(7);
    ended.says(&format!(": rank {rank} found "));
    let record = ended.read_record();
    let wrong = |row: &busbw_core::record::Row| {
        [&row.out_of_place, &row.in_place].iter().any(|half| {
            half.as_ref()
                .is_some_and(|half| half.figures.wrong > Some(0) && !half.wrong_places.is_empty())
        })
    };
    assert!(record.rows.iter().any(wrong), "{}", ended.stderr);
    assert_eq!(record.end.unwrap().exit, Exit::WrongData);
}

/// While operations are checked, their results lie in the receive buffer.
#[test]
fn receive_buffers() {
    for rank in [0, 2] {
        is_found("all_gather -g 3 -b 8K -e 16K -n 1 --batches 1 -c 1000", rank, Part::Recv);
    }
}

/// While iterations are timed, the last one's result lies in the check buffer.
#[test]
fn check_buffers() {
    for rank in [0, 2] {
        is_found("all_gather -g 3 -b 8K -e 16K -n 5 --batches 1000 -c 1", rank, Part::Check);
    }
}
