// Copies of the RDMA shim from and to GPUs, by the driver that the process has loaded: CUDA's own, or its shim.
// Not who may reach a GPU's memory (verbs.cc).
#include "verbs_adapter.h"

#include <dlfcn.h>

namespace verbs {

namespace {

using Stream = void*;

struct Driver {
    int (*attribute)(void*, int, uint64_t) = nullptr;
    int (*get_current)(void**) = nullptr;
    int (*set_current)(void*) = nullptr;
    int (*create_stream)(Stream*, unsigned) = nullptr;
    int (*wait)(Stream) = nullptr;
    int (*to_host)(void*, uint64_t, size_t, Stream) = nullptr;
    int (*to_device)(uint64_t, const void*, size_t, Stream) = nullptr;
};

// Null until somebody has loaded it.
const Driver* driver() {
    static Driver found;
    static bool is_there = [] {
        void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (!library) return false;
        auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        return find(found.attribute, "cuPointerGetAttribute") && find(found.get_current, "cuCtxGetCurrent") &&
               find(found.set_current, "cuCtxSetCurrent") && find(found.create_stream, "cuStreamCreate") &&
               find(found.wait, "cuStreamSynchronize") && find(found.to_host, "cuMemcpyDtoHAsync_v2") &&
               find(found.to_device, "cuMemcpyHtoDAsync_v2");
    }();
    return is_there ? &found : nullptr;
}

// A stream that waits for nobody: kernels may wait for what is copied.
Stream stream_in(void* context) {
    thread_local std::map<void*, Stream> streams;
    if (driver()->set_current(context) != 0) return nullptr;
    Stream& stream = streams[context];
    if (!stream) driver()->create_stream(&stream, 1);
    return stream;
}

}  // namespace

bool driver_says_gpu(uint64_t address) {
    constexpr int memory_type = 2, device = 2;
    unsigned type = 0;
    // Only asked once a GPU is in use: the answer without a driver is no.
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) || !driver()) return false;
    return driver()->attribute(&type, memory_type, address) == 0 && type == device;
}

void* current_gpu_context() {
    void* context = nullptr;
    if (driver()) driver()->get_current(&context);
    return context;
}

bool from_gpu(void* context, void* to, uint64_t from, uint64_t bytes) {
    Stream stream = driver() ? stream_in(context) : nullptr;
    return stream && driver()->to_host(to, from, bytes, stream) == 0 && driver()->wait(stream) == 0;
}

bool to_gpu(void* context, uint64_t to, const void* from, uint64_t bytes) {
    Stream stream = driver() ? stream_in(context) : nullptr;
    return stream && driver()->to_device(to, from, bytes, stream) == 0 && driver()->wait(stream) == 0;
}

}  // namespace verbs
