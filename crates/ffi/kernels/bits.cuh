// Elements that are made by bits and integers: crates/core/src/pattern/reduction.rs, its bits.rs and
// the kinds in fill.rs for a device. The reasons for each formula are there.
//
// A kind has `enter`, which prepares the keys for groups that share their upper 32 bits; `at`, a
// group; and AT_ONCE, of how many pieces of memory a thread has the loads under way: more hide more
// of the memory's latency, and make the code longer. Nothing in `at` branches on what is the same for
// all elements: the compiler would make a loop of its own for either side.
#pragma once
#include "number.cuh"

#define ROTATION 0x40000000u
#define VALUE 0x40000001u
#define SECOND 0x40000002u

struct Constant {
    static constexpr u32 AT_ONCE = 4;
    u64 bits;

    DEVICE void enter(Draw) {}
    DEVICE u64 at(Spot) const { return bits; }
};

struct Copied {
    static constexpr u32 AT_ONCE = 4;
    u32 source;
    u32 key;

    DEVICE void enter(Draw draw) { key = draw.kept_key(source); }
    DEVICE u64 at(Spot spot) const { return spot.group(key); }
};

// A contribution to a sum where every rank contributes, or the sum itself: between two places.
template <class Levels> struct Sum {
    static constexpr u32 AT_ONCE = 4;
    Levels levels;
    u32 from, to;
    u32 from_key, to_key;

    DEVICE void enter(Draw draw) { from_key = draw.kept_key(from), to_key = draw.kept_key(to); }
    DEVICE u64 at(Spot spot) const {
        return levels.between(spot.group(from_key), spot.group(to_key), spot);
    }
};

// A contribution to a sum where not every rank contributes: small floats, many ranks.
template <class Levels> struct Rotated {
    static constexpr u32 AT_ONCE = 1;
    Levels levels;
    u32 rank, ranks, contributors;
    Draw draw;
    u32 rotation;

    DEVICE void enter(Draw now) { draw = now, rotation = now.kept_key(ROTATION); }
    DEVICE u64 at(Spot spot) const {
        const u32 rotated = rank + spot.below(rotation, ranks);
        const u32 place = rotated >= ranks ? rotated - ranks : rotated;
        const u32 next = place + (place < contributors);
        return levels.between(spot.group(draw.key(place)), spot.group(draw.key(next)), spot);
    }
};

// Levels of integers.
template <int BYTES> struct IntegerSum {
    u64 keep;
    u32 times;

    DEVICE explicit IntegerSum(u32 by)
        : keep(by == 2 ? ~Fields<BYTES>::tops() : ~0ull), times(by) {}
    DEVICE u64 between(u64 low, u64 high, Spot) const {
        return (Fields<BYTES>::subtract(high, low) & keep) * times;
    }
};

// A rank's part in something to which one rank, which changes with the group, contributes otherwise
// than the rest; or `whole`: all of it.
struct Share {
    bool whole;
    u32 rank, ranks;
    u32 rotation;

    DEVICE void enter(Draw draw) { rotation = draw.kept_key(ROTATION); }
    DEVICE u32 first(Spot spot) const { return spot.below(rotation, ranks); }
    DEVICE bool holds(Spot spot) const { return first(spot) == rank; }
    DEVICE u32 after(u32 one) const { return one + 1 == ranks ? 0 : one + 1; }
};

// The average of integers; and what is contributed to it.
template <int BYTES> struct IntegerAverage {
    static constexpr u32 AT_ONCE = 2;
    typedef Fields<BYTES> fields;
    u64 quotients, rests, signs;
    u32 quotient_bits;
    u32 key;

    DEVICE IntegerAverage(bool is_signed, u32 ranks) {
        const u32 magnitude = fields::BITS - is_signed;
        const u32 up = 32 - __clz(ranks - 1), down = 31 - __clz(ranks);
        const u32 bits = magnitude > up ? magnitude - up : 0;
        quotients = lowest(bits), rests = lowest(down < magnitude ? down : magnitude);
        quotient_bits = bits < fields::BITS - 1 ? bits : fields::BITS - 1;
        signs = is_signed ? fields::ones() : 0;
    }
    DEVICE static u64 lowest(u32 bits) {
        return fields::all(bits == 64 ? ~0ull : (1ull << bits) - 1);
    }

    DEVICE void enter(Draw draw) { key = draw.kept_key(VALUE); }
    DEVICE u64 negative(u64 value) const { return value >> (fields::BITS - 1) & signs; }
    DEVICE u64 at(Spot spot) const {
        const u64 value = spot.group(key);
        return fields::negate(value & quotients, negative(value));
    }
};

