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

// 16 bytes: the elements from index `low` on. Each word, and each element of less than a word, comes
// in from the top, so that the loops are the same whether they are unrolled or not.
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

// Hands `action` all 16-byte pieces that hold any of the `count` elements at `memory`, of which
// the first has index `first`: pieces of the address space, so that every access is aligned. At the
// ends only elements begin .. end of a piece are meant. Pieces in which the upper 32 bits of the
// index change come twice, once with either end.
template <int BYTES, class Elements, class Action>
DEVICE void sweep(char *memory, u64 count, u64 first, u64 seed, Elements elements, Action &action) {
    const u32 per = 16 / BYTES;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 done = 0; done < count;) {
        const u64 index = first + done;
        const u64 room = (1ull << 32) - (u32)index;
        const u64 now = room < count - done ? room : count - done;
        const u64 address = (u64)(memory + done * BYTES);
        const u32 before = (u32)(address & 15) / BYTES;
        uint4 *pieces = (uint4 *)(address & ~15ull);
        elements.enter(Draw(seed, (u32)(index >> 32)));
        const u64 end = before + now;
        for (u64 piece = thread; piece * per < end; piece += threads) {
            const u64 at = piece * per;
            const u32 low = (u32)index - before + (u32)at;
            const u32 to = end - at < per ? (u32)(end - at) : per;
            action(pieces + piece, elements, low, piece == 0 ? before : 0, to, done + at - before);
        }
        done += now;
    }
}
