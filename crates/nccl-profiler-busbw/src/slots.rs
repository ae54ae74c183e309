//! Calls under way: a fixed number of slots, filled by NCCL's threads and emptied by the writer's, without locks.
//! Not when a call has ended (`writer::settled`).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::places::Places;

/// Calls that can be under way at once. Beyond, calls are counted as dropped. 2 MiB.
pub(crate) const SLOTS: usize = 16_384;

/// What calls have in common, in words: communicator and operation's kind, the root or peer, the count, and four names.
pub(crate) type ClassWords = [u64; 9];

/// Counts of a slot's state word: `generation(32) taken(1) stopped(1) started(12) ended(12)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u64);

const TAKEN: u64 = 1 << 24;
const STOPPED: u64 = 1 << 25;
const ONE_STARTED: u64 = 1 << 12;
const ONE_ENDED: u64 = 1;
const COUNT: u64 = 0xfff;

impl State {
    /// Which use of the slot it is.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether a call is in it.
    pub fn taken(self) -> bool {
        self.0 & TAKEN != 0
    }

    /// Whether NCCL has handed the call to the GPU.
    pub fn stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    /// Channels that began.
    pub fn started(self) -> u32 {
        (self.0 >> 12 & COUNT) as u32
    }

    /// Channels that ended.
    pub fn ended(self) -> u32 {
        (self.0 & COUNT) as u32
    }
}

/// A call. Two cache lines, which no other slot shares.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    state: AtomicU64,
    class: [AtomicU64; 9],
    sequence: AtomicU64,
    enqueued: AtomicU64,
    first_start: AtomicU64,
    last_stop: AtomicU64,
}

/// What a call is, as its slot is filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewCall {
    /// What it has in common with others.
    pub class: ClassWords,
    /// Its number.
    pub sequence: u64,
    /// When NCCL began it, ns since the recorder began.
    pub enqueued: u64,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    /// What was given.
    pub call: NewCall,
    /// The first start of a channel, ns of the GPU's own clock; `u64::MAX`: none came.
    pub first_start: u64,
    /// The last end of a channel.
    pub last_stop: u64,
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Slots {
    places: Places,
    slots: Box<[Slot]>,
}

impl Slots {
    /// Free ones.
    pub fn new(count: usize) -> Self {
        let slot = |_| Slot {
            state: AtomicU64::new(0),
            class: Default::default(),
            sequence: AtomicU64::new(0),
            enqueued: AtomicU64::new(0),
            first_start: AtomicU64::new(u64::MAX),
            last_stop: AtomicU64::new(0),
        };
        Self { places: Places::new(count), slots: (0..count).map(slot).collect() }
    }

    /// Takes a slot for a call: its number and generation. None: none is free.
    pub fn begin(&self, call: &NewCall) -> Option<(u16, u32)> {
        let index = self.places.take()?;
        let slot = &self.slots[index];
        for (place, word) in slot.class.iter().zip(call.class) {
            place.store(word, Ordering::Relaxed);
        }
        slot.sequence.store(call.sequence, Ordering::Relaxed);
        slot.enqueued.store(call.enqueued, Ordering::Relaxed);
        slot.first_start.store(u64::MAX, Ordering::Relaxed);
        slot.last_stop.store(0, Ordering::Relaxed);
        let generation = State(slot.state.load(Ordering::Relaxed)).generation().wrapping_add(1);
        slot.state.store(u64::from(generation) << 32 | TAKEN, Ordering::Release);
        // The next call takes the next slot, as a rule: the writer's processor has it, until it is asked for here.
        if let Some(next) = self.slots.get(index + 1) {
            for_writing(next);
        }
        Some((index as u16, generation))
    }

    /// NCCL has handed the call to the GPU.
    pub fn stop(&self, index: u16, generation: u32) {
        let _ = self.change(index, generation, |state| Some(state | STOPPED));
    }

    /// A channel of its kernel began; `timer` is 0 where NCCL gives no time. False: the call is no longer here.
    pub fn channel_started(&self, index: u16, generation: u32, timer: u64) -> bool {
        let more = |state: u64| (state >> 12 & COUNT < COUNT).then_some(state + ONE_STARTED);
        let Some(slot) = self.change(index, generation, more) else { return false };
        // The writer leaves a call alone whose channels have not all ended.
        slot.first_start.fetch_min(timer, Ordering::Relaxed);
        true
    }

