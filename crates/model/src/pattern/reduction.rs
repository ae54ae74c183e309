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

/// How a type's numbers are made.
#[derive(Debug, Clone, Copy)]
enum Class {
    /// Wrapping integers.
    Integer,
    /// Floats of at most 32 bits, by way of f32.
    Narrow(FloatFormat),
    /// binary64.
    Double(FloatFormat),
}

/// The reduction of one pattern, ready to be asked for elements.
#[derive(Debug, Clone, Copy)]
pub struct Reduction {
    pattern: Pattern,
    class: Class,
    /// Ranks that contribute to a sum at one element: k above.
    contributors: usize,
    /// M above; for integers unused.
    largest_step: u64,
}

/// Elements as a function of a draw and the lower index bits. A value of its own for every kind of
/// element, so that a loop over it has nothing in it but arithmetic, and vectorises.
pub(super) trait Elements: Copy {
    /// Bits of one element, in the lowest bits.
    fn at(self, draw: Draw, low: u32) -> u64;
}

/// Something that works through many elements.
pub(super) trait Visitor {
    /// What comes of it.
    type Out;
    /// Works through `elements`.
    fn visit(self, elements: impl Elements) -> Self::Out;
}

/// A visitor of one element.
struct One(u64, u64);

impl Visitor for One {
    type Out = u64;
    fn visit(self, elements: impl Elements) -> u64 {
        let One(seed, index) = self;
        elements.at(Draw::new(seed, (index >> 32) as u32), index as u32)
    }
}

/// u(`high`) − u(`low`), times `times`: a contribution to a sum, or the sum itself.
#[derive(Clone, Copy)]
struct Difference<C> {
    class: C,
    high: u32,
    low: u32,
    times: i32,
}

/// Integers use their whole range.
impl Elements for Difference<()> {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let difference = draw.wide(self.high, low).wrapping_sub(draw.wide(self.low, low));
        difference.wrapping_mul(self.times as u64)
    }
}

/// Floats of at most 32 bits, and the number of levels.
impl Elements for Difference<(FloatFormat, u32)> {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let (format, levels) = self.class;
        let level = |lane| below(draw.word(lane, low), u64::from(levels)) as i32;
        let difference = (level(self.high) - level(self.low)) * self.times;
        u64::from(format.encode_exact_by_f32(difference, exponent(draw, low)))
    }
}

/// binary64, and the number of levels.
impl Elements for Difference<(FloatFormat, u64)> {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let (format, levels) = self.class;
        let level = |lane| below_wide(draw.wide(lane, low), levels) as i64;
        let difference = (level(self.high) - level(self.low)) * i64::from(self.times);
        format.encode_exact(difference, exponent(draw, low))
    }
}

/// Everything else about a reduction, by the name of its method.
macro_rules! elements {
    ($($name:ident($reduction:ident, $draw:ident, $low:ident $(, $field:ident)*) = $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name { reduction: Reduction, $($field: usize,)* }

        impl Elements for $name {
            #[inline(always)]
            fn at(self, $draw: Draw, $low: u32) -> u64 {
                let $name { reduction: $reduction, $($field,)* } = self;
                $body
            }
        }
    )*};
}
elements! {
    Rotated(r, draw, low, rank, times) = r.rotated(draw, rank, low, times as i32);
    Factor(r, draw, low, rank) = r.factor(draw, r.place(draw, rank, low), low);
    Largest(r, draw, low, rank) = r.ranked(draw, r.place(draw, rank, low), low, 1);
    Smallest(r, draw, low, rank) = r.ranked(draw, r.place(draw, rank, low), low, -1);
    Product(r, draw, low) = r.product(draw, low);
    Maximum(r, draw, low) = r.winner(draw, low, 1);
    Minimum(r, draw, low) = r.winner(draw, low, -1);
    Average(r, draw, low) = r.average(draw, low);
}

impl Reduction {
    /// Prepares the pattern's constants.
    pub fn new(pattern: Pattern) -> Reduction {
        let ranks = pattern.ranks.max(1);
        let (class, contributors, largest_step) = match FloatFormat::of(pattern.datatype) {
            None => (Class::Integer, ranks, 0),
            Some(format) => {
                let bound = 1u64 << format.significant_bits();
                let contributors = ranks.min((2 * bound - 1).min(1 << 20) as usize);
                let step = 2 * bound / (contributors as u64 + 1);
                let double = pattern.datatype == DataType::Double;
                let class = if double { Class::Double(format) } else { Class::Narrow(format) };
                (class, contributors, step)
            }
        };
        Reduction { pattern, class, contributors, largest_step }
    }

