// libamdhip64.so.6: the HIP runtime's names over the same machine.
// Not an AMD GPU's behaviour: nobody has compared it with one. Signatures: hip_runtime_api.h of 6.x.
#include "core.h"
#include "machine.h"
#include "setting.h"

#include <cstdio>

using namespace shim;

const char* shim::visible_variable() { return "HIP_VISIBLE_DEVICES"; }

namespace {

// HIP initialises itself with the first call.
Result valid_device(int device) {
    if (Result no = initialise()) return no;
    return device >= 0 && device < device_count() ? Success : InvalidDevice;
}

// A thread that has chosen no device has the first one.
Result here(Context** context) {
    if (Result no = initialise()) return no;
    if (!context_of_thread() || !live_context(context_of_thread())) {
        Context* first = nullptr;
        retain_primary(0, &first);
        set_current(first);
    }
    return current(context);
}

Result stream_here(void* handle, Stream** out) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return stream_of(handle, out);
}

struct Name {
    int code;
    const char* name;
    const char* words;
};

const Name names[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {900, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "hipErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
};

const Name& name_of(int code) {
    static const Name unknown = {999, "hipErrorUnknown", "unknown error"};
    for (const Name& row : names)
        if (row.code == code) return row;
    return unknown;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Machine busbw_shim_machine() { return machine(); }

int hipInit(unsigned flags) { return flags ? InvalidValue : initialise(); }
int hipDriverGetVersion(int* version) { return version ? (*version = 60443483, Success) : InvalidValue; }
int hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }
const char* hipGetErrorName(int code) { return name_of(code).name; }
const char* hipGetErrorString(int code) { return name_of(code).words; }
int hipDrvGetErrorName(int code, const char** out) { return out ? (*out = name_of(code).name, Success) : InvalidValue; }
int hipDrvGetErrorString(int code, const char** out) {
    return out ? (*out = name_of(code).words, Success) : InvalidValue;
}

int hipGetDeviceCount(int* count) {
    if (!count) return InvalidValue;
    *count = 0;
    if (Result no = initialise()) return no;
    *count = device_count();
    return Success;
}
int hipDeviceGet(int* device, int ordinal) {
    if (Result no = valid_device(ordinal)) return no;
    return device ? (*device = ordinal, Success) : InvalidValue;
}
int hipDeviceGetName(char* name, int length, int device) {
    if (Result no = valid_device(device)) return no;
    if (!name || length <= 0) return InvalidValue;
    std::snprintf(name, static_cast<size_t>(length), "%s",
                  text("BUSBW_SHIM_NAME", "Shim MI300X").c_str());
    return Success;
}
int hipDeviceTotalMem(size_t* bytes, int device) {
    if (Result no = valid_device(device)) return no;
    return bytes ? (*bytes = memory_of_device(), Success) : InvalidValue;
}
int hipDeviceGetPCIBusId(char* out, int length, int device) {
    if (Result no = valid_device(device)) return no;
    std::string id = bus_id_of(physical(device));
    if (!out || length <= static_cast<int>(id.size())) return InvalidValue;
    std::strcpy(out, id.c_str());
    return Success;
}
int hipDeviceGetUuid(unsigned char* sixteen, int device) {
    if (Result no = valid_device(device)) return no;
    return sixteen ? (uuid_of(physical(device), sixteen), Success) : InvalidValue;
}
int hipDeviceCanAccessPeer(int* can, int device, int peer) {
    if (Result no = valid_device(device)) return no;
    if (Result no = valid_device(peer)) return no;
    return can ? (*can = device != peer && !number("BUSBW_SHIM_NO_PEER", 0), Success) : InvalidValue;
}

int hipDevicePrimaryCtxRetain(Context** out, int device) {
    if (Result no = valid_device(device)) return no;
    return out ? retain_primary(device, out) : InvalidValue;
}
int hipDevicePrimaryCtxRelease(int device) {
    if (Result no = valid_device(device)) return no;
    return release_primary(device);
}
int hipCtxSetCurrent(Context* context) {
    if (Result no = initialise()) return no;
    return set_current(context);
}
int hipCtxGetCurrent(Context** out) {
    if (Result no = initialise()) return no;
    return out ? (*out = context_of_thread(), Success) : InvalidValue;
}
int hipSetDevice(int device) {
    if (Result no = valid_device(device)) return no;
    Context* context = nullptr;
    if (Result no = retain_primary(device, &context)) return no;
    return set_current(context);
}
int hipGetDevice(int* device) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return device ? (*device = context->device, Success) : InvalidValue;
}
int hipDeviceSynchronize() {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    if (Result no = unsafe_call()) return no;
    return synchronise_context(context);
}
int hipCtxSynchronize() { return hipDeviceSynchronize(); }

