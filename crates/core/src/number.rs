//! Floating-point formats as integers: encode, decode, order, exact division, without host rounding.
//! Not fast bulk conversion: the kernels of `busbw-shm` have their own loops over these tables.

use crate::DataType;

/// A binary floating-point format of at most 64 bits, sign first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatFormat {
    /// Exponent bits.
    pub exponent_bits: u32,
    /// Stored mantissa bits (without the hidden one).
    pub mantissa_bits: u32,
    /// Bits of the largest finite positive value.
    pub largest: u64,
}

impl FloatFormat {
    /// The format of a floating-point type; none for integers.
    pub const fn of(datatype: DataType) -> Option<FloatFormat> {
        let (exponent_bits, mantissa_bits, largest) = match datatype {
            DataType::Half => (5, 10, 0x7bff),
            DataType::Float => (8, 23, 0x7f7f_ffff),
            DataType::Double => (11, 52, 0x7fef_ffff_ffff_ffff),
            DataType::Bfloat16 => (8, 7, 0x7f7f),
            // OCP OFP8 1.0, table 1: E4M3 gives up infinity, S.1111.111 is its only NaN.
            DataType::F8e4m3 => (4, 3, 0x7e),
            DataType::F8e5m2 => (5, 2, 0x7b),
            _ => return None,
        };
        Some(FloatFormat { exponent_bits, mantissa_bits, largest })
    }

    /// Total bits.
    pub const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    /// Significant bits: integers of at most this many bits are exact.
    pub(crate) const fn significant_bits(self) -> u32 {
        self.mantissa_bits + 1
    }

    /// What the stored exponent is more than the exponent; 2^(1 − bias) is the smallest normal number.
    pub(crate) const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// Bits of `value` × 2^`exponent`, which must be a normal number of the format or 0. Bits
    /// beyond the format's precision are cut: callers pass integers that fit.
    #[inline(always)]
    pub const fn encode_exact(self, value: i64, exponent: i32) -> u64 {
        if value == 0 {
            return 0;
        }
        let magnitude = value.unsigned_abs();
        let top = 63 - magnitude.leading_zeros();
        let aligned = if top <= self.mantissa_bits {
            magnitude << (self.mantissa_bits - top)
        } else {
            magnitude >> (top - self.mantissa_bits)
        };
        let mantissa = aligned & ((1 << self.mantissa_bits) - 1);
        let biased = (top as i32 + exponent + self.bias()) as u64;
        let sign = if value < 0 { self.sign() } else { 0 };
        sign | biased << self.mantissa_bits | mantissa
    }

    /// Bits of `value`, which must be 0 or a normal number of the format with at most its significant
    /// bits; for formats within f32. This form vectorises.
    #[inline(always)]
    pub(crate) const fn encode_exact_f32(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let magnitude = (bits & 0x7fff_ffff) >> (23 - self.mantissa_bits);
        let rebias = ((127 - self.bias()) as u32) << self.mantissa_bits;
        let sign = bits >> 31 << (self.bits() - 1);
        if magnitude == 0 { 0 } else { sign | magnitude.wrapping_sub(rebias) }
    }

    /// Bits of `numerator` × 2^`exponent` / `denominator`, rounded to nearest, ties to even;
    /// subnormals and a signed zero included, values beyond the largest become the largest.
    pub(crate) fn encode_ratio(self, numerator: i64, denominator: u64, exponent: i32) -> u64 {
        if numerator == 0 || denominator == 0 {
            return 0;
        }
        let sign = if numerator < 0 { self.sign() } else { 0 };
        // As many quotient bits as fit: more than any mantissa has, whatever the denominator; what
        // is cut off stays as a sticky bit.
        let magnitude = u128::from(numerator.unsigned_abs());
        let shift = magnitude.leading_zeros() - 1;
        let wide = magnitude << shift;
        let quotient = wide / u128::from(denominator);
        let remainder = wide % u128::from(denominator) != 0;
        sign | self.round(quotient, remainder, exponent - shift as i32)
    }

    /// Bits of the positive value `magnitude` × 2^`exponent` (and a little more when `sticky`),
    /// to nearest even.
    fn round(self, magnitude: u128, sticky: bool, exponent: i32) -> u64 {
        if magnitude == 0 {
            return 0;
        }
        let top = 127 - magnitude.leading_zeros() as i32;
        let smallest_normal = 1 - self.bias();
        // The weight of the last mantissa bit, no finer than that of the subnormals.
        let unit = (top + exponent).max(smallest_normal) - self.mantissa_bits as i32;
        let cut = unit - exponent;
        let (kept, half, below) = if cut <= 0 {
            (magnitude << -cut, false, sticky)
        } else if cut > 127 {
            (0, false, true)
        } else {
            let half = magnitude >> (cut - 1) & 1 == 1;
            let below = magnitude & ((1 << (cut - 1)) - 1) != 0 || sticky;
            (magnitude >> cut, half, below)
        };
        let rounded = kept as u64 + u64::from(half && (below || kept & 1 == 1));
        // Adding the significand to the exponent field carries into it where rounding overflows,
        // and gives a subnormal where the hidden bit is not set.
        let field = (unit + self.mantissa_bits as i32 - smallest_normal) as u64;
        ((field << self.mantissa_bits) + rounded).min(self.largest)
    }

