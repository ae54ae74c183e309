//! A rank that is slow on purpose, as the record shows it.
//! Not which rank a reader should suspect: that is diagnosis.

use crate::processes::bench::{Bench, SOON};

/// How much slower the fault makes it, and how much must show. One synchronising collective slows all
/// ranks down, so the measure is a run without the fault.
const FACTOR: f64 = 50.0;
const SHOWS: f64 = 10.0;

/// The shortest time of one operation on rank 1, microseconds.
fn fastest(words: &str) -> f64 {
    // Everything takes much longer where other tests want the cores as well.
    let ended = Bench::new(words).start().end(SOON);
    ended.exits(0);
    let record = ended.read_record();
    let half = record.rows[0].out_of_place.as_ref().unwrap();
    half.batches_us.iter().map(|ranks| ranks[1]).fold(f64::INFINITY, f64::min)
}

#[test]
fn its_samples_show_it() {
    let words = "all_reduce -g 2 -b 256K -e 256K -n 3";
    let usual = fastest(words);
    let slow = fastest(&format!("{words} --fault rank=1,phase=timed,row=0,do=slow:{FACTOR}"));
    assert!(slow > SHOWS * usual, "{slow} against {usual}");
}
