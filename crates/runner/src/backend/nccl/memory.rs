//! Where GPUs' memory goes: what is free before and after each step (`-M`).
//! Not how much a run may take.

use busbw_core::record::GpuMemory;
use busbw_ffi::gpu::Context;

use super::seat::Seat;

/// Free bytes of each of our GPUs: with its context, with a communicator, with buffers, and when all is
/// ready. Where others use a GPU meanwhile, theirs counts, too, as it does in nccl-tests.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    free: Vec<Vec<u64>>,
}

impl Ledger {
    /// Notes what is free now. A GPU that does not say makes the whole ledger void.
    pub(super) fn weigh<'c>(&mut self, contexts: impl Iterator<Item = &'c Context>) {
        self.free.push(free(contexts));
    }

    /// By how much it shrank (nccl-tests src/common.cu:974, 1035, 1651, 1834), but for what checks
    /// need: that is ours.
    pub(super) fn used(&self, seats: &[Seat]) -> Option<GpuMemory> {
        let [start, joined, allocated, ready] = &self.free[..] else { return None };
        let end = free(seats.iter().map(|seat| seat.communicator.context().as_ref()));
        let most = |before: &[u64], after: &[u64]| {
            let same = !before.is_empty() && before.len() == after.len();
            let shrunk = before.iter().zip(after).map(|(b, a)| b.saturating_sub(*a));
            shrunk.max().filter(|_| same)
        };
        Some(GpuMemory {
            initialization: most(start, joined)?,
            allocated: most(joined, allocated)?,
            collective: most(ready, &end)?,
        })
    }
}

/// Free bytes of each; nothing when one does not say.
fn free<'c>(contexts: impl Iterator<Item = &'c Context>) -> Vec<u64> {
    let known: Result<Vec<u64>, _> = contexts.map(|c| c.memory().map(|(free, _)| free)).collect();
    known.unwrap_or_default()
}
