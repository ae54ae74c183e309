//! The operations that a type needs to be reduced, over slices, in loops that vectorise.
//! Not the types themselves: `native` and `narrow` have those.

use std::mem::MaybeUninit;

use busbw_core::ReduceOp;

use super::isa::Isa;

/// An element type: arithmetic over slices in the type's own precision, rounded to it at every step.
/// All slices of a call are of one length; `to` is written over its whole length.
pub(super) trait Element: Copy {
    /// A number of ranks, prepared for dividing by it.
    type Ranks: Copy;

    /// to = one step of the operator. Where neither number is larger, or one is NaN, `a` stays;
    /// `scalar`, a power of two, is that of `b` in mulsum.
    fn combine<O: Operator, I: Isa>(
        to: &mut [MaybeUninit<Self>],
        a: &[Self],
        b: &[Self],
        scalar: u8,
    );
    /// to = a × `scalar`.
    fn scale<I: Isa>(to: &mut [MaybeUninit<Self>], a: &[Self], scalar: u8);
    /// Prepares division by `ranks`.
    fn ranks<I: Isa>(ranks: usize) -> Self::Ranks;
    /// to = a / `ranks`; integers towards zero.
    fn divide<I: Isa>(to: &mut [MaybeUninit<Self>], a: &[Self], ranks: Self::Ranks);
}

/// An operator as a type, so that each has its own loops.
pub(super) trait Operator {
    /// The operator.
    const OP: ReduceOp;
}

/// Sum, and avg without its division.
pub(super) struct Sum;
/// Product.
pub(super) struct Prod;
/// Largest.
pub(super) struct Max;
/// Smallest.
pub(super) struct Min;
/// Sum of scaled elements.
pub(super) struct Mulsum;

impl Operator for Sum {
    const OP: ReduceOp = ReduceOp::Sum;
}
impl Operator for Prod {
    const OP: ReduceOp = ReduceOp::Prod;
}
impl Operator for Max {
    const OP: ReduceOp = ReduceOp::Max;
}
impl Operator for Min {
    const OP: ReduceOp = ReduceOp::Min;
}
impl Operator for Mulsum {
    const OP: ReduceOp = ReduceOp::Mulsum;
}

/// to = `step` of every element.
#[inline(always)]
pub(super) fn each<T: Copy>(to: &mut [MaybeUninit<T>], a: &[T], step: impl Fn(T) -> T) {
    for (to, a) in to.iter_mut().zip(a) {
        to.write(step(*a));
    }
}

/// to = `step` of every pair of elements.
#[inline(always)]
pub(super) fn zip<T: Copy>(to: &mut [MaybeUninit<T>], a: &[T], b: &[T], step: impl Fn(T, T) -> T) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        to.write(step(*a, *b));
    }
}
