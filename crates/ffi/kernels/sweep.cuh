// A grid's walk over memory, 16 bytes a thread and step, whatever the alignment and the indices.
// Not what the elements are, and not what is done with them.
#pragma once
#include "floats.cuh"

template <int BYTES> struct Element;
template <> struct Element<1> {
    typedef unsigned char type;
};
template <> struct Element<2> {
    typedef unsigned short type;
};
template <> struct Element<4> {
    typedef u32 type;
};
template <> struct Element<8> {
    typedef u64 type;
};

// Memory whose groups share the upper 32 bits of their index, as the aligned 16-byte pieces of the
// address space that hold any of it. Of the first and the last, only elements from .. to may be meant.
template <int BYTES> struct Stretch {
    static constexpr u32 PER = 16 / BYTES;
    static constexpr u32 NOWHERE = ~0u;

    Draw draw;
    uint4 *pieces;
    u32 begin, end;      // pieces that are meant as a whole; at most 2^31
    u32 head, tail;      // pieces of which a part is meant, if there are such
    u32 before, behind;  // elements of `head` that are not meant, of `tail` that are
    u32 low;             // of the index of the group in which the first piece begins
    u32 shift;           // bits of that group which lie before the piece
    u64 offset;          // of the first piece's first element in the memory; may be negative

    DEVICE u32 from(u32 piece) const { return piece == head ? before : 0; }
    DEVICE u32 to(u32 piece) const { return piece == tail ? behind : PER; }

    // What a piece must hold: two groups, or parts of three.
    template <class Elements> DEVICE uint4 wanted(const Elements &elements, u32 piece) const {
        const u32 group = low + 2 * piece;
        u64 a = elements.at(Spot(draw, group)), b = elements.at(Spot(draw, group + 1));
        if (BYTES < 8 && shift != 0) {
            const u64 c = elements.at(Spot(draw, group + 2));
            a = a >> shift | b << (64 - shift);
            b = b >> shift | c << (64 - shift);
        }
        return {(u32)a, upper(a), (u32)b, upper(b)};
    }
};

// Element `at` of 16 bytes.
template <int BYTES> DEVICE u64 element_of(uint4 quad, u32 at) {
    const u32 word = at * BYTES / 4;
    const u32 bits = word == 0 ? quad.x : word == 1 ? quad.y : word == 2 ? quad.z : quad.w;
    if (BYTES == 8) return joined(word == 0 ? quad.y : quad.w, bits);
    return (typename Element<BYTES>::type)(bits >> at * BYTES % 4 * 8);
}

// All stretches of `count` elements at `memory`, of which the first has index `first`. A piece in
// which the upper 32 bits of the group's index change belongs to two of them. Not inlined, here and
// below, what is rare: every kind of element has a loop of its own, and would repeat it.
template <int BYTES> struct Walk {
    char *memory;
    u64 count, first, seed;
    u64 done;
    Stretch<BYTES> stretch;

    __device__ __noinline__ bool next() {
        if (done >= count) return false;
        constexpr u64 GROUP = 8 / BYTES, PER = 16 / BYTES;
        const u64 index = first + done;
        const u64 room = (GROUP << 32) - index % (GROUP << 32);
        const u64 now = room < count - done ? room : count - done;
        const u64 address = (u64)(memory + done * BYTES);
        const u32 before = (u32)(address & 15) / BYTES;
        const u64 start = index - before;
        const u32 pieces = (u32)((before + now + PER - 1) / PER);
        stretch.draw = Draw(seed, (u32)(index / GROUP >> 32));
        stretch.pieces = (uint4 *)(address - before * BYTES);
        stretch.before = before;
        stretch.behind = (u32)((before + now) % PER);
        stretch.head = before == 0 ? stretch.NOWHERE : 0;
        stretch.tail = stretch.behind == 0 ? stretch.NOWHERE : pieces - 1;
        stretch.begin = before != 0;
        stretch.end = pieces - (stretch.behind != 0);
        stretch.low = (u32)(start / GROUP);
        stretch.shift = (u32)(start % GROUP) * 8 * BYTES;
        stretch.offset = done - before;
        done += now;
        return true;
    }
};

// Hands `action` the pieces of the walk's stretches, dealt out to the threads of the grid: those of
// which a part is meant, then the others, as many to a call as the kind wants. The walk has come to
// its first.
template <int BYTES, class Elements, class Action>
DEVICE void sweep(Walk<BYTES> &walk, Elements elements, Action action) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 threads = gridDim.x * blockDim.x;
    do {
        const Stretch<BYTES> stretch = walk.stretch;
        elements.enter(stretch.draw);
        if (thread == 0) {
            const u32 ends = stretch.head == stretch.tail ? 1 : 2;
#pragma unroll 1
            for (u32 end = 0; end < ends; end++) {
                const u32 piece = end == 0 ? stretch.head : stretch.tail;
                if (piece != stretch.NOWHERE) action.part(piece, stretch.wanted(elements, piece));
            }
        }
#pragma unroll 1
        for (u32 piece = stretch.begin + thread; piece < stretch.end;
             piece += Elements::AT_ONCE * threads) {
            action.whole(stretch, elements, piece, threads);
        }
    } while (walk.next());
}
