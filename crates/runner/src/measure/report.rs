//! The reports that a rank sends to the supervisor while it measures.
//! Not the record: the supervisor decides what of this is written.

use busbw_core::{
    algorithm::Table,
    exit::Exit,
    record::{GpuMemory, LibraryFacts, Row},
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
        /// All passes of this look.
        passes: u64,
    },
    /// The time of each algorithm on this machine, measured before the first row.
    Measured(Table),
    /// What a process's library reports about itself.
    Library(LibraryFacts),
    /// A row is complete.
    Row(Box<Row>),
    /// The rank has finished; the largest resident memory of its process, in bytes.
    Finished {
        /// VmHWM of its process.
        peak_bytes: u64,
        /// The use of its GPUs' memory, with `-M`.
        gpu_memory: Option<GpuMemory>,
    },
}

/// A rank thread's failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Rank threads that did not arrive before a deadline passed.
    pub missing: Option<Vec<usize>>,
    /// The exit code of the run.
    pub exit: Exit,
    /// The complete text.
    pub text: String,
}

impl Failure {
    /// A failure of this thread alone.
    pub fn new(exit: Exit, text: String) -> Failure {
        Failure { missing: None, exit, text }
    }

    /// As it is sent.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