    /// What `rank` contributes to element `index`: bits of the type, in the lowest bits.
    pub fn contribution(&self, rank: usize, index: u64) -> u64 {
        self.visit_contributions(rank, One(self.pattern.seed, index))
    }

    /// The exact result at element `index`: bits of the type, in the lowest bits.
    pub fn result(&self, index: u64) -> u64 {
        self.visit_results(One(self.pattern.seed, index))
    }

    /// Hands a visitor what `rank` contributes.
    pub(super) fn visit_contributions<V: Visitor>(&self, rank: usize, visitor: V) -> V::Out {
        let reduction = *self;
        let times = match self.pattern.op {
            ReduceOp::Mulsum => 2 / usize::from(ReduceOp::premul_scalar(rank)),
            _ => 1,
        };
        match self.pattern.op {
            ReduceOp::Prod => visitor.visit(Factor { reduction, rank }),
            ReduceOp::Max => visitor.visit(Largest { reduction, rank }),
            ReduceOp::Min => visitor.visit(Smallest { reduction, rank }),
            _ if self.contributors != self.pattern.ranks => {
                visitor.visit(Rotated { reduction, rank, times })
            }
            _ => self.visit_difference(rank as u32 + 1, rank as u32, times as i32, visitor),
        }
    }

    /// Hands a visitor the exact results.
    pub(super) fn visit_results<V: Visitor>(&self, visitor: V) -> V::Out {
        let reduction = *self;
        match self.pattern.op {
            ReduceOp::Prod => visitor.visit(Product { reduction }),
            ReduceOp::Max => visitor.visit(Maximum { reduction }),
            ReduceOp::Min => visitor.visit(Minimum { reduction }),
            ReduceOp::Avg => visitor.visit(Average { reduction }),
            ReduceOp::Sum => self.visit_difference(self.contributors as u32, 0, 1, visitor),
            ReduceOp::Mulsum => self.visit_difference(self.contributors as u32, 0, 2, visitor),
        }
    }

    fn visit_difference<V: Visitor>(&self, high: u32, low: u32, times: i32, visitor: V) -> V::Out {
        let levels = self.largest_step + 1;
        match self.class {
            Class::Integer => visitor.visit(Difference { class: (), high, low, times }),
            Class::Narrow(format) => {
                visitor.visit(Difference { class: (format, levels as u32), high, low, times })
            }
            Class::Double(format) => {
                visitor.visit(Difference { class: (format, levels), high, low, times })
            }
        }
    }

    /// A contribution to a sum where not every rank contributes: small floats, many ranks.
    #[inline(always)]
    fn rotated(&self, draw: Draw, rank: usize, low: u32, times: i32) -> u64 {
        let place = self.place(draw, rank, low);
        let Class::Narrow(format) = self.class else { return 0 };
        if place as usize >= self.contributors {
            return 0;
        }
        let step = self.level(draw, place + 1, low) - self.level(draw, place, low);
        u64::from(format.encode_exact_by_f32(step * times, exponent(draw, low)))
    }

    /// Where `rank` stands at this element. Rotates so that no rank is always the odd one out.
    #[inline(always)]
    fn place(&self, draw: Draw, rank: usize, low: u32) -> u32 {
        let ranks = self.pattern.ranks.max(1) as u64;
        let rotated = rank as u64 + below(draw.word(ROTATION, low), ranks);
        (if rotated >= ranks { rotated - ranks } else { rotated }) as u32
    }

    #[inline(always)]
    fn level(&self, draw: Draw, place: u32, low: u32) -> i32 {
        below(draw.word(place, low), self.largest_step + 1) as i32
    }

    #[inline(always)]
    fn wide_level(&self, draw: Draw, place: u32, low: u32) -> i64 {
        below_wide(draw.wide(place, low), self.largest_step + 1) as i64
    }

    /// Integers: the wrapped sum in the type, divided towards zero. Floats: the exact sum divided,
    /// rounded once, to nearest even.
    #[inline(always)]
    fn average(&self, draw: Draw, low: u32) -> u64 {
        let ranks = self.pattern.ranks.max(1) as u64;
        let last = self.contributors as u32;
        let (sum, format) = match self.class {
            Class::Integer => {
                let sum = draw.wide(last, low).wrapping_sub(draw.wide(0, low));
                return integer_quotient(self.pattern.datatype, sum, ranks);
            }
            Class::Narrow(format) => {
                (i64::from(self.level(draw, last, low) - self.level(draw, 0, low)), format)
            }
            Class::Double(format) => {
                (self.wide_level(draw, last, low) - self.wide_level(draw, 0, low), format)
            }
        };
        format.encode_ratio(sum, ranks, exponent(draw, low))
    }

