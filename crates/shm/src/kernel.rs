//! Reductions and copies of elements at memory speed: every destination = operator over all
//! sources.
//! Not which rank reduces what: the algorithms decide that.

mod copy;
mod divide;
mod element;
mod fp8;
mod half;
mod isa;
mod narrow;
mod native;
mod pairs;
mod reduce;
mod slices;
#[cfg(test)]
mod tests;

use busbw_core::{DataType, ReduceOp};

use isa::Level;
pub use slices::{Side, combine_slices, copy_slice, sum_slices};

/// One rank's contribution: where it starts, and its scalar for `mulsum`.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// First element.
    pub at: *const u8,
    /// Scalar of `mulsum`, a power of two; other operators ignore it.
    pub scalar: u8,
}

impl Source {
    /// Rank `rank`'s contribution, which starts at `at`.
    pub fn of_rank(at: *const u8, rank: usize) -> Source {
        Source { at, scalar: ReduceOp::premul_scalar(rank) }
    }
}

/// How results are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Through the caches.
    Cached,
    /// Past the caches, for results larger than the caches that this core does not read again: the
    /// destination's lines need not be read first. Lines that a destination shares with other data,
    /// and destinations with another offset within a line than the first, go through the caches.
    Streamed,
}

/// Reduces `count` elements of all `sources` into every one of `destinations`: the first source is
/// taken as it is, the others are combined in order, `avg` divides by the number of sources at the
/// end. Every step rounds to the type, as on a device.
///
/// # Safety
/// Every destination and source is valid for `count` elements of `datatype` and aligned for it.
/// A destination may start where one source starts; otherwise it overlaps no source and no other
/// destination. Nobody else writes to any of them meanwhile, nor reads the destinations.
pub unsafe fn reduce(
    datatype: DataType,
    op: ReduceOp,
    destinations: &[*mut u8],
    sources: &[Source],
    count: usize,
    store: Store,
) {
    let job = reduce::Job { op, destinations, sources, count, store };
    // SAFETY: the caller vouches for all of it.
    unsafe { reduce::run(Level::best(), datatype, job) }
}

/// Copies `len` bytes.
///
/// # Safety
/// `from` is valid for reading, `to` for writing `len` bytes; they do not overlap; nobody else
/// writes to either meanwhile, nor reads `to`.
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize, store: Store) {
    // SAFETY: the caller vouches for all of it.
    unsafe { copy::run(Level::best(), from, to, len, store) }
}
