//! Reductions whose elements are made by bits and integers: all of integers, and min, max and prod
//! of floats. Not sums and averages of floats (`floats`).

use super::{Draw, Elements, Levels, VALUE_LANE, holds, mask};
use crate::{number::FloatFormat, pattern::group::Fields};

/// Levels of wrapping integers: any.
#[derive(Clone, Copy)]
pub(super) struct IntegerSum {
    fields: Fields,
    /// What is left of a difference before it is doubled or not.
    keep: u64,
    times: u32,
}

impl IntegerSum {
    pub(super) fn new(fields: Fields, times: u32) -> IntegerSum {
        let keep = if times == 2 { !fields.tops() } else { u64::MAX };
        IntegerSum { fields, keep, times }
    }
}

impl Levels for IntegerSum {
    #[inline(always)]
    fn between(self, low: u64, high: u64, _: u32) -> u64 {
        (self.fields.subtract(high, low) & self.keep) << (self.times - 1)
    }
}

/// Averages of integers.
#[derive(Clone, Copy)]
pub(super) struct IntegerAverage {
    fields: Fields,
    /// Bits of q in an element, and r behind them.
    quotients: u64,
    rests: u64,
    quotient_bits: u32,
    /// Lowest bits of elements that may be negative: none of unsigned ones.
    signs: u64,
    rank: Option<u32>,
    ranks: u32,
}

impl IntegerAverage {
    pub(super) fn new(
        fields: Fields,
        signed: bool,
        rank: Option<u32>,
        ranks: u32,
    ) -> IntegerAverage {
        // q·n + r < 2^magnitude.
        let magnitude = fields.bits - u32::from(signed);
        let quotient_bits = magnitude.saturating_sub(ranks.next_power_of_two().ilog2());
        let rest_bits = ranks.ilog2().min(magnitude);
        let lowest = |bits: u32| fields.all((1u128 << bits).wrapping_sub(1) as u64);
        IntegerAverage {
            fields,
            quotients: lowest(quotient_bits),
            rests: lowest(rest_bits),
            quotient_bits: quotient_bits.min(fields.bits - 1),
            signs: if signed { fields.ones() } else { 0 },
            rank,
            ranks,
        }
    }
}

impl Elements for IntegerAverage {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let fields = self.fields;
        let value = draw.group(VALUE_LANE, low);
        let quotient = value & self.quotients;
        let negative = value >> (fields.bits - 1) & self.signs;
        let Some(rank) = self.rank else { return fields.negate(quotient, negative) };
        let next = if rank + 1 == self.ranks { 0 } else { rank + 1 };
        let step = fields.subtract(draw.group(next, low), draw.group(rank, low));
        let rest = value >> self.quotient_bits & self.rests;
        let sum = quotient.wrapping_mul(u64::from(self.ranks)) + rest;
        let held = mask(holds(draw, low, rank, self.ranks));
        fields.add(step, fields.negate(sum, negative) & held)
    }
}

/// Products.
#[derive(Clone, Copy)]
pub(super) struct Product {
    fields: Fields,
    /// What the value takes from a draw, and what it has besides.
    keep: u64,
    set: u64,
    /// 1, and what makes −1 and minus a value of them.
    one: u64,
    flip: u64,
    rank: Option<u32>,
    ranks: u32,
}

impl Product {
    pub(super) fn new(
        fields: Fields,
        format: Option<FloatFormat>,
        rank: Option<u32>,
        ranks: u32,
    ) -> Product {
        let ones = fields.ones();
        let (keep, set, one, flip) = match format {
            // −x is all of an odd x's bits but the lowest inverted.
            None => (u64::MAX, ones, ones, !ones),
            Some(format) => {
                // Any significand, times 2^-3 to 2^0.
                let unit = 1 << format.mantissa_bits;
                let one = format.encode_exact(1, 0);
                (
                    fields.all(4 * unit - 1),
                    fields.all(one - 3 * unit),
                    fields.all(one),
                    fields.tops(),
                )
            }
        };
        Product { fields, keep, set, one, flip, rank, ranks }
    }
}

impl Elements for Product {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let (from, to) = self.rank.map_or((0, self.ranks), |rank| (rank, rank + 1));
        let signs = self.fields.bit(draw.group(from, low) ^ draw.group(to, low), 0);
        let value = draw.group(VALUE_LANE, low) & self.keep | self.set;
        let held = mask(self.rank.is_none_or(|rank| holds(draw, low, rank, self.ranks)));
        (value & held | self.one & !held) ^ self.fields.spread(signs) & self.flip
    }
}

/// Maxima and minima.
#[derive(Clone, Copy)]
pub(super) struct Extreme {
    fields: Fields,
    /// Places in the order of the type: bits of an element that they use. Those of floats are half
    /// of all finite numbers, less than 2 in magnitude (−2 is one of them).
    places: u64,
    /// What turns places round for min, and what makes integers of places.
    mirror: u64,
    float: bool,
    rank: Option<u32>,
    ranks: u32,
}

impl Extreme {
    pub(super) fn new(
        fields: Fields,
        format: Option<FloatFormat>,
        signed: bool,
        min: bool,
        rank: Option<u32>,
        ranks: u32,
    ) -> Extreme {
        let float = format.is_some();
        let places = if float { !fields.tops() } else { u64::MAX };
        let middle = match (float, signed) {
            (true, _) => fields.all(1 << (fields.bits - 2)),
            (false, true) => fields.tops(),
            (false, false) => 0,
        };
        Extreme { fields, places, mirror: mask(min) & places ^ middle, float, rank, ranks }
    }

    /// The numbers at places, which lack `mirror`.
    #[inline(always)]
    fn numbers(self, places: u64) -> u64 {
        let numbers = places ^ self.mirror;
        if !self.float {
            return numbers;
        }
        // Floats below 0 are all bits of their distance but the sign's turned round, and 1 more.
        let negative = self.fields.bit(numbers, self.fields.bits - 2);
        (numbers ^ self.fields.spread(negative)) + negative
    }
}

impl Elements for Extreme {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let ones = self.fields.ones();
        let winner = (draw.group(VALUE_LANE, low) | ones) & self.places;
        let Some(rank) = self.rank else { return self.numbers(winner) };
        let held = mask(holds(draw, low, rank, self.ranks));
        self.numbers(winner & (draw.group(rank, low) & !ones | held))
    }
}
