// libcuda.so.1: the names of the CUDA driver API that busbw uses, and their checks of arguments.
// Not the work behind them: core.h. Signatures and codes: CUDA Driver API reference, 13.0.
#include "core.h"
#include "machine.h"
#include "setting.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

using namespace shim;

const char* shim::visible_variable() { return "CUDA_VISIBLE_DEVICES"; }

namespace {

Result valid_device(int device) {
    if (Result no = ready()) return no;
    return device >= 0 && device < device_count() ? Success : InvalidDevice;
}

// What a call needs that works on the current context, and that captures under way may forbid.
Result context_for_unsafe(Context** context) {
    if (Result no = current(context)) return no;
    if (int spoiled = (*context)->spoiled) return static_cast<Result>(spoiled);
    return unsafe_call();
}

int numa_of(int device) {
    std::string list = text("BUSBW_SHIM_NUMA");  // "0,0,1,1": one node per GPU of the machine
    int at = physical(device);
    const char* rest = list.c_str();
    while (at-- > 0 && rest) rest = std::strchr(rest, ',') ? std::strchr(rest, ',') + 1 : nullptr;
    return rest && *rest ? std::atoi(rest) : 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Machine busbw_shim_machine() { return machine(); }

int cuInit(unsigned flags) { return flags ? InvalidValue : initialise(); }

int cuDriverGetVersion(int* version) {
    if (!version) return InvalidValue;
    *version = driver_version();
    return Success;
}

int cuDeviceGetCount(int* count) {
    if (Result no = ready()) return no;
    if (!count) return InvalidValue;
    *count = device_count();
    return Success;
}

int cuDeviceGet(int* device, int ordinal) {
    if (Result no = valid_device(ordinal)) return no;
    if (!device) return InvalidValue;
    *device = ordinal;
    return Success;
}

int cuDeviceGetName(char* name, int length, int device) {
    if (Result no = valid_device(device)) return no;
    if (!name || length <= 0) return InvalidValue;
    std::snprintf(name, static_cast<size_t>(length), "%s",
                  text("BUSBW_SHIM_NAME", "Shim H200").c_str());
    return Success;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
    if (Result no = valid_device(device)) return no;
    if (!bytes) return InvalidValue;
    *bytes = memory_of_device();
    return Success;
}

int cuDeviceGetPCIBusId(char* out, int length, int device) {
    if (Result no = valid_device(device)) return no;
    std::string id = bus_id_of(physical(device));
    if (!out || length <= static_cast<int>(id.size())) return InvalidValue;
    std::strcpy(out, id.c_str());
    return Success;
}

int cuDeviceGetUuid_v2(unsigned char* sixteen, int device) {
    if (Result no = valid_device(device)) return no;
    if (!sixteen) return InvalidValue;
    uuid_of(physical(device), sixteen);
    return Success;
}

// Numbers of CUdevice_attribute: cuda.h of 13.0.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (Result no = valid_device(device)) return no;
    if (!value || attribute < 1 || attribute > 150) return InvalidValue;
    switch (attribute) {
        case 1: case 2: case 3: *value = attribute == 3 ? 64 : 1024; break;  // threads per block
        case 10: *value = 32; break;                                // warp size
        case 13: *value = 1980000; break;                           // clock, kHz
        case 16: *value = static_cast<int>(number("BUSBW_SHIM_PROCESSORS", 2)); break;
        case 33: *value = 0x10 + physical(device); break;           // PCI bus
        case 34: case 50: *value = 0; break;                        // PCI device, domain
        case 36: *value = 3201000; break;                           // memory clock, kHz
        case 39: *value = 2048; break;                              // threads per multiprocessor
        case 41: *value = 1; break;                                 // unified addressing
        case 75: *value = 9; break;                                 // compute capability
        case 76: *value = 0; break;
        case 124: *value = static_cast<int>(number("BUSBW_SHIM_DMA_BUF", 1)); break;
        case 131: *value = -1; break;                               // NUMA_ID: no node of its own
        case 132: *value = static_cast<int>(number("BUSBW_SHIM_MULTICAST", 0)); break;
        case 134: *value = numa_of(device); break;                  // HOST_NUMA_ID
        default: *value = 0;
    }
    return Success;
}

int cuDeviceCanAccessPeer(int* can, int device, int peer) {
    if (Result no = valid_device(device)) return no;
    if (Result no = valid_device(peer)) return no;
    if (!can) return InvalidValue;
    *can = device != peer && !number("BUSBW_SHIM_NO_PEER", 0);
    return Success;
}

int cuDevicePrimaryCtxRetain(Context** out, int device) {
    if (Result no = valid_device(device)) return no;
    if (!out) return InvalidValue;
    if (uint64_t planted = number("BUSBW_SHIM_RETAIN", Success)) return static_cast<Result>(planted);
    return retain_primary(device, out);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    if (Result no = valid_device(device)) return no;
    return release_primary(device);
}

int cuCtxSetCurrent(Context* context) {
    if (Result no = ready()) return no;
    return set_current(context);
}

int cuCtxGetCurrent(Context** out) {
    if (Result no = ready()) return no;
    if (!out) return InvalidValue;
    *out = context_of_thread();
    return Success;
}

int cuCtxGetDevice(int* device) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    if (!device) return InvalidValue;
    *device = context->device;
    return Success;
}

