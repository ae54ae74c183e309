//! Inputs and exact results of every collective as pure integer functions of seed, rank and index,
//! without state: any element can be computed alone.
//! Not where they are in a buffer (`layout`).
//!
//! A device kernel restates `draw`, `group` and `reduction` line by line; a test compares both.

mod draw;
mod fill;
mod group;
mod near;
mod reduction;

pub use draw::derive_seed;
pub use fill::{Mismatch, Wrong, fill, verify};
pub use near::verify_within;
pub use reduction::{Reduction, averages_within_two};

use crate::{DataType, ReduceOp};

/// What one stretch of a buffer holds or must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Element i is element `first` + i of rank `source`'s send buffer, copied bit by bit.
    Copied {
        /// Rank that owns the data.
        source: usize,
        /// Element index in that rank's send buffer.
        first: u64,
    },
    /// Element i is what rank `rank` contributes to element `first` + i of a reduction.
    Contribution {
        /// Rank that contributes.
        rank: usize,
        /// Element index in the reduction.
        first: u64,
    },
    /// Element i is the exact result of the reduction at `first` + i.
    Reduced {
        /// Element index in the reduction.
        first: u64,
    },
    /// Every byte is [`POISON`]: no operation may write here.
    Poison,
}

/// The byte that receive buffers are filled with before an operation.
pub const POISON: u8 = 0xa5;

/// Everything that selects a pattern besides rank and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Differs between rows, placements and checks, so that stale data is never right.
    pub seed: u64,
    /// Element type.
    pub datatype: DataType,
    /// Operator of a reduction; ignored by copies.
    pub op: ReduceOp,
    /// Ranks that take part.
    pub ranks: usize,
}
