// Kernels that fill memory with a pattern, or compare memory with it: one for each element size of
// data, integers and floats. Not the pattern (elements.cuh). docs/kernels.md holds the interface;
// tools/kernels.sh makes PTX of this, a file for each kernel, so that a run has the driver
// translate only what it needs; tests/shims/kernels_host.cc makes it run on a processor.
#include "sweep.cuh"

// Hand `visitor` the elements that the parameters name, crate model's fill::visit: those of COPIED
// and POISON.
template <int BYTES, class Visitor> DEVICE void visit_data(const Parameters &p, Visitor visitor) {
    typedef typename Element<BYTES>::Word Word;
    if (p.content == POISON) return visitor(Constant<Word>{(Word)0xa5a5a5a5a5a5a5a5});
    visitor(Copied<Word>{p.rank});
}

// mulsum: ranks' scalars are 1 and 2 in turn, and all contribute twice the plain sum's part.
DEVICE u32 times(const Parameters &p) {
    return p.op == MULSUM && !(p.content == CONTRIBUTION && p.rank % 2 == 1) ? 2 : 1;
}

template <class Word, class Visitor>
DEVICE void visit_winner(const Parameters &p, Type<Word> type, Visitor visitor) {
    const Winner<Word> winner = {type, p.op == MAX ? 1 : -1};
    if (p.content == REDUCED) return visitor(winner);
    visitor(Ranked<Word>{winner, {p.rank, p.ranks}});
}

// Those of reductions of integers.
template <int BYTES, class Visitor>
DEVICE void visit_integer(const Parameters &p, Visitor visitor) {
    typedef typename Element<BYTES>::Word Word;
    const Type<Word> type = integer_type<BYTES, Word>(p.datatype);
    const bool contribution = p.content == CONTRIBUTION;
    if (p.op == PROD && contribution) return visitor(IntegerFactor<Word>{{p.rank, p.ranks}});
    if (p.op == PROD) return visitor(IntegerProduct<Word>{p.ranks});
    if (p.op == MAX || p.op == MIN) return visit_winner(p, type, visitor);
    if (p.op == AVG && !contribution) {
        return visitor(IntegerAverage<Word>{type, p.ranks, Divisor<Word>(p.ranks)});
    }
    const u32 high = contribution ? p.rank + 1 : p.ranks, low = contribution ? p.rank : 0;
    visitor(IntegerDifference<Word>{high, low, times(p)});
}

// Those of reductions of floats.
template <int BYTES, class Visitor> DEVICE void visit_float(const Parameters &p, Visitor visitor) {
    typedef typename Element<BYTES>::Word Word;
    const Type<Word> type = float_type<BYTES, Word>(p.datatype);
    const bool contribution = p.content == CONTRIBUTION;
    if (p.op == PROD && contribution) return visitor(FloatFactor<Word>{type, {p.rank, p.ranks}});
    if (p.op == PROD) return visitor(FloatProduct<Word>{type, p.ranks});
    if (p.op == MAX || p.op == MIN) return visit_winner(p, type, visitor);
    const Steps<Word> steps(type, p.ranks);
    if (p.op == AVG && !contribution) return visitor(FloatAverage<Word>{type, steps, p.ranks});
    if constexpr (BYTES < 4) {
        if (contribution && steps.contributors != p.ranks) {
            return visitor(Rotated{type, steps, {p.rank, p.ranks}, times(p)});
        }
    }
    const u32 high = contribution ? p.rank + 1 : steps.contributors;
    const u32 low = contribution ? p.rank : 0;
    visitor(FloatDifference<Word>{type, steps, high, low, times(p)});
}

// What is to be done with the memory, and what one thread found.
template <int BYTES> struct Task {
    typedef typename Element<BYTES>::type Stored;
    typedef typename Element<BYTES>::Word Word;

    Walk<BYTES> walk;
    u32 datatype, tolerance;
    u64 base;
    bool verifies;
    u64 wrong, index;
    Word got, want;

    // A piece of which only a part is meant, or in which something differs. A thread comes here
    // with rising indices.
    __device__ __noinline__ void one_by_one(u32 piece, uint4 wanted) {
        const Stretch<BYTES> &stretch = walk.stretch;
        Stored *memory = (Stored *)(stretch.pieces + piece);
#pragma unroll 1
        for (u32 at = stretch.from(piece); at < stretch.to(piece); at++) {
            const Word right = (Word)element_of<BYTES>(wanted, at);
            if (!verifies) {
                memory[at] = (Stored)right;
                continue;
            }
            const Word stored = memory[at];
            if (stored == right || near<BYTES, Word>(datatype, stored, right, tolerance)) continue;
            if (wrong == 0) {
                index = base + stretch.offset + (u64)piece * stretch.PER + at;
                got = stored, want = right;
            }
            wrong++;
        }
    }

    // Adds to what all threads found. The lock keeps the words about the first wrong element
    // together; only threads that hold an earlier one than is known take it. That the loop ends on
    // what memory says keeps the lock's release inside it, where a warp's other threads cannot keep
    // its holder from it.
    DEVICE void report(Findings *findings) const {
        if (wrong == 0) return;
        atomicAdd(&findings->wrong, wrong);
        volatile Findings *known = findings;
        while (index < known->first_index) {
            if (atomicCAS(&findings->lock, 0u, 1u) != 0) continue;
            __threadfence();
            if (index < known->first_index) {
                known->got = got;
                known->want = want;
                known->first_index = index;
            }
            __threadfence();
            atomicExch(&findings->lock, 0u);
        }
    }
};

// A task's loop over one kind of elements.
template <int BYTES> struct Loop {
    Task<BYTES> &task;
    bool verifies;

    template <class Elements> DEVICE void operator()(Elements elements) const {
        sweep(task.walk, elements, *this);
    }

    template <class Elements>
    DEVICE void operator()(
        const Stretch<BYTES> &stretch, u32 piece, const Elements &elements
    ) const {
        const bool whole = stretch.whole(piece);
        // Loaded first, so that the memory is at work while the elements are computed.
        uint4 held = {0, 0, 0, 0};
        if (whole && verifies) held = stretch.pieces[piece];
        const uint4 want = quad_of<BYTES>(elements, stretch.index(piece));
        const u32 differ =
            (held.x ^ want.x) | (held.y ^ want.y) | (held.z ^ want.z) | (held.w ^ want.w);
        if (whole && !verifies) {
            stretch.pieces[piece] = want;
        } else if (!whole || differ != 0) {
            task.one_by_one(piece, want);
        }
    }
};

#define KERNEL(KIND, BYTES)                                                                        \
    extern "C" __global__ void __launch_bounds__(256) pattern_##KIND##_##BYTES(                    \
        void *memory, u64 count, Parameters p, Findings *findings                                  \
    ) {                                                                                            \
        const bool verifies = findings != nullptr;                                                 \
        Task<BYTES> task = {{(char *)memory, count, p.first, p.seed}, p.datatype, p.tolerance,     \
                            p.base, verifies};                                                     \
        if (!task.walk.next()) return;                                                             \
        visit_##KIND<BYTES>(p, Loop<BYTES>{task, verifies});                                       \
        task.report(findings);                                                                     \
    }
#define KERNEL_OF(KIND, BYTES) KERNEL(KIND, BYTES)

#ifdef KERNEL_KIND
KERNEL_OF(KERNEL_KIND, KERNEL_BYTES)
#endif
