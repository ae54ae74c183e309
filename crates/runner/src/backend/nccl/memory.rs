//! The use of GPU memory: free bytes before and after each step (`-M`).
//! Not how much a run may use.

use busbw_core::record::GpuMemory;
use busbw_ffi::gpu::Context;

use crate::backend::nccl::gpu_rank::GpuRank;

/// Free bytes of each of our GPUs at four moments: with its context, with a communicator, with
/// buffers, and when all is ready. Other programs that use a GPU meanwhile count, too, as in
/// nccl-tests.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    free: Vec<Vec<u64>>,
}

impl Ledger {
    /// Records the free memory now. A GPU that does not report it makes the whole ledger void.
    pub(super) fn weigh<'c>(&mut self, contexts: impl Iterator<Item = &'c Context>) {
        self.free.push(free(contexts));
    }

    /// How much memory the steps took (nccl-tests src/common.cu:974, 1035, 1651, 1834), without the
    /// memory of checks, which is busbw's.
    pub(super) fn used(&self, gpu_ranks: &[GpuRank]) -> Option<GpuMemory> {
        let [start, joined, allocated, ready] = &self.free[..] else { return None };
        let end = free(gpu_ranks.iter().map(|gpu_rank| gpu_rank.communicator.context().as_ref()));
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

/// Free bytes of each; empty when one GPU does not report them.
fn free<'c>(contexts: impl Iterator<Item = &'c Context>) -> Vec<u64> {
    let known: Result<Vec<u64>, _> = contexts.map(|c| c.memory().map(|(free, _)| free)).collect();
    known.unwrap_or_default()
}
