//! Which calls' kernels are timed: all, or with `sampled` not most of those small ones that follow one another closely.
//! Not what is recorded of a call (`recorder`), nor when a call has ended (`writer::settled`).
//!
//! NCCL times a kernel by an operation of its proxy for each channel, which the thread that launches the kernel hands over.
//! Where small collectives follow one another that is a fifth to a half of their time (docs/data/h200x4-profiler.txt); of
//! large ones it is nothing. NCCL reads what it is to time when a call is asked for, so that each call decides for the next.
//!
//! What is timed may change between two calls of one thread alone. NCCL 2.28.9 takes a send and a receive of a group
//! together, and does not expect that one of them is timed (`src/enqueue.cc`, `addP2pToPlan`): another thread must not
//! change the mask while a group is asked for.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nccl_plugin_abi::profiler::kind;

use crate::communicators::Communicator;

/// With each multiple of this of the wall clock a run of timed calls begins.
const PERIOD: Duration = Duration::from_millis(250);
/// A call of fewer bytes is small: timing cost 1 % from 16 MiB on, 1 to 4 % at 2 MiB, 38 to 48 % at 256 KiB (all_reduce on
/// four H100 and four H200).
const SMALL_BYTES: u64 = 4 << 20;
/// Two calls that are asked for within this, ns, follow one another closely. Timing costs 2 to 9 us: less than 1 % of it.
const CLOSE: u64 = 1_000_000;
/// Small calls that are timed one after the other: who is late is seen from one call to the next.
const RUN: u64 = 16;
/// Such a run begins with each call whose number is a multiple of this: on all ranks with the same call.
const ONE_RUN_IN: u64 = 1024;
/// NCCL tells of a group's calls one after the other, and read its mask for all of them before. So long after a change a
/// call may be told of that was asked for before it, ns.
const GROUP: u64 = 2_000_000;
/// Several threads launch calls.
const SEVERAL: u64 = u64::MAX;

/// Whether events of a call's kernel are to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// They are.
    Told,
    /// They may: what NCCL times was changed about when the call was asked for.
    Perhaps,
    /// They are not.
    Untold,
}

/// A call that is launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launched {
    /// Bytes as nccl-tests counts them; `None` where NCCL does not say the type.
    pub bytes: Option<u64>,
    /// NCCL's number, the same on all ranks; none of a send or a receive.
    pub number: Option<u64>,
}

/// What was launched last, and when NCCL's mask was changed.
#[derive(Debug)]
pub(crate) struct Timing {
    /// Whether small calls are sampled. Else every call is timed.
    sampled: bool,
    /// The thread that launches calls; 0: none has; [`SEVERAL`].
    thread: AtomicU64,
    /// When the last call was launched, ns of the recorder, and in the lowest bit whether it was small; 0: there was none.
    last: AtomicU64,
    /// A run is to begin with the next call.
    due: AtomicBool,
    /// Calls that are left of a run.
    left: AtomicU64,
    /// When masks were changed last, ns of the recorder; 0: never.
    changed: AtomicU64,
}

impl Timing {
    /// Every call is timed where small ones are not `sampled`.
    pub fn new(sampled: bool) -> Self {
        Self {
            sampled,
            thread: AtomicU64::new(0),
            last: AtomicU64::new(0),
            due: AtomicBool::new(false),
            left: AtomicU64::new(0),
            changed: AtomicU64::new(0),
        }
    }

    /// A call is launched: whether events of its kernel are to come. Asks NCCL for those of the next one, or for none.
    pub fn launched(&self, communicator: &Communicator, call: Launched, now: u64) -> Kernel {
        let on = communicator.mask() & kind::KERNEL_CHANNEL != 0;
        let kernel = match (on, self.changed.load(Ordering::Relaxed)) {
            (_, changed) if changed > 0 && now.saturating_sub(changed) < GROUP => Kernel::Perhaps,
            (true, _) => Kernel::Told,
            (false, _) => Kernel::Untold,
        };
        if self.sampled
            && let Some(next) = self.times_next(call, now)
            && next != on
            && communicator.time_kernels(next)
        {
            self.changed.store(now.max(1), Ordering::Relaxed);
        }
        kernel
    }

