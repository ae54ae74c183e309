//! FP8 E4M3 and E5M2: both are binary16 with fewer bits, but for a scale and the largest number.
//! Not arithmetic: `narrow` does it in f32.
//!
//! E5M2 is the upper byte of binary16. E4M3 without its sign, moved to where binary16 has its
//! lowest exponent bits, is 2⁻⁸ of its value there, subnormals included.

use super::{
    half::{self, convert},
    isa::{GROUP, Isa},
    narrow::Narrow,
};

/// An FP8 number: `CUT` mantissa bits fewer than binary16, finite numbers up to `LARGEST`.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Fp8<const CUT: u32, const LARGEST: u8>(u8);

/// OCP FP8 E4M3: no infinity, one NaN a sign.
pub(super) type E4m3 = Fp8<7, 0x7e>;

/// OCP FP8 E5M2.
pub(super) type E5m2 = Fp8<8, 0x7b>;

/// The NaN that results, with either sign.
const NAN: u8 = 0x7f;

impl<const CUT: u32, const LARGEST: u8> Fp8<CUT, LARGEST> {
    /// The largest magnitude that is not NaN: infinity, where there is one.
    const LAST: u8 = if CUT == 7 { LARGEST } else { LARGEST + 1 };

    #[inline(always)]
    fn to_binary16(self) -> u16 {
        if CUT == 8 {
            return u16::from(self.0) << 8;
        }
        // The copies of the sign, but for the first, make way for binary16's highest exponent bit.
        let bits = (i16::from(self.0 as i8) << CUT) as u16 & 0xbfff;
        if self.0 & 0x7f > Self::LAST { bits | 0x7e00 } else { bits }
    }

    /// To nearest even; beyond the largest number lies the largest (as CUDA's `__NV_SATFINITE`).
    #[inline(always)]
    fn from_binary16(bits: u16) -> Self {
        let largest = u16::from(LARGEST) << CUT;
        // Negative numbers are the larger ones without a sign, and less than all others with one.
        let limited = (bits.min(largest | 0x8000) as i16).min(largest as i16) as u16;
        let rounded = (limited + (1 << (CUT - 1)) - 1 + (limited >> CUT & 1)) >> CUT;
        let nan = if bits & 0x7fff > 0x7c00 { u16::from(NAN) } else { 0 };
        if CUT == 8 {
            return Fp8((rounded | nan) as u8);
        }
        // The sign is one bit further up than where it belongs.
        Fp8((rounded | nan | limited >> 8 & 0x80) as u8)
    }
}

impl<const CUT: u32, const LARGEST: u8> Narrow for Fp8<CUT, LARGEST> {
    const ZERO: Self = Fp8(0);
    const SCALE: f32 = if CUT == 7 { 256.0 } else { 1.0 };

    #[inline(always)]
    fn widen<I: Isa>(narrow: &[Self; GROUP]) -> [f32; GROUP] {
        I::widen(&convert(narrow, 0, Self::to_binary16))
    }

    /// By way of binary16, which holds sums and products of these exactly enough that rounding
    /// twice gives the same (11 ≥ 2·4 + 2); a test tries every pair.
    #[inline(always)]
    fn round<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        convert(&I::round(wide), Self::ZERO, Self::from_binary16)
    }

    #[inline(always)]
    fn round_any<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        convert(wide, Self::ZERO, |wide| {
            let magnitude = half::magnitude::<CUT>(wide, u16::from(LARGEST), u16::from(NAN));
            Fp8(magnitude as u8 | (wide.to_bits() >> 24) as u8 & 0x80)
        })
    }

    #[inline(always)]
    fn less(self, other: Self) -> bool {
        // Sign and magnitude to a signed number: both zeros become 0.
        let number = |bits: u8| {
            let sign = bits as i8 >> 7;
            ((bits & 0x7f) as i8 ^ sign) - sign
        };
        let is_number = |bits: u8| bits & 0x7f <= Self::LAST;
        (number(self.0) < number(other.0)) & is_number(self.0) & is_number(other.0)
    }
}