int cuCtxSynchronize() {
    Context* context = nullptr;
    if (Result no = context_for_unsafe(&context)) return no;
    return synchronise_context(context);
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    if (!free || !total) return InvalidValue;
    size_t used = used_memory(context->device);
    *total = memory_of_device();
    *free = used < *total ? *total - used : 0;
    return Success;
}

int cuMemAlloc_v2(void** out, size_t bytes) {
    Context* context = nullptr;
    if (Result no = context_for_unsafe(&context)) return no;
    return allocate(context, bytes, Kind::Device, out);
}

int cuMemFree_v2(void* pointer) {
    Context* context = nullptr;
    if (Result no = context_for_unsafe(&context)) return no;
    Allocation block;
    if (!pointer) return Success;
    if (!find(pointer, 0, &block) || block.kind != Kind::Device) return InvalidValue;
    return release(pointer, false);
}

int cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
    Context* context = nullptr;
    if (Result no = context_for_unsafe(&context)) return no;
    if (flags > 7) return InvalidValue;
    return allocate(context, bytes, Kind::Pinned, out);
}

int cuMemFreeHost(void* pointer) {
    Context* context = nullptr;
    if (Result no = context_for_unsafe(&context)) return no;
    return release(pointer, true);
}

int cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) {
    return copy_to_host(to, from, bytes, nullptr, true);
}

int cuMemcpyHtoD_v2(void* to, const void* from, size_t bytes) {
    return copy_to_device(to, from, bytes, nullptr, true);
}

int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
    return copy_to_host(to, from, bytes, stream, false);
}

int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
    return copy_to_device(to, from, bytes, stream, false);
}

int cuMemsetD8_v2(void* to, unsigned char value, size_t bytes) {
    return fill(to, value, bytes, nullptr);
}

int cuMemsetD8Async(void* to, unsigned char value, size_t bytes, void* stream) {
    return fill(to, value, bytes, stream);
}

// Type 1 is a dma-buf. The file has the size of the range, as a dma-buf has, and nothing in it.
int cuMemGetHandleForAddressRange(void* out, const void* from, size_t bytes, int type, unsigned long long flags) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    constexpr size_t page = 4096;
    Allocation block;
    bool is_whole = reinterpret_cast<uintptr_t>(from) % page == 0 && bytes % page == 0;
    if (!out || type != 1 || flags || !is_whole || !find(from, bytes, &block)) return InvalidValue;
    if (!number("BUSBW_SHIM_DMA_BUF", 1)) return NotSupported;
    if (block.kind == Kind::Pinned) return InvalidValue;
    int file = memfd_create("busbw-shim-dma-buf", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return OutOfMemory;
    *static_cast<int*>(out) = file;
    return Success;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    return target == 0 && (scope == 100 || scope == 200) ? Success : InvalidValue;
}

