//! The control words of a job on one host: an abort flag, and each rank's counters, progress and
//! slots.
//! Not its buffers: those are elsewhere, so that a stray write into one cannot change a barrier's
//! counter.

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(loom)]
mod modelled;

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use super::{
    segment::{Segment, SegmentError},
    slots::{DEPTH, Slot},
    sync::{AtomicU32, Ordering},
    wait::{Wait, WaitPolicy, reached},
};

/// Name of the memfd.
const NAME: &str = "busbw-control";

/// One counter that only its rank advances, and the number of ranks that sleep on it. It has two
/// cache lines of its own: ranks poll each other's counters, and processors prefetch lines in
/// pairs.
#[repr(C, align(128))]
pub(super) struct Counter {
    pub(super) epoch: AtomicU32,
    pub(super) sleepers: AtomicU32,
}

/// The progress of a rank, which the supervisor reads to say where a rank was lost: a step whose
/// meaning is the caller's, and a row.
#[repr(C, align(128))]
struct Progress {
    step: AtomicU32,
    row: AtomicU32,
}

/// Control words of one rank.
#[repr(C)]
pub(super) struct Words {
    world: Counter,
    group: Counter,
    /// The last operation through slots that the rank has finished.
    pub(super) left: Counter,
    progress: Progress,
    slots: [Slot; DEPTH],
}

/// The control segment, mapped.
#[derive(Debug)]
pub struct Control {
    segment: Segment,
    ranks: usize,
}

impl Control {
    /// Bytes for `ranks` ranks. Slots that are never used cost no memory: their pages stay absent.
    pub const fn bytes(ranks: usize) -> usize {
        size_of::<Counter>() + ranks * size_of::<Words>()
    }

    /// A new control memfd.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn create(ranks: usize) -> Result<OwnedFd, SegmentError> {
        Segment::create(NAME, Control::bytes(ranks))
    }

    /// Maps it.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn map(fd: impl AsFd, ranks: usize) -> Result<Arc<Control>, SegmentError> {
        let segment = Segment::map(fd, NAME, Control::bytes(ranks))?;
        let control = Control { segment, ranks };
        #[cfg(loom)]
        control.register();
        Ok(Arc::new(control))
    }

    fn header(&self) -> &Counter {
        let at = self.segment.at(0, size_of::<Counter>()).cast::<Counter>();
        // SAFETY: in bounds (checked by `at`), aligned (mappings are page aligned), valid for any
        // bit pattern, and only ever used through its atomics, in every process.
        unsafe { at.as_ref() }
    }

    pub(super) fn words(&self, rank: usize) -> &Words {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        let offset = size_of::<Counter>() + rank * size_of::<Words>();
        let at = self.segment.at(offset, size_of::<Words>()).cast::<Words>();
        // SAFETY: as in `header`; the offset is a multiple of 128. Messages in slots are cells,
        // whose contents a reference to them says nothing about.
        unsafe { at.as_ref() }
    }

    /// One of a rank's slots.
    pub(super) fn slot(&self, rank: usize, number: usize) -> &Slot {
        &self.words(rank).slots[number]
    }

    pub(super) fn abort_word(&self) -> &AtomicU32 {
        &self.header().epoch
    }

    /// Sets the abort flag: every rank stops waiting.
    pub fn abort(&self) {
        self.header().epoch.store(1, Ordering::SeqCst);
    }

    /// Whether the abort flag is set.
    pub fn is_aborted(&self) -> bool {
        self.header().epoch.load(Ordering::Relaxed) != 0
    }

    /// Records the progress of `rank`: a step whose meaning is the caller's, and a row.
    pub fn set_progress(&self, rank: usize, step: u32, row: u32) {
        let progress = &self.words(rank).progress;
        progress.row.store(row, Ordering::Relaxed);
        progress.step.store(step, Ordering::Relaxed);
    }

    /// The last recorded progress of `rank`, as (step, row).
    pub fn progress(&self, rank: usize) -> (u32, u32) {
        let progress = &self.words(rank).progress;
        (progress.step.load(Ordering::Relaxed), progress.row.load(Ordering::Relaxed))
    }
}

/// The counters that a barrier uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    World,
    Group,
}

