// The hash that all pattern bits come from: crates/model/src/pattern/draw.rs for a device.
// Not the patterns themselves.
#pragma once
#include "pattern.h"

#define DEVICE __device__ __forceinline__

DEVICE u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x85ebca6b;
    x ^= x >> 13;
    x *= 0xc2b2ae35;
    return x ^ x >> 16;
}

DEVICE u64 mix_wide(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// The keys of a lane for one stretch of indices, as Spot wants them: a word has one, 64 bits two.
template <class Word> struct Lane;
template <> struct Lane<u32> {
    u32 low;
};
template <> struct Lane<u64> {
    u32 low, high;
};

// The hash for one stretch of indices that share their upper 32 bits.
struct Draw {
    u32 state;

    Draw() = default;
    DEVICE Draw(u64 seed, u32 high) : state((u32)mix_wide(seed ^ mix_wide(high))) {}

    // `mix` begins with x ^= x >> 16, which for x = a ^ key is (a ^ a >> 16) ^ (key ^ key >> 16):
    // the latter half is done here, the former in Spot, once for all lanes.
    DEVICE u32 key(u32 lane) const {
        const u32 key = mix(state + lane * 0x9e3779b1);
        return key ^ key >> 16;
    }
    DEVICE void keys(u32 lane, Lane<u32> &keys) const { keys.low = key(lane); }
    DEVICE void keys(u32 lane, Lane<u64> &keys) const {
        keys.low = key(lane), keys.high = key(lane | 1u << 31);
    }

    // The same for a whole stretch, by way of memory: ptxas would rather compute so long an
    // expression anew in every step of a loop than give it a register.
    DEVICE u32 kept_key(u32 lane) const {
        volatile u32 memory = key(lane);
        return memory;
    }
    DEVICE void kept_keys(u32 lane, Lane<u32> &keys) const { keys.low = kept_key(lane); }
    DEVICE void kept_keys(u32 lane, Lane<u64> &keys) const {
        keys.low = kept_key(lane), keys.high = kept_key(lane | 1u << 31);
    }
};

// One element: the lower 32 bits of its index, hashed as far as all lanes share it.
struct Spot {
    u32 bits;

    DEVICE explicit Spot(u32 low) : bits(low * 0x27d4eb2f) { bits ^= bits >> 16; }

    DEVICE u32 word(u32 key) const {
        u32 x = (bits ^ key) * 0x85ebca6b;
        x ^= x >> 13;
        x *= 0xc2b2ae35;
        return x ^ x >> 16;
    }

    DEVICE u32 draw(Lane<u32> lane) const { return word(lane.low); }
    DEVICE u64 draw(Lane<u64> lane) const { return (u64)word(lane.high) << 32 | word(lane.low); }
};

// `x` scaled to 0 .. `bound`. 32 of 32 bits and 64 of 64; and 64 bits to a bound of 32.
DEVICE u32 below(u32 x, u32 bound) { return __umulhi(x, bound); }
DEVICE u64 below(u64 x, u64 bound) { return __umul64hi(x, bound); }
DEVICE u32 below(u64 x, u32 bound) {
    return (u32)(((x >> 32) * bound + __umulhi((u32)x, bound)) >> 32);
}
