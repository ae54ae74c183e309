//! Waiting for another rank: spin while every rank has its own core, then yield, then sleep.
//! Not the condition.

use std::time::Duration;

use thiserror::Error;

use super::sync::{
    AtomicU32, Instant, Ordering, fence, futex_wait, futex_wake, nap, spin_loop, yield_now,
};

/// Why a wait ended without success.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Wait {
    /// The supervisor aborted the run.
    #[error("the run was stopped while waiting for other ranks")]
    Aborted,
    /// The time for one wait passed.
    #[error("ranks {missing:?} did not arrive in time")]
    TimedOut {
        /// World ranks that had not arrived.
        missing: Vec<usize>,
    },
}

impl Wait {
    /// The same error, with those of `ranks` that have not `arrived` as missing.
    pub(crate) fn naming(self, ranks: &[usize], arrived: impl Fn(usize) -> bool) -> Wait {
        let Wait::TimedOut { .. } = self else { return self };
        Wait::TimedOut { missing: ranks.iter().copied().filter(|rank| !arrived(*rank)).collect() }
    }
}

/// How a rank sleeps after spinning and yielding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Short naps, growing with the time waited. The other rank need not check for sleepers, which
    /// would cost every operation a full memory fence.
    Nap,
    /// On a futex, until woken: with fewer cores than ranks, a core that wakes up for nothing is
    /// missing elsewhere.
    Futex,
}

/// How long to spin and to yield before sleeping, and how to sleep.
#[derive(Debug, Clone, Copy)]
pub struct WaitPolicy {
    spin: Duration,
    give_way: Duration,
    rest: Rest,
}

/// The longest sleep without a check of the abort flag and the clock.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// A nap lasts this fraction (1/16) of the time waited so far: it delays the end of a wait by at
/// most that.
const NAP_DIVISOR: u32 = 16;

/// Polls of the word between two checks of the clock. The first of them come before the first
/// check, since most waits end within them.
const POLLS_PER_CLOCK_CHECK: u32 = if cfg!(loom) { 1 } else { 128 };

impl WaitPolicy {
    /// With a core for every rank, spinning is the fastest; with fewer, a rank that spins keeps
    /// another one from running.
    pub const fn new(ranks: usize, cores: usize) -> WaitPolicy {
        if ranks <= cores {
            let (spin, give_way) = (Duration::from_micros(200), Duration::from_millis(2));
            WaitPolicy { spin, give_way, rest: Rest::Nap }
        } else {
            let (spin, give_way) = (Duration::ZERO, Duration::from_micros(60));
            WaitPolicy { spin, give_way, rest: Rest::Futex }
        }
    }

    /// Waits until `word` has reached `target` (modulo 2^32).
    #[inline]
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
        self.wait(word, sleepers, target, abort, timeout)
    }

    fn wait(
        self,
        word: &AtomicU32,
        sleepers: &AtomicU32,
        target: u32,
        abort: &AtomicU32,
        timeout: Option<Duration>,
    ) -> Result<(), Wait> {
        let look = || reached(word, target);
        self.patiently(abort, timeout, look, |_| {
            sleep(word, sleepers, target);
            false
        })
    }

    /// Waits until `look` finds one of several events; the rank that causes one rings `bell`.
    #[inline]
    pub(super) fn until_some(
        self,
        bell: &Bell,
        abort: &AtomicU32,
        timeout: Option<Duration>,
        look: impl FnMut() -> bool,
    ) -> Result<(), Wait> {
        self.patiently(abort, timeout, look, |look| bell.sleep(look))
    }

    /// Polls until `look` finds something, and sleeps more and more between polls; `sleep` sleeps
    /// on a futex and returns whether it has found something before.
    fn patiently<Look: FnMut() -> bool>(
        self,
        abort: &AtomicU32,
        timeout: Option<Duration>,
        mut look: Look,
        sleep: impl Fn(&mut Look) -> bool,
    ) -> Result<(), Wait> {
        let spins = !self.spin.is_zero();
        if spins && spin(&mut look) {
            return Ok(());
        }
        let start = Instant::now();
        while start.elapsed() < self.spin {
            if spin(&mut look) {
                return Ok(());
            }
        }
        loop {
            if look() {
                return Ok(());
            }
            if abort.load(Ordering::Relaxed) != 0 {
                return Err(Wait::Aborted);
            }
            let waited = start.elapsed();
            if timeout.is_some_and(|t| waited >= t) {
                return Err(Wait::TimedOut { missing: Vec::new() });
            }
            if waited < self.spin + self.give_way {
                yield_now();
            } else if self.rest == Rest::Nap {
                nap((waited / NAP_DIVISOR).min(MAX_SLEEP));
            } else if sleep(&mut look) {
                return Ok(());
            }
        }
    }

    /// Whether a waiting rank spins on its own core, and can help to copy.
    pub(crate) fn stays_awake(self) -> bool {
        self.rest == Rest::Nap
    }

    /// Publishes `value` and wakes the ranks that sleep on it.
    #[inline]
    pub(super) fn publish(self, word: &AtomicU32, sleepers: &AtomicU32, value: u32) {
        word.store(value, Ordering::Release);
        if self.rest == Rest::Futex {
            wake(word, sleepers);
        }
    }

    /// Wakes the rank with this `bell`, if it sleeps: the event must be stored before.
    #[inline]
    pub(super) fn ring(self, bell: &Bell) {
        if self.rest == Rest::Futex {
            bell.ring();
        }
    }
}

/// The word on which a rank sleeps that waits for any of several events.
#[repr(C, align(128))]
pub(super) struct Bell {
    pub(super) rung: AtomicU32,
    pub(super) sleepers: AtomicU32,
}

impl Bell {
    fn ring(&self) {
        // As in `wake`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.rung.fetch_add(1, Ordering::Relaxed);
            futex_wake(&self.rung);
        }
    }

    /// Sleeps until rung, unless `look` finds something.
    fn sleep(&self, look: &mut impl FnMut() -> bool) -> bool {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // As in `sleep`. If the bell was rung already, Acquire lets us see why; if it is rung from
        // here on, the kernel finds another number than we have seen.
        fence(Ordering::SeqCst);
        let seen = self.rung.load(Ordering::Acquire);
        let found = look();
        if !found {
            futex_wait(&self.rung, seen, MAX_SLEEP);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

#[inline]
pub(super) fn reached(word: &AtomicU32, target: u32) -> bool {
    word.load(Ordering::Acquire).wrapping_sub(target) as i32 >= 0
}

fn spin(look: &mut impl FnMut() -> bool) -> bool {
    (0..POLLS_PER_CLOCK_CHECK).any(|_| {
        spin_loop();
        look()
    })
}

fn sleep(word: &AtomicU32, sleepers: &AtomicU32, target: u32) {
    sleepers.fetch_add(1, Ordering::Relaxed);
    // The writer stores the word, then looks at `sleepers`; we count ourselves in, then look at the
    // word. The fences on both sides leave no order in which both miss each other.
    fence(Ordering::SeqCst);
    let seen = word.load(Ordering::Relaxed);
    if (seen.wrapping_sub(target) as i32) < 0 {
        futex_wait(word, seen, MAX_SLEEP);
    }
    sleepers.fetch_sub(1, Ordering::Relaxed);
}

fn wake(word: &AtomicU32, sleepers: &AtomicU32) {
    fence(Ordering::SeqCst);
    if sleepers.load(Ordering::Relaxed) != 0 {
        futex_wake(word);
    }
}
