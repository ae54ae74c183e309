//! Parses the log lines of an MPI library, and of UCX below it, into facts about transports that go
//! into the record.
//! Not who captures them, and not what the facts mean for a user.
//!
//! It reads the lines that the `mpi` backend asks for (docs/mpi.md). Nothing is guessed: where no line
//! tells, [`MpiFacts::unknown`](crate::mpi::MpiFacts::unknown) says so. Time is linear and memory bounded.

mod facts;
mod open_mpi;
mod sentence;
mod ucx;

pub use facts::{Endpoint, MpiFacts, Ucx};
pub use sentence::{connections, lanes, transports_named};

use self::{open_mpi::OpenMpiMessage, ucx::UcxMessage};
use std::collections::{BTreeMap, BTreeSet};

/// The most distinct names, and distinct kinds of endpoints, that are kept.
const MAX_KINDS: usize = 64;

/// Why a library's log is not captured, where it is not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureDisabled {
    /// Open MPI's log.
    pub open_mpi: Option<String>,
    /// UCX's log.
    pub ucx: Option<String>,
}

/// Parses a process's log line by line.
#[derive(Debug, Default)]
pub struct Parser {
    pml: Option<String>,
    btls: BTreeMap<String, BTreeSet<u32>>,
    ucx: Ucx,
    left_out: u64,
}

impl Parser {
    /// Reads one line, with or without its line end. Lines of other programs have no effect.
    pub fn line(&mut self, line: &str) {
        match (open_mpi::message(line), ucx::message(line)) {
            (Some(OpenMpiMessage::Pml(name)), _) => self.pml = Some(name.to_owned()),
            (Some(OpenMpiMessage::Btl { name, peer }), _) => {
                if self.btls.contains_key(name) || self.btls.len() < MAX_KINDS {
                    self.btls.entry(name.to_owned()).or_default().insert(peer);
                } else {
                    self.left_out += 1;
                }
            }
            (_, Some(UcxMessage::Version(version))) => self.ucx.version = Some(version.to_owned()),
            (_, Some(UcxMessage::Endpoint(endpoint))) => {
                if self.ucx.endpoints.contains(&endpoint) {
                } else if self.ucx.endpoints.len() < MAX_KINDS {
                    self.ucx.endpoints.push(endpoint);
                } else {
                    self.left_out += 1;
                }
            }
            (None, None) => {}
        }
    }

    /// The facts about the process of world rank `rank`, and what is unknown. `version` is the
    /// complete text of MPI_Get_library_version; `alone` says that no other rank is on its host.
    pub fn finish(
        mut self,
        rank: usize,
        version: &str,
        alone: bool,
        disabled: &CaptureDisabled,
    ) -> MpiFacts {
        self.ucx.endpoints.sort();
        let mut facts = MpiFacts {
            rank,
            version: version.lines().next().map(one_blank_each).unwrap_or_default(),
            device: facts::device(version),
            pml: self.pml,
            btls: self.btls.iter().map(|(name, peers)| (name.clone(), ranges(peers))).collect(),
            ucx: (self.ucx != Ucx::default()).then_some(self.ucx),
            unknown: Vec::new(),
            left_out: self.left_out,
        };
        facts.unknown = facts::unknown(&facts, alone, disabled);
        facts
    }
}

/// Whether a library prints this line only because its log level was raised to name transports: it
/// means nothing for the user.
pub fn is_chatter(line: &str) -> bool {
    open_mpi::is_chatter(line) || ucx::is_chatter(line)
}

fn one_blank_each(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first and the last of every run of consecutive numbers.
fn ranges(numbers: &BTreeSet<u32>) -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some([_, last]) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push([*number, *number]),
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
