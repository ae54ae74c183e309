//! Division of many integers by the same number without a division, which no vector unit has.
//! Not floats: they divide by themselves.
//!
//! Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994), figure 4.1:
//! for l = ⌈log2 d⌉ and m = ⌊2^w (2^l − d) / d⌋ + 1, with t the upper half of m·n,
//! n / d = (t + (n − t) / 2^min(l, 1)) / 2^max(l − 1, 0) for every n of w bits.

use std::marker::PhantomData;

/// A divisor, ready to be used on integers of `T`'s width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Divisor<T> {
    of: PhantomData<T>,
    /// m, by 32-bit halves.
    upper: u32,
    lower: u32,
    before: u32,
    after: u32,
    /// The divisor is larger than any number of the type: the quotient is 0.
    beyond: bool,
    /// The divisor is a power of two: the multiplier adds nothing.
    power: bool,
}

impl<T> Divisor<T> {
    /// Whether [`Divide::shift`] divides by it.
    pub(super) fn is_power_of_two(&self) -> bool {
        self.power
    }
}

/// Division of an integer type.
pub(super) trait Divide<T> {
    /// Towards zero.
    fn divide(self, by: Divisor<T>) -> Self;
    /// The same by a power of two that the type can hold.
    fn shift(self, by: Divisor<T>) -> Self;
}

macro_rules! divide {
    ($($type:ty, $signed:ty, $high:expr;)*) => {$(
        impl Divisor<$type> {
            /// Division by `by`, which is at least 1.
            pub(super) fn new(by: usize) -> Self {
                let by = by.max(1) as u128;
                let width = <$type>::BITS;
                let log = by.next_power_of_two().trailing_zeros();
                let beyond = by > <$type>::MAX.into();
                let rest = if beyond { 0 } else { (1 << log) - by };
                let multiplier = (rest << width) / by + 1;
                Divisor {
                    of: PhantomData,
                    upper: (multiplier >> 32) as u32,
                    lower: multiplier as u32,
                    before: log.min(1),
                    after: log.saturating_sub(1).min(width - 1),
                    beyond,
                    power: by.is_power_of_two() && !beyond,
                }
            }
        }
        impl Divide<$type> for $type {
            #[inline(always)]
            fn divide(self, by: Divisor<$type>) -> $type {
                let high = $high(self, by.upper, by.lower);
                let quotient = (high + ((self - high) >> by.before)) >> by.after;
                if by.beyond { 0 } else { quotient }
            }
            #[inline(always)]
            fn shift(self, by: Divisor<$type>) -> $type {
                self >> (by.before + by.after)
            }
        }
        impl Divide<$type> for $signed {
            #[inline(always)]
            fn divide(self, by: Divisor<$type>) -> $signed {
                let quotient = self.unsigned_abs().divide(by) as $signed;
                if self < 0 { quotient.wrapping_neg() } else { quotient }
            }
            #[inline(always)]
            fn shift(self, by: Divisor<$type>) -> $signed {
                // Shifting rounds down: a negative number is increased by the divisor less one.
                let (log, sign) = (by.before + by.after, self >> (<$type>::BITS - 1));
                self.wrapping_add(sign & !(-1 << log)) >> log
            }
        }
    )*};
}
divide! {
    u8, i8, |n, _, m| ((u16::from(n) * m as u16) >> 8) as u8;
    u32, i32, |n, _, m| ((u64::from(n) * u64::from(m)) >> 32) as u32;
    u64, i64, upper_half;
}

/// Upper half of n·m, by 32-bit halves, which vector units can multiply. A whole m would be
/// recognised as a product of 128 bits, which they cannot.
#[inline(always)]
fn upper_half(n: u64, upper: u32, lower: u32) -> u64 {
    let low = |x: u64| x & 0xffff_ffff;
    let (n1, n0, m1, m0) = (n >> 32, low(n), u64::from(upper), u64::from(lower));
    // No sum overflows: (2^32 − 1)² + 2·(2^32 − 1) = 2^64 − 1.
    let middle = n1 * m0 + ((n0 * m0) >> 32);
    let other = n0 * m1 + low(middle);
    n1 * m1 + (middle >> 32) + (other >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_by_every_number_of_ranks() {
        for by in (1..=300).chain([65536, 1 << 40, usize::MAX]) {
            let divisor = Divisor::<u8>::new(by);
            for n in 0..=255u8 {
                let (signed, by) = (n as i8, by as i128);
                let (quotient, of_signed) = (i128::from(n) / by, i128::from(signed) / by);
                assert_eq!(i128::from(n.divide(divisor)), quotient, "{n} / {by}");
                assert_eq!(i128::from(signed.divide(divisor)), of_signed, "{signed} / {by}");
                if divisor.is_power_of_two() {
                    assert_eq!(i128::from(n.shift(divisor)), quotient, "{n} / {by}");
                    assert_eq!(i128::from(signed.shift(divisor)), of_signed, "{signed} / {by}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn as_the_processor_divides(
            n in prop_oneof![any::<u64>(), Just(u64::MAX), Just(1u64 << 63), 0u64..9],
            by in prop_oneof![1usize..5000, any::<usize>().prop_map(|d| d.max(1)), (0u32..64).prop_map(|b| 1usize << b)],
            near in -2i64..3, times in any::<u32>(),
        ) {
            let multiple = (by as u64).wrapping_mul(u64::from(times)).wrapping_add_signed(near);
            for n in [n, multiple] {
                macro_rules! check {
                    ($unsigned:ty, $signed:ty) => {
                        let divisor = Divisor::<$unsigned>::new(by);
                        let (n, signed) = (n as $unsigned, n as $signed);
                        let quotient = i128::from(n) / by as i128;
                        let of_signed = i128::from(signed) / by as i128;
                        prop_assert_eq!(i128::from(n.divide(divisor)), quotient);
                        prop_assert_eq!(i128::from(signed.divide(divisor)), of_signed);
                        if divisor.is_power_of_two() {
                            prop_assert_eq!(i128::from(n.shift(divisor)), quotient);
                            prop_assert_eq!(i128::from(signed.shift(divisor)), of_signed);
                        }
                    };
                }
                check!(u64, i64);
                check!(u32, i32);
            }
        }
    }
}
