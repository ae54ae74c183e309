// Element types as integers: encoding, order, exact division. crates/model/src/number.rs for a
// device. Not the patterns. Everything here is rounded to nearest even in exactly one place.
#pragma once
#include "draw.cuh"

template <class Word> struct SignedOf;
template <> struct SignedOf<u32> {
    typedef int type;
};
template <> struct SignedOf<u64> {
    typedef long long type;
};

// A type whose elements are handled in words of 32 or 64 bits.
template <class Word> struct Type {
    typedef typename SignedOf<Word>::type Signed;

    bool integer;
    bool has_sign;
    u32 bits;
    u32 mantissa_bits;  // the rest is only for floats
    u32 bias;
    Word largest;

    DEVICE Word sign() const { return (Word)1 << (bits - 1); }

    // Half the numbers of the type, as Reduction::half_range.
    DEVICE Word half_range() const { return integer ? sign() - 1 : largest; }

    // The number at a place of the type's rising order: Reduction::at_ordinal. Without branches:
    // floats mirror what is negative, integers without a sign move.
    DEVICE Word at_ordinal(Signed ordinal) const {
        const Word mirrored = ordinal < 0 && !integer ? ~(Word)0 : 0;
        const Word moved = integer && !has_sign ? sign() : 0;
        return (((Word)ordinal ^ mirrored) - mirrored) ^ (mirrored & sign()) ^ moved;
    }
};

template <int BYTES, class Word> DEVICE Type<Word> integer_type(u32 datatype) {
    Type<Word> type = {};
    type.integer = true;
    type.has_sign = datatype == INT8 || datatype == INT32 || datatype == INT64;
    type.bits = 8 * BYTES;
    return type;
}

template <int BYTES, class Word> DEVICE Type<Word> float_type(u32 datatype) {
    if (BYTES == 8) return {false, true, 64, 52, 1023, (Word)0x7fefffffffffffff};
    if (BYTES == 4) return {false, true, 32, 23, 127, 0x7f7fffff};
    if (BYTES == 2 && datatype == HALF) return {false, true, 16, 10, 15, 0x7bff};
    if (BYTES == 2) return {false, true, 16, 7, 127, 0x7f7f};
    if (datatype == F8E4M3) return {false, true, 8, 3, 7, 0x7e};
    return {false, true, 8, 2, 15, 0x7b};
}

// Whether `got` is a number with at most `tolerance` steps of the type between it and `want`. Of
// integers none is near another.
template <int BYTES, class Word>
DEVICE bool near(u32 datatype, Word got, Word want, u32 tolerance) {
    if (datatype <= UINT64 || tolerance == 0) return false;
    const Type<Word> type = float_type<BYTES, Word>(datatype);
    const Word a = got & (type.sign() - 1), b = want & (type.sign() - 1);
    if (a > type.largest || b > type.largest) return false;
    const bool same = ((got ^ want) & type.sign()) == 0;
    return (same ? (a > b ? a - b : b - a) : a + b) <= tolerance;
}

// Bits of `value` × 2^`exponent`, exact: FloatFormat::encode_exact_by_f32, and its sibling for
// binary64, where the conversion of an integer below 2^53 is exact as well.
DEVICE u32 encode_exact(const Type<u32> &type, int value, int exponent) {
    const float scale = __uint_as_float((u32)(127 + exponent) << 23);
    const u32 bits = __float_as_uint((float)value * scale);
    if (type.mantissa_bits == 23) return bits;
    const u32 magnitude = (bits & 0x7fffffff) >> (23 - type.mantissa_bits);
    const u32 rebias = (127 - type.bias) << type.mantissa_bits;
    const u32 sign = bits >> 31 << (type.bits - 1);
    return value == 0 ? 0 : sign | (magnitude - rebias);
}

DEVICE u64 encode_exact(const Type<u64> &, long long value, int exponent) {
    const double scale = __longlong_as_double((long long)(1023 + exponent) << 52);
    return (u64)__double_as_longlong((double)value * scale);
}

// Bits of `numerator` / `denominator` × 2^`exponent`, rounded once: FloatFormat::encode_ratio for
// what occurs here: operands that are exact in the float, |exponent| ≤ 2, a result that is no
// larger than `numerator` is. IEEE division rounds once; the scaling is exact.
DEVICE u64 encode_ratio(const Type<u64> &, long long numerator, u32 denominator, int exponent) {
    const double scale = __longlong_as_double((long long)(1023 + exponent) << 52);
    return (u64)__double_as_longlong((double)numerator / (double)denominator * scale);
}

DEVICE u32 encode_ratio(const Type<u32> &type, int numerator, u32 denominator, int exponent) {
    const float scale = __uint_as_float((u32)(127 + exponent) << 23);
    const float divisor = (float)denominator;
    if (type.mantissa_bits == 23) return __float_as_uint((float)numerator / divisor * scale);
    if (numerator == 0) return 0;
    // First to 24 bits, rounded to odd (towards zero, the last bit set if anything was cut), which
    // leaves the second rounding as it would be from the exact ratio, subnormals included.
    const float dividend = (float)(numerator < 0 ? -numerator : numerator);
    const float quotient = dividend / divisor;
    const float rest = fmaf(-quotient, divisor, dividend);
    const u32 towards_zero = __float_as_uint(quotient) - (rest < 0);
    const float odd = __uint_as_float(towards_zero | (rest != 0)) * scale;
    // Then by adding 2^23 units of the type's last place there: the adder rounds to nearest even.
    const u32 smallest_normal = 128 - type.bias;
    const u32 own = __float_as_uint(odd) >> 23;
    const u32 binade = own > smallest_normal ? own : smallest_normal;
    const u32 unit = (binade + 23 - type.mantissa_bits) << 23;
    const u32 rounded = __float_as_uint(odd + __uint_as_float(unit)) - unit;
    const u32 magnitude = ((binade - smallest_normal) << type.mantissa_bits) + rounded;
    return numerator < 0 ? type.sign() | magnitude : magnitude;
}

// Division of words by a constant, without a division: `reciprocal` is (2^bits − 1) / `divisor`,
// the estimate from it is at most one too small.
template <class Word> struct Divisor {
    Word divisor, reciprocal;

    DEVICE explicit Divisor(u32 by) : divisor(by), reciprocal(~(Word)0 / by) {}

    DEVICE Word quotient(Word dividend) const {
        const Word estimate = below(dividend, reciprocal);
        return estimate + (dividend - estimate * divisor >= divisor);
    }
};
