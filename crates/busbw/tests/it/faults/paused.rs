//! A reader of stdout that pauses, such as a pager whose user reads: the run waits for it, but its
//! supervisor goes on to see lost ranks and signals.
//! Not readers that go away (`streams`).

use std::{
    io::{PipeReader, Read, pipe},
    path::Path,
    process::Command,
    time::Duration,
};

use rustix::{io::ioctl_fionread, pipe::fcntl_setpipe_size, process::Signal};

use crate::processes::{
    aftermath,
    bench::{BUSBW, Bench, Ended, Running, SOON},
};

/// Bytes of the longest line of a table.
const LONGEST_LINE: usize = 256;

const FOREVER: &str = "-b 64 -e 64 -n 1 --batches 1 -c 0 -N 0";

/// What a record's rows so far are as a table.
fn table(record: &Path) -> Vec<u8> {
    Command::new(BUSBW).arg("show").arg(record).output().unwrap().stdout
}

/// A run whose stdout, and stderr when `both`, is a full pipe; and its unread end.
fn stuck(words: &str, both: bool) -> (Running, PipeReader) {
    let mut bench = Bench::new(words);
    let (unread, writer) = pipe().unwrap();
    let capacity = fcntl_setpipe_size(&writer, 4096).unwrap();
    bench.reads[0] = false;
    if both {
        bench.reads[1] = false;
        bench.command.stderr(writer.try_clone().unwrap());
    }
    bench.command.stdout(writer);
    let record = bench.record();
    let mut running = bench.start();
    aftermath::until(SOON, "a full pipe", || {
        let full = match both {
            // Where stderr is in it as well: no line fits any more.
            true => ioctl_fionread(&unread).unwrap() as usize + LONGEST_LINE > capacity,
            // The record has rows, written there first, that the pipe has no room for.
            false => table(&record).len() > capacity,
        };
        full.then_some(())
    });
    running.ranks();
    (running, unread)
}

fn is_told_and_over(running: &mut Running, rank: u32) {
    aftermath::until(SOON, "a message", || {
        running.stderr().contains(&format!("(process {rank} on ")).then_some(())
    });
    aftermath::until(SOON, "the ranks' end", || running.ranks().is_empty().then_some(()));
}

/// Reads what is left, to the end, and compares it with what the record gives.
fn reads_on(mut unread: PipeReader, running: Running, code: i32) -> Ended {
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        unread.read_to_string(&mut text).unwrap();
        text
    });
    let ended = running.end(SOON);
    assert_eq!(ended.code(), Some(code), "{}", ended.stderr);
    let text = reading.join().unwrap();
    assert_eq!(ended.shown(), text);
    assert_eq!(crate::processes::bench::rows(&text).len(), ended.read_record().rows.len());
    ended
}

/// The message does not wait for the reader, nor do the other ranks' ends. The table does.
#[test]
fn a_rank_is_lost() {
    for shape in ["-g 3", "-t 3 -g 1"] {
        let (mut running, unread) = stuck(&format!("all_reduce {shape} {FOREVER}"), false);
        let ranks = running.ranks();
        let victim = ranks[ranks.len() - 1];
        aftermath::signal(victim, Signal::KILL);
        is_told_and_over(&mut running, victim);
        assert!(running.is_running(), "it did not wait for its reader");
        let ended = reads_on(unread, running, 6);
        assert!(ended.read_record().end.is_some());
    }
}

/// A stopped rank is as lost as with a reader.
#[test]
fn a_rank_is_stopped() {
    let (mut running, unread) = stuck(&format!("all_reduce -g 2 {FOREVER}"), false);
    let victim = running.ranks()[1];
    aftermath::signal(victim, Signal::STOP);
    is_told_and_over(&mut running, victim);
    reads_on(unread, running, 6).says("has been stopped for 5 s");
}

/// One signal ends the run though its reader reads nothing, with or without a lost rank; rows are in the
/// record. A supervisor that waited on would end itself with 130 after some seconds, also after a loss.
#[test]
fn a_signal() {
    for lost in [false, true] {
        for both in [false, true] {
            let (mut running, unread) = stuck(&format!("all_reduce -g 2 {FOREVER}"), both);
            if lost {
                aftermath::signal(running.ranks()[0], Signal::KILL);
                aftermath::until(SOON, "the ranks' end", || {
                    running.ranks().is_empty().then_some(())
                });
            }
            aftermath::signal(running.pid(), aftermath::interrupt());
            let ended = running.end(SOON);
            assert_eq!(ended.code(), Some(if lost { 6 } else { 130 }), "{}", ended.stderr);
            let record = ended.read_record();
            assert!(record.rows.len() > 5 && record.end.is_some());
            drop(unread);
        }
    }
}

/// Whoever reads on gets every row, and the footer.
#[test]
fn only_for_a_while() {
    for words in [
        "all_reduce -g 2 -b 64 -e 64 -n 1 --batches 1 -c 0 -N 100",
        "all_reduce --backend fake -g 2 -b 64 -e 64 -n 1 --batches 1 -c 0 -N 100",
    ] {
        let (mut running, unread) = stuck(words, false);
        assert!(running.is_running());
        let ended = reads_on(unread, running, 0);
        assert_eq!(ended.read_record().rows.len(), 100);
        assert!(ended.shown().contains("Avg bus bandwidth"));
    }
}

/// No rank is late because of its reader.
#[test]
fn longer_than_a_deadline() {
    let words = "all_reduce -g 2 -T 1 -b 64 -e 64 -n 1 --batches 1 -c 0 -N 100";
    let (mut running, unread) = stuck(words, false);
    // Three deadlines.
    std::thread::sleep(Duration::from_secs(3));
    assert!(running.is_running(), "{}", running.stderr());
    let ended = reads_on(unread, running, 0);
    assert_eq!(ended.read_record().rows.len(), 100);
}

/// A backend without ranks receives a signal as well.
#[test]
fn a_signal_without_ranks() {
    let (running, unread) = stuck(&format!("all_reduce --backend fake -g 2 {FOREVER}"), false);
    aftermath::signal(running.pid(), aftermath::interrupt());
    let ended = running.end(SOON);
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    drop(unread);
}
