// Eight bytes of elements, worked on side by side: crates/core/src/pattern/group.rs for a device.
// Not what the elements are.
#pragma once
#include "draw.cuh"

template <int BYTES> struct Fields {
    static constexpr u32 BITS = 8 * BYTES;

    DEVICE static u64 all(u64 bits) { return bits * (~0ull / (~0ull >> (64 - BITS))); }
    DEVICE static u64 ones() { return all(1); }
    DEVICE static u64 tops() { return all(1ull << (BITS - 1)); }
    DEVICE static u64 bit(u64 group, u32 bit) { return group >> bit & ones(); }
    DEVICE static u64 spread(u64 lowest) { return (lowest << (BITS - 1) << 1) - lowest; }

    // What a device does in words of 32 bits anyway, it need not be told to keep apart.
    DEVICE static u64 add(u64 a, u64 b) {
        if (BYTES == 8) return a + b;
        if (BYTES == 4) return joined(upper(a) + upper(b), (u32)a + (u32)b);
        return ((a & ~tops()) + (b & ~tops())) ^ ((a ^ b) & tops());
    }
    DEVICE static u64 subtract(u64 a, u64 b) {
        if (BYTES == 8) return a - b;
        if (BYTES == 4) return joined(upper(a) - upper(b), (u32)a - (u32)b);
        return ((a | tops()) - (b & ~tops())) ^ ((a ^ ~b) & tops());
    }
    DEVICE static u64 negate(u64 a, u64 negative) { return add(a ^ spread(negative), negative); }
};

// All bits or none.
DEVICE u64 mask(bool there) { return there ? ~0ull : 0; }
