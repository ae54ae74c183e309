//! How the ranks of a run ended, as the supervisor passes it to the outputs.
//! Not the record's last line, which covers the rows as well.

use busbw_core::{
    exit::Exit,
    record::{GpuMemory, Status},
};

/// How the ranks ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The status for the record.
    pub status: Status,
    /// The exit code, as far as the ranks determine it.
    pub exit: Exit,
    /// The message about it.
    pub message: Option<String>,
    /// Largest resident memory of any rank's process, bytes.
    pub peak_rank_bytes: u64,
    /// The use of GPUs' memory, with `-M`.
    pub gpu_memory: Option<GpuMemory>,
}

impl Ended {
    /// An end without incident, of ranks without known facts.
    pub fn complete() -> Ended {
        let (status, exit) = (Status::Complete, Exit::Ok);
        Ended { status, exit, message: None, peak_rank_bytes: 0, gpu_memory: None }
    }
}
