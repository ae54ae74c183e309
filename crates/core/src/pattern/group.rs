//! Eight bytes of elements, computed side by side without carries between elements.
//! Not what the elements are.

/// How a group of 8 bytes is divided into elements, the first in the lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    /// Bits of an element: 8, 16, 32 or 64.
    pub(super) bits: u32,
}

impl Fields {
    /// Elements of so many bytes.
    pub(super) const fn of_bytes(bytes: usize) -> Fields {
        Fields { bits: 8 * bytes as u32 }
    }

    /// The same bits in every element.
    #[inline(always)]
    pub(super) const fn all(self, bits: u64) -> u64 {
        bits * (u64::MAX / (u64::MAX >> (64 - self.bits)))
    }

    /// The lowest bit of every element.
    #[inline(always)]
    pub(super) const fn ones(self) -> u64 {
        self.all(1)
    }

    /// The highest bit of every element.
    #[inline(always)]
    pub(super) const fn tops(self) -> u64 {
        self.all(1 << (self.bits - 1))
    }

    /// The lowest bit of every element, moved from its bit `bit`.
    #[inline(always)]
    pub(super) const fn bit(self, group: u64, bit: u32) -> u64 {
        group >> bit & self.ones()
    }

    /// Every bit of the elements whose lowest is set in `lowest`, which has no others.
    #[inline(always)]
    pub(super) const fn spread(self, lowest: u64) -> u64 {
        (lowest << (self.bits - 1) << 1).wrapping_sub(lowest)
    }

    /// a + b, wrapping.
    #[inline(always)]
    pub(super) const fn add(self, a: u64, b: u64) -> u64 {
        let tops = self.tops();
        ((a & !tops) + (b & !tops)) ^ ((a ^ b) & tops)
    }

    /// a − b, wrapping.
    #[inline(always)]
    pub(super) const fn subtract(self, a: u64, b: u64) -> u64 {
        let tops = self.tops();
        ((a | tops) - (b & !tops)) ^ ((a ^ !b) & tops)
    }

    /// −a where the lowest bit is set in `negative`, which has no others; elsewhere a.
    #[inline(always)]
    pub(super) const fn negate(self, a: u64, negative: u64) -> u64 {
        self.add(a ^ self.spread(negative), negative)
    }
}

/// A group of `$bits` an element: what `$element` is for `$at`, the place of an element's lowest bit.
/// Written out, and not a closure: loops over groups vectorise only with neither inside.
macro_rules! each {
    ($bits:expr, $at:ident => $element:expr) => {{
        macro_rules! element {
            ($place:literal) => {{
                let $at: u32 = $place;
                let element: u64 = $element;
                element << $place
            }};
        }
        match $bits {
            64 => element!(0),
            32 => element!(0) | element!(32),
            16 => element!(0) | element!(16) | element!(32) | element!(48),
            _ => {
                (element!(0) | element!(8) | element!(16) | element!(24))
                    | (element!(32) | element!(40) | element!(48) | element!(56))
            }
        }
    }};
}
pub(super) use each;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_by_one(bits: u32, f: impl Fn(u64, u32) -> u64) -> u64 {
        let mask = u64::MAX >> (64 - bits);
        (0..64 / bits).fold(0, |group, at| group | (f(mask, at * bits) & mask) << (at * bits))
    }

    proptest! {
        #[test]
        fn nothing_is_carried(a in any::<u64>(), b in any::<u64>(), width in 0usize..4) {
            let fields = Fields::of_bytes(1 << width);
            let bits = fields.bits;
            prop_assert_eq!(fields.add(a, b), one_by_one(bits, |_, at| (a >> at).wrapping_add(b >> at)));
            prop_assert_eq!(fields.subtract(a, b), one_by_one(bits, |_, at| (a >> at).wrapping_sub(b >> at)));
            let negative = b & fields.ones();
            let sign = |at: u32| 0u64.wrapping_sub(negative >> at & 1);
            prop_assert_eq!(fields.spread(negative), one_by_one(bits, |_, at| sign(at)));
            prop_assert_eq!(fields.negate(a, negative), one_by_one(bits, |_, at| {
                if sign(at) == 0 { a >> at } else { (a >> at).wrapping_neg() }
            }));
            prop_assert_eq!(each!(bits, at => a >> at & (u64::MAX >> (64 - bits))), a);
        }
    }
}
