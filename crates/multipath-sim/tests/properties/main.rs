//! What the multipath transport promises, over simulated networks drawn from seeds: every message arrives once,
//! in order, its
//! bytes right; memory that was taken back is not touched; a connection ends with an error within its limit when
//! nothing gets
//! through, and never without a cause; nothing grows without bound.
//!
//! BUSBW_SIM_SEEDS says how many seeds (10000), BUSBW_SIM_FIRST which is the first (0).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod check;
mod scenario;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use scenario::Scenario;

/// Seeds in which an end may take longer to fail, in seconds.
///
/// 3474: for 19 s the receiver's host hears how a dead sender's sends again what was in its sockets, on links
/// that drop acknowledgements. Its
/// keep-alive ends 10 s after that, and the connection when no path was heard of for 20 s.
const SLOW: &[(u64, u64)] = &[(3474, 40)];
/// Counterexamples of earlier versions.
///
/// 1087, 2098: the peer's process has died, and one path with a closed receive window lies on a link that drops
/// everything. The
/// peer's host answered probes, so that the path stayed up for minutes, and with it the connection.
const CLOSED: &[u64] = &[1087, 2098];

/// Tests of a run, which share the seeds.
const TESTS: u64 = 8;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect(name))
}

fn run(seed: u64) -> check::Outcome {
    let slow = SLOW.iter().find(|(slow, _)| *slow == seed);
    let limit = slow.map_or(check::ERROR, |(_, seconds)| Duration::from_secs(*seconds));
    check::run(&Scenario::drawn(seed), seed, limit)
}

fn seeds(test: u64) {
    let (count, first) = (variable("BUSBW_SIM_SEEDS", 10_000), variable("BUSBW_SIM_FIRST", 0));
    let mut failed = Vec::new();
    let (mut arrived, mut ended, mut lost, mut hedged) = (0, 0, 0, 0);
    for seed in (first..first + count).filter(|seed| seed % TESTS == test) {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(outcome) => {
                arrived += outcome.arrived;
                ended += u64::from(outcome.sender.is_some() || outcome.receiver_failed);
                lost += outcome.lost_paths;
                hedged += outcome.hedged;
            }
            Err(_) => failed.push(seed),
        }
    }
    println!(
        "{arrived} messages, {ended} connections failed, {lost} paths lost, {hedged} chunks hedged"
    );
    assert!(failed.is_empty(), "seeds {failed:?}");
    // A run in which nothing went wrong would prove nothing.
    assert!(count < 10_000 || (arrived > 1000 && ended > 10 && lost > 100 && hedged > 100));
}

macro_rules! tests {
    ($($name:ident $number:literal)*) => { $(#[test] fn $name() { seeds($number); })* };
}
tests!(seeds_0 0 seeds_1 1 seeds_2 2 seeds_3 3 seeds_4 4 seeds_5 5 seeds_6 6 seeds_7 7);

#[test]
fn closed_counterexamples() {
    for seed in CLOSED {
        run(*seed);
    }
}

/// BUSBW_SIM_SEED=N: one seed, and what it is.
#[test]
fn one_seed() {
    let Ok(seed) = std::env::var("BUSBW_SIM_SEED") else { return };
    let seed = seed.parse().expect("a number");
    let scenario = Scenario::drawn(seed);
    println!("{scenario:#?}");
    println!("{:?}", run(seed));
}
