//! FP8 E4M3 and E5M2: both are binary16 with fewer bits, but for a scale and the largest number.
//! Not arithmetic: `narrow` does it in f32.
//!
//! E5M2 is the upper byte of binary16. E4M3 without its sign, moved to where binary16 has its
//! lowest exponent bits, is 2⁻⁸ of its value there, subnormals included.

use super::{
    half::{self, convert},
    isa::{GROUP, Isa},
    narrow::Narrow,
    pairs::{apart, together},
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

    /// The binary16 number whose upper byte is that of `word`; E4M3's NaN as if it were a number.
    #[inline(always)]
    fn binary16(word: u16) -> u16 {
        if CUT == 8 {
            return word & 0xff00;
        }
        // The copy of the sign makes way for binary16's highest exponent bit.
        (word as i16 >> 1) as u16 & 0xbf80
    }

    /// From the bytes of a binary16 number to the nearest, ties to even; beyond the largest number lies
    /// the largest (as CUDA's `__NV_SATFINITE`). In bytes, of which a vector holds the most.
    #[inline(always)]
    fn nearest(upper: u8, lower: u8) -> Self {
        let magnitude = if CUT == 8 {
            let up = lower | upper & 1 > 0x80;
            let rounded = ((upper & 0x7f) + u8::from(up)).min(LARGEST);
            if upper & 0x7f > Self::LAST { NAN } else { rounded }
        } else {
            // The last bit that is kept is the highest of the lower byte. Rounded to that bit, the
            // byte has it, has not, or carries into the upper one.
            let carried = upper.wrapping_add(u8::from(lower >= 0xc0));
            let last = lower.wrapping_sub(0x41) < 0xc0 - 0x41;
            (carried << 1 | u8::from(last)).min(LARGEST)
        };
        Fp8(upper & 0x80 | magnitude)
    }

    #[inline(always)]
    fn is_number(self) -> bool {
        self.0 & 0x7f <= Self::LAST
    }
}

impl<const CUT: u32, const LARGEST: u8> Narrow for Fp8<CUT, LARGEST> {
    const ZERO: Self = Fp8(0);
    const SCALE: f32 = if CUT == 7 { 256.0 } else { 1.0 };
    const MAGNITUDES: Option<[Self; GROUP]> = Some({
        let mut all = [Fp8(0); GROUP];
        let mut bits = 0;
        while bits < GROUP {
            all[bits] = Fp8(bits as u8);
            bits += 1;
        }
        all
    });

    #[inline(always)]
    fn widen<I: Isa>(narrow: &[Self; GROUP]) -> [f32; GROUP] {
        let word = |[lower, upper]: [Self; 2]| u16::from_le_bytes([lower.0, upper.0]);
        I::widen(&apart(narrow, 0, word, |word| Self::binary16(word << 8), Self::binary16))
    }

    /// By way of binary16, which holds sums and products of these exactly enough that rounding
    /// twice gives the same (11 ≥ 2·4 + 2); a test tries every pair.
    #[inline(always)]
    fn round<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        let bits = I::round(wide);
        let upper = together(&bits, 0, |a, b| a >> 8 | b & 0xff00, u16::to_le_bytes);
        let lower = together(&bits, 0, |a, b| a & 0xff | b << 8, u16::to_le_bytes);
        let mut narrow = [Self::ZERO; GROUP];
        for ((to, upper), lower) in narrow.iter_mut().zip(&upper).zip(&lower) {
            *to = Self::nearest(*upper, *lower);
        }
        narrow
    }

    #[inline(always)]
    fn round_any<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        let bits = convert(wide, 0, |wide| {
            let magnitude = half::magnitude::<CUT>(wide, u16::from(LARGEST), u16::from(NAN));
            magnitude | (wide.to_bits() >> 24) as u16 & 0x80
        });
        together(&bits, Self::ZERO, |a, b| a | b << 8, |word| word.to_le_bytes().map(Fp8))
    }

    /// E4M3's NaN, which alone is not the same in binary16.
    #[inline(always)]
    fn with_nan(result: &[Self; GROUP], a: &[Self; GROUP], b: &[Self; GROUP]) -> [Self; GROUP] {
        if CUT == 8 {
            return *result;
        }
        let mut narrow = [Self::ZERO; GROUP];
        for (((to, result), a), b) in narrow.iter_mut().zip(result).zip(a).zip(b) {
            *to = if a.is_number() & b.is_number() { *result } else { Fp8(NAN) };
        }
        narrow
    }

    #[inline(always)]
    fn look_up<I: Isa>(table: &[Self; GROUP], at: &[Self; GROUP]) -> [Self; GROUP] {
        let found = I::look_up(&convert(table, 0, |x| x.0), &convert(at, 0, |x| x.0));
        let mut signed = [Self::ZERO; GROUP];
        for ((to, found), at) in signed.iter_mut().zip(&found).zip(at) {
            *to = Fp8(found | at.0 & 0x80);
        }
        signed
    }

    #[inline(always)]
    fn less(self, other: Self) -> bool {
        // Sign and magnitude to a signed number: both zeros become 0.
        let number = |bits: u8| {
            let sign = bits as i8 >> 7;
            ((bits & 0x7f) as i8 ^ sign) - sign
        };
        (number(self.0) < number(other.0)) & self.is_number() & other.is_number()
    }
}
