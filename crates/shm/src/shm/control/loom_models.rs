//! Models of the barrier for loom: what was written before it is read behind it, by every rank, round
//! after round, however the ranks wait. See docs/model_check.md.
//! Not of slots.
#![allow(clippy::unwrap_used, reason = "a model that cannot go on fails")]

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::*;
use crate::shm::sync::{
    explore::{Extent, explore, on_ranks},
    let_time_pass,
};

/// With a core for every rank: spins, yields, naps.
const NAPS: WaitPolicy = WaitPolicy::new(1, 1);
/// With fewer: yields, then sleeps on a futex.
const SLEEPS: WaitPolicy = WaitPolicy::new(2, 1);

/// A control whose counters all stand at `count`.
fn control(ranks: usize, count: u32) -> Arc<Control> {
    let control = Control::map(Control::create(ranks).unwrap(), ranks).unwrap();
    for rank in 0..ranks {
        control.words(rank).world.epoch.store(count, Ordering::Relaxed);
    }
    control
}

/// A cell of every rank.
struct Cells(Vec<UnsafeCell<usize>>);

// SAFETY: loom stops at the first access that races.
unsafe impl Sync for Cells {}

/// Every rank writes its cell, waits, reads all cells, waits, and so on for so many waits. loom reports
/// a read that the write does not happen before, and a write that a read does not happen before.
fn waits(ranks: usize, waits: usize, first: u32, policy: WaitPolicy) {
    let control = control(ranks, first);
    let cells = Arc::new(Cells((0..ranks).map(|_| UnsafeCell::new(0)).collect()));
    on_ranks(ranks, move |me| {
        let mut barrier = Barrier::world(Arc::clone(&control), me, policy);
        barrier.epoch = first;
        for wait in 0..=waits {
            if wait % 2 == 0 {
                // SAFETY: nobody else has the cell: what this model is about, and loom checks.
                cells.0[me].with_mut(|cell| unsafe { *cell = wait });
            } else {
                for cell in &cells.0 {
                    // SAFETY: as above.
                    cell.with(|cell| assert_eq!(unsafe { *cell }, wait - 1));
                }
            }
            if wait < waits {
                barrier.wait(None).unwrap();
            }
        }
    });
}

macro_rules! models {
    ($($name:ident: $extent:expr, $ranks:expr, $waits:expr, $first:expr, $policy:expr;)*) => {$(
        #[test]
        fn $name() {
            use Extent::*;
            explore(stringify!($name), $extent, || waits($ranks, $waits, $first, $policy));
        }
    )*};
}

models! {
    barrier_2_ranks_that_nap: Exhaustive, 2, 2, 0, NAPS;
    barrier_2_ranks_that_nap_longer: Preemptions(3), 2, 3, 0, NAPS;
    barrier_2_ranks_that_sleep: Exhaustive, 2, 1, 0, SLEEPS;
    barrier_2_ranks_that_sleep_longer: Preemptions(2), 2, 3, 0, SLEEPS;
    barrier_3_ranks_that_sleep: Preemptions(2), 3, 2, 0, SLEEPS;
    barrier_counts_past_2_to_the_32: Exhaustive, 2, 2, u32::MAX - 1, NAPS;
}

/// One wait on the futex, with nothing else around it.
fn one_sleep(sleepers: usize) {
    let control = control(1, 0);
    on_ranks(1 + sleepers, move |me| {
        let (word, abort) = (&control.words(0).world, control.abort_word());
        if me == 0 {
            SLEEPS.publish(&word.epoch, &word.sleepers, 1);
        } else {
            SLEEPS.until(&word.epoch, &word.sleepers, 1, abort, None).unwrap();
        }
    });
}

#[test]
fn futex_wakes_1() {
    explore("futex_wakes_1", Extent::Exhaustive, || one_sleep(1));
}

#[test]
fn futex_wakes_2() {
    explore("futex_wakes_2", Extent::Preemptions(3), || one_sleep(2));
}

/// A rank waits for one that never comes, and the supervisor stops the run.
fn stopped(policy: WaitPolicy) {
    let control = control(2, 0);
    let theirs = Arc::clone(&control);
    let waiting = loom::thread::spawn(move || Barrier::world(theirs, 0, policy).wait(None));
    control.abort();
    let_time_pass();
    assert_eq!(waiting.join().unwrap(), Err(Wait::Aborted));
}

#[test]
fn abort_ends_naps() {
    explore("abort_ends_naps", Extent::Exhaustive, || stopped(NAPS));
}

#[test]
fn abort_ends_sleeps() {
    explore("abort_ends_sleeps", Extent::Exhaustive, || stopped(SLEEPS));
}

/// One of three ranks does not come: both others say so, and only so.
#[test]
fn the_missing_one_is_named() {
    explore("the_missing_one_is_named", Extent::Preemptions(3), || {
        let control = control(3, 0);
        let_time_pass();
        on_ranks(2, move |me| {
            let mut barrier = Barrier::world(Arc::clone(&control), me, NAPS);
            let late = barrier.wait(Some(Duration::from_millis(50)));
            let Err(Wait::TimedOut { missing }) = late else { panic!("{late:?}") };
            assert!(missing.contains(&2) && !missing.contains(&me), "{missing:?}");
        });
    });
}
