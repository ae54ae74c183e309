//! The communicators of this process: what NCCL's threads need of one, without locks.
//! Not its calls (`slots`).

use std::{
    ffi::c_int,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use nccl_plugin_abi::profiler::kind;

use crate::{gpu_clock::GpuClock, steps::Sums};

/// Communicators of a process, all its life. Later ones are not recorded.
pub(crate) const COMMUNICATORS: usize = 4_096;
/// Bytes for what is counted by peer, of all communicators. Beyond, sends, receives and steps are counted as dropped.
const PEER_BYTES: usize = 16 << 20;
/// Ranks that are thought of where NCCL does not say how many there are (v2, v3).
const UNSAID_RANKS: usize = 1_024;
/// From this interface on (NCCL 2.31) a kernel that is not timed is not counted on the host, but on the GPU. After one, NCCL
/// takes times of other kernels for those of a call (2.32.3, disassembled: ncclProfilerPostPlanWork; up to 2.30.7
/// `incWorkCounter` of src/proxy.cc counts all). A broadcast is not timed unless NCCL_ALLGATHERV_ENABLE=0 (collTaskAppend,
/// ncclPrepareTasks).
pub(crate) const COUNTS_TIMED_ONLY: u32 = 7;

/// What NCCL says in init.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// Of which version.
    pub interface: u32,
    /// The same on all ranks, in hexadecimal; empty: not said.
    pub id: String,
    /// Its name; empty: none.
    pub name: String,
    /// Nodes; 0: not said.
    pub nodes: u32,
    /// Ranks; 0: not said.
    pub ranks: u32,
    /// This rank; none: each call says it.
    pub rank: Option<u32>,
}

/// A communicator.
#[derive(Debug)]
pub(crate) struct Communicator {
    /// Its number in this process.
    pub number: u32,
    /// What init said.
    pub told: Told,
    /// When, ns since the recorder began.
    pub at: u64,
    mask: Option<&'static AtomicI32>,
    sampled: u64,
    /// What its calls said (v2, v3): the rank, and id and name.
    pub rank: AtomicI32,
    /// See `rank`.
    pub said: OnceLock<(String, String)>,
    /// How its GPU's clock stands to ours.
    pub gpu_clock: GpuClock,
    /// NCCL was never seen not to time its kernels ([`COUNTS_TIMED_ONLY`]).
    counted: AtomicBool,
    ended: AtomicBool,
    messages: OnceLock<Box<[AtomicU64]>>,
    steps: OnceLock<Box<[Sums]>>,
}

impl Communicator {
    /// NCCL's mask of events now; it is the process's, and may be changed while it runs.
    pub fn mask(&self) -> u64 {
        self.mask.map_or(0, |mask| u64::from(mask.load(Ordering::Relaxed) as u32))
    }

    /// Whether the times that NCCL gives of its kernels are theirs: see [`COUNTS_TIMED_ONLY`]. To be asked often, since it
    /// notices here that kernels are not timed.
    pub fn has_kernel_times(&self) -> bool {
        if self.told.interface >= COUNTS_TIMED_ONLY && self.mask() & kind::KERNEL_CHANNEL == 0 {
            self.counted.store(false, Ordering::Relaxed);
        }
        self.counted.load(Ordering::Relaxed)
    }

    /// A kernel that NCCL does not time is asked for: whether times were right until now.
    pub fn ends_kernel_times(&self) -> bool {
        self.told.interface >= COUNTS_TIMED_ONLY && self.counted.swap(false, Ordering::Relaxed)
    }

    /// Asks NCCL for events of kernels, or no longer: whether that changed what it does. A mask that somebody else has set is
    /// left as it is.
    pub fn time_kernels(&self, on: bool) -> bool {
        let without = self.sampled & !kind::KERNEL_CHANNEL;
        let (from, to) = if on { (without, self.sampled) } else { (self.sampled, without) };
        let change = |mask: &AtomicI32| {
            mask.compare_exchange(from as i32, to as i32, Ordering::Relaxed, Ordering::Relaxed)
        };
        from != to && self.mask.is_some_and(|mask| change(mask).is_ok())
    }

    /// Makes NCCL give no more events.
    pub fn silence(&self) {
        if let Some(mask) = self.mask.filter(|_| !self.ended()) {
            mask.store(0, Ordering::Relaxed);
        }
    }

    /// Whether NCCL has ended it.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn peers(&self) -> usize {
        if self.told.ranks == 0 { UNSAID_RANKS } else { self.told.ranks as usize }
    }

    /// The number of a send to a peer or a receive from it. None: there is no room for counting.
    pub fn next_message(&self, peer: u32, send: bool, room: &Room) -> Option<u64> {
        let all = self.messages.get_or_init(|| room.table(self.peers() * 2));
        let count = all.get(place(peer, send) as usize)?;
        Some(count.fetch_add(1, Ordering::Relaxed))
    }

    /// The sums of a peer and a direction, as [`place`] numbers them. None: there is no room.
    pub fn sums(&self, place: u32, room: &Room) -> Option<&Sums> {
        self.steps.get_or_init(|| room.table(self.peers() * 2)).get(place as usize)
    }

    /// All sums, by peer and direction; none where no step came.
    pub fn all_sums(&self) -> &[Sums] {
        self.steps.get().map_or(&[], |all| all)
    }
}

