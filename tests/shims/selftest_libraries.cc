// The further libraries, opened as busbw opens them: NVML, HIP and RCCL, an older NCCL.
// Not each of their functions.
#include "selftest.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

namespace {

std::string folder() {
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return "";
    return std::string(path).substr(0, std::string(path).rfind('/'));
}

void* open_library(const std::string& name) {
    void* library = dlopen((folder() + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != nullptr, 1);
    if (!library) std::printf("%s\n", dlerror());
    return library;
}

template <typename... Arguments>
int call(void* library, const char* name, Arguments... arguments) {
    auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    if (!function) std::printf("no %s\n", name);
    return function ? function(arguments...) : -1;
}

void older_nccl() {
    void* library = open_library("nccl-2.18/libnccl.so.2");
    int version = 0;
    EXPECT(call(library, "ncclGetVersion", &version), 0);
    EXPECT(version, 21805);
    for (const char* newer : {"ncclAlltoAll", "ncclGather", "ncclCommWindowRegister", "ncclMemAlloc",
                              "ncclCommRegister", "ncclGroupSimulateEnd"})
        EXPECT(dlsym(library, newer) == nullptr, 1);
    EXPECT(dlsym(library, "ncclCommInitRankConfig") != nullptr, 1);
}

void rocm() {
    void* hip = open_library("rocm/libamdhip64.so.6");
    void* rccl = open_library("rocm/librccl.so.1");
    int version = 0, count = 0;
    EXPECT(call(hip, "hipInit", 0u), 0);
    EXPECT(call(hip, "hipGetDeviceCount", &count), 0);
    EXPECT(count, 8);
    EXPECT(call(rccl, "ncclGetVersion", &version), 0);
    EXPECT(version, 22203);
    void *module = nullptr, *comms[2], *streams[2], *blocks[2];
    EXPECT(call(hip, "hipModuleLoadData", &module, static_cast<const void*>(".version 8.0\n")), 200);
    EXPECT(call(rccl, "ncclCommInitAll", static_cast<void**>(comms), 2, static_cast<const int*>(nullptr)), 0);
    EXPECT(call(rccl, "ncclGroupStart"), 0);
    for (int r = 0; r < 2; r++) {
        int value = r + 3;
        EXPECT(call(hip, "hipSetDevice", r), 0);
        EXPECT(call(hip, "hipStreamCreateWithFlags", &streams[r], 1u), 0);
        EXPECT(call(hip, "hipMalloc", &blocks[r], sizeof value), 0);
        EXPECT(call(hip, "hipMemcpyHtoD", blocks[r], static_cast<const void*>(&value), sizeof value), 0);
        EXPECT(call(rccl, "ncclAllReduce", static_cast<const void*>(blocks[r]), blocks[r], size_t{1}, 2,
                    0, comms[r], streams[r]), 0);
    }
    EXPECT(call(rccl, "ncclGroupEnd"), 0);
    for (int r = 0; r < 2; r++) {
        int sum = 0;
        EXPECT(call(hip, "hipSetDevice", r), 0);
        EXPECT(call(hip, "hipStreamSynchronize", streams[r]), 0);
        EXPECT(call(hip, "hipMemcpyDtoH", static_cast<void*>(&sum), static_cast<const void*>(blocks[r]),
                    sizeof sum), 0);
        EXPECT(sum, 7);
    }
}

void nvml() {
    char name[] = "/tmp/busbw-shim-selftest-XXXXXX";
    FILE* file = fdopen(mkstemp(name), "w");
    std::fputs("# planted\n* power 350000\n1 throttle 0x48\n1 process 4242 1000000 trainer\n"
               "1 ecc.uncorrected !3\n* field.138 +10\n1 nvlink.4.state 0\n1 memory.used 5000000\n", file);
    std::fclose(file);
    setenv("BUSBW_SHIM_NVML_FILE", name, 1);
    void* library = open_library("libnvidia-ml.so.1");
    unsigned count = 0, power = 0;
    void *zero = nullptr, *one = nullptr;
    unsigned long long value = 9;
    EXPECT(call(library, "nvmlDeviceGetCount_v2", &count), 1);
    EXPECT(call(library, "nvmlInit_v2"), 0);
    EXPECT(call(library, "nvmlDeviceGetCount_v2", &count), 0);
    EXPECT(count, 8);
    EXPECT(call(library, "nvmlDeviceGetHandleByIndex_v2", 8u, &one), 2);
    EXPECT(call(library, "nvmlDeviceGetHandleByIndex_v2", 0u, &zero), 0);
    EXPECT(call(library, "nvmlDeviceGetHandleByIndex_v2", 1u, &one), 0);
    EXPECT(call(library, "nvmlDeviceGetPowerUsage", zero, &power), 0);
    EXPECT(power, 350000);
    EXPECT(call(library, "nvmlDeviceGetCurrentClocksThrottleReasons", zero, &value), 0);
    EXPECT(static_cast<long>(value), 0);
    EXPECT(call(library, "nvmlDeviceGetCurrentClocksThrottleReasons", one, &value), 0);
    EXPECT(static_cast<long>(value), 0x48);
    EXPECT(call(library, "nvmlDeviceGetTotalEccErrors", one, 1u, 0u, &value), 3);
    int up = 1;
    EXPECT(call(library, "nvmlDeviceGetNvLinkState", one, 4u, &up), 0);
    EXPECT(up, 0);
    EXPECT(call(library, "nvmlDeviceGetNvLinkState", one, 18u, &up), 2);
    struct {
        unsigned pid;
        unsigned long long bytes;
        unsigned more[2];
    } processes[4];
    count = 0;
    EXPECT(call(library, "nvmlDeviceGetComputeRunningProcesses_v3", one, &count, static_cast<void*>(nullptr)), 7);
    EXPECT(count, 1);
    count = 4;
    EXPECT(call(library, "nvmlDeviceGetComputeRunningProcesses_v3", one, &count, static_cast<void*>(processes)), 0);
    EXPECT(processes[0].pid, 4242);
    char words[64];
    EXPECT(call(library, "nvmlSystemGetProcessName", 4242u, static_cast<char*>(words), 64u), 0);
    EXPECT(std::strcmp(words, "trainer"), 0);
    struct {
        unsigned field = 138, scope = 0;
        long long times[2];
        unsigned type;
        int result;
        unsigned long long value;
    } field;
    for (int turn = 1; turn <= 2; turn++) {
        EXPECT(call(library, "nvmlDeviceGetFieldValues", one, 1, static_cast<void*>(&field)), 0);
        EXPECT(field.result, 0);
        EXPECT(static_cast<int>(field.value), 10 * turn);
    }
    unsigned fabric[10] = {40 | 3u << 24};
    EXPECT(call(library, "nvmlDeviceGetGpuFabricInfoV", one, static_cast<void*>(fabric)), 0);
    fabric[0] = 1;
    EXPECT(call(library, "nvmlDeviceGetGpuFabricInfoV", one, static_cast<void*>(fabric)), 25);
    EXPECT(call(library, "nvmlShutdown"), 0);
    EXPECT(call(library, "nvmlShutdown"), 1);
    file = std::fopen(name, "w");
    std::fputs("0 init !9\n", file);
    std::fclose(file);
    EXPECT(call(library, "nvmlInit_v2"), 9);
    unlink(name);
}

}  // namespace

void test_libraries() {
    older_nccl();
    rocm();
    nvml();
}
