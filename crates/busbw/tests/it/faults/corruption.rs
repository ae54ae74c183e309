//! One flipped bit in a result, everywhere: every collective, width, position, phase and end of the
//! ranks. It must be found, counted once, and named.
//! Not flips from outside (`intrusion`).

use std::time::Instant;

use busbw_core::{Collective, DataType, alltoallv::Traffic, exit::Exit, record::WrongPlace};

use crate::processes::{aftermath, bench::Bench};

/// A type of every width, and the smallest float.
const TYPES: [DataType; 5] =
    [DataType::Int8, DataType::Half, DataType::Float, DataType::Double, DataType::F8e4m3];

/// A phase, and how its check is called.
const PHASES: [(&str, &str); 2] =
    [("timed", "last timed iteration of batch 1"), ("verify", "check 1")];

/// Bytes a rank: a few elements of the widest type, in whole chunks of 16.
const BYTES_A_RANK: usize = 48;

#[test]
fn every_flip_is_found() {
    let begun = Instant::now();
    let mut ran = 0;
    for collective in Collective::ALL {
        // hypercube wants a power of two; the others get a number that is none.
        let ranks = if collective.allows(3) { 3 } else { 4 };
        for datatype in TYPES {
            let bytes = ranks * BYTES_A_RANK;
            let elements =
                collective.counts(bytes, datatype.bytes(), ranks, &Traffic::default()).recv;
            assert!(elements >= 3, "{collective:?} {datatype:?}");
            for element in [0, elements / 2, elements - 1] {
                for rank in [0, ranks - 1] {
                    for (phase, check) in PHASES {
                        // Threads and processes in turn: both ways to start ranks, half the time.
                        let shape = if ran % 2 == 0 { "-g" } else { "-g 1 -t" };
                        let words = format!(
                            "{} {shape} {ranks} -b {bytes} -e {bytes} -d {} -n 2 -w 0 --batches 1 \
                             --fault rank={rank},phase={phase},row=0,do=corrupt:{element}",
                            collective.name(),
                            datatype.name()
                        );
                        is_found(&words, collective, rank, element as u64, check);
                        ran += 1;
                    }
                }
            }
        }
    }
    aftermath::tell(&format!("{ran} flips, every one found, in {:.1?}", begun.elapsed()));
}

fn is_found(words: &str, collective: Collective, rank: usize, element: u64, check: &str) {
    let mut bench = Bench::new(words);
    bench.looks_for_sockets = false;
    let ended = bench.run();
    assert_eq!(ended.code(), Some(7), "{words}\n{}\n{}", ended.stdout, ended.stderr);
    let record = ended.read_record();
    let row = &record.rows[0];
    let halves = [row.out_of_place.as_ref().unwrap(), row.in_place.as_ref().unwrap()];
    for (half, name) in halves.into_iter().zip(["out-of-place", "in-place"]) {
        // Where a collective is not defined in place, its result there means nothing.
        if name == "in-place" && !collective.in_place_is_valid() {
            assert_eq!(half.figures.wrong, None, "{words}");
            continue;
        }
        assert_eq!(
            (half.figures.wrong, half.failed_checks),
            (Some(1), 1),
            "{words} {name}: {half:?}"
        );
        let [WrongPlace { got, want, .. }] = half.wrong_places.as_slice() else {
            panic!("{words}: {half:?}")
        };
        assert_ne!(got, want, "{words}");
        let found = WrongPlace {
            rank,
            element,
            got: got.clone(),
            want: want.clone(),
            check: check.to_owned(),
        };
        assert_eq!(half.wrong_places, [found], "{words} {name}");
        ended.says(&format!(
            "{name}: rank {rank} found {got} instead of {want} in element {element} ({check})"
        ));
    }
    // The table: "#wrong" is the fourth of a half's four columns.
    let cells: Vec<&str> = ended.rows()[0].split_whitespace().collect();
    assert_eq!(cells[cells.len() - 5], "1", "{words}\n{}", ended.stdout);
    assert!(ended.stdout.contains("FAILED"), "{}", ended.stdout);
    assert_eq!(record.end.unwrap().exit, Exit::WrongData);
}

/// Without checks there is nobody to find it, and the table says so.
#[test]
fn unchecked_runs_claim_nothing() {
    let fault = "--fault rank=0,phase=timed,row=0,do=corrupt:0";
    let ended = Bench::new(&format!("all_reduce -g 2 -b 64 -e 64 -n 2 -c 0 {fault}")).run();
    ended.exits(0);
    assert_eq!(ended.rows()[0].matches("N/A").count(), 2, "{}", ended.stdout);
}
