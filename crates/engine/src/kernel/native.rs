//! Kernels of the types that the processor computes in.
//! Not the 8- and 16-bit floats: `narrow` widens those.

use model::ReduceOp;
use multiversion::multiversion;

use super::Element;

/// A type with arithmetic of its own: integers wrap, floats round once an operation.
pub(super) trait Native: Copy + 'static {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn times(self, scalar: u8) -> Self;
    fn over(self, ranks: usize) -> Self;
}

macro_rules! integer {
    ($($type:ty as $wide:ty),*) => {$(
        impl Native for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn larger(self, other: Self) -> Self { self.max(other) }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { self.min(other) }
            #[inline(always)]
            fn times(self, scalar: u8) -> Self { self.wrapping_mul(scalar as $type) }
            #[inline(always)]
            fn over(self, ranks: usize) -> Self { (<$wide>::from(self) / ranks as $wide) as $type }
        }
    )*};
}
integer!(i8 as i64, u8 as u64, i32 as i64, u32 as u64, i64 as i64, u64 as u64);

macro_rules! float {
    ($($type:ty),*) => {$(
        impl Native for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn larger(self, other: Self) -> Self { if other > self { other } else { self } }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { if other < self { other } else { self } }
            #[inline(always)]
            fn times(self, scalar: u8) -> Self { self * <$type>::from(scalar) }
            #[inline(always)]
            fn over(self, ranks: usize) -> Self { self / ranks as $type }
        }
    )*};
}
float!(f32, f64);

macro_rules! element {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn combine(op: ReduceOp, to: &mut [Self], from: &[Self], scalar: u8) {
                combine(op, to, from, scalar);
            }
            fn scale(to: &mut [Self], scalar: u8) {
                scale(to, scalar);
            }
            fn divide(to: &mut [Self], ranks: usize) {
                divide(to, ranks);
            }
        }
    )*};
}
element!(i8, u8, i32, u32, i64, u64, f32, f64);

/// Combines `from` into `to`, element by element.
pub(super) fn combine<T: Native>(op: ReduceOp, to: &mut [T], from: &[T], scalar: u8) {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => zip(to, from, T::sum),
        ReduceOp::Prod => zip(to, from, T::product),
        ReduceOp::Max => zip(to, from, T::larger),
        ReduceOp::Min => zip(to, from, T::smaller),
        ReduceOp::Mulsum => zip(to, from, |a, b| a.sum(b.times(scalar))),
    }
}

/// Multiplies every element by `scalar`.
pub(super) fn scale<T: Native>(to: &mut [T], scalar: u8) {
    to.iter_mut().for_each(|element| *element = element.times(scalar));
}

/// Divides every element by the number of ranks.
pub(super) fn divide<T: Native>(to: &mut [T], ranks: usize) {
    to.iter_mut().for_each(|element| *element = element.over(ranks));
}

/// One loop for every operator, compiled once per instruction set and chosen at run time.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma", "aarch64+neon"))]
fn zip<T: Copy, F: Fn(T, T) -> T>(to: &mut [T], from: &[T], combine: F) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = combine(*to, *from);
    }
}
