//! Contributions whose reduction is known exactly, in any order and in the type's own precision.
//! Not tolerant: every partial result is representable, so one wrong bit is wrong.
//!
//! Everything is drawn for a group of 8 bytes at once ([`super::draw`]), and an element takes its
//! bits of that.
//!
//! **Sum.** With u(0..k) drawn from 0..=M, the rank at place p contributes D(p) = u(p+1) − u(p), so
//! the sum telescopes to u(k) − u(0): one subtraction, whatever the number of ranks. The positive
//! contributions add up to at most (k+1)M/2, and so do the negative ones; with M ≤ 2B/(k+1), B =
//! 2^(significant bits), every partial sum is an integer of at most B and therefore exact. M + 1 is
//! a power of two, so that u is some of the drawn bits. Where ranks outnumber 2B−1, only k = 2B−1 of
//! them contribute at one group and the rest are 0; the places rotate with the group, so that every
//! rank contributes somewhere. All of it is scaled by 2^e, e from −1 to 2, the same for a group.
//! Integers use their whole range and wrap.
//! **mulsum.** Rank r's scalar is 1 or 2; it contributes 2D or D, so that the sum is 2(u(k) − u(0)).
//! **avg of integers.** As sum, but u(k) = u(0), and one rank, which changes with the group, adds
//! ±(q·n + r), 0 ≤ r < n, to its contribution; the sum is that, and ±q the average.
//! **avg of floats.** One rank contributes ±x, the next one ±y of the same sign, the others 0: x and
//! y are 1 to B/2, times 2^e, e from 0 to 3, so that the sum is exact. Who it is changes with the
//! group. Of 8-bit floats x is 1 to 8 and y 0, since x + y is too near to x there. Nothing cancels,
//! for the sake of libraries that round x/n and y/n before they add:
//! `tests` shows that they come within two numbers of the sum divided and rounded once.
//! **prod.** Every rank contributes 1 or −1, and one of them, which changes with the group, an odd
//! integer or a float of any significand instead, times that sign.
//! **min, max.** One rank, which changes with the group, holds the winner; the others hold
//! the winner and some of their own bits, in the order of the type's numbers: less in every case.

use super::{Pattern, draw::Draw, group::Fields};
use crate::{DataType, ReduceOp, number::FloatFormat};

mod bits;
mod floats;

use bits::{Extreme, IntegerAverage, IntegerSum, Product};
use floats::{Average, Coded, Double, Narrow};

/// Lanes of a draw beyond those of the digits: which rank differs from the others, and the value it
/// has.
const ROTATION_LANE: u32 = 0x4000_0000;
const VALUE_LANE: u32 = 0x4000_0001;
const SECOND_VALUE_LANE: u32 = 0x4000_0002;

/// The reduction of one pattern, ready to compute elements.
#[derive(Debug, Clone, Copy)]
pub struct Reduction {
    pattern: Pattern,
    ranks: u32,
    fields: Fields,
}

/// Elements as a function of a draw and the lower half of a group's index. A value of its own for
/// every kind of element, so that a loop over it has nothing in it but arithmetic, and vectorises.
pub(super) trait Elements: Copy {
    /// The group's 8 bytes, the first element in the lowest bits.
    fn at(self, draw: Draw, low: u32) -> u64;
}

/// A consumer of many elements.
pub(super) trait Visitor {
    /// Its result.
    type Out;
    /// Processes `elements`.
    fn visit(self, elements: impl Elements) -> Self::Out;
}

/// A visitor of one element: its seed, its index, and how groups are divided into elements.
struct One(u64, u64, Fields);

impl Visitor for One {
    type Out = u64;
    fn visit(self, elements: impl Elements) -> u64 {
        let One(seed, index, fields) = self;
        let in_group = u64::from(64 / fields.bits);
        let group = index / in_group;
        let bits = elements.at(Draw::new(seed, (group >> 32) as u32), group as u32);
        bits >> (index % in_group * u64::from(fields.bits)) & (u64::MAX >> (64 - fields.bits))
    }
}

/// What a contribution to a sum is made of: the numbers between two levels.
trait Levels: Copy {
    /// u(`high`) − u(`low`) of every element, from the draws for either.
    fn between(self, low: u64, high: u64, spot: u32) -> u64;
}

/// A contribution to a sum where every rank contributes, or the sum itself: between two places.
#[derive(Clone, Copy)]
struct Sum<L>(L, u32, u32);

impl<L: Levels> Elements for Sum<L> {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let Sum(levels, from, to) = self;
        levels.between(draw.group(from, low), draw.group(to, low), draw.spot(low))
    }
}

/// A contribution to a sum where not every rank contributes: small floats, many ranks.
#[derive(Clone, Copy)]
struct Rotated<L> {
    levels: L,
    rank: u32,
    ranks: u32,
    contributors: u32,
}

impl<L: Levels> Elements for Rotated<L> {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        let rotated = self.rank + draw.below(ROTATION_LANE, low, self.ranks);
        let place = if rotated >= self.ranks { rotated - self.ranks } else { rotated };
        let next = place + u32::from(place < self.contributors);
        self.levels.between(draw.group(place, low), draw.group(next, low), draw.spot(low))
    }
}

