// Kernels that fill memory with a pattern and compare memory with it, one pair for each element
// size. Not the pattern (elements.cuh). docs/kernels.md holds the interface; tools/kernels.sh makes
// pattern.ptx of this; tests/shims/kernels_host.cc makes it run on a processor.
#include "sweep.cuh"

// Hands `visitor` the elements that the parameters name, of COPIED and POISON: with visit_reduction
// crate model's fill::visit.
template <int BYTES, class Visitor> DEVICE void visit_data(const Parameters &p, Visitor &visitor) {
    typedef typename Element<BYTES>::Word Word;
    if (p.content == POISON) return visitor(Constant<Word>{(Word)0xa5a5a5a5a5a5a5a5});
    visitor(Copied<Word>{p.rank});
}

// The same for CONTRIBUTION and REDUCED.
template <int BYTES, class Visitor>
DEVICE void visit_reduction(const Parameters &p, Visitor &visitor) {
    typedef typename Element<BYTES>::Word Word;
    const Type<Word> type = type_of<BYTES, Word>(p.datatype);
    const bool integer = BYTES != 2 && type.integer;
    const bool contribution = p.content == CONTRIBUTION;
    const Place place = {p.rank, p.ranks};
    if (p.op == PROD) {
        if (contribution && integer) return visitor(IntegerFactor<Word>{place});
        if (contribution) return visitor(FloatFactor<Word>{type, place});
        if (integer) return visitor(IntegerProduct<Word>{p.ranks});
        return visitor(FloatProduct<Word>{type, p.ranks});
    }
    if (p.op == MAX || p.op == MIN) {
        const Winner<Word> winner = {type, p.op == MAX ? 1 : -1};
        if (contribution) return visitor(Ranked<Word>{winner, place});
        return visitor(winner);
    }
    const Reduction<Word> r(type, p.ranks);
    if (p.op == AVG && !contribution) {
        if (integer) return visitor(IntegerAverage<Word>{type, p.ranks, Divisor<Word>(p.ranks)});
        return visitor(FloatAverage<Word>{r});
    }
    // mulsum: ranks' scalars are 1 and 2 in turn, and all contribute twice the plain sum's part.
    const u32 twice = p.op == MULSUM && !(contribution && p.rank % 2 == 1) ? 2 : 1;
    const u32 high = contribution ? p.rank + 1 : r.contributors;
    const u32 low = contribution ? p.rank : 0;
    if (integer) return visitor(IntegerDifference<Word>{high, low, twice});
    if constexpr (BYTES < 4) {
        if (contribution && r.contributors != p.ranks) {
            return visitor(Rotated{r, place, twice});
        }
    }
    return visitor(FloatDifference<Word>{r, high, low, twice});
}

// The ends of a fill: elements from .. to of 16 bytes.
template <int BYTES> __device__ __noinline__ void store(uint4 *piece, uint4 want, u32 from, u32 to) {
    typedef typename Element<BYTES>::type Stored;
#pragma unroll 1
    for (u32 at = from; at < to; at++) ((Stored *)piece)[at] = (Stored)element_of<BYTES>(want, at);
}

template <int BYTES> struct Fill {
    char *memory;
    u64 count;
    const Parameters &p;

    template <class Elements> DEVICE void operator()(Elements elements) {
        sweep<BYTES>(memory, count, p.first, p.seed, elements, *this);
    }

    template <class Elements>
    DEVICE void operator()(uint4 *piece, const Elements &elements, u32 low, u32 from, u32 to, u64) {
        const uint4 want = quad_of<BYTES>(elements, low);
        if (from == 0 && to == 16 / BYTES) {
            *piece = want;
        } else {
            store<BYTES>(piece, want, from, to);
        }
    }
};

// What one thread found.
template <int BYTES> struct Found {
    typedef typename Element<BYTES>::type Stored;
    typedef typename Element<BYTES>::Word Word;
    Type<Word> type;
    u32 tolerance;
    u64 wrong, index;
    Word got, want;

    // Elements from .. to of 16 bytes of which some differ, or which are not all meant. `start` is
    // the index of the first of the 16 bytes. A thread comes here with rising indices.
    __device__ __noinline__ void examine(const uint4 *piece, uint4 wanted, u32 from, u32 to, u64 start) {
#pragma unroll 1
        for (u32 at = from; at < to; at++) {
            const Word stored = ((const Stored *)piece)[at], right = (Word)element_of<BYTES>(wanted, at);
            if (stored == right || type.near(stored, right, tolerance)) continue;
            if (wrong == 0) index = start + at, got = stored, want = right;
            wrong++;
        }
    }

    // Adds to what all threads found. The lock keeps the words about the first wrong element
    // together; only threads that may hold an earlier one than is known take it.
    DEVICE void report(Findings *findings) const {
        if (wrong == 0) return;
        atomicAdd(&findings->wrong, wrong);
        volatile Findings *known = findings;
        for (bool told = known->first_index <= index; !told;) {
            if (atomicCAS(&findings->lock, 0u, 1u) != 0) continue;
            __threadfence();
            if (index < known->first_index) {
                known->got = got, known->want = want, known->first_index = index;
            }
            __threadfence();
            atomicExch(&findings->lock, 0u);
            told = true;
        }
    }
};

template <int BYTES> struct Verify {
    const char *memory;
    u64 count;
    const Parameters &p;
    Found<BYTES> &found;

    template <class Elements> DEVICE void operator()(Elements elements) {
        sweep<BYTES>((char *)memory, count, p.first, p.seed, elements, *this);
    }

    template <class Elements>
    DEVICE void operator()(
        const uint4 *piece, const Elements &elements, u32 low, u32 from, u32 to, u64 start
    ) {
        const bool whole = from == 0 && to == 16 / BYTES;
        uint4 held = {0, 0, 0, 0};
        if (whole) held = *piece;
        const uint4 want = quad_of<BYTES>(elements, low);
        const u32 differ =
            (held.x ^ want.x) | (held.y ^ want.y) | (held.z ^ want.z) | (held.w ^ want.w);
        if (!whole || differ != 0) found.examine(piece, want, from, to, p.base + start);
    }
};

#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define KERNELS(KIND, BYTES)                                                                       \
    KERNEL fill_##KIND##_##BYTES(void *memory, u64 count, Parameters p) {                          \
        Fill<BYTES> fill = {(char *)memory, count, p};                                             \
        visit_##KIND<BYTES>(p, fill);                                                              \
    }                                                                                              \
    KERNEL verify_##KIND##_##BYTES(                                                                \
        const void *memory, u64 count, Parameters p, Findings *findings                            \
    ) {                                                                                            \
        typedef typename Element<BYTES>::Word Word;                                                \
        Found<BYTES> found = {type_of<BYTES, Word>(p.datatype), p.tolerance};                      \
        Verify<BYTES> verify = {(const char *)memory, count, p, found};                            \
        visit_##KIND<BYTES>(p, verify);                                                            \
        found.report(findings);                                                                    \
    }

// Apart, because what a reduction needs in registers would slow down the others.
KERNELS(data, 1)
KERNELS(data, 2)
KERNELS(data, 4)
KERNELS(data, 8)
KERNELS(reduction, 1)
KERNELS(reduction, 2)
KERNELS(reduction, 4)
KERNELS(reduction, 8)
