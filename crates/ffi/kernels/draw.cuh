// The hash that all pattern bits come from: crates/core/src/pattern/draw.rs for a device.
// Not the patterns themselves.
#pragma once
#include "pattern.h"

#define DEVICE __device__ __forceinline__

DEVICE u32 upper(u64 x) { return (u32)(x >> 32); }
DEVICE u64 joined(u32 upper, u32 lower) { return (u64)upper << 32 | lower; }

#ifdef __CUDACC__
// As one instruction: told as a product of 64 bits, it has one more for an upper half that is 0.
DEVICE u64 product(u32 a, u32 b) {
    u64 product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
}
#endif

// The same value by way of memory: ptxas would rather compute a long expression, or a part of one,
// anew in every step of a loop than give it a register.
DEVICE u32 kept(u32 value) {
    volatile u32 memory = value;
    return memory;
}

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

// The hash for one stretch of groups that share the upper 32 bits of their index.
struct Draw {
    u32 state;

    Draw() = default;
    DEVICE Draw(u64 seed, u32 high) : state((u32)mix_wide(seed ^ mix_wide(high))) {}

    DEVICE u32 key(u32 lane) const { return mix(state + lane * 0x9e3779b1) | 0x80000001; }

    // The same for a whole stretch.
    DEVICE u32 kept_key(u32 lane) const { return kept(key(lane)); }
};

// One group: the lower 32 bits of its index, hashed as far as all lanes share it.
struct Spot {
    u32 bits;

    DEVICE Spot(Draw draw, u32 low) : bits(low * 0x9e3779b1 + draw.state) {
        bits ^= bits >> 16;
        bits *= 0x85ebca6b;
        bits ^= bits >> 13;
    }

    // Draw::group, with the lane's key.
    DEVICE u64 group(u32 key) const {
        const u64 both = product(bits, key);
        const u32 low = (u32)both, high = upper(both);
        return joined(low ^ high, __funnelshift_r(low, high, 16));
    }

    DEVICE u32 below(u32 key, u32 bound) const { return __umulhi(upper(group(key)), bound); }

    // The exponent of two of a float, less its smallest.
    DEVICE u32 exponent() const { return bits >> 23 & 3; }
};
