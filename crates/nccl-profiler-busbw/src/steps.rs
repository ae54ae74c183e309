//! Steps of the network: what each waits for, and the sums of a communicator by peer and direction.
//! Not calls (`slots`).

use std::sync::atomic::{AtomicU64, Ordering};

use nccl_plugin_abi::profiler::state;

use crate::places::Places;

/// Steps that can be under way at once. A connection has at most 8 (NCCL_STEPS), a communicator up to 64 connections a peer.
/// Beyond, steps are counted as dropped. 0.5 MiB.
pub(crate) const STEPS: usize = 8_192;

/// What a step can wait for: places in [`Sums`].
const WAITS: usize = 4;

/// What a step waits for in a state. None: another state.
fn wait_of(state: i32) -> Option<u64> {
    Some(match state {
        state::SEND_GPU_WAIT | state::RECEIVE_GPU_WAIT => 0,
        state::SEND_PEER_WAIT => 1,
        state::SEND_WAIT | state::RECEIVE_WAIT => 2,
        state::RECEIVE_FLUSH_WAIT => 3,
        _ => return None,
    })
}

/// Sums of the steps that ended, of one peer and direction.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    steps: AtomicU64,
    bytes: AtomicU64,
    waits: [AtomicU64; WAITS],
}

/// [`Sums`] as they were taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Steps.
    pub steps: u64,
    /// Bytes.
    pub bytes: u64,
    /// ns for the GPU, the peer, the wire and the flush.
    pub waits: [u64; WAITS],
}

impl Sums {
    /// Takes the sums out. A step that ends meanwhile may have its times in these and its number in the next.
    pub fn take(&self) -> Taken {
        let steps = self.steps.swap(0, Ordering::Acquire);
        if steps == 0 {
            return Taken::default();
        }
        let mut waits = [0; WAITS];
        for (taken, place) in waits.iter_mut().zip(&self.waits) {
            *taken = place.swap(0, Ordering::Relaxed);
        }
        Taken { steps, bytes: self.bytes.swap(0, Ordering::Relaxed), waits }
    }

    fn add(&self, bytes: u64, waits: [u64; WAITS]) {
        for (place, time) in self.waits.iter().zip(waits) {
            place.fetch_add(time, Ordering::Relaxed);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Release);
    }
}

/// A step. One of NCCL's threads writes it; the state word tells late events of an earlier step.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Step {
    /// `generation(32) taken(1)`.
    state: AtomicU64,
    /// `communicator(32) peer and direction(32)`.
    whose: AtomicU64,
    /// What it waits for now, and since when: `wait + 1 (8) ns (56)`. 0: nothing yet.
    waiting: AtomicU64,
    bytes: AtomicU64,
    waits: [AtomicU64; WAITS],
}

/// All steps.
#[derive(Debug)]
pub(crate) struct Steps {
    places: Places,
    steps: Box<[Step]>,
}

impl Steps {
    /// Free ones.
    pub fn new(count: usize) -> Self {
        Self { places: Places::new(count), steps: (0..count).map(|_| Step::default()).collect() }
    }

