// The machine behind libcuda and libamdhip64: devices, contexts, memory, streams, events, graphs.
// Not the names that a program sees: cuda.cc and hip.cc. Numbers of errors are the CUDA driver's
// (cuda.h, CUresult); HIP's are the same where this uses them.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace shim {

enum Result : int {
    Success = 0,
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidImage = 200,
    InvalidContext = 201,
    NoBinaryForGpu = 209,
    InvalidPtx = 218,
    UnsupportedPtxVersion = 222,
    InvalidHandle = 400,
    NotFound = 500,
    NotReady = 600,
    IllegalAddress = 700,
    LaunchFailed = 719,
    NotSupported = 801,
    CaptureUnsupported = 900,
    CaptureInvalidated = 901,
    CaptureUnmatched = 903,
    CaptureImplicit = 906,
    CapturedEvent = 907,
    CaptureWrongThread = 908,
};

// What a stream runs, in order; anything but Success spoils the context, as on a GPU.
using Task = std::function<Result()>;

struct Stream;

struct Context {
    int device = 0;
    int retained = 0;
    std::atomic<int> spoiled{Success};
    Stream* null_stream = nullptr;
    std::vector<Stream*> streams;
};

struct Graph {
    std::vector<Task> nodes;
};

struct Capture {
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
    int mode = 0;
    uint64_t thread = 0;
    bool invalid = false;
};

struct Stream {
    Context* context = nullptr;
    bool blocking = true;  // takes turns with the null stream
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> queue;
    uint64_t enqueued = 0, done = 0;
    bool started = false, closing = false;
    std::shared_ptr<Capture> capture;

    void wait_for(uint64_t ticket) {
        std::unique_lock<std::mutex> hold(mutex);
        changed.wait(hold, [&] { return done >= ticket; });
    }
};

struct Moment {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    int64_t nanoseconds = 0;
};

struct Event {
    Context* context = nullptr;
    bool timing = true;
    bool captured = false;
    std::shared_ptr<Moment> last;
};

enum class Kind { Device, Pinned, Collective };

struct Allocation {
    uintptr_t base = 0;
    size_t size = 0;
    Kind kind = Kind::Device;
    int device = 0;
    Context* context = nullptr;
};

// Devices and contexts (device.cc).
Result initialise();
Result ready();  // Success, or why the driver cannot be used: before cuInit, or in a forked child
int driver_version();
const char* visible_variable();  // of the driver that this is linked into: cuda.cc, hip.cc
int device_count();
int physical(int device);  // which GPU of the machine this ordinal is
size_t memory_of_device();
void uuid_of(int physical_device, unsigned char* sixteen);
std::string bus_id_of(int physical_device);
Result retain_primary(int device, Context** out);
Result release_primary(int device);
Result current(Context** out);  // of the calling thread; InvalidContext where there is none
Result set_current(Context* context);
Context* context_of_thread();  // may be null, may be dead
bool live_context(const Context* context);

// Memory (memory.cc).
Result allocate(Context* context, size_t size, Kind kind, void** out);
Result release(void* base, bool pinned);
bool find(const void* pointer, size_t bytes, Allocation* out);
size_t used_memory(int device);
void forget_context(Context* context, bool idle);
Result copy_to_host(void* to, const void* from, size_t bytes, void* stream, bool wait);
Result copy_to_device(void* to, const void* from, size_t bytes, void* stream, bool wait);
Result fill(void* to, unsigned char value, size_t bytes, void* stream);

// Streams and events (stream.cc). A null handle is the null stream of the current context.
Result create_stream(unsigned flags, Stream** out);
Result destroy_stream(Stream* stream);
Result stream_of(void* handle, Stream** out);
Result enqueue(Stream* stream, Task task);
Result synchronise(Stream* stream);
Result query(Stream* stream);
Result synchronise_context(Context* context);
Result create_event(unsigned flags, Event** out);
Result destroy_event(Event* event);
Result record(Event* event, Stream* stream);
Result query(Event* event);
Result synchronise(Event* event);
Result elapsed(float* milliseconds, Event* from, Event* to);
Result wait_event(Stream* stream, Event* event);

// Capture and graphs (capture.cc).
Result begin_capture(void* handle, int mode);
Result end_capture(void* handle, Graph** out);
Result capture_status(void* handle, int* status);
Result exchange_mode(int* mode);
Result unsafe_call();  // the call is one that a capture under way may forbid
void invalidate_captures(Context* context);
Result instantiate(Graph* graph, Graph** out);
Result launch(Graph* executable, Stream* stream);
Result destroy_graph(Graph* graph, bool executable);

// Modules (module.cc).
struct Module;
struct Function;
Result load_module(const void* image, std::string* log, Module** out);
Result unload_module(Module* module);
Result function_of(Module* module, const char* name, Function** out);
Result launch_kernel(Function* function, const unsigned grid[3], const unsigned block[3],
                     unsigned shared_bytes, Stream* stream, void** parameters);
Result function_attribute(int* value, int attribute, Function* function);

// Handles that were given out and not yet destroyed.
class Handles {
  public:
    void add(const void* handle) {
        std::lock_guard<std::mutex> hold(mutex_);
        live_.insert(handle);
    }
    bool remove(const void* handle) {
        std::lock_guard<std::mutex> hold(mutex_);
        return live_.erase(handle) != 0;
    }
    bool has(const void* handle) {
        std::lock_guard<std::mutex> hold(mutex_);
        return live_.count(handle) != 0;
    }

  private:
    std::mutex mutex_;
    std::unordered_set<const void*> live_;
};

uint64_t this_thread();

// What the collectives library needs of the machine; found by name in the library loaded.
struct Machine {
    int (*current_device)();  // as cudaGetDevice: 0 where no context is current, -1 without GPUs
    int (*device_count)();
    int (*physical)(int device);
    void (*uuid_of)(int physical_device, unsigned char* sixteen);
    std::string (*bus_id_of)(int physical_device);
    Result (*stream_on)(int device, void* handle, Stream** out);
    Result (*enqueue)(Stream* stream, Task task);
    bool (*find)(const void* pointer, size_t bytes, Allocation* out);
    Result (*allocate)(int device, size_t size, void** out);
    Result (*release)(void* base);
    int (*driver_version)();
};

}  // namespace shim