/// A barrier among some ranks of a host. Every member advances its own counter, then waits for the
/// others': n−1 reads, no shared writer.
#[derive(Debug)]
pub struct Barrier {
    control: Arc<Control>,
    which: Which,
    me: usize,
    members: Vec<usize>,
    policy: WaitPolicy,
    epoch: u32,
}

impl Barrier {
    /// Among all ranks of the host.
    pub fn world(control: Arc<Control>, me: usize, policy: WaitPolicy) -> Barrier {
        let members = (0..control.ranks).collect();
        Barrier { control, which: Which::World, me, members, policy, epoch: 0 }
    }

    /// Among those ranks of the world that share this memory, where other ranks are on other hosts.
    pub fn host(
        control: Arc<Control>,
        me: usize,
        members: &[usize],
        policy: WaitPolicy,
    ) -> Barrier {
        Barrier { control, which: Which::World, me, members: members.to_vec(), policy, epoch: 0 }
    }

    /// Among the ranks of a communicator. A rank belongs to one communicator at most.
    pub fn group(
        control: Arc<Control>,
        me: usize,
        members: &[usize],
        policy: WaitPolicy,
    ) -> Barrier {
        Barrier { control, which: Which::Group, me, members: members.to_vec(), policy, epoch: 0 }
    }

    fn counter(&self, rank: usize) -> &Counter {
        let words = self.control.words(rank);
        match self.which {
            Which::World => &words.world,
            Which::Group => &words.group,
        }
    }

    /// Waits until every member has called this as often as we have; `timeout` limits the wait for
    /// each.
    ///
    /// # Errors
    /// The run was aborted ([`Wait::Aborted`]), or time ran out: [`Wait::TimedOut`] with the world ranks that are missing.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Wait> {
        self.epoch = self.epoch.wrapping_add(1);
        let mine = self.counter(self.me);
        self.policy.publish(&mine.epoch, &mine.sleepers, self.epoch);
        let abort = self.control.abort_word();
        for &rank in self.members.iter().filter(|r| **r != self.me) {
            let theirs = self.counter(rank);
            self.policy
                .until(&theirs.epoch, &theirs.sleepers, self.epoch, abort, timeout)
                .map_err(|stop| {
                    let arrived = |rank| reached(&self.counter(rank).epoch, self.epoch);
                    stop.naming(&self.members, arrived)
                })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn control(ranks: usize) -> Arc<Control> {
        Control::map(Control::create(ranks).unwrap(), ranks).unwrap()
    }

    /// No rank is ever a whole round ahead of another one, also with more ranks than cores.
    #[test]
    fn nobody_overtakes() {
        for ranks in [1, 2, 3, 5, 8] {
            let control = control(ranks);
            let arrived: Vec<AtomicUsize> = (0..ranks).map(|_| AtomicUsize::new(0)).collect();
            std::thread::scope(|scope| {
                for me in 0..ranks {
                    let (control, arrived) = (Arc::clone(&control), &arrived);
                    scope.spawn(move || {
                        let policy = WaitPolicy::new(ranks, 2);
                        let mut barrier = Barrier::world(control, me, policy);
                        for round in 1..=200 {
                            arrived[me].store(round, Ordering::SeqCst);
                            barrier.wait(Some(Duration::from_secs(20))).unwrap();
                            let all = arrived.iter().map(|a| a.load(Ordering::SeqCst));
                            assert!(all.clone().all(|a| a == round || a == round + 1));
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn the_missing_are_named() {
        let mut barrier = Barrier::world(control(3), 1, WaitPolicy::new(3, 2));
        let soon = Duration::from_millis(30);
        assert_eq!(barrier.wait(Some(soon)), Err(Wait::TimedOut { missing: vec![0, 2] }));
    }

    #[test]
    fn abort_ends_a_wait() {
        let control = control(2);
        std::thread::scope(|scope| {
            let theirs = Arc::clone(&control);
            let waiting =
                scope.spawn(move || Barrier::world(theirs, 0, WaitPolicy::new(2, 2)).wait(None));
            std::thread::sleep(Duration::from_millis(30));
            control.abort();
            assert_eq!(waiting.join().unwrap(), Err(Wait::Aborted));
        });
    }
}