// Of its attributes the type of memory (2): 1 is the host's, 2 a GPU's.
int cuPointerGetAttribute(void* out, int attribute, const void* pointer) {
    if (Result no = ready()) return no;
    Allocation block;
    if (!out || attribute != 2 || !find(pointer, 1, &block)) return InvalidValue;
    *static_cast<unsigned*>(out) = block.kind == Kind::Pinned ? 1 : 2;
    return Success;
}

int cuStreamCreate(Stream** out, unsigned flags) { return create_stream(flags, out); }

int cuStreamDestroy_v2(Stream* stream) { return destroy_stream(stream); }

int cuStreamQuery(void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    return query(stream);
}

int cuStreamSynchronize(void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    return synchronise(stream);
}

int cuStreamWaitEvent(void* handle, Event* event, unsigned flags) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    return flags > 1 ? InvalidValue : wait_event(stream, event);
}

int cuStreamBeginCapture_v2(void* stream, int mode) { return begin_capture(stream, mode); }

int cuStreamEndCapture(void* stream, Graph** out) { return end_capture(stream, out); }

int cuStreamIsCapturing(void* stream, int* status) { return capture_status(stream, status); }

int cuThreadExchangeStreamCaptureMode(int* mode) { return exchange_mode(mode); }

int cuGraphInstantiateWithFlags(Graph** out, Graph* graph, unsigned long long flags) {
    return flags > 15 ? InvalidValue : instantiate(graph, out);
}

int cuGraphLaunch(Graph* executable, void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    return launch(executable, stream);
}

int cuGraphExecDestroy(Graph* executable) { return destroy_graph(executable, true); }

int cuGraphDestroy(Graph* graph) { return destroy_graph(graph, false); }

int cuEventCreate(Event** out, unsigned flags) { return create_event(flags, out); }

int cuEventRecord(Event* event, void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    return record(event, stream);
}

int cuEventSynchronize(Event* event) {
    if (Result no = ready()) return no;
    return synchronise(event);
}

int cuEventQuery(Event* event) {
    if (Result no = ready()) return no;
    return query(event);
}

int cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
    if (Result no = ready()) return no;
    return elapsed(milliseconds, from, to);
}

int cuEventElapsedTime_v2(float* milliseconds, Event* from, Event* to) {
    return cuEventElapsedTime(milliseconds, from, to);
}

int cuEventDestroy_v2(Event* event) { return destroy_event(event); }

int cuModuleLoadData(Module** out, const void* image) {
    std::string log;
    return load_module(image, &log, out);
}

// Options: CUjit_option 3 and 4 are the information log and its size, 5 and 6 those of errors.
int cuModuleLoadDataEx(Module** out, const void* image, unsigned count, int* options,
                       void** values) {
    if (count && (!options || !values)) return InvalidValue;
    std::string log;
    int result = load_module(image, &log, out);
    char* buffer = nullptr;
    size_t room = 0, *written = nullptr;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) buffer = static_cast<char*>(values[i]);
        if (options[i] == 6) {
            room = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
            written = reinterpret_cast<size_t*>(&values[i]);
        }
    }
    if (buffer && room) {
        std::snprintf(buffer, room, "%s", log.c_str());
        *written = std::strlen(buffer);
    }
    return result;
}

int cuModuleGetFunction(Function** out, Module* module, const char* name) {
    return function_of(module, name, out);
}

int cuModuleUnload(Module* module) { return unload_module(module); }

int cuFuncGetAttribute(int* value, int attribute, Function* function) {
    if (Result no = ready()) return no;
    return function_attribute(value, attribute, function);
}

int cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* handle, void** parameters, void** extra) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (extra) return InvalidValue;  // the shim takes parameters one by one
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    if (stream->context != context) return InvalidHandle;
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    return launch_kernel(function, grid, block, shared_bytes, stream, parameters);
}

}  // extern "C"
#pragma GCC visibility pop
