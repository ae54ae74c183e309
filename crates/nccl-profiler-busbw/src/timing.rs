//! Which calls' kernels are timed: all but most of those small ones that follow one another closely.
//! Not what is recorded of a call (`recorder`), nor when a call has ended (`writer::settled`).
//!
//! NCCL times a kernel by an operation of its proxy for each channel, which the thread that launches the kernel hands over.
//! Where small collectives follow one another that is a fifth to a half of their time (docs/data/h200x4-profiler.txt); of
//! large ones it is nothing, and of small ones that come now and then too little to matter. NCCL reads what it is to time
//! when a call is asked for, so that each call decides for the next one.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nccl_plugin_abi::profiler::kind;

use crate::communicators::{Communicator, Communicators};

/// With each multiple of this of the wall clock kernels are timed again: on all ranks together, so that they time the same
/// calls.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);
/// A call of fewer bytes a rank is small: timing cost 1 % from 16 MiB on, 1 to 4 % at 2 MiB, 38 to 48 % at 256 KiB (four H100
/// and four H200).
const SMALL_BYTES: u64 = 4 << 20;
/// Two calls that are asked for within this, ns, follow one another closely. Timing costs 2 to 9 us: less than 1 % of it.
const CLOSE: u64 = 1_000_000;
/// Of small calls that follow one another closely those whose number is a multiple of this are timed, on all ranks the same.
const ONE_IN: u64 = 64;
/// NCCL reads its mask when a call is asked for and tells of the call when it is launched. So long after kernels are timed
/// again a call may be told of that NCCL does not time, ns.
const AFTER_ON: u64 = 50_000_000;
/// So long after they are no longer timed a call may be told of that it does time, ns.
const AFTER_OFF: u64 = 2_000_000;

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
    /// Bytes of a rank; `None` where NCCL does not say the type.
    pub bytes: Option<u64>,
    /// NCCL's number, the same on all ranks; none of a send or a receive.
    pub number: Option<u64>,
}

/// What was launched last, and when NCCL's mask was changed.
#[derive(Debug)]
pub(crate) struct Timing {
    bounded: bool,
    /// When the last call was launched, ns of the recorder, and in the lowest bit whether it was small; 0: there was none.
    last: AtomicU64,
    /// When masks were changed last, ns of the recorder; 0: never.
    changed: AtomicU64,
    /// Held while the writer changes masks: NCCL's library, in which they lie, may be unloaded once its communicators have
    /// ended.
    changing: Mutex<()>,
}

impl Timing {
    /// Every call is timed where it is not `bounded`.
    pub fn new(bounded: bool) -> Self {
        Self {
            bounded,
            last: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            changing: Mutex::new(()),
        }
    }

    /// A call is launched: whether events of its kernel are to come. Asks NCCL for those of the next one, or for none.
    pub fn launched(&self, communicator: &Communicator, call: Launched, now: u64) -> Kernel {
        let on = communicator.mask() & kind::KERNEL_CHANNEL != 0;
        let changed = self.changed.load(Ordering::Relaxed);
        let since = now.saturating_sub(changed);
        let kernel = match (on, changed) {
            (true, 0) => Kernel::Told,
            (false, 0) => Kernel::Untold,
            (true, _) if since < AFTER_ON => Kernel::Perhaps,
            (true, _) => Kernel::Told,
            (false, _) if since < AFTER_OFF => Kernel::Perhaps,
            (false, _) => Kernel::Untold,
        };
        if self.bounded
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
        let small = call.bytes.is_some_and(|bytes| bytes < SMALL_BYTES);
        let before = self.last.swap(now << 1 | u64::from(small), Ordering::Relaxed);
        if !small {
            return Some(true);
        }
        let follows = before & 1 == 1 && now.saturating_sub(before >> 1) < CLOSE;
        let is_drawn = |number: u64| number.wrapping_add(1).is_multiple_of(ONE_IN);
        follows.then(|| call.number.is_some_and(is_drawn))
    }

    /// A period begins: kernels are timed again.
    pub fn renew(&self, communicators: &Communicators, now: u64) {
        if !self.bounded {
            return;
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut on = false;
        for communicator in communicators.all().filter(|one| !one.ended()) {
            on |= communicator.time_kernels(true);
        }
        if on {
            self.changed.store(now.max(1), Ordering::Relaxed);
        }
    }

    /// A communicator ends: afterwards the writer does not touch its mask.
    pub fn ending<R>(&self, end: impl FnOnce() -> R) -> R {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        end()
    }
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
    use crate::{communicators::Told, setting::Extent};

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
    fn of_small_calls_in_a_row_one_in_64_is_timed() {
        let (all, _) = process(ASKED as i32);
        let timing = Timing::new(true);
        let timed: Vec<u64> = (0..1_000)
            .filter(|number| call(&timing, &all, *number, 8, MS + number * 11_000))
            .collect();
        let drawn = (64..1_000).step_by(64);
        assert_eq!(timed, [0, 1].into_iter().chain(drawn).collect::<Vec<_>>());
        // A period begins: the next one, too.
        timing.renew(&all, 20 * MS);
        assert!(call(&timing, &all, 1_001, 8, 20 * MS));
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
        // A group that was asked for before, and what comes later.
        assert_eq!(timing.launched(one, small, 2 * MS), Kernel::Perhaps);
        assert_eq!(timing.launched(one, small, 4 * MS), Kernel::Untold);
        assert_eq!(timing.launched(one, large, 5 * MS), Kernel::Untold);
        assert_eq!(mask.load(Ordering::Relaxed) as u64, ASKED);
        assert_eq!(timing.launched(one, large, 15 * MS), Kernel::Perhaps);
        assert_eq!(timing.launched(one, large, 56 * MS), Kernel::Told);
    }

    #[test]
    fn a_mask_that_somebody_else_set_is_left_alone() {
        for other in [0, (kind::COLLECTIVE | kind::PROXY_STEP) as i32] {
            let (all, mask) = process(other);
            let timing = Timing::new(true);
            timing.renew(&all, MS);
            for number in 0..5_000 {
                call(&timing, &all, number, 8, number);
            }
            assert_eq!(mask.load(Ordering::Relaxed), other);
        }
        // Nor one of a communicator that ended, whose library may be gone.
        let (all, mask) = process((ASKED & !kind::KERNEL_CHANNEL) as i32);
        let timing = Timing::new(true);
        timing.ending(|| all.end(all.get(0).unwrap()));
        timing.renew(&all, MS);
        assert_ne!(mask.load(Ordering::Relaxed) as u64, ASKED);
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
