//! The 8- and 16-bit floats: widened to f32 for a step, then rounded back; compared as they are.
//! Not their conversions: `half` and `fp8` hold those.
//!
//! One rounding to the narrow type a step: f32 holds sums and products of these types exactly enough
//! that rounding twice gives the same (24 ≥ 2·11 + 2, Figueroa 1995).

use std::mem::MaybeUninit;

use model::ReduceOp;

use super::{
    element::{Element, Operator, zip},
    isa::{GROUP, Isa},
};

/// A float format narrower than f32; a value of it is one number.
pub(super) trait Narrow: Copy {
    /// The number 0.
    const ZERO: Self;
    /// What [`Narrow::widen`] divides values by, and rounding multiplies them by.
    const SCALE: f32 = 1.0;

    /// Numbers to f32, in an order that rounding undoes.
    fn widen<I: Isa>(narrow: &[Self; GROUP]) -> [f32; GROUP];
    /// Sums and products of two numbers to the nearest number, ties to even.
    fn round<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP];
    /// Any f32 to the nearest number, ties to even.
    fn round_any<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP];
    /// Results with NaN where a or b is, for formats whose NaN [`Narrow::widen`] takes for a number.
    #[inline(always)]
    fn with_nan(result: &[Self; GROUP], _a: &[Self; GROUP], _b: &[Self; GROUP]) -> [Self; GROUP] {
        *result
    }
    /// Whether a < b, which nothing is where one of them is NaN.
    fn less(self, other: Self) -> bool;
}

/// An element of a narrow format.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Packed<F>(F);

/// Elements as numbers of their format.
#[inline(always)]
fn numbers<F>(elements: &[Packed<F>]) -> &[F] {
    // SAFETY: an element is a transparent number: same size, alignment and values.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) }
}

/// Room for elements as room for numbers.
#[inline(always)]
fn room<F>(elements: &mut [MaybeUninit<Packed<F>>]) -> &mut [MaybeUninit<F>] {
    // SAFETY: as in `numbers`; the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), elements.len()) }
}

/// What is done to widened numbers. A type with a method rather than a closure, because closures
/// this large are not inlined, and then lack the instruction set.
trait Step {
    /// Whether the result is no sum or product of two numbers of the format.
    const ANY: bool = false;
    fn step<F: Narrow>(a: f32, b: f32, scalar: f32) -> f32;
}

macro_rules! steps {
    ($($name:ident($a:ident, $b:ident, $scalar:ident) = $step:expr $(, $any:ident)?;)*) => {$(
        struct $name;
        impl Step for $name {
            $(const $any: bool = true;)?
            #[inline(always)]
            fn step<F: Narrow>($a: f32, $b: f32, $scalar: f32) -> f32 { $step }
        }
    )*};
}
steps! {
    Add(a, b, _s) = a + b;
    Multiply(a, b, _s) = a * b * F::SCALE;
    // Times a power of two is exact, so that this still rounds once.
    AddScaled(a, b, s) = a + b * s;
    // By a power of two, or by one over it.
    Scale(a, _b, s) = a * s;
    Divide(a, _b, s) = a / s, ANY;
}

/// to = `S` of a and b, group after group; the last is filled up with zeros.
#[inline(always)]
fn groups<F: Narrow, S: Step, I: Isa>(
    to: &mut [MaybeUninit<Packed<F>>],
    a: &[Packed<F>],
    b: &[Packed<F>],
    scalar: f32,
) {
    let (groups, rest) = room(to).as_chunks_mut::<GROUP>();
    let (groups_a, rest_a) = numbers(a).as_chunks::<GROUP>();
    let (groups_b, rest_b) = numbers(b).as_chunks::<GROUP>();
    for ((to, a), b) in groups.iter_mut().zip(groups_a).zip(groups_b) {
        to.write_copy_of_slice(&group::<F, S, I>(a, b, scalar));
    }
    if !rest.is_empty() {
        let (mut a, mut b) = ([F::ZERO; GROUP], [F::ZERO; GROUP]);
        a[..rest.len()].copy_from_slice(rest_a);
        b[..rest.len()].copy_from_slice(rest_b);
        rest.write_copy_of_slice(&group::<F, S, I>(&a, &b, scalar)[..rest.len()]);
    }
}

/// One group.
#[inline(always)]
fn group<F: Narrow, S: Step, I: Isa>(a: &[F; GROUP], b: &[F; GROUP], scalar: f32) -> [F; GROUP] {
    // Copies, which the result cannot overlap: loops over them need no checks.
    let (a, b) = (&{ *a }, &{ *b });
    let (mut wide, wide_b) = (F::widen::<I>(a), F::widen::<I>(b));
    for (a, b) in wide.iter_mut().zip(wide_b) {
        *a = S::step::<F>(*a, b, scalar);
    }
    let narrow = if S::ANY { F::round_any::<I>(&wide) } else { F::round::<I>(&wide) };
    F::with_nan(&narrow, a, b)
}

impl<F: Narrow> Element for Packed<F> {
    type Ranks = f32;

    #[inline(always)]
    fn combine<O: Operator, I: Isa>(
        to: &mut [MaybeUninit<Self>],
        a: &[Self],
        b: &[Self],
        scalar: u8,
    ) {
        let scalar = f32::from(scalar);
        match O::OP {
            ReduceOp::Sum | ReduceOp::Avg => groups::<F, Add, I>(to, a, b, scalar),
            ReduceOp::Prod => groups::<F, Multiply, I>(to, a, b, scalar),
            ReduceOp::Max => zip(to, a, b, |a, b| if a.0.less(b.0) { b } else { a }),
            ReduceOp::Min => zip(to, a, b, |a, b| if b.0.less(a.0) { b } else { a }),
            ReduceOp::Mulsum => groups::<F, AddScaled, I>(to, a, b, scalar),
        }
    }

    #[inline(always)]
    fn scale<I: Isa>(to: &mut [MaybeUninit<Self>], a: &[Self], scalar: u8) {
        groups::<F, Scale, I>(to, a, a, f32::from(scalar));
    }

    fn ranks(ranks: usize) -> f32 {
        ranks as f32
    }

    #[inline(always)]
    fn divide<I: Isa>(to: &mut [MaybeUninit<Self>], a: &[Self], ranks: f32) {
        // One over a power of two is exact, and multiplication is faster.
        if ranks.to_bits() << 9 == 0 {
            groups::<F, Scale, I>(to, a, a, ranks.recip());
        } else {
            groups::<F, Divide, I>(to, a, a, ranks);
        }
    }
}
