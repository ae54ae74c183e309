//! What a rank tells the supervisor while it measures.
//! Not the record: the supervisor decides what of this is written.

use busbw_core::{
    algorithm::Table,
    exit::Exit,
    record::{GpuMemory, Row, Said},
};
use serde::{Deserialize, Serialize};

/// One report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// A row is about to be measured.
    Progress {
        /// Rows begun before it in this launch.
        index: u64,
        /// Its requested size in bytes.
        bytes: u64,
    },
    /// A pass over the pairs of a row is about to begin.
    Pass {
        /// Rows begun before it in this launch.
        index: u64,
        /// Bytes of a message.
        bytes: u64,
        /// Passes before it.
        pass: u64,
        /// All of this look.
        passes: u64,
    },
    /// How fast which algorithm is here, measured before the first row.
    Measured(Table),
    /// What a process's library said of itself.
    Library(Said),
    /// A row is complete.
    Row(Box<Row>),
    /// The rank has finished; its largest resident memory, bytes.
    Finished {
        /// VmHWM of its process.
        peak_bytes: u64,
        /// What became of its GPUs' memory, where that was asked.
        gpu_memory: Option<GpuMemory>,
    },
}

/// What a driver says when it cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Drivers that did not come, when a deadline passed.
    pub missing: Option<Vec<usize>>,
    /// How the run ends for it.
    pub exit: Exit,
    /// The whole text.
    pub text: String,
}

impl Failure {
    /// A failure that is nobody else's.
    pub fn new(exit: Exit, text: String) -> Failure {
        Failure { missing: None, exit, text }
    }

    /// As it is sent.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
