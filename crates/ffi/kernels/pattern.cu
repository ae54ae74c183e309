// Kernels that fill memory with a pattern, or compare memory with it: one for each element size of
// data, integers and floats. Not the pattern (bits.cuh, floats.cuh). docs/kernels.md holds the interface;
// tools/kernels.sh makes PTX of this, a file for each kernel, so that a run has the driver
// translate only what it needs; tests/shims/kernels_host.cc makes it run on a processor.
#include "sweep.cuh"

// Hand `visitor` the elements that the parameters name, busbw_core::pattern::fill::visit: those of COPIED
// and POISON.
template <int BYTES, class Visitor> DEVICE void visit_data(const Parameters &p, Visitor visitor) {
    if (p.content == POISON) return visitor(Constant{0xa5a5a5a5a5a5a5a5});
    visitor(Copied{p.rank});
}

// mulsum: ranks' scalars are 1 and 2 in turn, and all contribute twice the plain sum's part.
DEVICE u32 times(const Parameters &p) {
    return p.op == MULSUM && !(p.content == CONTRIBUTION && p.rank % 2 == 1) ? 2 : 1;
}

DEVICE Share share(const Parameters &p) { return {p.content == REDUCED, p.rank, p.ranks}; }

template <int BYTES, bool FLOAT, class Visitor>
DEVICE void visit_extreme(const Parameters &p, bool is_signed, Visitor visitor) {
    const Extreme<BYTES, FLOAT> extreme(is_signed, p.op == MIN);
    if (p.content == REDUCED) return visitor(extreme);
    visitor(Contender<BYTES, FLOAT>{extreme, share(p)});
}

// Sums of `contributors` of the ranks. Rotated only where a type's floats can be so few.
template <bool MAY_ROTATE, class Levels, class Visitor>
DEVICE void visit_sum(const Parameters &p, Levels levels, u32 contributors, Visitor visitor) {
    const bool contribution = p.content == CONTRIBUTION;
    if constexpr (MAY_ROTATE) {
        if (contribution && contributors != p.ranks) {
            return visitor(Rotated<Levels>{levels, p.rank, p.ranks, contributors});
        }
    }
    const u32 from = contribution ? p.rank : 0, to = contribution ? p.rank + 1 : contributors;
    visitor(Sum<Levels>{levels, from, to});
}

// Those of reductions of integers.
template <int BYTES, class Visitor>
DEVICE void visit_integer(const Parameters &p, Visitor visitor) {
    const bool is_signed = p.datatype == INT8 || p.datatype == INT32 || p.datatype == INT64;
    if (p.op == PROD) return visitor(Product<BYTES>(share(p)));
    if (p.op == MAX || p.op == MIN) return visit_extreme<BYTES, false>(p, is_signed, visitor);
    if (p.op == AVG) {
        const IntegerAverage<BYTES> average(is_signed, p.ranks);
        if (p.content == REDUCED) return visitor(average);
        return visitor(IntegerSummand<BYTES>{average, share(p)});
    }
    visit_sum<false>(p, IntegerSum<BYTES>(times(p)), p.ranks, visitor);
}

// Sums and averages of one format.
template <int BYTES, class Numbers, class Visitor>
DEVICE void visit_format(const Parameters &p, Visitor visitor) {
    const Format format = format_of<BYTES>(p.datatype);
    if (p.op != AVG) {
        const Steps<BYTES> steps(format, p.ranks);
        const Numbers numbers(format, steps.bits, times(p));
        return visit_sum<BYTES < 4>(p, numbers, steps.contributors, visitor);
    }
    const Numbers numbers(format, Ratio{p.ranks, p.content == REDUCED});
    if (p.content == REDUCED) return visitor(Average<BYTES, Numbers>{numbers});
    visitor(Summand<BYTES, Numbers>{numbers, share(p)});
}

// Those of reductions of floats.
template <int BYTES, class Visitor> DEVICE void visit_float(const Parameters &p, Visitor visitor) {
    if (p.op == PROD) return visitor(Product<BYTES>(format_of<BYTES>(p.datatype), share(p)));
    if (p.op == MAX || p.op == MIN) return visit_extreme<BYTES, true>(p, true, visitor);
    if constexpr (BYTES == 1) visit_format<BYTES, Coded>(p, visitor);
    if constexpr (BYTES == 2) {
        if (p.datatype == HALF) return visit_format<BYTES, Words<Halves>>(p, visitor);
        visit_format<BYTES, Words<Brains>>(p, visitor);
    }
    if constexpr (BYTES == 4) visit_format<BYTES, Words<Floats>>(p, visitor);
    if constexpr (BYTES == 8) visit_format<BYTES, Doubles>(p, visitor);
}

