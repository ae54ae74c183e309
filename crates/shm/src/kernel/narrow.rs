//! The 8- and 16-bit floats: widened to f32 for a step, then rounded back; compared as they are.
//! Not their conversions: `half` and `fp8` hold those.
//!
//! One rounding to the narrow type a step: f32 holds sums and products of these types exactly enough
//! that rounding twice gives the same (24 ≥ 2·11 + 2, Figueroa 1995).

use std::mem::MaybeUninit;

use busbw_core::ReduceOp;

use super::{
    element::{Element, Operator, zip},
    isa::{GROUP, Isa},
};

/// A float format narrower than f32; a value of it is one number.
pub(super) trait Narrow: Copy {
    /// The number 0.
    const ZERO: Self;
    /// The factor by which [`Narrow::widen`] divides values, and rounding multiplies them.
    const SCALE: f32 = 1.0;
    /// Every number without a sign, for formats small enough for a table.
    const MAGNITUDES: Option<[Self; GROUP]> = None;

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
    /// What a table has for the magnitudes of `at`, with their signs; for formats that have such tables.
    #[inline(always)]
    fn look_up<I: Isa>(_table: &[Self; GROUP], at: &[Self; GROUP]) -> [Self; GROUP] {
        *at
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

/// An operation on widened numbers. A type with a method and not a closure, because closures of
/// this size are not inlined, and then lack the instruction set.
trait Step {
    /// Whether the result is not a sum or product of two numbers of the format.
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
    // Scaling by a power of two is exact, so that this still rounds once.
    AddScaled(a, b, s) = a + b * s;
    // By a power of two, or by one over it.
    Scale(a, _b, s) = a * s;
    Divide(a, _b, s) = a / s, ANY;
}

/// An operation on complete groups.
trait Groupwise<F> {
    fn apply<I: Isa>(&self, a: &[F; GROUP], b: &[F; GROUP]) -> [F; GROUP];
}

/// A step with its scalar.
struct Stepped<S>(S, f32);

impl<F: Narrow, S: Step> Groupwise<F> for Stepped<S> {
    #[inline(always)]
    fn apply<I: Isa>(&self, a: &[F; GROUP], b: &[F; GROUP]) -> [F; GROUP] {
        let (mut wide, wide_b) = (F::widen::<I>(a), F::widen::<I>(b));
        for (a, b) in wide.iter_mut().zip(&wide_b) {
            *a = S::step::<F>(*a, *b, self.1);
        }
        let narrow = if S::ANY { F::round_any::<I>(&wide) } else { F::round::<I>(&wide) };
        F::with_nan(&narrow, a, b)
    }
}

/// A table that has the results for a.
struct Looked<'t, F>(&'t [F; GROUP]);

impl<F: Narrow> Groupwise<F> for Looked<'_, F> {
    #[inline(always)]
    fn apply<I: Isa>(&self, a: &[F; GROUP], _b: &[F; GROUP]) -> [F; GROUP] {
        F::look_up::<I>(self.0, a)
    }
}

/// Sets `to` to the operation's result on a and b, group after group; the last group is filled up
/// with zeros.
#[inline(always)]
fn groups<F: Narrow, I: Isa>(
    to: &mut [MaybeUninit<Packed<F>>],
    a: &[Packed<F>],
    b: &[Packed<F>],
    what: impl Groupwise<F>,
) {
    let (groups, rest) = room(to).as_chunks_mut::<GROUP>();
    let (groups_a, rest_a) = numbers(a).as_chunks::<GROUP>();
    let (groups_b, rest_b) = numbers(b).as_chunks::<GROUP>();
    for ((to, a), b) in groups.iter_mut().zip(groups_a).zip(groups_b) {
        // Copies, which the result cannot overlap: loops over them need no alias checks.
        to.write_copy_of_slice(&what.apply::<I>(&{ *a }, &{ *b }));
    }
    if !rest.is_empty() {
        let (mut a, mut b) = ([F::ZERO; GROUP], [F::ZERO; GROUP]);
        a[..rest.len()].copy_from_slice(rest_a);
        b[..rest.len()].copy_from_slice(rest_b);
        rest.write_copy_of_slice(&what.apply::<I>(&a, &b)[..rest.len()]);
    }
}

/// Division by a number of ranks.
#[derive(Clone, Copy)]
pub(super) struct Over<F> {
    ranks: f32,
    /// One over them, where that is exact: multiplication is faster.
    exact: Option<f32>,
    /// Of [`Narrow::MAGNITUDES`], where looking them up is faster still.
    quotients: Option<[F; GROUP]>,
}

impl<F: Narrow> Element for Packed<F> {
    type Ranks = Over<F>;

    #[inline(always)]
    fn combine<O: Operator, I: Isa>(
        to: &mut [MaybeUninit<Self>],
        a: &[Self],
        b: &[Self],
        scalar: u8,
    ) {
        let scalar = f32::from(scalar);
        match O::OP {
            ReduceOp::Sum | ReduceOp::Avg => groups::<F, I>(to, a, b, Stepped(Add, scalar)),
            ReduceOp::Prod => groups::<F, I>(to, a, b, Stepped(Multiply, scalar)),
            ReduceOp::Max => zip(to, a, b, |a, b| if a.0.less(b.0) { b } else { a }),
            ReduceOp::Min => zip(to, a, b, |a, b| if b.0.less(a.0) { b } else { a }),
            ReduceOp::Mulsum => groups::<F, I>(to, a, b, Stepped(AddScaled, scalar)),
        }
    }

    #[inline(always)]
    fn scale<I: Isa>(to: &mut [MaybeUninit<Self>], a: &[Self], scalar: u8) {
        groups::<F, I>(to, a, a, Stepped(Scale, f32::from(scalar)));
    }

    #[inline(always)]
    fn ranks<I: Isa>(ranks: usize) -> Over<F> {
        let ranks = ranks as f32;
        let exact = (ranks.to_bits() << 9 == 0).then(|| ranks.recip());
        let quotients = match F::MAGNITUDES {
            Some(all) if I::TABLES => Some(Stepped(Divide, ranks).apply::<I>(&all, &all)),
            _ => None,
        };
        Over { ranks, exact, quotients }
    }

    #[inline(always)]
    fn divide<I: Isa>(to: &mut [MaybeUninit<Self>], a: &[Self], ranks: Over<F>) {
        match ranks {
            Over { quotients: Some(table), .. } => groups::<F, I>(to, a, a, Looked(&table)),
            Over { exact: Some(exact), .. } => groups::<F, I>(to, a, a, Stepped(Scale, exact)),
            Over { ranks, .. } => groups::<F, I>(to, a, a, Stepped(Divide, ranks)),
        }
    }
}