template <int BYTES> struct IntegerSummand {
    static constexpr u32 AT_ONCE = 1;
    typedef Fields<BYTES> fields;
    IntegerAverage<BYTES> average;
    Share share;
    u32 own, next;

    DEVICE void enter(Draw draw) {
        average.enter(draw), share.enter(draw);
        own = draw.kept_key(share.rank), next = draw.kept_key(share.after(share.rank));
    }
    DEVICE u64 at(Spot spot) const {
        const u64 value = spot.group(average.key);
        const u64 step = fields::subtract(spot.group(next), spot.group(own));
        const u64 rest = value >> average.quotient_bits & average.rests;
        const u64 sum = (value & average.quotients) * share.ranks + rest;
        const u64 held = mask(share.holds(spot));
        return fields::add(step, fields::negate(sum, average.negative(value)) & held);
    }
};

// Products of integers and floats, and what is contributed to them.
template <int BYTES> struct Product {
    static constexpr u32 AT_ONCE = 2;
    typedef Fields<BYTES> fields;
    u64 keep, set, one, flip;
    Share share;
    u32 from, to, value;

    DEVICE explicit Product(Share share)
        : keep(~0ull), set(fields::ones()), one(set), flip(~set), share(share) {}
    DEVICE Product(Format format, Share share) : share(share) {
        const u64 unit = 1ull << format.mantissa_bits;
        keep = fields::all(4 * unit - 1), set = fields::all(format.one() - 3 * unit);
        one = fields::all(format.one()), flip = fields::tops();
    }

    DEVICE void enter(Draw draw) {
        from = draw.kept_key(share.whole ? 0 : share.rank);
        to = draw.kept_key(share.whole ? share.ranks : share.rank + 1);
        value = draw.kept_key(VALUE), share.enter(draw);
    }
    DEVICE u64 at(Spot spot) const {
        const u64 signs = fields::bit(spot.group(from) ^ spot.group(to), 0);
        const u64 held = mask(share.whole | share.holds(spot));
        const u64 number = spot.group(value) & keep | set;
        return (number & held | one & ~held) ^ fields::spread(signs) & flip;
    }
};

// Maxima and minima of integers and floats.
template <int BYTES, bool FLOAT> struct Extreme {
    static constexpr u32 AT_ONCE = 2;
    typedef Fields<BYTES> fields;
    u64 mirror;
    u32 key;

    DEVICE Extreme(bool is_signed, bool min) {
        const u64 half = fields::all(1ull << (fields::BITS - 2));
        const u64 middle = FLOAT ? half : is_signed ? fields::tops() : 0;
        mirror = (mask(min) & places()) ^ middle;
    }
    DEVICE static u64 places() { return FLOAT ? ~fields::tops() : ~0ull; }

    DEVICE void enter(Draw draw) { key = draw.kept_key(VALUE); }
    DEVICE u64 winner(Spot spot) const { return (spot.group(key) | fields::ones()) & places(); }
    DEVICE u64 numbers(u64 places) const {
        const u64 numbers = places ^ mirror;
        if (!FLOAT) return numbers;
        const u64 negative = fields::bit(numbers, fields::BITS - 2);
        return (numbers ^ fields::spread(negative)) + negative;
    }
    DEVICE u64 at(Spot spot) const { return numbers(winner(spot)); }
};

template <int BYTES, bool FLOAT> struct Contender {
    static constexpr u32 AT_ONCE = 2;
    Extreme<BYTES, FLOAT> extreme;
    Share share;
    u32 own;

    DEVICE void enter(Draw draw) {
        extreme.enter(draw), share.enter(draw), own = draw.kept_key(share.rank);
    }
    DEVICE u64 at(Spot spot) const {
        const u64 held = mask(share.holds(spot));
        const u64 lesser = spot.group(own) & ~Fields<BYTES>::ones();
        return extreme.numbers(extreme.winner(spot) & (lesser | held));
    }
};
