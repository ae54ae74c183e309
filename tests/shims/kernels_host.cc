// The pattern kernels, compiled for a processor: the same CUDA C, on memory of the host, for tests
// and for a CUDA driver that is only pretended. Not fast. A translation unit of its own:
//
//   g++ -O2 -std=c++17 -shared -fPIC -fno-strict-aliasing -ffp-contract=off
//       tests/shims/kernels_host.cc -o kernels_host.so
//
// or with further files of a pretended driver, which then calls busbw_kernel_launch.
#include "device_as_host.h"

#include "../../crates/native/kernels/pattern.cu"

// A launch of a kernel by its name, as cuLaunchKernel has it: `params` holds a pointer to each
// argument. Returns when it is done: 0, or 1 where there is no kernel of that name. It takes a call
// and some preparation for each thread of the grid: a pretended device should have few processors.
extern "C" int busbw_kernel_launch(
    const char *kernel_name, const unsigned grid[3], const unsigned block[3], void **params
) {
    typedef void (*FillKernel)(void *, u64, Parameters);
    typedef void (*VerifyKernel)(const void *, u64, Parameters, Findings *);
    static const struct {
        const char *name;
        FillKernel fill;
        VerifyKernel verify;
    } kernels[] = {
        {"fill_data_1", fill_data_1, nullptr},
        {"fill_data_2", fill_data_2, nullptr},
        {"fill_data_4", fill_data_4, nullptr},
        {"fill_data_8", fill_data_8, nullptr},
        {"fill_reduction_1", fill_reduction_1, nullptr},
        {"fill_reduction_2", fill_reduction_2, nullptr},
        {"fill_reduction_4", fill_reduction_4, nullptr},
        {"fill_reduction_8", fill_reduction_8, nullptr},
        {"verify_data_1", nullptr, verify_data_1},
        {"verify_data_2", nullptr, verify_data_2},
        {"verify_data_4", nullptr, verify_data_4},
        {"verify_data_8", nullptr, verify_data_8},
        {"verify_reduction_1", nullptr, verify_reduction_1},
        {"verify_reduction_2", nullptr, verify_reduction_2},
        {"verify_reduction_4", nullptr, verify_reduction_4},
        {"verify_reduction_8", nullptr, verify_reduction_8},
    };
    for (const auto &kernel : kernels) {
        if (std::strcmp(kernel.name, kernel_name) != 0) continue;
        gridDim = {grid[0], grid[1], grid[2]};
        blockDim = {block[0], block[1], block[2]};
        const u64 blocks = (u64)grid[0] * grid[1] * grid[2];
        const u64 threads = (u64)block[0] * block[1] * block[2];
        for (u64 b = 0; b < blocks; b++) {
            blockIdx = {(unsigned)(b % grid[0]), (unsigned)(b / grid[0] % grid[1]),
                        (unsigned)(b / grid[0] / grid[1])};
            for (u64 t = 0; t < threads; t++) {
                threadIdx = {(unsigned)(t % block[0]), (unsigned)(t / block[0] % block[1]),
                             (unsigned)(t / block[0] / block[1])};
                const u64 count = *(const u64 *)params[1];
                const Parameters &p = *(const Parameters *)params[2];
                if (kernel.fill) kernel.fill(*(void **)params[0], count, p);
                else kernel.verify(*(void **)params[0], count, p, *(Findings **)params[3]);
            }
        }
        return 0;
    }
    return 1;
}
