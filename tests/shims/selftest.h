// The real libraries' declarations as far as the self-test calls them, and its bookkeeping.
// Not the shims' own headers: the test sees what busbw sees.
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDeviceGetCount(int*);
int cuDeviceGet(int*, int);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void*);
int cuCtxSynchronize();
int cuMemGetInfo_v2(size_t*, size_t*);
int cuMemAlloc_v2(void**, size_t);
int cuMemFree_v2(void*);
int cuMemHostAlloc(void**, size_t, unsigned);
int cuMemFreeHost(void*);
int cuMemcpyDtoH_v2(void*, const void*, size_t);
int cuMemcpyHtoD_v2(void*, const void*, size_t);
int cuMemcpyDtoHAsync_v2(void*, const void*, size_t, void*);
int cuMemcpyHtoDAsync_v2(void*, const void*, size_t, void*);
int cuMemsetD8_v2(void*, unsigned char, size_t);
int cuMemsetD8Async(void*, unsigned char, size_t, void*);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamQuery(void*);
int cuStreamSynchronize(void*);
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuStreamIsCapturing(void*, int*);
int cuThreadExchangeStreamCaptureMode(int*);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphLaunch(void*, void*);
int cuGraphExecDestroy(void*);
int cuGraphDestroy(void*);
int cuEventCreate(void**, unsigned);
int cuEventRecord(void*, void*);
int cuEventSynchronize(void*);
int cuEventQuery(void*);
int cuEventElapsedTime(float*, void*, void*);
int cuEventDestroy_v2(void*);
int cuModuleLoadData(void**, const void*);
int cuModuleLoadDataEx(void**, const void*, unsigned, int*, void**);
int cuModuleGetFunction(void**, void*, const char*);
int cuModuleUnload(void*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);

struct UniqueId {
    char bytes[128];
};
int ncclGetVersion(int*);
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommInitRankConfig(void**, int, UniqueId, int, void*);
int ncclCommInitAll(void**, int, const int*);
int ncclCommFinalize(void*);
int ncclCommDestroy(void*);
int ncclCommAbort(void*);
int ncclCommGetAsyncError(void*, int*);
int ncclCommCount(void*, int*);
int ncclMemAlloc(void**, size_t);
int ncclMemFree(void*);
int ncclCommRegister(void*, void*, size_t, void**);
int ncclCommDeregister(void*, void*);
int ncclCommWindowRegister(void*, void*, size_t, void**, int);
int ncclCommWindowDeregister(void*, void*);
int ncclRedOpCreatePreMulSum(int*, void*, int, int, void*);
int ncclRedOpDestroy(int, void*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclReduce(const void*, void*, size_t, int, int, int, void*, void*);
int ncclBroadcast(const void*, void*, size_t, int, int, void*, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclAllGather(const void*, void*, size_t, int, void*, void*);
int ncclAlltoAll(const void*, void*, size_t, int, void*, void*);
int ncclGather(const void*, void*, size_t, int, int, void*, void*);
int ncclScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
int ncclGroupSimulateEnd(void*);
void ncclResetDebugInit();
}

extern int checks, failures;

// `got` must be `expected`; a difference is printed with its place, and counted.
void expect(const char* file, int line, const char* what, long got, long expected);
#define EXPECT(call, code) expect(__FILE__, __LINE__, #call, (call), (code))

struct Rank {
    int rank = 0, ranks = 0;
    void* context = nullptr;
    void* stream = nullptr;
    void* comm = nullptr;
    void* block = nullptr;
};

// Runs `body` in a forked child, which must not have used CUDA before; its exit status, or -1 where
// it took longer than `seconds`.
int in_child(int seconds, const std::function<void()>& body);

void test_collectives(std::vector<Rank>& mine);  // selftest_collectives.cc
void test_driver();                              // selftest_driver.cc
void test_faults();                              // selftest_faults.cc
void test_libraries();                           // selftest_libraries.cc
void open_rank(Rank& rank, int device);          // context and stream
