//! Numbers drawn from a seed: the same seed, the same numbers, on every machine (SplitMix64, Steele et al. 2014).
//! Not for secrets.

use std::{ops::Range, time::Duration};

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Another source, drawn from this one: what it gives does not depend on how much is drawn from this one later.
    #[must_use]
    pub fn split(&mut self) -> Random {
        Random(self.next())
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number within a range that is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// A number from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// A time of at most so long.
    pub fn time(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.fraction())
    }

    /// One of these, which are not none.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_and_repeat_with_the_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let mut counts = [0u32; 10];
            (0..10_000).for_each(|_| counts[random.below(10) as usize] += 1);
            counts
        };
        assert!(draw(1).iter().all(|count| (850..1150).contains(count)));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((0..100).all(|_| !Random::new(3).chance(0.0)));
    }
}
