//! Contributions whose reduction is known exactly, in any order and in the type's own precision.
//! Not tolerant: every partial result is representable, so one wrong bit is wrong.
//!
//! **Sum and avg.** With u(0..k) drawn from 0..=M, the rank at place p contributes
//! D(p) = u(p+1) − u(p), so the sum telescopes to u(k) − u(0): one subtraction, whatever the number
//! of ranks. The positive contributions add up to at most (k+1)M/2, and so do the negative ones;
//! with M = 2B/(k+1), B = 2^(significant bits), every partial sum is an integer of at most B and
//! therefore exact. Where ranks outnumber 2B−1, only k = 2B−1 of them contribute at one element and
//! the rest are 0; the places rotate with the index, so that every rank contributes somewhere.
//! All of it is scaled by 2^e, e from −1 to 2. Integers use their whole range and wrap.
//! **mulsum.** Rank r's scalar is 1 or 2; it contributes 2D or D, so that the sum is 2(u(k) − u(0)).
//! **prod.** One rank holds an integer of the type's precision, two hold ± powers of two, the others
//! 1; integers: three odd numbers, wrapping. **min, max.** One rank holds the winner, the others lie
//! on the other side of it, spread over the type's finite numbers in their order.

use super::{
    Pattern,
    draw::{Draw, below, below_wide},
};
use crate::{DataType, ReduceOp, number::FloatFormat};

/// Lanes of a draw beyond those of the places.
const ROTATION: u32 = 0x4000_0000;
const EXPONENT: u32 = 0x4000_0001;
const WINNER: u32 = 0x4000_0002;

/// Places that hold anything but 1 in a product.
const FACTORS: usize = 3;

/// The reduction of one pattern, ready to be asked for elements.
#[derive(Debug, Clone, Copy)]
pub struct Reduction {
    pattern: Pattern,
    format: Option<FloatFormat>,
    /// Ranks that contribute to a sum at one element: k above.
    contributors: usize,
    /// M above; for integers unused.
    largest_step: u64,
}

impl Reduction {
    /// Prepares the pattern's constants.
    pub fn new(pattern: Pattern) -> Reduction {
        let format = FloatFormat::of(pattern.datatype);
        let ranks = pattern.ranks.max(1);
        let (contributors, largest_step) = match format {
            None => (ranks, 0),
            Some(format) => {
                let bound = 1u64 << format.significant_bits();
                let contributors = ranks.min((2 * bound - 1).min(1 << 20) as usize);
                (contributors, 2 * bound / (contributors as u64 + 1))
            }
        };
        Reduction { pattern, format, contributors, largest_step }
    }

    /// What `rank` contributes to element `index`: bits of the type, in the lowest bits.
    #[inline(always)]
    pub fn contribution(&self, rank: usize, index: u64) -> u64 {
        let draw = Draw::new(self.pattern.seed, (index >> 32) as u32);
        let low = index as u32;
        match self.pattern.op {
            ReduceOp::Sum | ReduceOp::Avg => self.step(draw, rank, low, 1),
            ReduceOp::Mulsum => {
                self.step(draw, rank, low, 2 / i64::from(ReduceOp::premul_scalar(rank)))
            }
            ReduceOp::Prod => self.factor(draw, self.place(draw, rank, low), low),
            ReduceOp::Max => self.ranked(draw, self.place(draw, rank, low), low, 1),
            ReduceOp::Min => self.ranked(draw, self.place(draw, rank, low), low, -1),
        }
    }

    /// The exact result at element `index`: bits of the type, in the lowest bits.
    #[inline(always)]
    pub fn result(&self, index: u64) -> u64 {
        let draw = Draw::new(self.pattern.seed, (index >> 32) as u32);
        let low = index as u32;
        match self.pattern.op {
            ReduceOp::Sum => self.total(draw, low, 1),
            ReduceOp::Mulsum => self.total(draw, low, 2),
            ReduceOp::Avg => self.average(draw, low),
            ReduceOp::Prod => self.product(draw, low),
            ReduceOp::Max => self.winner(draw, low, 1),
            ReduceOp::Min => self.winner(draw, low, -1),
        }
    }

    /// Where `rank` stands at this element. Rotates so that no rank is always the odd one out.
    #[inline(always)]
    fn place(&self, draw: Draw, rank: usize, low: u32) -> u32 {
        let ranks = self.pattern.ranks.max(1) as u64;
        let rotated = rank as u64 + below(draw.word(ROTATION, low), ranks);
        (if rotated >= ranks { rotated - ranks } else { rotated }) as u32
    }

    #[inline(always)]
    fn level(&self, draw: Draw, place: u32, low: u32) -> i64 {
        if self.largest_step < 1 << 31 {
            below(draw.word(place, low), self.largest_step + 1) as i64
        } else {
            below_wide(draw.wide(place, low), self.largest_step + 1) as i64
        }
    }

    #[inline(always)]
    fn exponent(draw: Draw, low: u32) -> i32 {
        (draw.word(EXPONENT, low) >> 30) as i32 - 1
    }

    #[inline(always)]
    fn step(&self, draw: Draw, rank: usize, low: u32, times: i64) -> u64 {
        let place = if self.contributors == self.pattern.ranks {
            rank as u32
        } else {
            self.place(draw, rank, low)
        };
        match self.format {
            None => draw
                .wide(place + 1, low)
                .wrapping_sub(draw.wide(place, low))
                .wrapping_mul(times as u64),
            Some(_) if place as usize >= self.contributors => 0,
            Some(format) => {
                let step = self.level(draw, place + 1, low) - self.level(draw, place, low);
                format.encode_exact(step * times, Self::exponent(draw, low))
            }
        }
    }

