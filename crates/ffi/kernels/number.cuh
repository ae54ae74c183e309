// Floats as integers: their formats, nearness, exact division: crates/core/src/number.rs for a
// device. Not the patterns. Everything here is rounded to nearest even in exactly one place.
#pragma once
#include "group.cuh"

// FloatFormat.
struct Format {
    u32 bits;
    u32 mantissa_bits;
    u32 bias;
    u64 largest;

    DEVICE u64 sign() const { return 1ull << (bits - 1); }
    DEVICE u64 one() const { return (u64)bias << mantissa_bits; }
};

template <int BYTES> DEVICE Format format_of(u32 datatype) {
    if (BYTES == 8) return {64, 52, 1023, 0x7fefffffffffffff};
    if (BYTES == 4) return {32, 23, 127, 0x7f7fffff};
    if (BYTES == 2 && datatype == HALF) return {16, 10, 15, 0x7bff};
    if (BYTES == 2) return {16, 7, 127, 0x7f7f};
    if (datatype == F8E4M3) return {8, 3, 7, 0x7e};
    return {8, 2, 15, 0x7b};
}

// Whether `got` is a number with at most `tolerance` steps of the type between it and `want`. Of
// integers none is near another.
template <int BYTES> DEVICE bool near(u32 datatype, u64 got, u64 want, u32 tolerance) {
    if (datatype <= UINT64 || tolerance == 0) return false;
    const Format format = format_of<BYTES>(datatype);
    const u64 a = got & (format.sign() - 1), b = want & (format.sign() - 1);
    if (a > format.largest || b > format.largest) return false;
    const bool same = ((got ^ want) & format.sign()) == 0;
    return (same ? (a > b ? a - b : b - a) : a + b) <= tolerance;
}

// Bits of a float of at most 8 bits that is `value` times a power of two, a normal number, with at
// most its significant bits; or 0.
DEVICE u32 encode_exact(Format format, float value) {
    const u32 bits = __float_as_uint(value);
    const u32 magnitude = (bits & 0x7fffffff) >> (23 - format.mantissa_bits);
    const u32 rebias = (127 - format.bias) << format.mantissa_bits;
    const u32 sign = bits >> 31 << (format.bits - 1);
    return magnitude == 0 ? 0 : sign | (magnitude - rebias);
}

// Division by one number, without a division: by its reciprocal, and once more with what is left.
// Correctly rounded (Markstein, Computation of elementary functions on the IBM RISC System/6000
// processor, 1990): the reciprocal is, and nothing here is near the ends of the float's range.
template <class Float> struct Divisor {
    Float divisor, reciprocal;

    DEVICE explicit Divisor(u32 by) : divisor((Float)by), reciprocal(1 / (Float)by) {}

    DEVICE Float rest(Float dividend, Float quotient) const {
        return fma(-quotient, divisor, dividend);
    }
    DEVICE Float quotient(Float dividend) const {
        const Float near = dividend * reciprocal;
        return fma(rest(dividend, near), reciprocal, near);
    }
};

// Bits of `dividend` divided, times `scale`, a power of two, in a format narrower than f32, rounded
// once: FloatFormat::encode_ratio for positive integers of its significant bits.
DEVICE u32 encode_ratio(Format format, float dividend, Divisor<float> by, float scale) {
    // First to 24 bits, rounded to odd (towards zero, the last bit set if anything was cut), which
    // leaves the second rounding as it would be from the exact ratio, subnormals included.
    const float quotient = by.quotient(dividend), rest = by.rest(dividend, quotient);
    const u32 towards_zero = __float_as_uint(quotient) - (rest < 0);
    const float odd = __uint_as_float(towards_zero | (rest != 0)) * scale;
    // Then by adding 2^23 units of the type's last place there: the adder rounds to nearest even.
    const u32 smallest_normal = 128 - format.bias;
    const u32 own = __float_as_uint(odd) >> 23;
    const u32 binade = own > smallest_normal ? own : smallest_normal;
    const u32 unit = (binade + 23 - format.mantissa_bits) << 23;
    const u32 rounded = __float_as_uint(odd + __uint_as_float(unit)) - unit;
    return ((binade - smallest_normal) << format.mantissa_bits) + rounded;
}