    /// Whether the call after this one is timed; none where that stays as it is.
    fn times_next(&self, call: Launched, now: u64) -> Option<bool> {
        if !self.is_one_thread() {
            return Some(true);
        }
        let small = call.bytes.is_some_and(|bytes| bytes < SMALL_BYTES);
        let before = self.last.swap(now << 1 | u64::from(small), Ordering::Relaxed);
        let is_first = |number: u64| number.wrapping_add(1).is_multiple_of(ONE_RUN_IN);
        if call.number.is_some_and(is_first) || self.due.swap(false, Ordering::Relaxed) {
            self.left.store(RUN, Ordering::Relaxed);
        }
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if !small || left > 0 {
            return Some(true);
        }
        let follows = before & 1 == 1 && now.saturating_sub(before >> 1) < CLOSE;
        follows.then_some(false)
    }

    /// Whether no other thread ever launched a call.
    fn is_one_thread(&self) -> bool {
        let this = this_thread();
        match self.thread.load(Ordering::Relaxed) {
            0 => {
                let first =
                    self.thread.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
                first.is_ok()
            }
            first if first == this => true,
            _ => {
                self.thread.store(SEVERAL, Ordering::Relaxed);
                false
            }
        }
    }

    /// A tick of the writer: a run begins with the next call where a period does, or where none was launched for a while.
    pub fn tick(&self, period_begins: bool, now: u64) {
        let last = self.last.load(Ordering::Relaxed) >> 1;
        if self.sampled && (period_begins || now.saturating_sub(last) >= CLOSE) {
            self.due.store(true, Ordering::Relaxed);
        }
    }
}

/// A number of this thread, until it ends.
fn this_thread() -> u64 {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr() as u64)
}