    #[inline(always)]
    fn total(&self, draw: Draw, low: u32, times: i64) -> u64 {
        let last = self.contributors as u32;
        match self.format {
            None => draw.wide(last, low).wrapping_sub(draw.wide(0, low)).wrapping_mul(times as u64),
            Some(format) => {
                let sum = self.level(draw, last, low) - self.level(draw, 0, low);
                format.encode_exact(sum * times, Self::exponent(draw, low))
            }
        }
    }

    /// Integers: the wrapped sum in the type, divided towards zero. Floats: the exact sum divided,
    /// rounded once, to nearest even.
    #[inline(always)]
    fn average(&self, draw: Draw, low: u32) -> u64 {
        let ranks = self.pattern.ranks.max(1) as u64;
        match self.format {
            None => {
                let sum = self.total(draw, low, 1);
                match self.pattern.datatype {
                    DataType::Int8 => (i64::from(sum as i8) / ranks as i64) as u64,
                    DataType::Int32 => (i64::from(sum as i32) / ranks as i64) as u64,
                    DataType::Int64 => (sum as i64 / ranks as i64) as u64,
                    DataType::Uint8 => u64::from(sum as u8) / ranks,
                    DataType::Uint32 => u64::from(sum as u32) / ranks,
                    _ => sum / ranks,
                }
            }
            Some(format) => {
                let sum =
                    self.level(draw, self.contributors as u32, low) - self.level(draw, 0, low);
                format.encode_ratio(sum, ranks, Self::exponent(draw, low))
            }
        }
    }

    /// The factor at a place, as (signed integer, exponent of two).
    #[inline(always)]
    fn float_factor(draw: Draw, place: u32, low: u32, format: FloatFormat) -> (i64, i32) {
        match place as usize {
            0 => {
                let largest = (1 << format.significant_bits()) - 1;
                let value = 1 + below_wide(draw.wide(place, low), largest) as i64;
                let sign = 1 - 2 * i64::from(draw.word(WINNER, low) & 1);
                (sign * value, Self::exponent(draw, low))
            }
            p if p < FACTORS => {
                let bits = draw.word(place, low);
                (1 - 2 * i64::from(bits & 1), (bits >> 31) as i32)
            }
            _ => (1, 0),
        }
    }

    #[inline(always)]
    fn factor(&self, draw: Draw, place: u32, low: u32) -> u64 {
        match self.format {
            None if (place as usize) < FACTORS => draw.wide(place, low) | 1,
            None => 1,
            Some(format) => {
                let (value, exponent) = Self::float_factor(draw, place, low, format);
                format.encode_exact(value, exponent)
            }
        }
    }

    #[inline(always)]
    fn product(&self, draw: Draw, low: u32) -> u64 {
        let places = self.pattern.ranks.clamp(1, FACTORS) as u32;
        match self.format {
            None => (0..places)
                .fold(1u64, |product, place| product.wrapping_mul(self.factor(draw, place, low))),
            Some(format) => {
                let (value, exponent) = (0..places).fold((1, 0), |(value, exponent), place| {
                    let (v, e) = Self::float_factor(draw, place, low, format);
                    (value * v, exponent + e)
                });
                format.encode_exact(value, exponent)
            }
        }
    }

    /// Half the numbers of the type: ordinals lie from −half to +half.
    #[inline(always)]
    fn half_range(&self) -> i64 {
        match self.format {
            Some(format) => format.largest as i64,
            None => (1i64 << (8 * self.pattern.datatype.bytes() - 1)).wrapping_sub(1),
        }
    }

    /// The winner's ordinal, at least one above the lowest; `direction` −1 mirrors it for min.
    #[inline(always)]
    fn winner_ordinal(&self, draw: Draw, low: u32) -> i64 {
        let half = self.half_range();
        // 2·half fits u64; the sum stays within ±half.
        let above = 1 + below_wide(draw.wide(WINNER, low), 2 * half as u64);
        (-half).wrapping_add(above as i64)
    }

    #[inline(always)]
    fn ranked(&self, draw: Draw, place: u32, low: u32, direction: i64) -> u64 {
        let winner = self.winner_ordinal(draw, low);
        let ordinal = if place == 0 {
            winner
        } else {
            let lowest = -self.half_range();
            let room = winner.wrapping_sub(lowest) as u64;
            lowest.wrapping_add(below_wide(draw.wide(place, low), room) as i64)
        };
        self.at_ordinal(direction * ordinal)
    }

    #[inline(always)]
    fn winner(&self, draw: Draw, low: u32, direction: i64) -> u64 {
        self.at_ordinal(direction * self.winner_ordinal(draw, low))
    }

    #[inline(always)]
    fn at_ordinal(&self, ordinal: i64) -> u64 {
        match (self.format, self.pattern.datatype) {
            (Some(format), _) => format.from_ordinal(ordinal),
            (None, DataType::Uint8) => (ordinal as u64) ^ 1 << 7,
            (None, DataType::Uint32) => (ordinal as u64) ^ 1 << 31,
            (None, DataType::Uint64) => (ordinal as u64) ^ 1 << 63,
            (None, _) => ordinal as u64,
        }
    }
}

#[cfg(test)]
mod tests;
