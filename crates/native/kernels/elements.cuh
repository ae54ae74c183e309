// Every kind of element as a function of its index: crates/model/src/pattern/reduction.rs and the
// kinds in fill.rs for a device. Not where they lie. The reasons for each formula are there.
//
// A kind has `enter`, which prepares the keys for indices that share their upper 32 bits; `at`, an
// element, whose bits above the type's are anything; and AT_ONCE: how many are computed side by
// side. More keep the arithmetic units busier and make the code longer. Nothing in `at` branches on
// what is the same for all elements: the compiler would make a loop of its own for either side.
#pragma once
#include "number.cuh"

#define ROTATION 0x40000000u
#define EXPONENT 0x40000001u
#define WINNER 0x40000002u
#define FACTORS 3u

// The sums of floats: how many ranks contribute at an element, and how many levels the u(k) have.
// What Reduction::new prepares.
template <class Word> struct Steps {
    u32 contributors;
    Word levels;

    DEVICE Steps(const Type<Word> &type, u32 ranks) {
        const u64 bound = 2ull << type.mantissa_bits;
        const u32 most = 2 * bound - 1 < 1 << 20 ? (u32)(2 * bound - 1) : 1 << 20;
        contributors = ranks < most ? ranks : most;
        levels = (Word)(2 * bound / (contributors + 1)) + 1;
    }

    // u(high) − u(low), from the draws for either.
    DEVICE Word between(Word low, Word high) const {
        return below(high, levels) - below(low, levels);
    }
};

// Where a rank stands at an element.
struct Place {
    u32 rank, ranks;
    u32 rotation;

    DEVICE void enter(Draw draw) { rotation = draw.kept_key(ROTATION); }
    DEVICE u32 at(Spot spot) const {
        const u32 rotated = rank + below(spot.word(rotation), ranks);
        return rotated >= ranks ? rotated - ranks : rotated;
    }
};

DEVICE int exponent_of(u32 word) { return (int)(word >> 30) - 1; }
DEVICE int sign_of(u32 word) { return 1 - 2 * (int)(word & 1); }

template <class Word> struct Constant {
    static constexpr u32 AT_ONCE = 16;
    Word bits;

    DEVICE void enter(Draw) {}
    DEVICE Word at(Spot) const { return bits; }
};

template <class Word> struct Copied {
    static constexpr u32 AT_ONCE = 16;
    u32 source;
    Lane<Word> lane;

    DEVICE void enter(Draw draw) { draw.kept_keys(source, lane); }
    DEVICE Word at(Spot spot) const { return spot.draw(lane); }
};

template <class Word> struct IntegerDifference {
    static constexpr u32 AT_ONCE = 4;
    u32 high, low, times;
    Lane<Word> highs, lows;

    DEVICE void enter(Draw draw) { draw.kept_keys(high, highs), draw.kept_keys(low, lows); }
    DEVICE Word at(Spot spot) const { return (spot.draw(highs) - spot.draw(lows)) * times; }
};

template <class Word> struct FloatDifference {
    static constexpr u32 AT_ONCE = 4;
    Type<Word> type;
    Steps<Word> steps;
    u32 high, low, times;
    Lane<Word> highs, lows;
    u32 exponents;

    DEVICE void enter(Draw draw) {
        draw.kept_keys(high, highs), draw.kept_keys(low, lows);
        exponents = draw.kept_key(EXPONENT);
    }
    DEVICE Word at(Spot spot) const {
        const Word step = steps.between(spot.draw(lows), spot.draw(highs));
        return encode_exact(type, step * times, exponent_of(spot.word(exponents)));
    }
};

// Floats of so few bits that not every rank contributes to a sum at every element.
struct Rotated {
    static constexpr u32 AT_ONCE = 1;
    Type<u32> type;
    Steps<u32> steps;
    Place place;
    u32 times;
    Draw draw;
    u32 exponents;

    DEVICE void enter(Draw now) {
        draw = now, place.enter(now), exponents = now.kept_key(EXPONENT);
    }
    DEVICE u32 at(Spot spot) const {
        const u32 p = place.at(spot);
        const u32 low = spot.word(draw.key(p)), high = spot.word(draw.key(p + 1));
        const u32 step = p < steps.contributors ? steps.between(low, high) : 0;
        return encode_exact(type, step * times, exponent_of(spot.word(exponents)));
    }
};

template <class Word> struct IntegerFactor {
    static constexpr u32 AT_ONCE = 1;
    Place place;
    Draw draw;

    DEVICE void enter(Draw now) { draw = now, place.enter(now); }
    DEVICE Word at(Spot spot) const {
        const u32 p = place.at(spot);
        Lane<Word> lane;
        draw.keys(p, lane);
        return p < FACTORS ? spot.draw(lane) | 1 : 1;
    }
};

// All bits or none: whether there is a rank that holds a factor.
template <class Word> DEVICE Word held(bool there) { return there ? ~(Word)0 : 0; }

template <class Word> struct IntegerProduct {
    static constexpr u32 AT_ONCE = 1;
    u32 ranks;
    Lane<Word> first, second, third;

    DEVICE void enter(Draw draw) {
        draw.kept_keys(0, first), draw.kept_keys(1, second), draw.kept_keys(2, third);
    }
    DEVICE Word at(Spot spot) const {
        const Word b = spot.draw(second) & held<Word>(ranks > 1);
        const Word c = spot.draw(third) & held<Word>(ranks > 2);
        return (spot.draw(first) | 1) * (b | 1) * (c | 1);
    }
};