int hipMemGetInfo(size_t* free, size_t* total) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    if (!free || !total) return InvalidValue;
    size_t used = used_memory(context->device);
    *total = memory_of_device();
    *free = used < *total ? *total - used : 0;
    return Success;
}
int hipMalloc(void** out, size_t bytes) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    if (Result no = unsafe_call()) return no;
    return allocate(context, bytes, Kind::Device, out);
}
int hipFree(void* pointer) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    if (Result no = unsafe_call()) return no;
    return pointer ? release(pointer, false) : Success;
}
int hipHostMalloc(void** out, size_t bytes, unsigned) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    if (Result no = unsafe_call()) return no;
    return allocate(context, bytes, Kind::Pinned, out);
}
int hipHostFree(void* pointer) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return release(pointer, true);
}

int hipMemcpyDtoHAsync(void* to, const void* from, size_t bytes, void* stream) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return copy_to_host(to, from, bytes, stream, false);
}
int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void* stream) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return copy_to_device(to, from, bytes, stream, false);
}
int hipMemcpyDtoH(void* to, const void* from, size_t bytes) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return copy_to_host(to, from, bytes, nullptr, true);
}
int hipMemcpyHtoD(void* to, const void* from, size_t bytes) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return copy_to_device(to, from, bytes, nullptr, true);
}
int hipMemsetD8Async(void* to, unsigned char value, size_t bytes, void* stream) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return fill(to, value, bytes, stream);
}
int hipMemsetD8(void* to, unsigned char value, size_t bytes) {
    return hipMemsetD8Async(to, value, bytes, nullptr);
}

int hipStreamCreateWithFlags(Stream** out, unsigned flags) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return create_stream(flags, out);
}
int hipStreamDestroy(Stream* stream) { return destroy_stream(stream); }
int hipStreamQuery(void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_here(handle, &stream)) return no;
    return query(stream);
}
int hipStreamSynchronize(void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_here(handle, &stream)) return no;
    return synchronise(stream);
}
int hipStreamWaitEvent(void* handle, Event* event, unsigned) {
    Stream* stream = nullptr;
    if (Result no = stream_here(handle, &stream)) return no;
    return wait_event(stream, event);
}
int hipStreamBeginCapture(void* stream, int mode) { return begin_capture(stream, mode); }
int hipStreamEndCapture(void* stream, Graph** out) { return end_capture(stream, out); }
int hipStreamIsCapturing(void* stream, int* status) { return capture_status(stream, status); }
int hipThreadExchangeStreamCaptureMode(int* mode) { return exchange_mode(mode); }
int hipGraphInstantiate(Graph** out, Graph* graph, void**, char*, size_t) { return instantiate(graph, out); }
int hipGraphInstantiateWithFlags(Graph** out, Graph* graph, unsigned long long) {
    return instantiate(graph, out);
}
int hipGraphLaunch(Graph* executable, void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_here(handle, &stream)) return no;
    return launch(executable, stream);
}
int hipGraphExecDestroy(Graph* executable) { return destroy_graph(executable, true); }
int hipGraphDestroy(Graph* graph) { return destroy_graph(graph, false); }

int hipEventCreateWithFlags(Event** out, unsigned flags) {
    Context* context = nullptr;
    if (Result no = here(&context)) return no;
    return create_event(flags & 2, out);
}
int hipEventRecord(Event* event, void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_here(handle, &stream)) return no;
    return record(event, stream);
}
int hipEventSynchronize(Event* event) { return synchronise(event); }
int hipEventQuery(Event* event) { return query(event); }
int hipEventElapsedTime(float* milliseconds, Event* from, Event* to) {
    return elapsed(milliseconds, from, to);
}
int hipEventDestroy(Event* event) { return destroy_event(event); }

// PTX is no image of HIP's: which of its codes ROCm answers with has not been tried.
int hipModuleLoadData(void** out, const void* image) { return out && image ? InvalidImage : InvalidValue; }
int hipModuleLoadDataEx(void** out, const void* image, unsigned, int*, void**) {
    return hipModuleLoadData(out, image);
}
// So there is never a module, nor a function of one.
int hipModuleUnload(void*) { return InvalidHandle; }
int hipModuleGetFunction(void**, void*, const char*) { return InvalidHandle; }
int hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          void*, void**, void**) {
    return InvalidHandle;
}

}  // extern "C"
#pragma GCC visibility pop
