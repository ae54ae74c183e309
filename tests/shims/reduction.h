// Arithmetic of the reductions: 12 types, sum, product, maximum, minimum, average, scaled sum.
// Not who reduces what: collective.cc.
#pragma once
#include <cstddef>
#include <cstdint>

namespace shim {

// ncclDataType_t and ncclRedOp_t: nccl.h of 2.28.
constexpr int types = 12;
enum Operator { Sum = 0, Product = 1, Maximum = 2, Minimum = 3, Average = 4, ScaledSum = 5 };

size_t size_of(int type);

// out[i] = in[0][i] op in[1][i] op …, rounded to the type after each step. `scalars`: of ScaledSum,
// one element for each input. Average is the sum divided for integers, and the sum of each input times 1/n
// (rounded to the type) for floats, as NCCL does it: src/enqueue.cc, hostToDevRedOp.
void reduce(int type, int op, const void* const* in, int n, void* out, size_t count,
            const void* const* scalars);

}  // namespace shim
