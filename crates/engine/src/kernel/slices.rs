//! The kernels for slices, whose lengths and lifetimes the compiler checks.
//! Not for buffers that ranks share.

use model::{DataType, ReduceOp};

use super::{Source, Store, copy, reduce};

/// Copies `from` to `to`, as many elements as the shorter has.
pub fn copy_slice(from: &[f32], to: &mut [f32], store: Store) {
    let len = size_of_val(from).min(size_of_val(to));
    // SAFETY: both are valid for `len` bytes, and `to` is borrowed exclusively, so they do not overlap.
    unsafe { copy(from.as_ptr().cast(), to.as_mut_ptr().cast(), len, store) };
}

/// Sums the slices of `from` into `to`, as many elements as the shortest has.
pub fn sum_slices(from: &[&[f32]], to: &mut [f32], store: Store) {
    let count = from.iter().map(|part| part.len()).chain([to.len()]).min().unwrap_or(0);
    let sources: Vec<Source> =
        from.iter().map(|part| Source { at: part.as_ptr().cast(), scalar: 1 }).collect();
    let to = [to.as_mut_ptr().cast()];
    // SAFETY: every slice is valid and aligned for `count` elements; `to` was borrowed exclusively, so it
    // overlaps no source.
    unsafe { reduce(DataType::Float, ReduceOp::Sum, &to, &sources, count, store) };
}
