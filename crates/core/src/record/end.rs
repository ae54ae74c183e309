//! The last line of a record: the status of the run, and its totals.
//! Not a verdict on the figures.

use serde::{Deserialize, Serialize};

use super::figure;
use crate::exit::Exit;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Every row was measured.
    Complete,
    /// Ctrl-C, or a terminating signal.
    Interrupted,
    /// The reader of stdout went away.
    ReaderGone,
    /// A rank, a library or the machine failed.
    Failed,
}

/// The end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Schema version.
    pub schema: u32,
    /// How it ended.
    pub status: Status,
    /// The exit code's meaning.
    pub exit: Exit,
    /// The message about it, when the run did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// "Out of bounds values": checks that found wrong elements, counted per rank and check.
    pub out_of_bounds: u64,
    /// "Avg bus bandwidth", GB/s, over the meaningful halves; `null` without any, and with one
    /// rank, where no bytes cross a bus.
    #[serde(with = "figure")]
    pub average_busbw: f64,
    /// The average algorithm bandwidth over the same halves, GB/s.
    #[serde(with = "figure")]
    pub average_algbw: f64,
    /// Whether NCCL_TESTS_MIN_BW held; `null` when it was not set.
    pub min_bandwidth_held: Option<bool>,
    /// Local end time.
    pub finished: String,
    /// Largest resident memory of any rank, bytes, as the kernel counted it.
    pub peak_rank_bytes: u64,
    /// The use of GPUs' memory (`-M`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<GpuMemory>,
    /// Advice about the figures: noise, drift, waived options.
    pub warnings: Vec<String>,
}

/// The decrease of a GPU's free memory (cudaMemGetInfo) in bytes; the largest of any GPU in each
/// (nccl-tests src/common.cu:974, 1035, 1651).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuMemory {
    /// While communicators were created.
    pub initialization: u64,
    /// While buffers were allocated and registered.
    pub allocated: u64,
    /// From then until the last row.
    pub collective: u64,
}

impl GpuMemory {
    /// The larger of each.
    pub fn max(self, other: GpuMemory) -> GpuMemory {
        GpuMemory {
            initialization: self.initialization.max(other.initialization),
            allocated: self.allocated.max(other.allocated),
            collective: self.collective.max(other.collective),
        }
    }

    /// All of them together.
    pub fn total(self) -> u64 {
        self.initialization + self.allocated + self.collective
    }
}