// What is to be done with the memory, and what one thread found.
template <int BYTES> struct Task {
    typedef typename Element<BYTES>::type Stored;

    Walk<BYTES> walk;
    u32 datatype, tolerance;
    u64 base;
    bool verifies;
    u64 wrong, index;
    u64 got, want;

    // A piece of which only a part is meant, or in which something differs.
    __device__ __noinline__ void one_by_one(u32 piece, uint4 wanted) {
        const Stretch<BYTES> &stretch = walk.stretch;
        Stored *memory = (Stored *)(stretch.pieces + piece);
#pragma unroll 1
        for (u32 at = stretch.from(piece); at < stretch.to(piece); at++) {
            const u64 right = element_of<BYTES>(wanted, at);
            if (!verifies) {
                memory[at] = (Stored)right;
                continue;
            }
            const u64 stored = memory[at];
            if (stored == right || near<BYTES>(datatype, stored, right, tolerance)) continue;
            const u64 here = base + stretch.offset + (u64)piece * stretch.PER + at;
            if (wrong == 0 || here < index) index = here, got = stored, want = right;
            wrong++;
        }
    }

    // Adds to what all threads found. The lock keeps the words about the first wrong element
    // together; only threads that hold an earlier one than is known take it. That the loop ends on
    // what memory says keeps the lock's release inside it, where a warp's other threads cannot keep
    // its holder from it.
    DEVICE void report(WrongElements *found) const {
        if (wrong == 0) return;
        atomicAdd(&found->wrong, wrong);
        volatile WrongElements *known = found;
        while (index < known->first_index) {
            if (atomicCAS(&found->lock, 0u, 1u) != 0) continue;
            __threadfence();
            if (index < known->first_index) {
                known->got = got;
                known->want = want;
                known->first_index = index;
            }
            __threadfence();
            atomicExch(&found->lock, 0u);
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

    DEVICE void part(u32 piece, uint4 want) const { task.one_by_one(piece, want); }

    template <class Elements>
    DEVICE void whole(
        const Stretch<BYTES> &stretch, const Elements &elements, u32 first, u32 threads
    ) const {
        constexpr u32 AT_ONCE = Elements::AT_ONCE;
        uint4 held[AT_ONCE];
#pragma unroll
        for (u32 at = 0; at < AT_ONCE; at++) {
            const u32 piece = first + at * threads;
            if (verifies && piece < stretch.end) held[at] = stretch.pieces[piece];
        }
#pragma unroll
        for (u32 at = 0; at < AT_ONCE; at++) {
            const u32 piece = first + at * threads;
            if (piece >= stretch.end) return;
            const uint4 want = stretch.wanted(elements, piece);
            if (!verifies) {
                stretch.pieces[piece] = want;
                continue;
            }
            const uint4 got = held[at];
            if ((got.x ^ want.x) | (got.y ^ want.y) | (got.z ^ want.z) | (got.w ^ want.w)) {
                task.one_by_one(piece, want);
            }
        }
    }
};

#define KERNEL(KIND, BYTES)                                                                        \
    extern "C" __global__ void __launch_bounds__(256) pattern_##KIND##_##BYTES(                    \
        void *memory, u64 count, Parameters p, WrongElements *found                                \
    ) {                                                                                            \
        const bool verifies = found != nullptr;                                                    \
        Task<BYTES> task = {{(char *)memory, count, p.first, p.seed}, p.datatype, p.tolerance,     \
                            p.base, verifies};                                                     \
        if (!task.walk.next()) return;                                                             \
        visit_##KIND<BYTES>(p, Loop<BYTES>{task, verifies});                                       \
        task.report(found);                                                                        \
    }
#define KERNEL_OF(KIND, BYTES) KERNEL(KIND, BYTES)

#ifdef KERNEL_KIND
KERNEL_OF(KERNEL_KIND, KERNEL_BYTES)
#endif
