// A grid's walk over memory, 16 bytes a thread and step, whatever the alignment and the indices.
// Not what the elements are, and not what is done with them.
#pragma once
#include "elements.cuh"

template <int BYTES> struct Element;
template <> struct Element<1> {
    typedef unsigned char type;
    typedef u32 Word;
};
template <> struct Element<2> {
    typedef unsigned short type;
    typedef u32 Word;
};
template <> struct Element<4> {
    typedef u32 type;
    typedef u32 Word;
};
template <> struct Element<8> {
    typedef u64 type;
    typedef u64 Word;
};

// 16 bytes: the elements from index `low` on. Each word, and each element of less than a word,
// comes in from the top, so that the loops are the same whether they are unrolled or not.
template <int BYTES, class Elements> DEVICE uint4 quad_of(const Elements &elements, u32 low) {
    const u32 in_word = BYTES < 4 ? 4 / BYTES : 1;
    const u32 words = Elements::AT_ONCE < in_word ? 1 : Elements::AT_ONCE / in_word;
    uint4 quad = {0, 0, 0, 0};
    if (BYTES == 8) {
#pragma unroll(words)
        for (u32 half = 0; half < 2; half++) {
            const u64 element = elements.at(Spot(low + half));
            quad.x = quad.z, quad.y = quad.w;
            quad.z = (u32)element, quad.w = (u32)(element >> 32);
        }
        return quad;
    }
#pragma unroll(words)
    for (u32 word = 0; word < 4; word++) {
        u32 bits = 0;
#pragma unroll(Elements::AT_ONCE)
        for (u32 at = 0; at < in_word; at++) {
            const u32 element = (u32)elements.at(Spot(low + word * in_word + at));
            bits = BYTES == 4 ? element : __funnelshift_r(bits, element, 8 * BYTES);
        }
        quad.x = quad.y, quad.y = quad.z, quad.z = quad.w, quad.w = bits;
    }
    return quad;
}

// Element `at` of 16 bytes.
template <int BYTES> DEVICE u64 element_of(uint4 quad, u32 at) {
    const u32 word = at * BYTES / 4;
    const u32 bits = word == 0 ? quad.x : word == 1 ? quad.y : word == 2 ? quad.z : quad.w;
    if (BYTES == 8) return (u64)(word == 0 ? quad.y : quad.w) << 32 | bits;
    return (typename Element<BYTES>::type)(bits >> at * BYTES % 4 * 8);
}

// Memory whose indices share their upper 32 bits, as the aligned 16-byte pieces of the address
// space that hold any of it. Of the first and the last, only elements from .. to may be meant.
template <int BYTES> struct Stretch {
    static constexpr u32 PER = 16 / BYTES;
    static constexpr u32 NOWHERE = ~0u;

    Draw draw;
    uint4 *pieces;
    u32 last;            // piece; at most 2^31
    u32 head, tail;      // pieces of which a part is meant
    u32 before, behind;  // elements of `head` that are not meant, of `tail` that are
    u32 low;             // of the index of the first element of the first piece
    u64 offset;          // of that element in the memory; may be negative

    DEVICE bool whole(u32 piece) const { return piece != head && piece != tail; }
    DEVICE u32 index(u32 piece) const { return low + piece * PER; }
    DEVICE u32 from(u32 piece) const { return piece == head ? before : 0; }
    DEVICE u32 to(u32 piece) const { return piece == tail ? behind : PER; }
};

// All stretches of `count` elements at `memory`, of which the first has index `first`. A piece in
// which the upper 32 bits of the index change belongs to two of them. Not inlined, here and below,
// what is rare: every kind of element has a loop of its own, and would repeat it.
template <int BYTES> struct Walk {
    char *memory;
    u64 count, first, seed;
    u64 done;
    Stretch<BYTES> stretch;

    __device__ __noinline__ bool next() {
        if (done >= count) return false;
        const u64 index = first + done;
        const u64 room = (1ull << 32) - (u32)index;
        const u64 now = room < count - done ? room : count - done;
        const u64 address = (u64)(memory + done * BYTES);
        const u32 before = (u32)(address & 15) / BYTES;
        const u32 behind = (u32)(before + now) % stretch.PER;
        const u32 last = (u32)((before + now - 1) / stretch.PER);
        stretch.draw = Draw(seed, (u32)(index >> 32));
        stretch.pieces = (uint4 *)(address - before * BYTES);
        stretch.last = last;
        stretch.head = before == 0 ? stretch.NOWHERE : 0;
        stretch.tail = behind == 0 ? stretch.NOWHERE : last;
        stretch.before = before, stretch.behind = behind;
        stretch.low = (u32)index - before;
        stretch.offset = done - before;
        done += now;
        return true;
    }
};

// Hands `action` every piece of the walk's stretches, dealt out to the threads of the grid. The
// walk has come to its first.
template <int BYTES, class Elements, class Action>
DEVICE void sweep(Walk<BYTES> &walk, Elements elements, Action action) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 threads = gridDim.x * blockDim.x;
    do {
        const Stretch<BYTES> stretch = walk.stretch;
        elements.enter(stretch.draw);
        for (u32 piece = thread; piece <= stretch.last; piece += threads) {
            action(stretch, piece, elements);
        }
    } while (walk.next());
}
