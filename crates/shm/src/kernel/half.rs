//! binary16 and bfloat16: conversions from and to f32.
//! Not arithmetic: `narrow` does it in f32.

use super::{
    isa::{GROUP, Isa},
    narrow::Narrow,
    pairs::{apart, together},
};

/// IEEE binary16, by the processor's own conversions where it has them.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Binary16(u16);

/// bfloat16: the upper half of an f32.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Brain16(u16);

impl Brain16 {
    /// Two neighbours as a word.
    #[inline(always)]
    fn word(pair: [Brain16; 2]) -> u32 {
        u32::from(pair[0].0) | u32::from(pair[1].0) << 16
    }

    /// The halves of a word of two neighbours.
    #[inline(always)]
    fn pair(word: u32) -> [u16; 2] {
        [word as u16, (word >> 16) as u16]
    }
}

/// Whether a < b for floats of 16 bits whose largest magnitude is `infinity`.
#[inline(always)]
fn less(a: u16, b: u16, infinity: u16) -> bool {
    // Sign and magnitude to a signed number: both zeros become 0.
    let number = |bits: u16| {
        let sign = bits as i16 >> 15;
        ((bits & 0x7fff) as i16 ^ sign) - sign
    };
    let is_number = |bits: u16| bits & 0x7fff <= infinity;
    (number(a) < number(b)) & is_number(a) & is_number(b)
}

impl Narrow for Binary16 {
    const ZERO: Self = Binary16(0);

    #[inline(always)]
    fn widen<I: Isa>(narrow: &[Self; GROUP]) -> [f32; GROUP] {
        I::widen(&convert(narrow, 0, |x| x.0))
    }

    #[inline(always)]
    fn round<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        convert(&I::round(wide), Self::ZERO, Binary16)
    }

    #[inline(always)]
    fn round_any<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        Self::round::<I>(wide)
    }

    #[inline(always)]
    fn less(self, other: Self) -> bool {
        less(self.0, other.0, 0x7c00)
    }
}

impl Narrow for Brain16 {
    const ZERO: Self = Brain16(0);

    #[inline(always)]
    fn widen<I: Isa>(narrow: &[Self; GROUP]) -> [f32; GROUP] {
        let upper = |word| f32::from_bits(word & 0xffff_0000);
        apart(narrow, 0.0, Brain16::word, |word| f32::from_bits(word << 16), upper)
    }

    #[inline(always)]
    fn round<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        let bits = convert(wide, 0, f32::to_bits);
        let kept = together(&bits, 0, |a, b| a >> 16 | b & 0xffff_0000, Brain16::pair);
        let cut = together(&bits, 0, |a, b| a & 0xffff | b << 16, Brain16::pair);
        let mut narrow = [Self::ZERO; GROUP];
        for ((to, kept), cut) in narrow.iter_mut().zip(&kept).zip(&cut) {
            // To nearest even; it carries into the exponent as it must.
            let rounded = kept.wrapping_add(u16::from(cut | kept & 1 > 0x8000));
            // What steps make of NaN shows in the kept part: there NaN came from, and quiet it is.
            *to = Brain16(if kept & 0x7fff > 0x7f80 { 0x7fc0 } else { rounded });
        }
        narrow
    }

    #[inline(always)]
    fn round_any<I: Isa>(wide: &[f32; GROUP]) -> [Self; GROUP] {
        Self::round::<I>(wide)
    }

    #[inline(always)]
    fn less(self, other: Self) -> bool {
        less(self.0, other.0, 0x7f80)
    }
}

/// `step` of every number of a group.
#[inline(always)]
pub(super) fn convert<T: Copy, U: Copy>(
    from: &[T; GROUP],
    blank: U,
    step: impl Fn(T) -> U,
) -> [U; GROUP] {
    let mut to = [blank; GROUP];
    for (to, from) in to.iter_mut().zip(from) {
        *to = step(*from);
    }
    to
}

/// A binary16 number in f32, by integer arithmetic.
#[inline(always)]
pub(super) fn widen(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    // Subnormals by a conversion from an integer, not from a subnormal f32: those may be slow.
    let subnormal = (magnitude as i32 as f32 * f32::from_bits(SMALLEST)).to_bits();
    let normal = (magnitude << 13) + (112 << 23);
    let special = magnitude << 13 | 0xff << 23;
    let value = match magnitude {
        0..0x0400 => subnormal,
        0x0400..0x7c00 => normal,
        _ => special,
    };
    f32::from_bits(sign | value)
}

/// f32 to binary16, by integer arithmetic.
#[inline(always)]
pub(super) fn round(wide: f32) -> u16 {
    magnitude::<0>(wide, 0x7c00, 0x7e00) | (wide.to_bits() >> 16) as u16 & 0x8000
}

/// The smallest positive binary16 number, 2⁻²⁴, in f32.
const SMALLEST: u32 = (127 - 24) << 23;

/// The magnitude of `wide` as binary16 with `CUT` fewer bits of mantissa, to nearest even, at the lower
/// end of the result; beyond `largest` it is `largest`, NaN is `nan`.
#[inline(always)]
pub(super) fn magnitude<const CUT: u32>(wide: f32, largest: u16, nan: u16) -> u16 {
    let magnitude = wide.to_bits() & 0x7fff_ffff;
    let cut = 13 + CUT;
    let odd = magnitude >> cut & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add((1 << (cut - 1)) - 1 + odd) >> cut;
    // Adding a number whose last bit weighs as much as the smallest subnormal rounds to those.
    let aligned = (127 + CUT - 1) << 23;
    let sum = f32::from_bits(magnitude) + f32::from_bits(aligned);
    let subnormal = sum.to_bits().wrapping_sub(aligned);
    let rounded = if magnitude < 113 << 23 { subnormal } else { normal };
    let limited = rounded.min(u32::from(largest)) as u16;
    if magnitude > 0xff << 23 { nan } else { limited }
}
