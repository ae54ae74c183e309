//! Waiting for another rank: spin while every rank has its own core, then yield, then sleep.
//! Not what is waited for.

use std::{
    sync::atomic::{AtomicU32, Ordering, fence},
    time::{Duration, Instant},
};

use rustix::thread::futex;
use thiserror::Error;

/// Why a wait ended without what it waited for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Wait {
    /// The supervisor told every rank to stop.
    #[error("the run was stopped while waiting for other ranks")]
    Aborted,
    /// The time for one wait passed.
    #[error("ranks {missing:?} did not arrive in time")]
    TimedOut {
        /// World ranks that had not arrived.
        missing: Vec<usize>,
    },
}

/// How long to spin and to yield before sleeping.
#[derive(Debug, Clone, Copy)]
pub struct WaitPolicy {
    spin: Duration,
    give_way: Duration,
}

/// Longest sleep without looking at the abort flag and the clock.
const NAP: rustix::thread::Timespec = rustix::thread::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Spins between two looks at the clock.
const SPINS_A_LOOK: u32 = 64;

impl WaitPolicy {
    /// With a core for every rank, spinning is the fastest; with fewer, whoever spins keeps the
    /// other rank from running.
    pub const fn new(ranks: usize, cores: usize) -> WaitPolicy {
        if ranks <= cores {
            WaitPolicy { spin: Duration::from_micros(200), give_way: Duration::from_millis(2) }
        } else {
            WaitPolicy { spin: Duration::ZERO, give_way: Duration::from_micros(60) }
        }
    }

    /// Waits until `word` has reached `target` (counting on past 2^32).
    pub(super) fn until(
        self,
        word: &AtomicU32,
        sleepers: &AtomicU32,
        target: u32,
        abort: &AtomicU32,
        timeout: Option<Duration>,
    ) -> Result<(), Wait> {
        if reached(word, target) {
            return Ok(());
        }
        let start = Instant::now();
        while start.elapsed() < self.spin {
            for _ in 0..SPINS_A_LOOK {
                if reached(word, target) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        loop {
            if reached(word, target) {
                return Ok(());
            }
            if abort.load(Ordering::Relaxed) != 0 {
                return Err(Wait::Aborted);
            }
            if timeout.is_some_and(|t| start.elapsed() >= t) {
                return Err(Wait::TimedOut { missing: Vec::new() });
            }
            if start.elapsed() < self.spin + self.give_way {
                std::thread::yield_now();
            } else {
                sleep(word, sleepers, target);
            }
        }
    }
}

#[inline]
fn reached(word: &AtomicU32, target: u32) -> bool {
    word.load(Ordering::Acquire).wrapping_sub(target) as i32 >= 0
}

fn sleep(word: &AtomicU32, sleepers: &AtomicU32, target: u32) {
    sleepers.fetch_add(1, Ordering::SeqCst);
    // The writer stores the word, then looks at `sleepers`; we count ourselves in, then look at the
    // word. The fences on both sides leave no order in which both miss each other.
    fence(Ordering::SeqCst);
    let seen = word.load(Ordering::Acquire);
    if (seen.wrapping_sub(target) as i32) < 0 {
        // Any return is fine: the caller looks again.
        let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&NAP));
    }
    sleepers.fetch_sub(1, Ordering::SeqCst);
}

/// Publishes `value` and wakes whoever sleeps on it.
pub(super) fn publish(word: &AtomicU32, sleepers: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    fence(Ordering::SeqCst);
    if sleepers.load(Ordering::Relaxed) != 0 {
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}
