// What CUDA C takes for granted, for a C++ compiler: one thread of a grid at a time, on a processor.
// Not a simulation of a device: threads of a block run one after the other, so that a kernel that
// waits for another thread hangs. The pattern kernels wait for nobody but a lock's holder.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads)

struct Index {
    unsigned x, y, z;
};
// Of the launching thread's own, so that several devices may run side by side.
static thread_local Index gridDim, blockDim, blockIdx, threadIdx;

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned places) {
    const unsigned long long both = (unsigned long long)high << 32 | low;
    unsigned bytes = 0;
    for (int at = 0; at < 4; at++) {
        bytes |= (unsigned)(both >> (places >> 4 * at & 7) * 8 & 0xff) << 8 * at;
    }
    return bytes;
}
static inline unsigned long long product(unsigned a, unsigned b) {
    return (unsigned long long)a * b;
}
static inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
// That of each type rounds once.
using std::fma;
template <class To, class From> static inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "only between types of one size");
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }

// Arithmetic on two halves side by side, rounded once each: f32 holds what two halves give exactly.
template <class Step> static inline unsigned halves(unsigned a, unsigned b, Step step) {
    unsigned both = 0;
    for (int at = 0; at < 32; at += 16) {
        const float x = (float)same_bits<_Float16>((unsigned short)(a >> at));
        const float y = (float)same_bits<_Float16>((unsigned short)(b >> at));
        both |= (unsigned)same_bits<unsigned short>((_Float16)step(x, y)) << at;
    }
    return both;
}
static inline unsigned halves_sum(unsigned a, unsigned b) {
    return halves(a, b, [](float x, float y) { return x + y; });
}
static inline unsigned halves_difference(unsigned a, unsigned b) {
    return halves(a, b, [](float x, float y) { return x - y; });
}
static inline unsigned halves_product(unsigned a, unsigned b) {
    return halves(a, b, [](float x, float y) { return x * y; });
}

template <class T> static inline T atomicAdd(T *at, T by) {
    return __atomic_fetch_add(at, by, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicExch(T *at, T value) {
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicCAS(T *at, T expected, T value) {
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
