//! The pass of a reduction: a few cache lines of every source through registers to every
//! destination.
//! Not arithmetic: the element types have it.

use std::{marker::PhantomData, mem::MaybeUninit, slice};

use busbw_core::{DataType, ReduceOp};

use super::{
    Source, Store, copy,
    element::{Element, Max, Min, Mulsum, Operator, Prod, Sum},
    fp8::{E4m3, E5m2},
    half::{Binary16, Brain16},
    isa::{Isa, LINE, Level, Work},
    narrow::Packed,
};

/// One reduction.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) op: ReduceOp,
    pub(super) destinations: &'a [*mut u8],
    pub(super) sources: &'a [Source],
    pub(super) count: usize,
    pub(super) store: Store,
}

/// Reduces with an instruction set.
///
/// # Safety
/// As [`super::reduce`]; and the processor has the instruction set.
pub(super) unsafe fn run(level: Level, datatype: DataType, job: Job) {
    macro_rules! with {
        ($type:ty) => {{
            let of = PhantomData::<$type>;
            // SAFETY: the caller vouches for `job`, whose elements are of this very type.
            unsafe { level.run(Typed::<$type> { job, of }) }
        }};
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
        DataType::Half => with!(Packed<Binary16>),
        DataType::Bfloat16 => with!(Packed<Brain16>),
        DataType::F8e4m3 => with!(Packed<E4m3>),
        DataType::F8e5m2 => with!(Packed<E5m2>),
    }
}

/// A reduction of elements of type `T`.
struct Typed<'a, T> {
    job: Job<'a>,
    of: PhantomData<T>,
}

impl<T: Element> Work for Typed<'_, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(self) {
        // SAFETY: the caller vouches for the job.
        unsafe {
            match self.job.op {
                ReduceOp::Sum | ReduceOp::Avg => Pass::<T>::new::<I>(self.job).run::<Sum, I>(),
                ReduceOp::Prod => Pass::<T>::new::<I>(self.job).run::<Prod, I>(),
                ReduceOp::Max => Pass::<T>::new::<I>(self.job).run::<Max, I>(),
                ReduceOp::Min => Pass::<T>::new::<I>(self.job).run::<Min, I>(),
                ReduceOp::Mulsum => Pass::<T>::new::<I>(self.job).run::<Mulsum, I>(),
            }
        }
    }
}

/// Bytes that go from the sources to the destinations at a time: many vectors, yet few enough that
/// the processor still works on one block when it begins to read the next from memory.
const BLOCK: usize = 1024;

/// Room for a block, aligned to a cache line.
#[repr(align(64))]
struct Block(MaybeUninit<[u8; BLOCK]>);

/// The arguments of every block of a reduction.
struct Pass<'a, T: Element> {
    job: Job<'a>,
    /// The divisor, where the result is divided.
    ranks: Option<T::Ranks>,
    /// The first destination, where the last step may write directly to it.
    direct: Option<*mut u8>,
}

impl<'a, T: Element> Pass<'a, T> {
    #[inline(always)]
    fn new<I: Isa>(job: Job<'a>) -> Self {
        let ranks = (job.op == ReduceOp::Avg).then(|| T::ranks::<I>(job.sources.len()));
        let direct = match job.destinations {
            &[first, ..] if job.store == Store::Cached => {
                let in_place = job.sources.iter().any(|s| std::ptr::eq(s.at, first));
                (!in_place).then_some(first)
            }
            _ => None,
        };
        Pass { job, ranks, direct }
    }

    /// # Safety
    /// As [`super::reduce`], for elements of type `T`.
    #[inline(always)]
    unsafe fn run<O: Operator, I: Isa>(&self) {
        let Job { destinations, sources, count, store, .. } = self.job;
        let (Some(&first), false) = (destinations.first(), sources.is_empty()) else { return };
        let len = count * size_of::<T>();
        // Streamed lines are whole: blocks begin where lines of the first destination do.
        let head = if store == Store::Streamed { first.align_offset(LINE) } else { 0 };
        let mut blocks = [const { Block(MaybeUninit::uninit()) }; 2];
        let (mut at, mut end) = (0, if head > 0 { head } else { BLOCK });
        while at < len {
            // SAFETY: `at`..`end` is within `len`, for which the caller vouches, and no block.
            unsafe { self.block::<O, I>(&mut blocks, at, end.min(len) - at) };
            (at, end) = (end, end + BLOCK);
        }
        if store == Store::Streamed {
            I::fence();
        }
    }

    /// Reduces `len` bytes from byte `at` on, at most a block.
    ///
    /// # Safety
    /// As [`super::reduce`], for elements of type `T`; `at + len` is within them.
    #[inline(always)]
    unsafe fn block<O: Operator, I: Isa>(&self, blocks: &mut [Block; 2], at: usize, len: usize) {
        let Job { destinations, sources, store, .. } = self.job;
        let scaled = O::OP == ReduceOp::Mulsum && sources[0].scalar != 1;
        let mut steps = usize::from(scaled) + sources.len() - 1 + usize::from(self.ranks.is_some());
        let blocks = blocks.each_mut().map(|block| block.0.as_mut_ptr().cast::<u8>());
        // The destination of the next step: the last step writes to the destination, others to the
        // two blocks in turn, so that no step writes to its own source.
        let mut next = || {
            steps -= 1;
            match self.direct {
                Some(to) if steps == 0 => to.wrapping_add(at),
                _ => blocks[steps % 2],
            }
        };
        // SAFETY: the caller vouches for `len` bytes at `at` of every source and destination; a
        // block has room for them; no step reads what it writes, see `next` and `direct`; all
        // sources are read before a destination that is one of them is written.
        unsafe {
            let from = |at: *const u8| slice::from_raw_parts(at.cast::<T>(), len / size_of::<T>());
            let to = |at: *mut u8| {
                slice::from_raw_parts_mut(at.cast::<MaybeUninit<T>>(), len / size_of::<T>())
            };
            let mut result = sources[0].at.wrapping_add(at);
            if scaled {
                let scaled = next();
                T::scale::<I>(to(scaled), from(result), sources[0].scalar);
                result = scaled;
            }
            for source in &sources[1..] {
                let combined = next();
                T::combine::<O, I>(
                    to(combined),
                    from(result),
                    from(source.at.add(at)),
                    source.scalar,
                );
                result = combined;
            }
            if let Some(ranks) = self.ranks {
                let divided = next();
                T::divide::<I>(to(divided), from(result), ranks);
                result = divided;
            }
            for &destination in destinations {
                let destination = destination.add(at);
                if !std::ptr::eq(destination, result) {
                    copy::block::<I>(result, destination, len, store);
                }
            }
        }
    }
}