/// Twice the peer, and 1 for what is sent to it.
pub(crate) fn place(peer: u32, send: bool) -> u32 {
    peer.saturating_mul(2).saturating_add(u32::from(send))
}

/// Bytes that are left for what is counted by peer.
#[derive(Debug)]
pub(crate) struct Room(AtomicUsize);

impl Room {
    fn table<T: Default>(&self, count: usize) -> Box<[T]> {
        let bytes = count.saturating_mul(size_of::<T>());
        let less = |left: usize| left.checked_sub(bytes);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => (0..count).map(|_| T::default()).collect(),
            Err(_) => Box::default(),
        }
    }
}

/// All communicators. One that ended keeps its number, so that a late event finds it and no other.
#[derive(Debug)]
pub(crate) struct Communicators {
    all: Box<[OnceLock<Communicator>]>,
    count: AtomicU32,
    live: AtomicU32,
    /// For what is counted by peer.
    pub room: Room,
}

impl Communicators {
    /// None yet.
    pub fn new() -> Self {
        Self {
            all: (0..COMMUNICATORS).map(|_| OnceLock::new()).collect(),
            count: AtomicU32::new(0),
            live: AtomicU32::new(0),
            room: Room(AtomicUsize::new(PEER_BYTES)),
        }
    }

    /// A communicator begins. `sampled` is the mask of which not all small kernels are timed; 0: none is.
    /// None: there are too many.
    ///
    /// # Safety
    /// `mask` is null, or NCCL's mask, which lies in its library and is there while a communicator lives.
    pub unsafe fn begin(
        &self,
        told: Told,
        at: u64,
        mask: *mut c_int,
        sampled: u64,
    ) -> Option<&Communicator> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let Some(place) = self.all.get(number as usize) else {
            self.count.store(COMMUNICATORS as u32, Ordering::Relaxed);
            return None;
        };
        let mask = if mask.is_null() {
            None
        } else {
            // SAFETY: as the caller says; NCCL reads and writes it atomically itself.
            Some(unsafe { AtomicI32::from_ptr(mask) })
        };
        self.live.fetch_add(1, Ordering::AcqRel);
        let begun = place.get_or_init(|| Communicator {
            number,
            rank: AtomicI32::new(told.rank.map_or(-1, |rank| rank as i32)),
            told,
            at,
            mask,
            sampled,
            said: OnceLock::new(),
            gpu_clock: GpuClock::new(),
            counted: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            messages: OnceLock::new(),
            steps: OnceLock::new(),
        });
        let _ = begun.has_kernel_times();
        Some(begun)
    }

    /// By its number.
    pub fn get(&self, number: u32) -> Option<&Communicator> {
        self.all.get(number as usize)?.get()
    }

    /// A communicator ended: whether it was the last one.
    pub fn end(&self, communicator: &Communicator) -> bool {
        !communicator.ended.swap(true, Ordering::AcqRel)
            && self.live.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Those that have not ended.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Acquire)
    }

    /// How many have begun, with those that ended.
    pub fn begun(&self) -> usize {
        (self.count.load(Ordering::Acquire) as usize).min(self.all.len())
    }

    /// All so far, with those that ended.
    pub fn all(&self) -> impl Iterator<Item = &Communicator> {
        self.all.iter().take(self.begun()).filter_map(OnceLock::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_counted_each_and_room_is_bounded() {
        let all = Communicators::new();
        let told = Told { ranks: 4, ..Told::default() };
        // SAFETY: no mask.
        let one = unsafe { all.begin(told.clone(), 0, std::ptr::null_mut(), 0) }.unwrap();
        assert_eq!(one.next_message(3, true, &all.room), Some(0));
        assert_eq!(one.next_message(3, false, &all.room), Some(0));
        assert_eq!(one.next_message(3, true, &all.room), Some(1));
        assert_eq!(one.next_message(4, true, &all.room), None);
        assert_eq!(one.next_message(u32::MAX, true, &all.room), None);
        let large = Told { ranks: 8 << 20, ..Told::default() };
        // SAFETY: no mask.
        let two = unsafe { all.begin(large, 0, std::ptr::null_mut(), 0) }.unwrap();
        assert_eq!((two.next_message(0, true, &all.room), two.number), (None, 1));
        assert!(!all.end(one) && !all.end(one) && all.live() == 1 && all.end(two));
        for _ in 2..COMMUNICATORS {
            // SAFETY: no mask.
            assert!(unsafe { all.begin(told.clone(), 0, std::ptr::null_mut(), 0) }.is_some());
        }
        // SAFETY: no mask.
        assert!(unsafe { all.begin(told, 0, std::ptr::null_mut(), 0) }.is_none());
        assert_eq!(all.all().count(), COMMUNICATORS);
    }
}
