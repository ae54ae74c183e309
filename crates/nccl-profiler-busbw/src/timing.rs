//! Which calls' kernels are timed: as many as cost the job 1 % of its time.
//! Not what is recorded of a call (`recorder`), nor when a call has ended (`writer::settled`).
//!
//! NCCL times a kernel by an operation of its proxy for each channel, which the thread that launches the kernel hands over.
//! Where small collectives follow one another that is a fifth to a half of their time (docs/data/h200x4-profiler.txt). So
//! there is a credit for each quarter of a second, and once it is spent NCCL is asked for calls alone.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nccl_plugin_abi::profiler::kind;

use crate::communicators::{Communicator, Communicators};

/// A credit begins with each multiple of this of the wall clock: on all ranks together, so that they time the same calls.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);
/// What of a period may be spent, ns: 1 %.
const CREDIT: i64 = 2_500_000;
/// What timing costs the thread that launches, ns: a call of one channel took 2.3 us more on four H200, one of 256 KiB 7 us.
const COST_OF_CALL: i64 = 2_000;
/// See [`COST_OF_CALL`]; for each channel.
const COST_OF_CHANNEL: i64 = 300;
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

/// The credit, and when it was last used up or given.
#[derive(Debug)]
pub(crate) struct Timing {
    bounded: bool,
    credit: AtomicI64,
    /// When masks were changed last, ns of the recorder; 0: never.
    changed: AtomicU64,
    /// Held while the writer changes masks: NCCL's library, in which they lie, may be unloaded once its communicators have
    /// ended.
    changing: Mutex<()>,
}

impl Timing {
    /// With a whole credit; every call is timed where it is not `bounded`.
    pub fn new(bounded: bool) -> Self {
        Self {
            bounded,
            credit: AtomicI64::new(CREDIT),
            changed: AtomicU64::new(0),
            changing: Mutex::new(()),
        }
    }

    /// A call of so many channels is launched: whether events of its kernel are to come. Where the credit is spent with it, NCCL
    /// is asked for no more.
    pub fn launched(&self, communicator: &Communicator, channels: u32, now: u64) -> Kernel {
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
        if on && self.bounded {
            let cost = COST_OF_CALL + COST_OF_CHANNEL * i64::from(channels);
            if self.credit.fetch_sub(cost, Ordering::Relaxed) <= cost
                && communicator.time_kernels(false)
            {
                self.changed.store(now.max(1), Ordering::Relaxed);
            }
        }
        kernel
    }

    /// A period begins: a whole credit, and kernels are timed again.
    pub fn renew(&self, communicators: &Communicators, now: u64) {
        if !self.bounded {
            return;
        }
        self.credit.store(CREDIT, Ordering::Relaxed);
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

    #[test]
    fn a_hundredth_of_the_time_is_spent_and_no_more() {
        let (all, mask) = process(ASKED as i32);
        let timing = Timing::new(true);
        let one = all.get(0).unwrap();
        // A call each 11 us for ten periods, as on four GPUs.
        let (mut now, mut timed, mut calls) = (MS, 0, 0);
        for _ in 0..10 {
            timing.renew(&all, now);
            for _ in 0..250_000 / 11 {
                timed += u32::from(mask.load(Ordering::Relaxed) as u64 == ASKED);
                calls += 1;
                timing.launched(one, 1, now);
                now += 11_000;
            }
        }
        let share = f64::from(timed) * 2.3 / (f64::from(calls) * 11.0);
        assert!((0.0095..0.0105).contains(&share), "{share}");
        assert_eq!(mask.load(Ordering::Relaxed) as u64, ASKED & !kind::KERNEL_CHANNEL);
    }

    #[test]
    fn where_calls_are_rare_all_are_timed_and_their_events_are_waited_for() {
        let (all, _) = process(ASKED as i32);
        let timing = Timing::new(true);
        for call in 0..1_000 {
            let now = call * MS;
            if now.is_multiple_of(250 * MS) {
                timing.renew(&all, now);
            }
            // 24 channels, a thousand calls a second: 0.92 %.
            assert_eq!(timing.launched(all.get(0).unwrap(), 24, now), Kernel::Told, "{call}");
        }
    }

    #[test]
    fn near_a_change_nobody_waits_for_events_that_may_not_come() {
        let (all, mask) = process(ASKED as i32);
        let timing = Timing::new(true);
        let one = all.get(0).unwrap();
        let mut now = MS;
        while mask.load(Ordering::Relaxed) as u64 == ASKED {
            assert_eq!(timing.launched(one, 24, now), Kernel::Told);
            now += 1_000;
        }
        // A group that was asked for before, and what comes later.
        assert_eq!(timing.launched(one, 24, now + MS), Kernel::Perhaps);
        assert_eq!(timing.launched(one, 24, now + 3 * MS), Kernel::Untold);
        timing.renew(&all, 250 * MS);
        assert_eq!(mask.load(Ordering::Relaxed) as u64, ASKED);
        assert_eq!(timing.launched(one, 24, 260 * MS), Kernel::Perhaps);
        assert_eq!(timing.launched(one, 24, 301 * MS), Kernel::Told);
    }

    #[test]
    fn a_mask_that_somebody_else_set_is_left_alone() {
        for other in [0, (kind::COLLECTIVE | kind::PROXY_STEP) as i32] {
            let (all, mask) = process(other);
            let timing = Timing::new(true);
            timing.renew(&all, MS);
            for call in 0..5_000 {
                timing.launched(all.get(0).unwrap(), 24, call);
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
        for call in 0..5_000 {
            timing.launched(all.get(0).unwrap(), 24, call);
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