    /// Value of `bits`, exact (an f64 holds every number of the formats up to binary64).
    pub fn decode(self, bits: u64) -> f64 {
        let mantissa = bits & ((1 << self.mantissa_bits) - 1);
        let field = bits >> self.mantissa_bits & ((1 << self.exponent_bits) - 1);
        let sign = if bits & self.sign() != 0 { -1.0 } else { 1.0 };
        if bits & (self.sign() - 1) > self.largest {
            let infinity = mantissa == 0 && self.mantissa_bits != 3;
            return if infinity { sign * f64::INFINITY } else { f64::NAN };
        }
        let (significand, exponent) = if field == 0 {
            (mantissa, 1 - self.bias())
        } else {
            (mantissa | 1 << self.mantissa_bits, field as i32 - self.bias())
        };
        // Two steps: 2^-1074 alone underflows to the smallest subnormal of f64, which is exact.
        let scaled = significand as f64 * 2f64.powi(-(self.mantissa_bits as i32));
        sign * scaled * 2f64.powi(exponent)
    }

    /// Bits of an f32, to nearest even, values beyond the largest become the largest
    /// (as CUDA's `__NV_SATFINITE` conversions), NaN becomes the format's NaN.
    #[cfg(test)]
    pub(crate) fn encode_f32(self, value: f32) -> u64 {
        let bits = u64::from(value.to_bits());
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        if value.is_nan() {
            return sign | (self.sign() - 1);
        }
        if value.is_infinite() {
            return sign | self.largest;
        }
        let field = bits >> 23 & 0xff;
        let mantissa = bits & 0x7f_ffff;
        let (significand, exponent) =
            if field == 0 { (mantissa, -149) } else { (mantissa | 1 << 23, field as i32 - 150) };
        sign | self.round(u128::from(significand), false, exponent)
    }

    /// Bits of the number at place `ordinal` of the format's finite numbers in rising order, where
    /// 0 is +0, 1 the smallest positive and -1 the largest negative number (-0 has no place).
    #[inline(always)]
    pub const fn from_ordinal(self, ordinal: i64) -> u64 {
        if ordinal < 0 { self.sign() | ordinal.unsigned_abs() } else { ordinal as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn formats() -> impl Iterator<Item = FloatFormat> {
        DataType::ALL.into_iter().filter_map(FloatFormat::of)
    }

    fn small(datatype: DataType) -> FloatFormat {
        FloatFormat::of(datatype).unwrap()
    }

    #[test]
    fn known_values() {
        let e4m3 = small(DataType::F8e4m3);
        assert_eq!(e4m3.decode(0x7e), 448.0);
        assert_eq!(e4m3.decode(0x01), 2f64.powi(-9));
        assert!(e4m3.decode(0x7f).is_nan());
        let e5m2 = small(DataType::F8e5m2);
        assert_eq!(e5m2.decode(0x7b), 57344.0);
        assert_eq!(e5m2.decode(0x7c), f64::INFINITY);
        assert_eq!(small(DataType::Half).decode(0x3c00), 1.0);
        assert_eq!(small(DataType::Bfloat16).decode(0x3f80), 1.0);
        assert_eq!(small(DataType::Half).decode(0x0001), 2f64.powi(-24));
    }

    #[test]
    fn every_small_number_survives_the_round_trip() {
        for format in formats().filter(|f| f.bits() <= 16) {
            for bits in 0..1u64 << format.bits() {
                let value = format.decode(bits);
                if value.is_finite() {
                    assert_eq!(format.encode_f32(value as f32), bits, "{format:?} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn ordinals_rise() {
        for format in formats() {
            let values = [-3, -2, -1, 0, 1, 2, 3].map(|o| format.decode(format.from_ordinal(o)));
            assert!(values.is_sorted_by(|a, b| a < b), "{format:?} {values:?}");
        }
    }

    proptest! {
        #[test]
        fn ratios_round_as_the_host_does(n in -(1i64 << 24)..1 << 24, d in 1u64..1 << 24) {
            // Both operands are exact in f32, so IEEE division is the correctly rounded ratio.
            let f32s = small(DataType::Float);
            prop_assert_eq!(f32s.encode_ratio(n, d, 0), u64::from((n as f32 / d as f32).to_bits()) & if n == 0 { 0 } else { !0 });
            let f64s = small(DataType::Double);
            prop_assert_eq!(f64s.encode_ratio(n, d, 0), if n == 0 { 0 } else { (n as f64 / d as f64).to_bits() });
        }

        #[test]
        fn small_formats_take_the_nearest_number(bits in any::<u32>(), which in 0usize..4) {
            let format = formats().filter(|f| f.bits() <= 16).nth(which).unwrap();
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let limit = format.decode(format.largest);
            let got = format.decode(format.encode_f32(value));
            if f64::from(value).abs() >= limit {
                prop_assert_eq!(got.abs(), limit);
            } else {
                let ordinal = (format.encode_f32(value.abs())) as i64;
                let target = f64::from(value.abs());
                let distance = (format.decode(ordinal as u64) - target).abs();
                for neighbour in [ordinal - 1, ordinal + 1] {
                    if neighbour >= 0 && neighbour as u64 <= format.largest {
                        let other = (format.decode(neighbour as u64) - target).abs();
                        prop_assert!(distance < other || (distance == other && ordinal % 2 == 0));
                    }
                }
            }
        }

        #[test]
        fn integers_are_exact(value in -2048i64..=2048, exponent in -2i32..3, which in 0usize..6) {
            let format = formats().nth(which).unwrap();
            prop_assume!(value.unsigned_abs() <= 1 << format.significant_bits());
            let bits = format.encode_exact(value, exponent);
            prop_assert_eq!(format.decode(bits), value as f64 * 2f64.powi(exponent));
            if format.bits() <= 32 {
                let value = value as f32 * 2f32.powi(exponent);
                prop_assert_eq!(u64::from(format.encode_exact_f32(value)), bits);
            }
        }
    }
}
