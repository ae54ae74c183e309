//! Sums and averages of floats: integers of the type's precision times a power of two.
//! Not their other reductions (`bits`).
//!
//! Drawn bits become a float by setting the exponent of the number whose last bit counts 1; what is
//! more than that number is the level. A device does that faster than it converts integers.

use super::{Draw, Elements, Levels, ROTATION_LANE, SECOND_VALUE_LANE, VALUE_LANE, mask};
use crate::{
    number::FloatFormat,
    pattern::group::{Fields, each},
};

/// 2^23 of f32 and 2^52 of binary64.
const UNIT: u32 = 0x4b00_0000;
const WIDE_UNIT: u64 = 0x4330_0000_0000_0000;

/// Bits of a level of 8-bit floats at most: their differences stand in a table of 8.
const CODED_BITS: u32 = 2;

/// Ranks that contribute to a sum at one element, k of the module above, and how many bits u has.
pub(super) fn levels(format: FloatFormat, ranks: u32) -> (u32, u32) {
    let bound = 1u64 << format.significant_bits();
    let contributors = u64::from(ranks).min(2 * bound - 1);
    let bits = (2 * bound / (contributors + 1) + 1).ilog2();
    let most = if format.bits() == 8 { CODED_BITS } else { summand_bits(format) };
    (contributors as u32, bits.min(most))
}

/// Bits of a level x − 1 where x and y may add up to B.
fn summand_bits(format: FloatFormat) -> u32 {
    format.significant_bits() - 1
}

/// The exponent e above, less its smallest value.
#[inline(always)]
fn exponent(spot: u32) -> u32 {
    spot >> 23 & 3
}

/// What contributions to an average, and averages, are made of.
pub(super) trait Averages: Copy {
    /// x where `is_x`, y where `is_y` and their sum where both are all ones, from the draws for x
    /// and for y.
    fn share(self, x: u64, is_x: u64, y: u64, is_y: u64, spot: u32) -> u64;
    /// Their sum, divided.
    fn average(self, x: u64, y: u64, spot: u32) -> u64;
}

/// A contribution to an average, or the average itself.
#[derive(Clone, Copy)]
pub(super) struct Average<A> {
    pub(super) of: A,
    pub(super) rank: Option<u32>,
    pub(super) ranks: u32,
}

impl<A: Averages> Elements for Average<A> {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let (x, y, spot) =
            (draw.group(VALUE_LANE, low), draw.group(SECOND_VALUE_LANE, low), draw.spot(low));
        let Some(rank) = self.rank else { return self.of.average(x, y, spot) };
        let first = draw.below(ROTATION_LANE, low, self.ranks);
        let second = if first + 1 == self.ranks { 0 } else { first + 1 };
        self.of.share(x, mask(rank == first), y, mask(rank == second), spot)
    }
}

/// Floats of 16 and 32 bits, by way of f32.
#[derive(Clone, Copy)]
pub(super) struct Narrow<const BITS: u32> {
    format: FloatFormat,
    /// Bits of a level.
    level: u32,
    /// Biased exponent of the smallest scale.
    smallest: u32,
    /// Ranks, for averages.
    divisor: u64,
}

impl<const BITS: u32> Narrow<BITS> {
    const FIELDS: Fields = Fields { bits: BITS };

    pub(super) fn sums(format: FloatFormat, level_bits: u32, times: u32) -> Self {
        Narrow { format, level: (1 << level_bits) - 1, smallest: 125 + times, divisor: 1 }
    }

    pub(super) fn averages(format: FloatFormat, ranks: u32) -> Self {
        let level = (1 << summand_bits(format)) - 1;
        Narrow { format, level, smallest: 127, divisor: u64::from(ranks) }
    }

    /// The level of the element whose lowest bit is `at`, more than 2^23.
    #[inline(always)]
    fn drawn(self, group: u64, at: u32) -> f32 {
        f32::from_bits((group >> at) as u32 & self.level | UNIT)
    }

    /// The level and 1 more.
    #[inline(always)]
    fn number(self, group: u64, at: u32) -> f32 {
        self.drawn(group, at) - 8_388_607.0
    }

    /// Bits of a number of the format.
    #[inline(always)]
    fn encode(self, value: f32) -> u64 {
        match BITS {
            32 => u64::from(value.to_bits()),
            _ => u64::from(self.format.encode_exact_f32(value)),
        }
    }

    #[inline(always)]
    fn scale(self, spot: u32) -> f32 {
        f32::from_bits((exponent(spot) + self.smallest) << 23)
    }
}

impl<const BITS: u32> Levels for Narrow<BITS> {
    #[inline(always)]
    fn between(self, low: u64, high: u64, spot: u32) -> u64 {
        let scale = self.scale(spot);
        each!(BITS, at => {
            self.encode((self.drawn(high, at) - self.drawn(low, at)) * scale)
        })
    }
}

impl<const BITS: u32> Averages for Narrow<BITS> {
    #[inline(always)]
    fn share(self, x: u64, is_x: u64, y: u64, is_y: u64, spot: u32) -> u64 {
        let scale = self.scale(spot);
        let part = |value: f32, is: u64| f32::from_bits(value.to_bits() & is as u32);
        let numbers = each!(BITS, at => {
            let sum = part(self.number(x, at), is_x) + part(self.number(y, at), is_y);
            self.encode(sum * scale)
        });
        numbers | x & Self::FIELDS.tops() & (is_x | is_y)
    }

