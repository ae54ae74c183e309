//! Reads what an MPI library, and UCX below it, print of who carries messages into facts that go into the
//! record. Not who captures it, and not what the facts mean for a user.
//!
//! It reads the lines that the `mpi` backend asks for (docs/mpi.md). Nothing is guessed: where no line
//! tells, [`MpiFacts::unknown`](crate::mpi::MpiFacts::unknown) says so. Time is linear and memory bounded.

mod facts;
mod open_mpi;
mod sentence;
mod ucx;

pub use facts::{Endpoint, MpiFacts, Ucx};
pub use sentence::{connections, lanes, transports_named};

use std::collections::{BTreeMap, BTreeSet};

/// Distinct names, and distinct kinds of endpoints, that are kept.
const KINDS: usize = 64;

/// Why libraries were not listened to, where they were not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deaf {
    /// To Open MPI.
    pub open_mpi: Option<String>,
    /// To UCX.
    pub ucx: Option<String>,
}

/// Reads a process's log line by line.
#[derive(Debug, Default)]
pub struct Parser {
    pml: Option<String>,
    btls: BTreeMap<String, BTreeSet<u32>>,
    ucx: Ucx,
    left_out: u64,
}

impl Parser {
    /// Reads one line, with or without its line end. What is no library's changes nothing.
    pub fn line(&mut self, line: &str) {
        match (open_mpi::said(line), ucx::said(line)) {
            (Some(open_mpi::Said::Pml(name)), _) => self.pml = Some(name.to_owned()),
            (Some(open_mpi::Said::Btl { name, peer }), _) => {
                if self.btls.contains_key(name) || self.btls.len() < KINDS {
                    self.btls.entry(name.to_owned()).or_default().insert(peer);
                } else {
                    self.left_out += 1;
                }
            }
            (_, Some(ucx::Said::Version(version))) => self.ucx.version = Some(version.to_owned()),
            (_, Some(ucx::Said::Endpoint(endpoint))) => {
                if self.ucx.endpoints.contains(&endpoint) {
                } else if self.ucx.endpoints.len() < KINDS {
                    self.ucx.endpoints.push(endpoint);
                } else {
                    self.left_out += 1;
                }
            }
            (None, None) => {}
        }
    }

    /// Everything that the process of world rank `rank` said, and what it did not: `version` is all of its
    /// library's MPI_Get_library_version, `alone` whether no other rank is on its host.
    pub fn finish(mut self, rank: usize, version: &str, alone: bool, deaf: &Deaf) -> MpiFacts {
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
        facts.unknown = facts::unknown(&facts, alone, deaf);
        facts
    }
}

/// Whether a line is one that a library prints only because it was told to name its transports: nothing
/// that it means for the user.
pub fn is_chatter(line: &str) -> bool {
    open_mpi::is_chatter(line) || ucx::is_chatter(line)
}

fn one_blank_each(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// First and last of every run of numbers.
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
