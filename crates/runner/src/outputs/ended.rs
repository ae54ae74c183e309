//! How the ranks of a run ended, as the supervisor hands it to the outputs.
//! Not the record's last line, which holds for the rows as well.

use busbw_core::{
    exit::Exit,
    record::{GpuMemory, Status},
};

/// How the ranks ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How.
    pub status: Status,
    /// The exit code's meaning, as far as the ranks go.
    pub exit: Exit,
    /// What to say about it.
    pub message: Option<String>,
    /// Largest resident memory of any rank's process, bytes.
    pub peak_rank_bytes: u64,
    /// What became of GPUs' memory, where that was asked.
    pub gpu_memory: Option<GpuMemory>,
}

impl Ended {
    /// An end without incident, of ranks of which nothing is known.
    pub fn complete() -> Ended {
        let (status, exit) = (Status::Complete, Exit::Ok);
        Ended { status, exit, message: None, peak_rank_bytes: 0, gpu_memory: None }
    }
}