/// Whether averages of `datatype` over this number of ranks are within two representable numbers
/// even where every contribution is multiplied by 1/n, rounded to the type, before anything is
/// added: where 1/n is a normal number. For subnormal ones its rounding error alone is up to a
/// third of it.
pub fn averages_within_two(datatype: DataType, ranks: usize) -> bool {
    FloatFormat::of(datatype).is_none_or(|format| ranks <= 1 << (format.bias() - 1).min(20))
}

/// Whether `rank` is the one of all `ranks` that differs from the others at a group.
#[inline(always)]
fn holds(draw: Draw, low: u32, rank: u32, ranks: u32) -> bool {
    draw.below(ROTATION_LANE, low, ranks) == rank
}

/// All bits or none.
#[inline(always)]
fn mask(there: bool) -> u64 {
    0u64.wrapping_sub(u64::from(there))
}

impl Reduction {
    /// Computes the constants of the pattern.
    pub fn new(pattern: Pattern) -> Reduction {
        let fields = Fields::of_bytes(pattern.datatype.bytes());
        Reduction { pattern, ranks: pattern.ranks.clamp(1, 1 << 20) as u32, fields }
    }

    /// The contribution of `rank` to element `index`: bits of the type, in the lowest bits.
    pub fn contribution(&self, rank: usize, index: u64) -> u64 {
        self.visit_contributions(rank, One(self.pattern.seed, index, self.fields))
    }

    /// The exact result at element `index`: bits of the type, in the lowest bits.
    pub fn result(&self, index: u64) -> u64 {
        self.visit_results(One(self.pattern.seed, index, self.fields))
    }

    /// Calls a visitor with the contribution of `rank`.
    pub(super) fn visit_contributions<V: Visitor>(&self, rank: usize, visitor: V) -> V::Out {
        let times = match self.pattern.op {
            ReduceOp::Mulsum => 2 / u32::from(ReduceOp::premul_scalar(rank)),
            _ => 1,
        };
        let from = rank as u32;
        self.visit(Some(from), times, visitor)
    }

    /// Calls a visitor with the exact results.
    pub(super) fn visit_results<V: Visitor>(&self, visitor: V) -> V::Out {
        self.visit(None, 1 + u32::from(self.pattern.op == ReduceOp::Mulsum), visitor)
    }

    /// Calls a visitor with a rank's contribution, or the results.
    fn visit<V: Visitor>(&self, rank: Option<u32>, times: u32, visitor: V) -> V::Out {
        let Reduction { pattern, ranks, fields } = *self;
        let format = FloatFormat::of(pattern.datatype);
        match (pattern.op, format) {
            (ReduceOp::Prod, _) => visitor.visit(Product::new(fields, format, rank, ranks)),
            (ReduceOp::Max | ReduceOp::Min, _) => {
                let signed = pattern.datatype.is_signed();
                let min = pattern.op == ReduceOp::Min;
                visitor.visit(Extreme::new(fields, format, signed, min, rank, ranks))
            }
            (ReduceOp::Avg, None) => {
                let signed = pattern.datatype.is_signed();
                visitor.visit(IntegerAverage::new(fields, signed, rank, ranks))
            }
            (ReduceOp::Sum | ReduceOp::Mulsum, None) => {
                self.visit_sum(IntegerSum::new(fields, times), ranks, rank, visitor)
            }
            (ReduceOp::Avg, Some(format)) => match fields.bits {
                8 => {
                    let of = Coded::averages(format, rank, ranks);
                    visitor.visit(Average { of, rank, ranks })
                }
                16 => {
                    let of = Narrow::<16>::averages(format, ranks);
                    visitor.visit(Average { of, rank, ranks })
                }
                32 => {
                    let of = Narrow::<32>::averages(format, ranks);
                    visitor.visit(Average { of, rank, ranks })
                }
                _ => {
                    let of = Double::averages(format, ranks);
                    visitor.visit(Average { of, rank, ranks })
                }
            },
            (ReduceOp::Sum | ReduceOp::Mulsum, Some(format)) => {
                let (k, bits) = floats::levels(format, ranks);
                match fields.bits {
                    8 => self.visit_sum(Coded::sums(format, bits, times), k, rank, visitor),
                    16 => self.visit_sum(Narrow::<16>::sums(format, bits, times), k, rank, visitor),
                    32 => self.visit_sum(Narrow::<32>::sums(format, bits, times), k, rank, visitor),
                    _ => self.visit_sum(Double::sums(format, bits, times), k, rank, visitor),
                }
            }
        }
    }

    fn visit_sum<V: Visitor>(
        &self,
        levels: impl Levels,
        contributors: u32,
        rank: Option<u32>,
        visitor: V,
    ) -> V::Out {
        let ranks = self.ranks;
        match rank {
            None => visitor.visit(Sum(levels, 0, contributors)),
            Some(rank) if contributors == ranks => visitor.visit(Sum(levels, rank, rank + 1)),
            Some(rank) => visitor.visit(Rotated { levels, rank, ranks, contributors }),
        }
    }
}

#[cfg(test)]
mod tests;
