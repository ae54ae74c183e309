//! The source of all pattern bits: a counter-based hash in 32-bit arithmetic.
//! Not a random number generator with state, and not cryptographic.

/// MurmurHash3's 32-bit finaliser (Appleby, smhasher MurmurHash3.cpp, fmix32): a bijection.
#[inline(always)]
const fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

/// SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
#[inline(always)]
const fn mix_wide(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A seed for `purpose` (row, placement, check …) under a run's seed.
pub const fn derive_seed(seed: u64, purpose: u64) -> u64 {
    mix_wide(seed ^ mix_wide(purpose.wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// The hash for one stretch of indices that share their upper 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Draw(u32);

impl Draw {
    /// For element indices `high` × 2^32 and on.
    #[inline(always)]
    pub(super) const fn new(seed: u64, high: u32) -> Draw {
        Draw(mix_wide(seed ^ mix_wide(high as u64)) as u32)
    }

    /// 32 bits for `lane` (a rank, or a purpose) at the lower 32 bits of the element index.
    #[inline(always)]
    pub(super) const fn word(self, lane: u32, low: u32) -> u32 {
        let key = mix(self.0.wrapping_add(lane.wrapping_mul(0x9e37_79b1)));
        mix(low.wrapping_mul(0x27d4_eb2f) ^ key)
    }

    /// 64 bits for the same.
    #[inline(always)]
    pub(super) const fn wide(self, lane: u32, low: u32) -> u64 {
        (self.word(lane | 1 << 31, low) as u64) << 32 | self.word(lane, low) as u64
    }
}

/// `x` scaled from 32 bits to 0 .. `bound` (multiply and shift; `bound` ≤ 2^32).
#[inline(always)]
pub(super) const fn below(x: u32, bound: u64) -> u64 {
    (x as u64 * bound) >> 32
}

/// `x` scaled from 64 bits to 0 .. `bound`.
#[inline(always)]
pub(super) const fn below_wide(x: u64, bound: u64) -> u64 {
    ((x as u128 * bound as u128) >> 64) as u64
}

/// Element `index` of rank `source`'s send buffer where elements are only copied: 64 bits of which
/// a type takes its lowest. Every bit pattern occurs, NaNs included.
#[inline(always)]
pub const fn copied(seed: u64, source: usize, index: u64) -> u64 {
    Draw::new(seed, (index >> 32) as u32).wide(source as u32, index as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pinned, so that a restatement in another language can be held against it.
    #[test]
    fn pinned_values() {
        assert_eq!(mix(1), 0x514e_28b7);
        assert_eq!(copied(1, 0, 0), 0x99aa_4779_acae_3556);
        assert_eq!(copied(1, 3, 1 << 33 | 5), 0xdfef_0e8a_d776_e7e1);
        assert_eq!(derive_seed(1, 2), 0xf282_6f98_653e_9e57);
    }

    #[test]
    fn neighbours_differ() {
        let mut seen = std::collections::HashSet::new();
        for source in 0..8 {
            for index in 0..4096 {
                assert!(seen.insert(copied(7, source, index)));
            }
        }
    }
}
