// The pattern kernels, compiled for a processor: the same CUDA C, on memory of the host, for tests
// and for a CUDA driver that is only pretended. Not fast. A translation unit of its own:
//
//   g++ -O2 -std=c++17 -shared -fPIC -fno-strict-aliasing -ffp-contract=off
//       tests/shims/kernels_host.cc -o kernels_host.so
//
// or with further files of a pretended driver, which then calls busbw_kernel_launch.
#include "device_as_host.h"

#include "../../crates/ffi/kernels/pattern.cu"

#define ALL(X)                                    \
    X(data, 1) X(data, 2) X(data, 4) X(data, 8)   \
    X(integer, 1) X(integer, 4) X(integer, 8)     \
    X(float, 1) X(float, 2) X(float, 4) X(float, 8)
ALL(KERNEL)

// A launch of a kernel by its name, as cuLaunchKernel has it: `params` holds a pointer to each
// argument. Returns when it is done: 0, or 1 where there is no kernel of that name, or the grid has
// more than one dimension. It takes a call and some preparation for each thread of the grid: a
// pretended device should have few processors.
extern "C" int busbw_kernel_launch(
    const char *kernel_name, const unsigned grid[3], const unsigned block[3], void **params
) {
    typedef void (*Kernel)(void *, u64, Parameters, WrongElements *);
    static const struct {
        const char *name;
        Kernel kernel;
    } kernels[] = {
#define ENTRY(KIND, BYTES) {"pattern_" #KIND "_" #BYTES, pattern_##KIND##_##BYTES},
        ALL(ENTRY)
    };
    Kernel kernel = nullptr;
    for (const auto &known : kernels) {
        if (std::strcmp(known.name, kernel_name) == 0) kernel = known.kernel;
    }
    if (!kernel || grid[1] * grid[2] * block[1] * block[2] != 1) return 1;
    gridDim = {grid[0], 1, 1};
    blockDim = {block[0], 1, 1};
    for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < block[0]; threadIdx.x++) {
            kernel(*(void **)params[0], *(const u64 *)params[1], *(const Parameters *)params[2],
                   *(WrongElements **)params[3]);
        }
    }
    return 0;
}
