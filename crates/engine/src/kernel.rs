//! Reduction of elements: destination = operator over several sources, for every type.
//! Not which rank reduces what: the algorithms decide that.

mod narrow;
mod native;

use model::{DataType, ReduceOp};

/// One rank's contribution: where it starts, and its scalar for `mulsum`.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// First element.
    pub at: *const u8,
    /// Scalar of `mulsum`; other operators ignore it.
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
    Cached,
    Streamed,
}

pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize, _store: Store) {
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

pub unsafe fn reduce(
    datatype: DataType,
    op: ReduceOp,
    to: &[*mut u8],
    sources: &[Source],
    count: usize,
    _store: Store,
) {
    if count * datatype.bytes() <= 64 {
        let mut s2 = [0u64; 8];
        unsafe {
            reduce_block(datatype, op, s2.as_mut_ptr().cast(), sources, 0, count);
            for t in to {
                std::ptr::copy_nonoverlapping(s2.as_ptr().cast(), *t, count * datatype.bytes())
            }
        }
        return;
    }
    let mut scratch = [0u64; BLOCK_BYTES / 8];
    let element = datatype.bytes();
    let block = BLOCK_BYTES / element;
    let mut done = 0;
    while done < count {
        let now = block.min(count - done);
        unsafe {
            reduce_block(datatype, op, scratch.as_mut_ptr().cast(), sources, done * element, now);
            for t in to {
                std::ptr::copy_nonoverlapping(
                    scratch.as_ptr().cast(),
                    t.add(done * element),
                    now * element,
                )
            }
        }
        done += now;
    }
}

/// Bytes of the destination that are finished before the next are begun, so that the partial result
/// stays in the first-level cache while sources stream past.
const BLOCK_BYTES: usize = 16 << 10;

/// Reduces `count` elements of all `sources` into `to`: the first source is taken as it is, the
/// others are combined in order, `avg` divides by the number of sources at the end. Every step
/// rounds to the type, as on a device.
///
/// # Safety
/// `to` and every source are valid for `count` elements of `datatype` and aligned for it; `to`
/// overlaps no source except `sources[0]` when it is the same address; nobody writes to them
/// meanwhile.
pub unsafe fn reduce_old(
    datatype: DataType,
    op: ReduceOp,
    to: *mut u8,
    sources: &[Source],
    count: usize,
) {
    let element = datatype.bytes();
    let block = BLOCK_BYTES / element;
    let mut done = 0;
    while done < count {
        let now = block.min(count - done);
        // SAFETY: `done + now` ≤ `count`, for which the caller vouches.
        unsafe { reduce_block(datatype, op, to.add(done * element), sources, done * element, now) };
        done += now;
    }
}

/// # Safety
/// As [`reduce`], for `count` elements that start `offset` bytes into every source.
unsafe fn reduce_block(
    datatype: DataType,
    op: ReduceOp,
    to: *mut u8,
    sources: &[Source],
    offset: usize,
    count: usize,
) {
    macro_rules! with {
        ($type:ty) => {
            // SAFETY: the caller vouches for `count` elements of this very type.
            unsafe { reduce_as::<$type>(op, to.cast(), sources, offset, count) }
        };
    }
    match datatype {
        DataType::Int8 => with!(i8),
        DataType::Uint8 => with!(u8),
        DataType::Int32 => with!(i32),
        DataType::Uint32 => with!(u32),
        DataType::Int64 => with!(i64),
        DataType::Uint64 => with!(u64),
        DataType::Float => with!(f32),
        DataType::Double => with!(f64),
        DataType::Half => with!(narrow::Half),
        DataType::Bfloat16 => with!(narrow::Bfloat16),
        DataType::F8e4m3 => with!(narrow::E4m3),
        DataType::F8e5m2 => with!(narrow::E5m2),
    }
}

/// An element type with its kernels.
trait Element: Copy {
    /// Combines `from` into `to`, element by element.
    fn combine(op: ReduceOp, to: &mut [Self], from: &[Self], scalar: u8);
    /// Multiplies every element by `scalar`.
    fn scale(to: &mut [Self], scalar: u8);
    /// Divides every element by the number of ranks.
    fn divide(to: &mut [Self], ranks: usize);
}

/// # Safety
/// As [`reduce`], for `count` elements of type `T` that start `offset` bytes into every source.
unsafe fn reduce_as<T: Element>(
    op: ReduceOp,
    to: *mut T,
    sources: &[Source],
    offset: usize,
    count: usize,
) {
    let Some((first, rest)) = sources.split_first() else { return };
    // SAFETY: both are valid for `count` elements; `copy` allows them to overlap.
    unsafe { std::ptr::copy(first.at.add(offset).cast(), to, count) };
    // SAFETY: valid and aligned for `count` elements, and exclusive: no source but the first, which
    // was copied, overlaps it.
    let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
    if op == ReduceOp::Mulsum && first.scalar != 1 {
        T::scale(to, first.scalar);
    }
    for source in rest {
        // SAFETY: valid and aligned for `count` elements; nobody writes to it meanwhile.
        let from = unsafe { std::slice::from_raw_parts(source.at.add(offset).cast(), count) };
        T::combine(op, to, from, source.scalar);
    }
    if op == ReduceOp::Avg {
        T::divide(to, sources.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::pattern::{Content, Mismatch, Pattern, fill, verify};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]
        /// Every type and operator against the exact result, any number of ranks, any length.
        #[test]
        fn exact_for_every_type_and_operator(
            seed in any::<u64>(), t in 0usize..12, o in 0usize..6, ranks in 1usize..18,
            count in prop_oneof![1usize..40, 4000usize..9000], start in 0usize..17,
        ) {
            let (datatype, op) = (DataType::ALL[t], ReduceOp::ALL[o]);
            let pattern = Pattern { seed, datatype, op, ranks };
            let words = (count * datatype.bytes()).div_ceil(8);
            let mut inputs: Vec<Vec<u64>> = vec![vec![0; words]; ranks];
            for (rank, input) in inputs.iter_mut().enumerate() {
                let mut bytes = vec![0; count * datatype.bytes()];
                fill(&mut bytes, &pattern, Content::Contribution { rank, first: 0 });
                for (at, byte) in bytes.iter().enumerate() {
                    input[at / 8] |= u64::from(*byte) << (8 * (at % 8));
                }
            }
            let sources: Vec<Source> = (0..ranks)
                .map(|i| (i + start) % ranks)
                .map(|rank| Source {
                    at: inputs[rank].as_ptr().cast(),
                    scalar: ReduceOp::premul_scalar(rank),
                })
                .collect();
            let mut output = vec![0u64; words];
            // SAFETY: every vector holds `count` elements, aligned to 8; `output` is no source.
            unsafe { reduce_old(datatype, op, output.as_mut_ptr().cast(), &sources, count) };
            let bytes: Vec<u8> = output.iter().flat_map(|w| w.to_le_bytes()).collect();
            let found = verify(&bytes[..count * datatype.bytes()], &pattern, Content::Reduced { first: 0 });
            prop_assert_eq!(found, Mismatch::default(), "{:?} {:?} {} ranks", datatype, op, ranks);
        }
    }
}
