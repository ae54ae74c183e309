// Sums and averages of floats: crates/core/src/pattern/reduction/floats.rs for a device. The reasons
// for each formula are there.
//
// A device subtracts levels in the type itself, or in the upper halves of f32, for the elements of a
// word of 32 bits at a time; `Words` makes groups of it.
#pragma once
#include "bits.cuh"

#ifdef __CUDACC__
// Two halves side by side, and none of the headers that have types for them.
#define HALVES(NAME, INSTRUCTION)                                                                  \
    DEVICE u32 NAME(u32 a, u32 b) {                                                                \
        u32 both;                                                                                  \
        asm(INSTRUCTION " %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));                             \
        return both;                                                                               \
    }
HALVES(halves_sum, "add.rn.f16x2")
HALVES(halves_difference, "sub.rn.f16x2")
HALVES(halves_product, "mul.rn.f16x2")
#endif

// The ranks that contribute to a sum, and the bits of a level: floats::levels.
template <int BYTES> struct Steps {
    u32 contributors, bits;

    DEVICE Steps(Format format, u32 ranks) {
        const u64 bound = 2ull << format.mantissa_bits;
        contributors = ranks < 2 * bound - 1 ? ranks : (u32)(2 * bound - 1);
        bits = 63 - __clzll(2 * bound / (contributors + 1) + 1);
        const u32 most = BYTES == 1 ? 2 : format.mantissa_bits;
        bits = bits < most ? bits : most;
    }
};

// Averages over so many ranks, or what is contributed to them.
struct Ratio {
    u32 ranks;
    bool divided;
};

// f32.
struct Floats {
    typedef float Scale;
    u32 level, smallest;
    Divisor<float> by;

    DEVICE Floats(Format, u32 bits, u32 times)
        : level(kept((1 << bits) - 1)), smallest(125 + times), by(1) {}
    DEVICE Floats(Format, Ratio ratio) : level((1 << 23) - 1), smallest(127), by(ratio.ranks) {}

    DEVICE Scale scale(Spot spot) const {
        return __uint_as_float((spot.bits & 3 << 23) + (smallest << 23));
    }
    DEVICE float drawn(u32 bits) const { return __uint_as_float((bits & level) | 0x4b000000); }
    DEVICE float number(u32 bits) const { return drawn(bits) - 8388607; }

    DEVICE u32 between(u32 low, u32 high, Scale scale) const {
        return __float_as_uint((drawn(high) - drawn(low)) * scale);
    }
    DEVICE u32 average(u32 x, u32 y, Scale scale) const {
        return __float_as_uint(by.quotient(number(x) + number(y)) * scale);
    }
    DEVICE u32 share(u32 x, u32 is_x, u32 y, u32 is_y, Scale scale) const {
        const float a = __uint_as_float(__float_as_uint(number(x)) & is_x);
        const float b = __uint_as_float(__float_as_uint(number(y)) & is_y);
        return __float_as_uint((a + b) * scale);
    }
};

// What two elements of 16 bits have in common: averages, one by one.
struct Shorts {
    Format format;
    u32 level, smallest;
    Divisor<float> by;

    DEVICE Shorts(Format format, u32 bits, u32 smallest, u32 ranks)
        : format(format), level(kept((1 << bits) - 1)), smallest(smallest), by(ranks) {}

    // Of the lower element, as of f32.
    DEVICE float drawn(u32 bits) const { return __uint_as_float((bits & level) | 0x4b000000); }
    DEVICE float number(u32 bits) const { return drawn(bits) - 8388607; }
    DEVICE u32 average(u32 x, u32 y, float scale) const {
        const u32 a = encode_ratio(format, number(x) + number(y), by, scale);
        const u32 b = encode_ratio(format, number(x >> 16) + number(y >> 16), by, scale);
        return b << 16 | a;
    }
};

// binary16: 1024 is the number whose last bit counts 1.
struct Halves : Shorts {
    typedef u32 Scale;

    u32 levels;  // of both elements

    DEVICE Halves(Format format, u32 bits, u32 times)
        : Shorts(format, bits, 13 + times, 1), levels(kept(level * 0x10001)) {}
    DEVICE Halves(Format format, Ratio ratio)
        : Shorts(format, format.mantissa_bits, 15, ratio.ranks), levels(kept(level * 0x10001)) {}

    DEVICE Scale scale(Spot spot) const {
        return ((spot.bits >> 13 & 3 << 10) + (smallest << 10)) * 0x10001;
    }
    DEVICE u32 both(u32 bits) const { return (bits & levels) | 0x64006400; }
    DEVICE u32 numbers(u32 bits) const { return halves_difference(both(bits), 0x63fe63fe); }

    DEVICE u32 between(u32 low, u32 high, Scale scale) const {
        return halves_product(halves_difference(both(high), both(low)), scale);
    }
    DEVICE u32 average(u32 x, u32 y, Scale scale) const {
        const u32 exponent = (scale >> 10 & 31) + 127 - 15;
        return Shorts::average(x, y, __uint_as_float(exponent << 23));
    }
    DEVICE u32 share(u32 x, u32 is_x, u32 y, u32 is_y, Scale scale) const {
        return halves_product(halves_sum(numbers(x) & is_x, numbers(y) & is_y), scale);
    }
};

// bfloat16, the upper half of f32: 128 is the number whose last bit counts 1.
struct Brains : Shorts {
    typedef float Scale;

    u32 upper_level;

    DEVICE Brains(Format format, u32 bits, u32 times)
        : Shorts(format, bits, 125 + times, 1), upper_level(kept(level << 16)) {}
    DEVICE Brains(Format format, Ratio ratio)
        : Shorts(format, format.mantissa_bits, 127, ratio.ranks), upper_level(kept(level << 16)) {}

    DEVICE Scale scale(Spot spot) const {
        return __uint_as_float((spot.bits & 3 << 23) + (smallest << 23));
    }
    DEVICE float drawn_upper(u32 bits) const {
        return __uint_as_float((bits & upper_level) | 0x43000000);
    }
    DEVICE static u32 packed(float high, float low) {
        return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
    }

    DEVICE u32 between(u32 low, u32 high, Scale scale) const {
        return packed((drawn_upper(high) - drawn_upper(low)) * scale,
                      (drawn(high) - drawn(low)) * scale);
    }
    DEVICE static float sum(float x, u32 is_x, float y, u32 is_y) {
        const float a = __uint_as_float(__float_as_uint(x) & is_x);
        return a + __uint_as_float(__float_as_uint(y) & is_y);
    }
    DEVICE u32 share(u32 x, u32 is_x, u32 y, u32 is_y, Scale scale) const {
        return packed(sum(drawn_upper(x) - 127, is_x, drawn_upper(y) - 127, is_y) * scale,
                      sum(number(x), is_x, number(y), is_y) * scale);
    }
};

// Groups of a format that works on words.
template <class Format> struct Words : Format {
    using Format::Format;

    DEVICE u64 between(u64 low, u64 high, Spot spot) const {
        const typename Format::Scale scale = Format::scale(spot);
        return joined(Format::between(upper(low), upper(high), scale),
                      Format::between((u32)low, (u32)high, scale));
    }
    DEVICE u64 average(u64 x, u64 y, Spot spot) const {
        const typename Format::Scale scale = Format::scale(spot);
        return joined(Format::average(upper(x), upper(y), scale),
                      Format::average((u32)x, (u32)y, scale));
    }
    DEVICE u64 share(u64 x, u64 is_x, u64 y, u64 is_y, Spot spot) const {
        const typename Format::Scale scale = Format::scale(spot);
        return joined(Format::share(upper(x), (u32)is_x, upper(y), (u32)is_y, scale),
                      Format::share((u32)x, (u32)is_x, (u32)y, (u32)is_y, scale));
    }
};

// binary64.
struct Doubles {
    u64 level;
    u32 smallest;
    Divisor<double> by;

    DEVICE Doubles(Format, u32 bits, u32 times)
        : level((1ull << bits) - 1), smallest(1021 + times), by(1) {}
    DEVICE Doubles(Format, Ratio ratio)
        : level((1ull << 52) - 1), smallest(1023), by(ratio.ranks) {}

    DEVICE double scale(Spot spot) const {
        return number_of(joined((spot.bits >> 3 & 3 << 20) + (smallest << 20), 0));
    }
    DEVICE static double number_of(u64 bits) { return __longlong_as_double((long long)bits); }
    DEVICE static u64 bits_of(double number) { return (u64)__double_as_longlong(number); }
    DEVICE double drawn(u64 bits) const { return number_of((bits & level) | 0x4330000000000000); }
    DEVICE double number(u64 bits) const { return drawn(bits) - 4503599627370495; }

    DEVICE u64 between(u64 low, u64 high, Spot spot) const {
        return bits_of((drawn(high) - drawn(low)) * scale(spot));
    }
    DEVICE u64 average(u64 x, u64 y, Spot spot) const {
        return bits_of(by.quotient(number(x) + number(y)) * scale(spot));
    }
    DEVICE u64 share(u64 x, u64 is_x, u64 y, u64 is_y, Spot spot) const {
        const double a = number_of(bits_of(number(x)) & is_x);
        return bits_of((a + number_of(bits_of(number(y)) & is_y)) * scale(spot));
    }
};

// 8 bits, from a table of 8 numbers.
struct Coded {
    u64 codes, step;
    u32 exponents, level;

    static constexpr u32 PLACES = 0x11111111;

    DEVICE Coded(Format format, u32 bits, u32 times)
        : codes(0), step(0), exponents(3), level(kept(PLACES * ((1 << bits) - 1))) {
        const u64 unit = 1ull << format.mantissa_bits;
#pragma unroll
        for (int place = 7; place >= 0; place--) {
            const float number = (float)((place - 4) * (int)times) * 0.5f;
            codes = codes << 8 | encode_exact(format, number);
            step = step << 8 | (place == 4 ? 0 : unit);
        }
    }
    DEVICE Coded(Format format, Ratio ratio)
        : codes(0), step(Fields<1>::all(1ull << format.mantissa_bits)), level(7 * PLACES) {
        const Divisor<float> by(ratio.divided ? ratio.ranks : 1);
        exponents = ratio.ranks <= 1u << format.bias ? 3 : 0;
#pragma unroll 1
        for (int number = 8; number > 0; number--) {
            codes = codes << 8 | encode_ratio(format, (float)number, by, 1);
        }
    }

    DEVICE u64 look_up(u32 places, Spot spot) const {
        const u64 now = codes + step * (spot.exponent() & exponents);
        const u32 low = (u32)now, high = upper(now);
        return joined(__byte_perm(low, high, places >> 16), __byte_perm(low, high, places));
    }
    DEVICE u64 between(u64 low, u64 high, Spot spot) const {
        return look_up(((upper(high) & level) | 4 * PLACES) - (upper(low) & level), spot);
    }
    DEVICE u64 average(u64 x, u64, Spot spot) const {
        return look_up(upper(x) & level, spot);
    }
    DEVICE u64 share(u64 x, u64 is_x, u64, u64, Spot spot) const {
        return average(x, 0, spot) & is_x;
    }
};

// The average; and what is contributed to it. x gives both their sign.
template <int BYTES, class Numbers> struct Average {
    static constexpr u32 AT_ONCE = BYTES == 2 ? 1 : 2;
    Numbers numbers;
    u32 x, y;

    DEVICE void enter(Draw draw) { x = draw.kept_key(VALUE), y = draw.kept_key(SECOND); }
    DEVICE u64 at(Spot spot) const {
        const u64 drawn = spot.group(x);
        return numbers.average(drawn, spot.group(y), spot) | drawn & Fields<BYTES>::tops();
    }
};

template <int BYTES, class Numbers> struct Summand {
    static constexpr u32 AT_ONCE = 2;
    Numbers numbers;
    Share part;
    u32 x, y;

    DEVICE void enter(Draw draw) {
        part.enter(draw), x = draw.kept_key(VALUE), y = draw.kept_key(SECOND);
    }
    DEVICE u64 at(Spot spot) const {
        const u64 drawn = spot.group(x);
        const u32 first = part.first(spot);
        const u64 is_x = mask(first == part.rank);
        // There is no y among numbers of 8 bits.
        const u64 is_y = BYTES == 1 ? 0 : mask(part.after(first) == part.rank);
        const u64 number = numbers.share(drawn, is_x, spot.group(y), is_y, spot);
        return number | drawn & Fields<BYTES>::tops() & (is_x | is_y);
    }
};
