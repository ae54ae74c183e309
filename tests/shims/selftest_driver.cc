// The driver's rules: what works, and what each misuse answers.
// Not the collectives.
#include "selftest.h"

#include <stdlib.h>
#include <unistd.h>

namespace {

constexpr const char* ptx =
    "//\n.version 8.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry twice(\n .param .u64 twice_param_0,\n .param .align 8 .b8 twice_param_1[24]\n)\n.maxntid 256,1,1\n{ ret; }\n";

void contexts_and_memory() {
    int count = 0, device = 0;
    void *context = nullptr, *block = nullptr, *pinned = nullptr;
    EXPECT(cuDeviceGetCount(&count), 3);  // before cuInit
    EXPECT(cuInit(1), 1);
    EXPECT(cuInit(0), 0);
    EXPECT(cuDeviceGetCount(&count), 0);
    EXPECT(count, 8);
    EXPECT(cuDeviceGet(&device, 8), 101);
    EXPECT(cuMemAlloc_v2(&block, 64), 201);  // no context yet
    EXPECT(cuDevicePrimaryCtxRelease_v2(7), 201);
    EXPECT(cuDevicePrimaryCtxRetain(&context, 1), 0);
    EXPECT(cuCtxSetCurrent(context), 0);
    EXPECT(cuMemAlloc_v2(&block, 0), 1);
    EXPECT(cuMemAlloc_v2(&block, 2ull << 30), 2);
    EXPECT(cuMemAlloc_v2(&block, 1000), 0);
    char bytes[1000];
    EXPECT(cuMemcpyHtoD_v2(block, bytes, 1001), 1);
    EXPECT(cuMemcpyDtoH_v2(bytes, bytes, 10), 1);  // not of the device
    EXPECT(cuMemsetD8_v2(static_cast<char*>(block) + 999, 1, 2), 1);
    EXPECT(cuMemsetD8_v2(block, 7, 1000), 0);
    EXPECT(cuMemcpyDtoH_v2(bytes, block, 1000), 0);
    EXPECT(bytes[0] + bytes[999], 14);
    EXPECT(cuMemHostAlloc(&pinned, 64, 0), 0);
    EXPECT(cuMemFree_v2(pinned), 1);
    EXPECT(cuMemFreeHost(block), 1);
    EXPECT(cuMemFreeHost(pinned), 0);
    static_cast<char*>(block)[1000] = 1;  // past the end, within the page
    EXPECT(cuMemFree_v2(block), 700);
    EXPECT(cuMemFree_v2(block), 1);
    EXPECT(cuDevicePrimaryCtxRelease_v2(1), 0);
    EXPECT(cuMemAlloc_v2(&block, 64), 201);  // the context is gone
    EXPECT(in_child(5, [] { EXPECT(cuInit(0), 3); }), 0);  // CUDA does not survive a fork
}

void streams_and_events() {
    Rank at;
    open_rank(at, 0);
    void *block = nullptr, *begin = nullptr, *end = nullptr, *untimed = nullptr, *other = nullptr;
    size_t size = 1 << 20;
    EXPECT(cuMemAlloc_v2(&block, size), 0);
    std::vector<char> host(size, 1);
    // A stream works on its own: without a wait there is nothing in the host's memory yet.
    setenv("BUSBW_SHIM_STREAM_DELAY_US", "100000", 1);
    EXPECT(cuMemsetD8Async(block, 9, size, at.stream), 0);
    EXPECT(cuMemcpyDtoHAsync_v2(host.data(), block, size, at.stream), 0);
    EXPECT(host[0], 1);
    EXPECT(cuStreamQuery(at.stream), 600);
    EXPECT(cuStreamSynchronize(at.stream), 0);
    EXPECT(host[size - 1], 9);
    EXPECT(cuStreamQuery(at.stream), 0);

    EXPECT(cuEventCreate(&begin, 0), 0);
    EXPECT(cuEventCreate(&end, 0), 0);
    EXPECT(cuEventCreate(&untimed, 2), 0);
    float ms = 0;
    EXPECT(cuEventElapsedTime(&ms, begin, end), 400);  // not recorded
    EXPECT(cuEventSynchronize(begin), 0);
    EXPECT(cuEventRecord(begin, at.stream), 0);
    EXPECT(cuMemsetD8Async(block, 1, size, at.stream), 0);
    EXPECT(cuEventRecord(end, at.stream), 0);
    EXPECT(cuEventQuery(end), 600);
    EXPECT(cuEventElapsedTime(&ms, begin, end), 600);
    EXPECT(cuEventSynchronize(end), 0);
    EXPECT(cuEventElapsedTime(&ms, begin, end), 0);
    EXPECT(ms > 150 && ms < 2000, 1);
    EXPECT(cuEventRecord(untimed, at.stream), 0);
    EXPECT(cuEventElapsedTime(&ms, begin, untimed), 400);
    unsetenv("BUSBW_SHIM_STREAM_DELAY_US");

    Rank second;
    open_rank(second, 1);
    EXPECT(cuEventRecord(begin, second.stream), 400);  // event of another device
    EXPECT(cuCtxSetCurrent(at.context), 0);
    // The null stream waits for a blocking stream, not for a non-blocking one.
    EXPECT(cuStreamCreate(&other, 0), 0);
    EXPECT(cuMemsetD8Async(block, 3, size, other), 0);
    EXPECT(cuMemcpyDtoH_v2(host.data(), block, size), 0);
    EXPECT(host[0], 3);
    EXPECT(cuStreamDestroy_v2(other), 0);
    EXPECT(cuStreamSynchronize(other), 400);
    EXPECT(cuEventDestroy_v2(end), 0);
    EXPECT(cuEventQuery(end), 400);
}

void graphs() {
    Rank at;
    open_rank(at, 0);
    void *block = nullptr, *graph = nullptr, *run = nullptr, *blocking = nullptr, *more = nullptr;
    EXPECT(cuMemAlloc_v2(&block, 64), 0);
    EXPECT(cuMemsetD8_v2(block, 0, 64), 0);
    EXPECT(cuStreamEndCapture(at.stream, &graph), 1);
    EXPECT(cuStreamBeginCapture_v2(at.stream, 1), 0);
    EXPECT(cuStreamBeginCapture_v2(at.stream, 1), 1);
    int status = 0;
    EXPECT(cuStreamIsCapturing(at.stream, &status), 0);
    EXPECT(status, 1);
    EXPECT(cuMemsetD8Async(block, 5, 64, at.stream), 0);
    EXPECT(cuStreamEndCapture(at.stream, &graph), 0);
    char bytes[64];
    EXPECT(cuCtxSynchronize(), 0);
    EXPECT(cuMemcpyDtoH_v2(bytes, block, 64), 0);
    EXPECT(bytes[0], 0);  // recorded, not run
    EXPECT(cuGraphInstantiateWithFlags(&run, graph, 0), 0);
    EXPECT(cuGraphDestroy(graph), 0);
    EXPECT(cuGraphDestroy(graph), 1);
    EXPECT(cuGraphLaunch(run, at.stream), 0);
    EXPECT(cuStreamSynchronize(at.stream), 0);
    EXPECT(cuMemcpyDtoH_v2(bytes, block, 64), 0);
    EXPECT(bytes[63], 5);
    EXPECT(cuGraphExecDestroy(run), 0);
    EXPECT(cuGraphLaunch(run, at.stream), 1);

    // What a capture forbids spoils it.
    EXPECT(cuStreamBeginCapture_v2(at.stream, 0), 0);
    EXPECT(cuMemAlloc_v2(&more, 64), 900);
    EXPECT(cuStreamEndCapture(at.stream, &graph), 901);
    EXPECT(cuStreamBeginCapture_v2(at.stream, 2), 0);
    EXPECT(cuMemAlloc_v2(&more, 64), 0);
    EXPECT(cuStreamSynchronize(at.stream), 900);
    EXPECT(cuStreamEndCapture(at.stream, &graph), 901);
    EXPECT(cuStreamCreate(&blocking, 0), 0);
    EXPECT(cuStreamBeginCapture_v2(blocking, 2), 0);
    EXPECT(cuMemsetD8_v2(block, 1, 64), 906);
    EXPECT(cuStreamEndCapture(blocking, &graph), 901);
    int mode = 2;
    EXPECT(cuThreadExchangeStreamCaptureMode(&mode), 0);
    EXPECT(mode, 0);
    EXPECT(cuThreadExchangeStreamCaptureMode(&mode), 0);
}

void modules() {
    Rank at;
    open_rank(at, 2);
    void *module = nullptr, *function = nullptr;
    EXPECT(cuModuleLoadData(&module, "\177ELF"), 200);
    EXPECT(cuModuleLoadData(&module, ".visible .entry f()"), 218);
    EXPECT(cuModuleLoadData(&module, ".version 8.0\n.target sm_100\n"), 209);
    char log[200] = "";
    int options[] = {5, 6};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    EXPECT(cuModuleLoadDataEx(&module, ".version 9.9\n.target sm_70\n", 2, options, values), 222);
    EXPECT(std::strstr(log, "9.9") != nullptr, 1);
    setenv("BUSBW_SHIM_DRIVER", "11080", 1);
    EXPECT(cuModuleLoadData(&module, ptx), 222);
    unsetenv("BUSBW_SHIM_DRIVER");
    EXPECT(cuModuleLoadData(&module, ptx), 0);
    EXPECT(cuModuleGetFunction(&function, module, "thrice"), 500);
    EXPECT(cuModuleGetFunction(&function, module, "twice"), 0);
    uint64_t first = 0;
    char second[24] = "";
    void* parameters[] = {&first, second};
    EXPECT(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, at.stream, parameters, nullptr), 1);
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 257, 1, 1, 0, at.stream, parameters, nullptr), 1);
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 50000, at.stream, parameters, nullptr), 1);
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, at.stream, nullptr, nullptr), 1);
    // No kernel of that name on the host: the launch fails, and the context is spoiled.
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, at.stream, parameters, nullptr), 0);
    EXPECT(cuStreamSynchronize(at.stream), 719);
    void* block = nullptr;
    EXPECT(cuMemAlloc_v2(&block, 64), 719);
    EXPECT(cuModuleUnload(module), 0);
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, at.stream, parameters, nullptr), 400);
}

}  // namespace

void test_driver() {
    contexts_and_memory();
    streams_and_events();
    graphs();
    modules();
}