    #[inline(always)]
    fn factor(&self, draw: Draw, place: u32, low: u32) -> u64 {
        match self.class {
            Class::Integer if (place as usize) < FACTORS => draw.wide(place, low) | 1,
            Class::Integer => 1,
            Class::Narrow(format) | Class::Double(format) => {
                let (value, exponent) = float_factor(draw, place, low, format);
                format.encode_exact(value, exponent)
            }
        }
    }

    #[inline(always)]
    fn product(&self, draw: Draw, low: u32) -> u64 {
        let places = self.pattern.ranks.clamp(1, FACTORS) as u32;
        match self.class {
            Class::Integer => (0..places)
                .fold(1u64, |product, place| product.wrapping_mul(self.factor(draw, place, low))),
            Class::Narrow(format) | Class::Double(format) => {
                let (value, exponent) = (0..places).fold((1, 0), |(value, exponent), place| {
                    let (v, e) = float_factor(draw, place, low, format);
                    (value * v, exponent + e)
                });
                format.encode_exact(value, exponent)
            }
        }
    }

    /// Half the numbers of the type: ordinals lie from −half to +half.
    #[inline(always)]
    fn half_range(&self) -> i64 {
        match self.class {
            Class::Narrow(format) | Class::Double(format) => format.largest as i64,
            Class::Integer => (1i64 << (8 * self.pattern.datatype.bytes() - 1)).wrapping_sub(1),
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
        let lowest = -self.half_range();
        let room = winner.wrapping_sub(lowest) as u64;
        let loser = lowest.wrapping_add(below_wide(draw.wide(place, low), room) as i64);
        self.at_ordinal(direction * if place == 0 { winner } else { loser })
    }

    #[inline(always)]
    fn winner(&self, draw: Draw, low: u32, direction: i64) -> u64 {
        self.at_ordinal(direction * self.winner_ordinal(draw, low))
    }

    #[inline(always)]
    fn at_ordinal(&self, ordinal: i64) -> u64 {
        match (self.class, self.pattern.datatype) {
            (Class::Narrow(format) | Class::Double(format), _) => format.from_ordinal(ordinal),
            (_, DataType::Uint8) => (ordinal as u64) ^ 1 << 7,
            (_, DataType::Uint32) => (ordinal as u64) ^ 1 << 31,
            (_, DataType::Uint64) => (ordinal as u64) ^ 1 << 63,
            _ => ordinal as u64,
        }
    }
}

/// The exponent e above.
#[inline(always)]
fn exponent(draw: Draw, low: u32) -> i32 {
    (draw.word(EXPONENT, low) >> 30) as i32 - 1
}

/// The factor at a place, as (signed integer, exponent of two).
#[inline(always)]
fn float_factor(draw: Draw, place: u32, low: u32, format: FloatFormat) -> (i64, i32) {
    match place as usize {
        0 => {
            let largest = (1 << format.significant_bits()) - 1;
            let value = 1 + below_wide(draw.wide(place, low), largest) as i64;
            let sign = 1 - 2 * i64::from(draw.word(WINNER, low) & 1);
            (sign * value, exponent(draw, low))
        }
        p if p < FACTORS => {
            let bits = draw.word(place, low);
            (1 - 2 * i64::from(bits & 1), (bits >> 31) as i32)
        }
        _ => (1, 0),
    }
}

/// `sum`, wrapped to the type, over `ranks`, towards zero.
#[inline(always)]
fn integer_quotient(datatype: DataType, sum: u64, ranks: u64) -> u64 {
    match datatype {
        DataType::Int8 => (i64::from(sum as i8) / ranks as i64) as u64,
        DataType::Int32 => (i64::from(sum as i32) / ranks as i64) as u64,
        DataType::Int64 => (sum as i64 / ranks as i64) as u64,
        DataType::Uint8 => u64::from(sum as u8) / ranks,
        DataType::Uint32 => u64::from(sum as u32) / ranks,
        _ => sum / ranks,
    }
}

#[cfg(test)]
mod tests;
