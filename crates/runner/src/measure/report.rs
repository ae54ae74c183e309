//! The reports that a rank sends to the supervisor while it measures.
//! Not the record: the supervisor decides what of this is written.

use busbw_core::{
    algorithm::Table,
    exit::Exit,
    record::{GpuMemory, LibraryFacts, Line, Row},
};
use busbw_store::line;
use serde::{Deserialize, Serialize};

/// One report. What becomes a line of the record travels as that line: what serde makes of it is compiled once, in
/// `busbw-store`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// A row is about to be measured.
    Progress {
        /// Rows begun before it in this launch.
        index: u64,
        /// Its requested size in bytes.
        bytes: u64,
    },
    /// Part of the current row is measured.
    Within {
        /// The share of its work that is done, as far as that is known; between 0 and 1.
        share: f64,
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
    #[serde(skip)]
    Library(LibraryFacts),
    /// A row is complete.
    #[serde(skip)]
    Row(Box<Row>),
    /// The rank has finished; the largest resident memory of its process, in bytes.
    Finished {
        /// VmHWM of its process.
        peak_bytes: u64,
        /// The use of its GPUs' memory, with `-M`.
        gpu_memory: Option<GpuMemory>,
    },
}

impl Report {
    /// As it is sent.
    pub fn into_bytes(self) -> Vec<u8> {
        let bytes = match self {
            Report::Row(row) => line::to_text(&Line::Row(row)),
            Report::Library(facts) => line::to_text(&facts.into()),
            other => serde_json::to_vec(&other),
        };
        bytes.unwrap_or_default()
    }

    /// As it was sent.
    ///
    /// # Errors
    /// The bytes are neither a report nor a line that one holds.
    pub fn from_bytes(bytes: &[u8]) -> serde_json::Result<Report> {
        serde_json::from_slice(bytes).or_else(|error| match line::from_text(bytes)? {
            Line::Row(row) => Ok(Report::Row(row)),
            Line::Library(facts) => Ok(Report::Library(LibraryFacts::Nccl(facts))),
            Line::Mpi(facts) => Ok(Report::Library(LibraryFacts::Mpi(facts))),
            Line::Net(facts) => Ok(Report::Library(LibraryFacts::Net(facts))),
            Line::Paths(stats) => Ok(Report::Library(LibraryFacts::Paths(stats))),
            Line::Verbs(facts) => Ok(Report::Library(LibraryFacts::Verbs(facts))),
            Line::Run(_) | Line::End(_) => Err(error),
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_library_logs::nccl::NcclFacts;

    #[test]
    fn every_report_comes_back() {
        let library =
            LibraryFacts::Nccl(Box::new(NcclFacts { dma_buf: 7, ..NcclFacts::default() }));
        for report in [
            Report::Progress { index: 3, bytes: 8 },
            Report::Within { share: 0.25 },
            Report::Pass { index: 1, bytes: 8, pass: 0, passes: 2 },
            Report::Library(library),
            Report::Finished { peak_bytes: 1, gpu_memory: None },
        ] {
            assert_eq!(Report::from_bytes(&report.clone().into_bytes()).unwrap(), report);
        }
        for bytes in [&b"{}"[..], b"{\"kind\":\"end\"}", b"\xff"] {
            assert!(Report::from_bytes(bytes).is_err());
        }
    }
}
