//! Types that the processor computes in: integers wrap, floats round once a step.
//! Not the 8- and 16-bit floats: `narrow` does those.

use std::mem::MaybeUninit;

use busbw_core::ReduceOp;

use super::{
    divide::{Divide, Divisor},
    element::{Element, Operator, each, zip},
    isa::Isa,
};

/// Arithmetic of one lane.
pub(super) trait Lane: Copy {
    type Ranks: Copy;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn of(scalar: u8) -> Self;
    fn ranks(ranks: usize) -> Self::Ranks;
    fn over(self, ranks: Self::Ranks) -> Self;
    /// Whether [`Lane::shifted`] divides by as many.
    fn shifts(_ranks: Self::Ranks) -> bool {
        false
    }
    /// A faster [`Lane::over`].
    #[inline(always)]
    fn shifted(self, ranks: Self::Ranks) -> Self {
        self.over(ranks)
    }
}

impl<T: Lane> Element for T {
    type Ranks = T::Ranks;

    #[inline(always)]
    fn combine<O: Operator, I: Isa>(to: &mut [MaybeUninit<T>], a: &[T], b: &[T], scalar: u8) {
        match O::OP {
            ReduceOp::Sum | ReduceOp::Avg => zip(to, a, b, T::sum),
            ReduceOp::Prod => zip(to, a, b, T::product),
            ReduceOp::Max => zip(to, a, b, T::larger),
            ReduceOp::Min => zip(to, a, b, T::smaller),
            ReduceOp::Mulsum => {
                let scalar = T::of(scalar);
                zip(to, a, b, |a, b| a.sum(b.product(scalar)));
            }
        }
    }

    #[inline(always)]
    fn scale<I: Isa>(to: &mut [MaybeUninit<T>], a: &[T], scalar: u8) {
        let scalar = T::of(scalar);
        each(to, a, |a| a.product(scalar));
    }

    fn ranks<I: Isa>(ranks: usize) -> T::Ranks {
        T::ranks(ranks)
    }

    #[inline(always)]
    fn divide<I: Isa>(to: &mut [MaybeUninit<T>], a: &[T], ranks: T::Ranks) {
        if T::shifts(ranks) {
            each(to, a, |a| a.shifted(ranks));
        } else {
            each(to, a, |a| a.over(ranks));
        }
    }
}

macro_rules! integer {
    ($($type:ty, $unsigned:ty;)*) => {$(
        impl Lane for $type {
            type Ranks = Divisor<$unsigned>;
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn larger(self, other: Self) -> Self { self.max(other) }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { self.min(other) }
            #[inline(always)]
            fn of(scalar: u8) -> Self { scalar as $type }
            fn ranks(ranks: usize) -> Divisor<$unsigned> { Divisor::<$unsigned>::new(ranks) }
            #[inline(always)]
            fn over(self, ranks: Divisor<$unsigned>) -> Self { self.divide(ranks) }
            fn shifts(ranks: Divisor<$unsigned>) -> bool { ranks.is_power_of_two() }
            #[inline(always)]
            fn shifted(self, ranks: Divisor<$unsigned>) -> Self { self.shift(ranks) }
        }
    )*};
}
integer!(i8, u8; u8, u8; i32, u32; u32, u32; i64, u64; u64, u64;);

macro_rules! float {
    ($($type:ty),*) => {$(
        impl Lane for $type {
            type Ranks = $type;
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn larger(self, other: Self) -> Self { if other > self { other } else { self } }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { if other < self { other } else { self } }
            #[inline(always)]
            fn of(scalar: u8) -> Self { <$type>::from(scalar) }
            fn ranks(ranks: usize) -> Self { ranks as $type }
            #[inline(always)]
            fn over(self, ranks: Self) -> Self { self / ranks }
        }
    )*};
}
float!(f32, f64);