// Place 0 of a product of floats: an integer with a sign, and an exponent.
template <class Word> struct Significand {
    Lane<u64> values;
    u32 signs, exponents;

    DEVICE void enter(Draw draw) {
        draw.kept_keys(0, values);
        signs = draw.kept_key(WINNER), exponents = draw.kept_key(EXPONENT);
    }
    DEVICE typename Type<Word>::Signed value(const Type<Word> &type, Spot spot) const {
        const Word largest = ((Word)2 << type.mantissa_bits) - 1;
        const Word value = 1 + below(spot.draw(values), largest);
        return sign_of(spot.word(signs)) * (typename Type<Word>::Signed)value;
    }
    DEVICE int exponent(Spot spot) const { return exponent_of(spot.word(exponents)); }
};

template <class Word> struct FloatFactor {
    static constexpr u32 AT_ONCE = 1;
    Type<Word> type;
    Place place;
    Draw draw;
    Significand<Word> significand;

    DEVICE void enter(Draw now) { draw = now, place.enter(now), significand.enter(now); }
    DEVICE Word at(Spot spot) const {
        const u32 p = place.at(spot);
        if (p == 0) {
            return encode_exact(type, significand.value(type, spot), significand.exponent(spot));
        }
        const u32 word = p < FACTORS ? spot.word(draw.key(p)) : 0;
        return encode_exact(type, sign_of(word), word >> 31);
    }
};

template <class Word> struct FloatProduct {
    static constexpr u32 AT_ONCE = 1;
    Type<Word> type;
    u32 ranks;
    Significand<Word> significand;
    u32 second, third;

    DEVICE void enter(Draw draw) {
        significand.enter(draw), second = draw.kept_key(1), third = draw.kept_key(2);
    }
    DEVICE Word at(Spot spot) const {
        const u32 b = spot.word(second) & held<u32>(ranks > 1);
        const u32 c = spot.word(third) & held<u32>(ranks > 2);
        const int exponent = significand.exponent(spot) + (b >> 31) + (c >> 31);
        return encode_exact(type, significand.value(type, spot) * sign_of(b ^ c), exponent);
    }
};

// The result of max, and of min where `direction` is −1.
template <class Word> struct Winner {
    static constexpr u32 AT_ONCE = 1;
    typedef typename Type<Word>::Signed Signed;
    Type<Word> type;
    int direction;
    Lane<u64> winners;

    DEVICE void enter(Draw draw) { draw.kept_keys(WINNER, winners); }
    // Ordinals from the lowest of all, which is −half_range; at least 1.
    DEVICE Word above(Spot spot) const {
        return 1 + below(spot.draw(winners), 2 * type.half_range());
    }
    DEVICE Word encode(Word above) const {
        return type.at_ordinal(direction * (Signed)(above - type.half_range()));
    }
    DEVICE Word at(Spot spot) const { return encode(above(spot)); }
};

// A rank's contribution to it.
template <class Word> struct Ranked {
    static constexpr u32 AT_ONCE = 1;
    Winner<Word> winner;
    Place place;
    Draw draw;

    DEVICE void enter(Draw now) { draw = now, place.enter(now), winner.enter(now); }
    DEVICE Word at(Spot spot) const {
        const u32 p = place.at(spot);
        const Word room = winner.above(spot);
        Lane<u64> lane;
        draw.keys(p, lane);
        return winner.encode(p == 0 ? room : below(spot.draw(lane), room));
    }
};

template <class Word> struct IntegerAverage {
    static constexpr u32 AT_ONCE = 1;
    Type<Word> type;
    u32 ranks;
    Divisor<Word> divisor;
    Lane<Word> highs, lows;

    DEVICE void enter(Draw draw) { draw.kept_keys(ranks, highs), draw.kept_keys(0, lows); }
    DEVICE Word at(Spot spot) const {
        // The sum wraps to the type, and is then divided towards zero.
        const u32 unused = 8 * sizeof(Word) - type.bits;
        const Word sum = (spot.draw(highs) - spot.draw(lows)) << unused;
        const Word signs = type.has_sign ? ~(Word)0 : 0;
        const Word negative = 0 - (sum >> (8 * sizeof(Word) - 1) & signs);
        const Word magnitude = (sum ^ negative) - negative;
        return (divisor.quotient(magnitude >> unused) ^ negative) - negative;
    }
};

template <class Word> struct FloatAverage {
    static constexpr u32 AT_ONCE = 1;
    Type<Word> type;
    Steps<Word> steps;
    u32 ranks;
    Lane<Word> highs, lows;
    u32 exponents;

    DEVICE void enter(Draw draw) {
        draw.kept_keys(steps.contributors, highs), draw.kept_keys(0, lows);
        exponents = draw.kept_key(EXPONENT);
    }
    DEVICE Word at(Spot spot) const {
        const Word sum = steps.between(spot.draw(lows), spot.draw(highs));
        return encode_ratio(type, sum, ranks, exponent_of(spot.word(exponents)));
    }
};