/// How long until the wall clock is at a multiple of `step`; the number of the period that it is in now.
pub(crate) fn until_next(step: Duration) -> (Duration, u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = now.as_nanos() % step.as_nanos();
    (step - Duration::from_nanos(since as u64), (now.as_nanos() / PERIOD.as_nanos()) as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use super::*;
    use crate::{
        communicators::{Communicators, Told},
        setting::Extent,
    };

    const ASKED: u64 = kind::COLLECTIVE | kind::MESSAGE | kind::KERNEL_CHANNEL;
    const MS: u64 = 1_000_000;

    /// A communicator of a process, and NCCL's mask, which is there for good.
    fn process(mask: i32) -> (Communicators, &'static AtomicI32) {
        assert_eq!(Extent::Calls.mask(6), ASKED);
        let mask: &'static AtomicI32 = Box::leak(Box::new(AtomicI32::new(mask)));
        let all = Communicators::new();
        // SAFETY: the mask is there for good.
        unsafe { all.begin(Told { interface: 6, ..Told::default() }, 0, mask.as_ptr(), ASKED) };
        (all, mask)
    }

    /// Whether NCCL times a call, by its mask as it is asked for; then it is launched.
    fn call(timing: &Timing, all: &Communicators, number: u64, bytes: u64, now: u64) -> bool {
        let one = all.get(0).unwrap();
        let timed = one.mask() & kind::KERNEL_CHANNEL != 0;
        let launched = Launched { bytes: Some(bytes), number: Some(number) };
        timing.launched(one, launched, now);
        timed
    }

    #[test]
    fn of_small_calls_in_a_row_16_in_1024_are_timed() {
        let (all, _) = process(ASKED as i32);
        let timing = Timing::new(true);
        let timed: Vec<u64> = (0..2_000)
            .filter(|number| call(&timing, &all, *number, 8, MS + number * 11_000))
            .collect();
        assert_eq!(timed, [0, 1].into_iter().chain(1024..1040).collect::<Vec<_>>());
        // A period begins: a run with the next call but one, whose mask was read.
        timing.tick(true, 23 * MS);
        let now = |number: u64| 23 * MS + (number - 2_000) * 11_000;
        let timed: Vec<u64> =
            (2_000..2_040).filter(|number| call(&timing, &all, *number, 8, now(*number))).collect();
        assert_eq!(timed, (2_001..2_017).collect::<Vec<_>>());
        // Nothing was launched for a while.
        timing.tick(false, 90 * MS);
        call(&timing, &all, 2_040, 8, 91 * MS);
        assert!(call(&timing, &all, 2_041, 8, 91 * MS + 11_000));
    }

    #[test]
    fn large_calls_and_rare_ones_are_timed() {
        let (all, _) = process(ASKED as i32);
        let timing = Timing::new(true);
        for number in 0..100 {
            assert!(call(&timing, &all, number, 4 << 20, number * 20_000), "{number}");
        }
        for number in 100..200 {
            assert!(call(&timing, &all, number, 8, number * MS), "{number}");
        }
        // As a job that trains: gradients, then a small one.
        for step in 1..100 {
            for (part, bytes) in [64 << 20, 64 << 20, 64 << 20, 4].into_iter().enumerate() {
                let now = 300 * MS + step * 30 * MS + part as u64 * MS / 2;
                assert!(call(&timing, &all, 4 * step + part as u64, bytes, now), "{step} {part}");
            }
        }
    }

    #[test]
    fn a_large_call_ends_a_row_of_small_ones() {
        let (all, _) = process(ASKED as i32);
        let timing = Timing::new(true);
        let timed: Vec<bool> =
            [(1, 8), (2, 8), (3, 8), (4, 1 << 30), (5, 1 << 30), (6, 8), (7, 8), (8, 8)]
                .map(|(number, bytes)| call(&timing, &all, number, bytes, MS + number * 1_000))
                .to_vec();
        assert_eq!(timed, [true, true, false, false, true, true, true, false]);
        // One whose type NCCL does not say may be large; messages have no number that all ranks share.
        let one = all.get(0).unwrap();
        timing.launched(one, Launched { bytes: None, number: Some(9) }, MS + 9_000);
        assert_ne!(one.mask() & kind::KERNEL_CHANNEL, 0);
        for at in 10..200 {
            timing.launched(one, Launched { bytes: Some(8), number: None }, MS + at * 1_000);
        }
        assert_eq!(one.mask() & kind::KERNEL_CHANNEL, 0);
    }

    #[test]
    fn near_a_change_nobody_waits_for_events_that_may_not_come() {
        let (all, mask) = process(ASKED as i32);
        let timing = Timing::new(true);
        let one = all.get(0).unwrap();
        let small = Launched { bytes: Some(8), number: None };
        let large = Launched { bytes: Some(1 << 30), number: None };
        assert_eq!(timing.launched(one, small, MS), Kernel::Told);
        assert_eq!(timing.launched(one, small, MS + 1_000), Kernel::Told);
        assert_ne!(mask.load(Ordering::Relaxed) as u64, ASKED);
        // Others of a group that was asked for before, and what comes later.
        assert_eq!(timing.launched(one, small, 2 * MS), Kernel::Perhaps);
        assert_eq!(timing.launched(one, small, 4 * MS), Kernel::Untold);
        assert_eq!(timing.launched(one, large, 5 * MS), Kernel::Untold);
        assert_eq!(mask.load(Ordering::Relaxed) as u64, ASKED);
        assert_eq!(timing.launched(one, large, 6 * MS), Kernel::Perhaps);
        assert_eq!(timing.launched(one, large, 8 * MS), Kernel::Told);
    }

    #[test]
    fn with_a_second_thread_every_call_is_timed() {
        let (all, mask) = process(ASKED as i32);
        let timing = Timing::new(true);
        for number in 0..10 {
            call(&timing, &all, number, 8, MS + number);
        }
        assert_ne!(mask.load(Ordering::Relaxed) as u64, ASKED);
        std::thread::scope(|scope| {
            scope.spawn(|| call(&timing, &all, 10, 8, MS + 10));
        });
        assert_eq!(mask.load(Ordering::Relaxed) as u64, ASKED);
        assert!((11..30).all(|number| call(&timing, &all, number, 8, MS + number)));
    }

    #[test]
    fn a_mask_that_somebody_else_set_is_left_alone() {
        for other in [0, (kind::COLLECTIVE | kind::PROXY_STEP) as i32] {
            let (all, mask) = process(other);
            let timing = Timing::new(true);
            timing.tick(true, MS);
            for number in 0..5_000 {
                call(&timing, &all, number, 8, number);
            }
            assert_eq!(mask.load(Ordering::Relaxed), other);
        }
        let (all, mask) = process(ASKED as i32);
        let timing = Timing::new(false);
        for number in 0..5_000 {
            call(&timing, &all, number, 8, number);
        }
        assert_eq!(mask.load(Ordering::Relaxed) as u64, ASKED);
    }

    #[test]
    fn periods_of_hosts_begin_together() {
        let (rest, number) = until_next(PERIOD);
        assert!(rest <= PERIOD && rest > Duration::ZERO);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(now.as_millis() as u64 / 250 - number <= 1);
    }
}