    #[inline(always)]
    fn average(self, x: u64, y: u64, spot: u32) -> u64 {
        let numbers = each!(BITS, at => {
            let sum = self.number(x, at) + self.number(y, at);
            self.format.encode_ratio(sum as i64, self.divisor, exponent(spot) as i32)
        });
        numbers | x & Self::FIELDS.tops()
    }
}

/// binary64.
#[derive(Clone, Copy)]
pub(super) struct Double {
    format: FloatFormat,
    level: u64,
    smallest: u32,
    divisor: u64,
}

impl Double {
    pub(super) fn sums(format: FloatFormat, level_bits: u32, times: u32) -> Double {
        Double { format, level: (1 << level_bits) - 1, smallest: 1021 + times, divisor: 1 }
    }

    pub(super) fn averages(format: FloatFormat, ranks: u32) -> Double {
        let level = (1 << summand_bits(format)) - 1;
        Double { format, level, smallest: 1023, divisor: u64::from(ranks) }
    }

    #[inline(always)]
    fn drawn(self, group: u64) -> f64 {
        f64::from_bits(group & self.level | WIDE_UNIT)
    }

    #[inline(always)]
    fn number(self, group: u64) -> f64 {
        self.drawn(group) - 4_503_599_627_370_495.0
    }

    #[inline(always)]
    fn scale(self, spot: u32) -> f64 {
        f64::from_bits(u64::from(exponent(spot) + self.smallest) << 52)
    }
}

impl Levels for Double {
    #[inline(always)]
    fn between(self, low: u64, high: u64, spot: u32) -> u64 {
        ((self.drawn(high) - self.drawn(low)) * self.scale(spot)).to_bits()
    }
}

impl Averages for Double {
    #[inline(always)]
    fn share(self, x: u64, is_x: u64, y: u64, is_y: u64, spot: u32) -> u64 {
        let part = |value: f64, is: u64| f64::from_bits(value.to_bits() & is);
        let sum = part(self.number(x), is_x) + part(self.number(y), is_y);
        (sum * self.scale(spot)).to_bits() | x & 1 << 63 & (is_x | is_y)
    }

    #[inline(always)]
    fn average(self, x: u64, y: u64, spot: u32) -> u64 {
        let sum = self.number(x) + self.number(y);
        self.format.encode_ratio(sum as i64, self.divisor, exponent(spot) as i32) | x & 1 << 63
    }
}

/// Floats of 8 bits, from a table of 8 numbers. A level is the lowest bits of 4 drawn bits: those of
/// the upper half, for the elements of a group in turn.
#[derive(Clone, Copy)]
pub(super) struct Coded {
    /// The table, times the smallest scale, and what the next scale adds.
    codes: u64,
    step: u64,
    /// The scales there are, less 1: none where numbers may be subnormal.
    exponents: u32,
    level: u32,
}

/// The lowest bit of every 4, and the bit that counts 4.
const PLACES: u32 = 0x1111_1111;
const MIDDLE: u32 = 4 * PLACES;

impl Coded {
    /// The table holds D·`times` at place 4 + D.
    pub(super) fn sums(format: FloatFormat, level_bits: u32, times: u32) -> Coded {
        let code = |at: u32| format.encode_exact((i64::from(at / 8) - 4) * i64::from(times), -1);
        let step = |at: u32| u64::from(at != 32) << format.mantissa_bits;
        Coded {
            codes: each!(8, at => code(at)),
            step: each!(8, at => step(at)),
            exponents: 3,
            level: PLACES * ((1 << level_bits) - 1),
        }
    }

    /// The table holds x, divided where averages are made, at the place x − 1.
    pub(super) fn averages(format: FloatFormat, rank: Option<u32>, ranks: u32) -> Coded {
        let divisor = if rank.is_none() { u64::from(ranks) } else { 1 };
        let code = |at| format.encode_ratio(i64::from(at / 8) + 1, divisor, 0);
        Coded {
            codes: each!(8, at => code(at)),
            step: Fields { bits: 8 }.all(1 << format.mantissa_bits),
            exponents: if ranks <= 1 << format.bias() { 3 } else { 0 },
            level: 7 * PLACES,
        }
    }

    #[inline(always)]
    fn level(self, group: u64) -> u32 {
        (group >> 32) as u32 & self.level
    }

    #[inline(always)]
    fn look_up(self, places: u32, spot: u32) -> u64 {
        let scale = exponent(spot) & self.exponents;
        let codes = self.codes.wrapping_add(self.step.wrapping_mul(u64::from(scale)));
        each!(8, at => codes >> (8 * (places >> (at / 2) & 7)) & 0xff)
    }
}

impl Levels for Coded {
    #[inline(always)]
    fn between(self, low: u64, high: u64, spot: u32) -> u64 {
        self.look_up((self.level(high) | MIDDLE) - self.level(low), spot)
    }
}

/// y is 0: of so few numbers, what is left where x is missing would be too near.
impl Averages for Coded {
    #[inline(always)]
    fn share(self, x: u64, is_x: u64, y: u64, _: u64, spot: u32) -> u64 {
        self.average(x, y, spot) & is_x
    }

    #[inline(always)]
    fn average(self, x: u64, _: u64, spot: u32) -> u64 {
        self.look_up(self.level(x), spot) | x & Fields { bits: 8 }.tops()
    }
}
