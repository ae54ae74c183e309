//! What only the matrix of pairs has: which pairs there are, and what is measured of them.
//! Not when they talk (`pairs::schedule`).

use serde::{Deserialize, Serialize};

use crate::messages::Messages;

/// How pairs are measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// Which pairs.
    #[serde(rename = "way")]
    pub selection: PairSelection,
    /// What is measured of each, one matrix after the other.
    pub tests: Vec<Messages>,
    /// Whether messages of a pass may be fewer than asked for, so that a pass takes no time without need.
    pub adapts: bool,
    /// Whether somebody slow ends the run with exit code 1.
    pub strict: bool,
}

/// Which pairs of ranks talk.
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
