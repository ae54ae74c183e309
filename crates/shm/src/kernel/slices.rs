//! The kernels for slices, whose lengths and lifetimes the compiler checks.
//! Not for buffers that ranks share.

use busbw_core::{DataType, ReduceOp};

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

/// One side of [`combine_slices`]: elements as bytes, and their scalar for `mulsum`.
pub type Side<'a> = (&'a [u8], u8);

/// Combines `one` with `other` into `to`, or with the content of `to` where there is no `one`; as
/// many elements as the shortest has. Averages are sums: the caller divides.
///
/// # Panics
/// A slice is not aligned for elements of the type.
pub fn combine_slices(
    datatype: DataType,
    op: ReduceOp,
    (one, scalar): (Option<&[u8]>, u8),
    other: Side<'_>,
    to: &mut [u8],
) {
    let element = datatype.bytes();
    let op = if op == ReduceOp::Avg { ReduceOp::Sum } else { op };
    let to_address = to.as_mut_ptr();
    let first = one.map_or(to_address.cast_const(), <[u8]>::as_ptr);
    let shortest = one.map_or(to.len(), <[u8]>::len).min(other.0.len()).min(to.len());
    for at in [first, other.0.as_ptr(), to_address.cast_const()] {
        assert!(
            at.addr().is_multiple_of(element),
            "elements of {element} bytes at an unaligned address"
        );
    }
    let sources = [Source { at: first, scalar }, Source { at: other.0.as_ptr(), scalar: other.1 }];
    // SAFETY: all are valid and aligned for as many elements; `to` was borrowed exclusively, so it overlaps no
    // source, or is the first one.
    unsafe { reduce(datatype, op, &[to_address], &sources, shortest / element, Store::Cached) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: [i32; 3]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn two_sides_are_combined_with_their_scalars() {
        let (one, other) = (bytes([1, 2, 3]), bytes([10, 20, 30]));
        let combined = |op, scalars: (u8, u8), in_place: bool| {
            let mut to = if in_place { one.clone() } else { bytes([0; 3]) };
            let first = (!in_place).then_some(&one[..]);
            combine_slices(DataType::Int32, op, (first, scalars.0), (&other, scalars.1), &mut to);
            to
        };
        for in_place in [false, true] {
            assert_eq!(combined(ReduceOp::Sum, (1, 1), in_place), bytes([11, 22, 33]));
            assert_eq!(combined(ReduceOp::Avg, (1, 1), in_place), bytes([11, 22, 33]));
            assert_eq!(combined(ReduceOp::Max, (1, 1), in_place), other);
            assert_eq!(combined(ReduceOp::Mulsum, (2, 4), in_place), bytes([42, 84, 126]));
        }
    }

    #[test]
    #[should_panic(expected = "unaligned address")]
    fn elements_lie_where_they_may() {
        // Somewhere in a line of longs, and one byte behind.
        let lines = [0_u64; 4];
        // SAFETY: the bytes of numbers.
        let (_, whole, _) = unsafe { lines.align_to::<u8>() };
        let mut to = [0_u8; 8];
        let none = (None, 1);
        combine_slices(DataType::Double, ReduceOp::Sum, none, (&whole[1..9], 1), &mut to);
    }
}
