//! Options of the matrix of pairs alone: the pairs, and the tests.
//! Not the rounds of pairs (`pairs::schedule`).

use serde::{Deserialize, Serialize};

use crate::messages::Messages;

/// How pairs are measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// The pairs to measure.
    #[serde(rename = "way")]
    pub selection: PairSelection,
    /// The tests, one matrix after the other.
    pub tests: Vec<Messages>,
    /// Whether a pass may use fewer messages than requested, to save time on slow paths.
    pub adapts: bool,
    /// Whether a slow subject ends the run with exit code 1.
    pub strict: bool,
}

/// Which pairs of ranks are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairSelection {
    /// Every one.
    All,
    /// Ranks of the same place in different hosts.
    Rails,
    /// So many peers for each rank, drawn by the plan's seed.
    Sample(usize),
}
