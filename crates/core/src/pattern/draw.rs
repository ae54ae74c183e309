//! The source of all pattern bits: a counter-based hash in 32-bit arithmetic, for 8 bytes at a time.
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

/// The hash for one stretch of groups that share the upper 32 bits of their index. A group is 8
/// bytes of the pattern: as many elements as fit.
#[derive(Clone, Copy)]
pub(super) struct Draw(u32);

impl Draw {
    /// For groups `high` × 2^32 and on.
    #[inline(always)]
    pub(super) const fn new(seed: u64, high: u32) -> Draw {
        Draw(mix_wide(seed ^ mix_wide(high as u64)) as u32)
    }

    /// The part of the hash that all lanes share at a group: 32 bits, different for any two groups
    /// of the stretch. `low` is the lower half of the group's index.
    #[inline(always)]
    pub(super) const fn spot(self, low: u32) -> u32 {
        let mut x = low.wrapping_mul(0x9e37_79b1).wrapping_add(self.0);
        x ^= x >> 16;
        x = x.wrapping_mul(0x85eb_ca6b);
        x ^ x >> 13
    }

    /// The hash of `lane` (a rank, or a purpose) at a group: 64 bits. It is a product with a key of
    /// the lane, which does not depend on the group. The lowest and the highest bits of a product
    /// are weak, so one half combines both of its halves, and the other is its middle.
    #[inline(always)]
    pub(super) const fn group(self, lane: u32, low: u32) -> u64 {
        let key = mix(self.0.wrapping_add(lane.wrapping_mul(0x9e37_79b1))) | 0x8000_0001;
        let product = self.spot(low) as u64 * key as u64;
        (product ^ product >> 32) << 32 | product >> 16 & 0xffff_ffff
    }

    /// 0 .. `bound`, the same for all elements of a group (multiply and shift).
    #[inline(always)]
    pub(super) const fn below(self, lane: u32, low: u32, bound: u32) -> u32 {
        (((self.group(lane, low) >> 32) * bound as u64) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Pinned, so that a restatement in another language can be compared.
    #[test]
    fn pinned_values() {
        assert_eq!(mix(1), 0x514e_28b7);
        assert_eq!(Draw::new(1, 0).spot(0), 0x3b68_2d35);
        assert_eq!(Draw::new(1, 0).group(0, 0), 0xeafb_18b9_0778_c335);
        assert_eq!(Draw::new(1, 2).group(3, 5), 0xe2a9_6159_be0a_fdcd);
        assert_eq!(derive_seed(1, 2), 0xf282_6f98_653e_9e57);
    }

    #[test]
    fn neighbours_differ() {
        let mut seen = HashSet::new();
        for high in 0..2 {
            for lane in 0..8 {
                for low in 0..4096 {
                    assert!(seen.insert(Draw::new(7, high).group(lane, low)));
                }
            }
        }
    }

    /// The draws of two ranks, of one rank at neighbouring groups, and of one rank under two seeds
    /// agree in each byte in one case of 256, for any ranks, seeds and distance.
    #[test]
    fn bytes_are_the_same_by_chance_only() {
        const GROUPS: u32 = 1 << 14;
        let same = |a: &dyn Fn(u32) -> u64, b: &dyn Fn(u32) -> u64| {
            let mut same = [0; 8];
            for low in 0..GROUPS {
                let (a, b) = (a(low).to_le_bytes(), b(low).to_le_bytes());
                (0..8).for_each(|byte| same[byte] += u32::from(a[byte] == b[byte]));
            }
            same
        };
        for seed in 0..24 {
            let draw = Draw::new(derive_seed(seed, 0), 0);
            let other = Draw::new(derive_seed(seed, 1), 0);
            let lane = seed as u32;
            let mut counts = vec![same(&|i| draw.group(lane, i), &|i| other.group(lane, i))];
            for distance in [1, 2, 3, 8, 100, 1 << 16] {
                counts.push(same(&|i| draw.group(lane, i), &|i| draw.group(lane, i + distance)));
                counts.push(same(&|i| draw.group(lane, i), &|i| draw.group(lane + distance, i)));
            }
            for count in counts.into_iter().flatten() {
                // 64 are expected, 8 the standard deviation of true chance.
                assert!((8..160).contains(&count), "{seed}: {count} of {GROUPS}");
            }
        }
    }
}