    /// Takes a slot for a step: its number and generation. None: none is free.
    pub fn begin(&self, communicator: u32, peer: u32) -> Option<(u16, u32)> {
        let index = self.places.take()?;
        let step = &self.steps[index];
        step.whose.store(u64::from(communicator) << 32 | u64::from(peer), Ordering::Relaxed);
        step.waiting.store(0, Ordering::Relaxed);
        step.bytes.store(0, Ordering::Relaxed);
        step.waits.iter().for_each(|wait| wait.store(0, Ordering::Relaxed));
        let generation = ((step.state.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        step.state.store(u64::from(generation) << 32 | 1, Ordering::Release);
        Some((index as u16, generation))
    }

    fn get(&self, index: u16, generation: u32) -> Option<&Step> {
        let step = self.steps.get(usize::from(index))?;
        let state = step.state.load(Ordering::Acquire);
        (state == u64::from(generation) << 32 | 1).then_some(step)
    }

    /// It enters a state at `now`; the time until then is charged to the state that it leaves.
    pub fn enter(&self, index: u16, generation: u32, state: i32, now: u64, bytes: u64) {
        let (Some(step), Some(wait)) = (self.get(index, generation), wait_of(state)) else {
            return;
        };
        charge(step, now);
        step.waiting.store((wait + 1) << 56 | now & ((1 << 56) - 1), Ordering::Relaxed);
        // Only here the bytes are this step's: the operation's last transfer.
        if matches!(state, state::SEND_WAIT | state::RECEIVE_FLUSH_WAIT) {
            step.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// It ends at `now`: whose it was, for [`Ended::add_to`]. None: it is not here.
    pub fn end(&self, index: u16, generation: u32, now: u64) -> Option<Ended> {
        let step = self.get(index, generation)?;
        charge(step, now);
        let whose = step.whose.load(Ordering::Relaxed);
        let ended = Ended {
            communicator: (whose >> 32) as u32,
            peer: whose as u32,
            bytes: step.bytes.load(Ordering::Relaxed),
            waits: [0, 1, 2, 3].map(|at: usize| step.waits[at].load(Ordering::Relaxed)),
        };
        step.state.store(u64::from(generation) << 32, Ordering::Release);
        self.places.free(usize::from(index));
        Some(ended)
    }
}

/// Adds the time since the step's state began to what it waited for.
fn charge(step: &Step, now: u64) {
    let waiting = step.waiting.load(Ordering::Relaxed);
    let (wait, since) = (waiting >> 56, waiting & ((1 << 56) - 1));
    if let Some(place) = wait.checked_sub(1).and_then(|wait| step.waits.get(wait as usize)) {
        let time = place.load(Ordering::Relaxed) + now.saturating_sub(since);
        place.store(time, Ordering::Relaxed);
    }
}

/// A step that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// The communicator's number.
    pub communicator: u32,
    /// Twice the peer, and 1 for sends.
    pub peer: u32,
    bytes: u64,
    waits: [u64; WAITS],
}

impl Ended {
    /// Adds it to the sums of its peer and direction.
    pub fn add_to(&self, sums: &Sums) {
        sums.add(self.bytes, self.waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_charged_to_the_state_that_is_left() {
        let (steps, sums) = (Steps::new(64), Sums::default());
        let (index, generation) = steps.begin(3, 9).unwrap();
        for (state, now, bytes) in [
            (state::SEND_GPU_WAIT, 100, 0),
            (state::SEND_PEER_WAIT, 130, 0),
            // As often as the network refuses.
            (state::SEND_PEER_WAIT, 135, 0),
            (state::SEND_WAIT, 150, 4096),
        ] {
            steps.enter(index, generation, state, now, bytes);
        }
        let ended = steps.end(index, generation, 1150).unwrap();
        assert_eq!((ended.communicator, ended.peer), (3, 9));
        ended.add_to(&sums);
        assert!(steps.end(index, generation, 2000).is_none());
        steps.enter(index, generation, state::SEND_WAIT, 3000, 1);
        let taken = sums.take();
        assert_eq!(taken, Taken { steps: 1, bytes: 4096, waits: [30, 20, 1000, 0] });
        assert_eq!(sums.take(), Taken::default());

        let (index, generation) = steps.begin(3, 8).unwrap();
        for (state, now, bytes) in [
            (state::RECEIVE_WAIT, 10, 4096),
            (state::RECEIVE_FLUSH_WAIT, 50, 100),
            (state::RECEIVE_GPU_WAIT, 57, 200),
        ] {
            steps.enter(index, generation, state, now, bytes);
        }
        steps.end(index, generation, 60).unwrap().add_to(&sums);
        assert_eq!(sums.take(), Taken { steps: 1, bytes: 100, waits: [3, 0, 40, 7] });
    }

    #[test]
    fn full_is_full() {
        let steps = Steps::new(64);
        assert_eq!((0..70).filter(|_| steps.begin(0, 0).is_some()).count(), 64);
    }
}
