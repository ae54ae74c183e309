// Arithmetic of the reductions on the host.
// Not in NCCL's order of ranks: rounding of inexact sums differs, exact ones are the same.
#include "reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace shim {

namespace {

struct Bfloat16 {
    uint16_t bits = 0;
    Bfloat16() = default;
    explicit Bfloat16(float value) {
        uint32_t wide;
        std::memcpy(&wide, &value, 4);
        if (std::isnan(value)) {
            bits = 0x7fff;
            return;
        }
        bits = static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
    }
    explicit operator float() const {
        uint32_t wide = uint32_t{bits} << 16;
        float value;
        std::memcpy(&value, &wide, 4);
        return value;
    }
};

// FP8 of OCP 1.0, converted with saturation as __nv_fp8_e4m3 and __nv_fp8_e5m2 do.
template <int Mantissa, int Bias, int Largest>
struct Float8 {
    uint8_t bits = 0;
    Float8() = default;
    explicit Float8(float value) {
        uint8_t sign = std::signbit(value) ? 0x80 : 0;
        if (std::isnan(value)) {
            bits = sign | 0x7f;
            return;
        }
        float size = std::fabs(value);
        // The codes of finite values are in the order of their sizes: take the nearer neighbour.
        int low = 0, high = Largest;
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (decode(middle) <= size) low = middle;
            else high = middle - 1;
        }
        if (low < Largest) {
            float below = size - decode(low), above = decode(low + 1) - size;
            if (above < below || (above == below && (low & 1))) low++;
        }
        bits = static_cast<uint8_t>(sign | low);
    }
    explicit operator float() const {
        int code = bits & 0x7f;
        float size = decode(code);
        if (code > Largest) size = Mantissa == 2 && code == 0x7c ? INFINITY : NAN;
        return bits & 0x80 ? -size : size;
    }
    static float decode(int code) {
        int exponent = code >> Mantissa, fraction = code & ((1 << Mantissa) - 1);
        if (exponent == 0) return std::ldexp(static_cast<float>(fraction), 1 - Bias - Mantissa);
        return std::ldexp(static_cast<float>(fraction + (1 << Mantissa)), exponent - Bias - Mantissa);
    }
};

using E4m3 = Float8<3, 7, 0x7e>;
using E5m2 = Float8<2, 15, 0x7b>;

template <typename T>
constexpr bool integer = std::is_integral<T>::value;

// In what a type computes: itself, or the wider float from which it is rounded at once.
template <typename T>
struct Wide {
    using type = T;
};
template <> struct Wide<Bfloat16> { using type = float; };
template <> struct Wide<_Float16> { using type = float; };
template <> struct Wide<E4m3> { using type = float; };
template <> struct Wide<E5m2> { using type = float; };

template <typename T>
T step(int op, T left, T right) {
    using W = typename Wide<T>::type;
    W a = static_cast<W>(left), b = static_cast<W>(right);
    if constexpr (integer<T>) {
        using U = std::make_unsigned_t<std::common_type_t<T, int>>;  // wraps without being undefined
        if (op == Product) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
        if (op != Maximum && op != Minimum) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    }
    switch (op) {
        case Product: return static_cast<T>(a * b);
        case Maximum: return a < b ? right : left;
        case Minimum: return b < a ? right : left;
        default: return static_cast<T>(a + b);
    }
}

template <typename T>
void reduce_as(int op, const void* const* in, int n, void* out, size_t count,
               const void* const* scalars) {
    using W = typename Wide<T>::type;
    bool scaled = op == ScaledSum || (op == Average && !integer<T>);
    auto factor = [&](int rank) {
        T own = T();
        if (op == ScaledSum) std::memcpy(&own, scalars[rank], sizeof own);
        else if constexpr (!integer<T>)
            own = static_cast<T>(static_cast<W>(1.0 / n));
        return own;
    };
    auto load = [&](int rank, size_t i) {
        T value;  // buffers may start anywhere (-u)
        std::memcpy(&value, static_cast<const char*>(in[rank]) + i * sizeof(T), sizeof(T));
        return scaled ? step<T>(Product, value, factor(rank)) : value;
    };
    for (size_t i = 0; i < count; i++) {
        T total = load(0, i);
        for (int rank = 1; rank < n; rank++) total = step<T>(op, total, load(rank, i));
        if constexpr (integer<T>)
            if (op == Average) total = static_cast<T>(total / static_cast<T>(n));
        std::memcpy(static_cast<char*>(out) + i * sizeof(T), &total, sizeof(T));
    }
}

}  // namespace

size_t size_of(int type) {
    static const size_t sizes[types] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

void reduce(int type, int op, const void* const* in, int n, void* out, size_t count,
            const void* const* scalars) {
    switch (type) {
        case 0: return reduce_as<int8_t>(op, in, n, out, count, scalars);
        case 1: return reduce_as<uint8_t>(op, in, n, out, count, scalars);
        case 2: return reduce_as<int32_t>(op, in, n, out, count, scalars);
        case 3: return reduce_as<uint32_t>(op, in, n, out, count, scalars);
        case 4: return reduce_as<int64_t>(op, in, n, out, count, scalars);
        case 5: return reduce_as<uint64_t>(op, in, n, out, count, scalars);
        case 6: return reduce_as<_Float16>(op, in, n, out, count, scalars);
        case 7: return reduce_as<float>(op, in, n, out, count, scalars);
        case 8: return reduce_as<double>(op, in, n, out, count, scalars);
        case 9: return reduce_as<Bfloat16>(op, in, n, out, count, scalars);
        case 10: return reduce_as<E4m3>(op, in, n, out, count, scalars);
        case 11: return reduce_as<E5m2>(op, in, n, out, count, scalars);
    }
}

}  // namespace shim
