//! Standard streams that are closed, full, or whose reader goes away.
//! Not the record's file (`record`, `disk`).

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use busbw_core::{exit::Exit, record::Status};
use rustix::process::Signal;

use crate::processes::{
    aftermath,
    bench::{Bench, SOON},
};

const SHORT: &str = "all_reduce -g 2 -b 64 -e 4K -n 5";
const FOREVER: &str = "all_reduce -g 2 -b 64 -e 4K -n 5 -N 0";

/// `busbw … | head -n 1`, in every format.
#[test]
fn a_reader_that_has_seen_enough() {
    for format in ["", "--csv", "--json"] {
        let mut bench = Bench::new(&format!("{FOREVER} {format}"));
        bench.reads[0] = false;
        bench.command.stdout(Stdio::piped());
        let mut running = bench.start();
        let mut line = String::new();
        BufReader::new(running.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'));
        let ended = running.end(SOON);
        ended.exits(0);
        let end = ended.read_record().end.unwrap();
        assert_eq!((end.status, end.exit), (Status::ReaderGone, Exit::Ok));
    }
}

#[test]
fn a_reader_that_never_was() {
    let mut bench = Bench::new(FOREVER);
    bench.reads[0] = false;
    bench.command.stdout(Stdio::piped());
    let mut running = bench.start();
    drop(running.child.stdout.take());
    running.end(SOON).exits(0);
}

/// Closed streams carry nothing, and nothing else may take their place.
#[test]
fn closed_from_the_start() {
    for closed in [">&-", "2>&-", "<&-", "<&- >&- 2>&-"] {
        let ended = Bench::in_shell(&format!("exec \"$@\" {closed}"), SHORT).run();
        ended.exits(0);
        let record = ended.read_record();
        assert_eq!(record.rows.len(), 7, "{closed}");
        assert_eq!(record.end.unwrap().status, Status::Complete);
        assert_eq!(
            ended.rows().len(),
            if closed.contains(">&- 2") || closed == ">&-" { 0 } else { 7 }
        );
    }
}

/// Nobody to tell is no reason to fail otherwise than without: exit codes stay.
#[test]
fn nobody_reads_stderr() {
    let cases = [
        (SHORT.to_owned(), 0),
        (format!("{SHORT} --fault rank=1,phase=timed,row=0,do=corrupt:0"), 7),
        (format!("{SHORT} --fault rank=1,phase=timed,row=2,do=kill"), 6),
        (format!("{SHORT} -J /no/such/folder/report.json"), 2),
        (format!("{SHORT} -d nonsense"), 2),
    ];
    for (words, code) in cases {
        let mut bench = Bench::new(&words);
        bench.reads[1] = false;
        bench.command.stderr(Stdio::piped());
        let mut running = bench.start();
        drop(running.child.stderr.take());
        running.end(SOON).exits(code);
    }
}

/// A full disk under stdout ends the run, since its figures have nowhere to go; the record has them.
#[test]
fn full() {
    let mut bench = Bench::new(FOREVER);
    bench.reads[0] = false;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    bench.command.stdout(full);
    let ended = bench.run();
    ended.exits(1).says("cannot write to stdout");
    let end = ended.read_record().end.unwrap();
    assert_eq!((end.status, end.exit), (Status::Failed, Exit::Internal));
}

/// A reader that goes away while a rank is stopped does not keep the run from ending.
#[test]
fn a_reader_gone_and_a_rank_stopped() {
    let mut bench = Bench::new(FOREVER);
    bench.reads[0] = false;
    bench.command.stdout(Stdio::piped());
    let mut running = bench.start();
    let mut reader = BufReader::new(running.child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(' ') {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    aftermath::signal(running.ranks()[1], Signal::STOP);
    drop(reader);
    let ended = running.end(SOON);
    // Whichever was noticed first.
    assert!(matches!(ended.code(), Some(0 | 6)), "{}", ended.stderr);
}
