//! What there is to say of a collective: the fields of a [`CollectiveSpec`].
//! Not what is said of each (`collective`).

use serde::{Deserialize, Serialize};

use super::{
    Collective,
    layout::{Shape, Stretch},
};

/// All that busbw knows of a collective, apart from how a backend moves its data.
#[derive(Debug, Clone, Copy)]
pub struct CollectiveSpec {
    /// The command's name, and its name in records.
    pub name: &'static str,
    /// The program of nccl-tests that measures it, if there is one.
    pub nccl_tests: Option<&'static str>,
    /// What one rank's two buffers hold, which says how a size becomes element counts.
    pub buffers: BufferShape,
    /// Whether elements are combined by an operator.
    pub reduces: bool,
    /// Whether one rank is the root.
    pub rooted: bool,
    /// What the redop column holds.
    pub op_column: OpColumn,
    /// Whether the in-place result means anything: where it does not, nccl-tests times it all the
    /// same and prints N/A for #wrong.
    pub in_place: bool,
    /// Whether the number of ranks must be a power of two.
    pub power_of_two: bool,
    /// Whether the message of the OSU Micro-Benchmarks is divided among the ranks.
    pub divides_message: bool,
    /// Whether algbw counts the chunk that a rank keeps; else it counts those of the others.
    pub counts_own_chunk: bool,
    /// busbw over algbw: the factors of `getBw` in nccl-tests 2.19.6 (src/NAME.cu, doc/PERFORMANCE.md).
    pub bus_factor: BusFactor,
    /// The ways of the `host` backend, the one for the smallest messages first.
    pub algorithms: &'static [Algorithm],
    /// Whether NCCL has a kernel for it, which is what its tuning model covers (`ncclFunc_t`).
    pub tuned_by_nccl: bool,
    /// Steps that depend on each other, and bytes over the busiest link.
    pub cost: Cost,
    /// The smallest number of bytes that all groups together receive from other groups.
    pub received: Received,
    /// The expected content of the receive buffer.
    pub output: Output,
}

/// Steps and bytes for ranks and a size in bytes (Thakur, Rabenseifner, Gropp 2005, section 3, for the ring).
pub type Cost = fn(ranks: f64, size: f64) -> (f64, f64);

/// Bytes for a size in bytes and ranks distributed evenly over groups.
pub type Received = fn(size: f64, ranks: f64, groups: f64) -> f64;

/// Stretches from the first element on that do not overlap, for a rank, and whether it is in place:
/// that matters for ranks that receive nothing, whose buffer still holds what they sent.
pub type Output = fn(shape: &Shape<'_>, rank: usize, in_place: bool) -> Vec<Stretch>;

/// What one rank's send and receive buffers hold. The whole is the size column, a chunk the count column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferShape {
    /// The whole in both.
    Whole,
    /// A chunk is sent, a chunk of every rank received.
    Gathered,
    /// A chunk for every rank is sent, one received.
    Scattered,
    /// A chunk for every rank is sent, a chunk of every rank received.
    Exchanged,
    /// A different number of elements for every pair of ranks ([`crate::alltoallv`]).
    Uneven,
    /// No data.
    Nothing,
}

impl BufferShape {
    /// Whether the size column is the count column times the ranks.
    pub const fn are_divided(self) -> bool {
        matches!(self, BufferShape::Gathered | BufferShape::Scattered | BufferShape::Exchanged)
    }
}

/// What is asked often.
impl Collective {
    /// Whether it moves data.
    pub const fn moves_data(self) -> bool {
        !matches!(self.spec().buffers, BufferShape::Nothing)
    }

    /// Whether one rank's part of the larger buffer is a message of the OSU Micro-Benchmarks, so that
    /// the buffer holds as many messages as there are ranks.
    pub const fn chunked(self) -> bool {
        let spec = self.spec();
        let uneven = matches!(spec.buffers, BufferShape::Uneven);
        (spec.buffers.are_divided() || uneven) && !spec.divides_message
    }

    /// Whether elements are combined by an operator.
    pub const fn reduces(self) -> bool {
        self.spec().reduces
    }

    /// Whether one rank is the root.
    pub const fn rooted(self) -> bool {
        self.spec().rooted
    }

    /// What the redop column holds.
    pub const fn op_column(self) -> OpColumn {
        self.spec().op_column
    }

    /// Whether the in-place result means anything, see [`CollectiveSpec::in_place`].
    pub const fn in_place_is_valid(self) -> bool {
        self.spec().in_place
    }

    /// Whether it is defined for this number of ranks.
    pub const fn allows(self, ranks: usize) -> bool {
        !self.spec().power_of_two || ranks.is_power_of_two()
    }
}

/// What makes busbw out of algbw, for n ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusFactor {
    /// 1: a link carries the whole once.
    One,
    /// (n−1)/n: a link carries all chunks but one.
    Others,
    /// 2(n−1)/n: the same twice, to reduce and to distribute.
    OthersTwice,
}

impl BusFactor {
    /// The factor for a number of ranks.
    pub fn of(self, ranks: usize) -> f64 {
        let n = ranks as f64;
        match self {
            BusFactor::One => 1.0,
            BusFactor::Others => (n - 1.0) / n,
            BusFactor::OthersTwice => 2.0 * (n - 1.0) / n,
        }
    }
}

/// What the redop column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpColumn {
    /// The operator's name; the test runs once per operator of `-o`.
    Name,
    /// The word `none`.
    None,
    /// Nothing: hypercube's column is blank (src/hypercube.cu:104).
    Blank,
}

/// Who moves what. docs/algorithms.md counts the steps and bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Through slots: each sender puts its message behind the counter that announces it.
    Slot,
    /// Whoever receives reads it where it lies.
    Pull,
    /// Whoever sends writes it where it belongs.
    Push,
    /// Every rank does an n-th of all the work, whosever buffers it concerns.
    Share,
}
