//! NCCL_TESTS_*: several communicators side by side, the first device, the gate.
//! Not how splits are read: `busbw_core::split` has its own tests.

use super::shims::{run, well};

const SIZES: &str = "-b 1K -e 4K -f 2 -n 2";

/// Group and number of ranks of each row of the first size.
fn groups(words: &str, split: (&str, &str)) -> Vec<(u64, usize)> {
    let rows = well(&format!("{words} {SIZES}"), &[split]).read_record().rows;
    rows.iter().filter(|row| row.size == 1024).map(|row| (row.group, row.ranks)).collect()
}

#[test]
fn every_group_is_measured() {
    let halves = [(0, 2), (1, 2)];
    assert_eq!(groups("all_reduce -g 4", ("NCCL_TESTS_SPLIT", "MOD 2")), halves);
    assert_eq!(groups("all_reduce_perf -t 4", ("NCCL_TESTS_SPLIT", "%2")), halves);
    assert_eq!(groups("all_reduce_perf -t 4", ("NCCL_TESTS_SPLIT_MASK", "1")), halves);
    assert_eq!(groups("all_reduce_perf -t 2 -g 2", ("NCCL_TESTS_SPLIT", "DIV 2")), halves);
    assert_eq!(groups("alltoall -g 5", ("NCCL_TESTS_SPLIT", "%3")), [(0, 2), (1, 2), (2, 1)]);
    assert_eq!(groups("all_gather_perf -t 5", ("NCCL_TESTS_SPLIT", "/4")), [(0, 4), (1, 1)]);
}

/// One thread cannot tell the times of two communicators apart.
#[test]
fn a_thread_in_two_groups_is_refused() {
    for (layout, split, thread) in [("-t 1 -g 4", "%2", 0), ("-t 2 -g 3", "/4", 1)] {
        let words = format!("all_reduce_perf {layout} {SIZES}");
        let ended = run(&words, &[("NCCL_TESTS_SPLIT", split)]);
        ended.exits(2).says(&format!("puts GPUs of thread {thread} into different"));
    }
}

#[test]
fn a_root_must_be_in_every_group() {
    let words = format!("broadcast -g 5 {SIZES}");
    let split = ("NCCL_TESTS_SPLIT", "/4");
    run(&format!("{words} -r 1"), &[split]).exits(2).says("-r 1: with 1 ranks");
    well(&format!("{words} -r all"), &[split]);
}

#[test]
fn the_gate_of_bandwidth() {
    let words = format!("all_reduce_perf -t 2 -g 2 {SIZES}");
    let missed = run(&words, &[("NCCL_TESTS_MIN_BW", "100000")]);
    missed.exits(7);
    assert!(missed.stdout.contains(" FAILED"), "{}", missed.stdout);
    well(&words, &[("NCCL_TESTS_MIN_BW", "0.0000001")]);
}