    /// A channel of its kernel ended: the number of the communicator whose call it was. None: the call is no longer here.
    pub fn channel_ended(&self, index: u16, generation: u32, timer: u64) -> Option<u32> {
        let slot = self.slots.get(usize::from(index))?;
        let state = State(slot.state.load(Ordering::Relaxed));
        if !state.taken() || state.generation() != generation || state.ended() >= state.started() {
            return None;
        }
        let communicator = (slot.class[0].load(Ordering::Relaxed) >> 48) as u32;
        slot.last_stop.fetch_max(timer, Ordering::Relaxed);
        let less =
            |state: u64| (state & COUNT < (state >> 12 & COUNT)).then_some(state + ONE_ENDED);
        self.change(index, generation, less).map(|_| communicator)
    }

    /// Changes the state of a call, if its slot is still its own.
    fn change(
        &self,
        index: u16,
        generation: u32,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Option<&Slot> {
        let slot = self.slots.get(usize::from(index))?;
        let mut now = slot.state.load(Ordering::Relaxed);
        loop {
            if State(now).generation() != generation || !State(now).taken() {
                return None;
            }
            match slot.state.compare_exchange_weak(
                now,
                change(now)?,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(slot),
                Err(other) => now = other,
            }
        }
    }

    /// The calls that are here, with their states. For the writer.
    pub fn taken(&self) -> impl Iterator<Item = (u16, State)> {
        self.places.taken().filter_map(|index| {
            let state = State(self.slots[index].state.load(Ordering::Acquire));
            state.taken().then_some((index as u16, state))
        })
    }

    /// What a slot holds. For the writer, of a call that is here.
    pub fn read(&self, index: u16) -> Recorded {
        let slot = &self.slots[usize::from(index)];
        let mut class = [0; 9];
        for (word, place) in class.iter_mut().zip(&slot.class) {
            *word = place.load(Ordering::Relaxed);
        }
        Recorded {
            call: NewCall {
                class,
                sequence: slot.sequence.load(Ordering::Relaxed),
                enqueued: slot.enqueued.load(Ordering::Relaxed),
            },
            first_start: slot.first_start.load(Ordering::Relaxed),
            last_stop: slot.last_stop.load(Ordering::Relaxed),
        }
    }

    /// Empties a slot. For the writer. False: something came since the call was in this state, which is still here.
    pub fn free(&self, index: u16, state: State) -> bool {
        let free = u64::from(state.generation()) << 32;
        let place = &self.slots[usize::from(index)].state;
        let done = place.compare_exchange(state.0, free, Ordering::Release, Ordering::Relaxed);
        if done.is_ok() {
            self.places.free(usize::from(index));
        }
        done.is_ok()
    }
}

/// Asks for a slot's two cache lines, and does not wait for them.
fn for_writing(slot: &Slot) {
    let slot = std::ptr::from_ref(slot);
    // SAFETY: a hint of the processor's, which reads and changes nothing and never fails.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{0}]", "prefetchw [{0} + 64]", in(reg) slot, options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", "prfm pstl1keep, [{0}, #64]", in(reg) slot, options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sequence: u64) -> NewCall {
        NewCall { class: [7; 9], sequence, enqueued: 11 }
    }

    #[test]
    fn what_comes_for_an_earlier_call_changes_nothing() {
        let slots = Slots::new(64);
        let (index, first) = slots.begin(&call(1)).unwrap();
        slots.stop(index, first);
        assert!(slots.channel_started(index, first, 100));
        slots.channel_ended(index, first, 150);
        // A channel that ends twice, and one that ends without a beginning.
        slots.channel_ended(index, first, 900);
        let (_, state) = slots.taken().next().unwrap();
        assert_eq!((state.stopped(), state.started(), state.ended()), (true, 1, 1));
        assert_eq!(slots.read(index).last_stop, 150);
        assert!(slots.channel_started(index, first, 90) && !slots.free(index, state));
        slots.channel_ended(index, first, 160);
        let (_, state) = slots.taken().next().unwrap();
        assert!(slots.free(index, state));
        assert!(!slots.channel_started(index, first, 1) && slots.taken().next().is_none());
        let (again, second) = slots.begin(&call(2)).unwrap();
        assert_eq!((again, second), (index, first + 1));
        assert!(!slots.channel_started(index, first, 1));
        slots.channel_ended(index, first, 1);
        slots.stop(index, first);
        let (_, state) = slots.taken().next().unwrap();
        assert_eq!((state.stopped(), state.started(), state.ended()), (false, 0, 0));
        assert_eq!(slots.read(index).first_start, u64::MAX);
        assert!(!slots.channel_started(999, first, 1));
    }

    #[test]
    fn full_is_full() {
        let slots = Slots::new(64);
        assert_eq!((0..64).filter(|at| slots.begin(&call(*at)).is_some()).count(), 64);
        assert!(slots.begin(&call(64)).is_none());
        assert_eq!(size_of::<Slot>(), 128);
    }
}
