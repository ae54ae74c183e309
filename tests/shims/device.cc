// Devices, their primary contexts, and which context a thread has.
// Not what runs on them.
#include "core.h"
#include "setting.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace shim {

namespace {

struct Devices {
    std::mutex mutex;
    pid_t process = 0;
    Result outcome = NotInitialized;
    std::vector<int> visible;
    std::vector<Context*> primary;
};

Devices& devices() {
    static auto* all = new Devices;  // never destroyed: stream threads outlive main
    return *all;
}

Handles& contexts() {
    static auto* live = new Handles;
    return *live;
}

thread_local Context* thread_context = nullptr;

std::string uuid_text(int physical_device) {
    unsigned char bytes[16];
    uuid_of(physical_device, bytes);
    std::string out = "GPU-";
    const char* digits = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += digits[bytes[i] >> 4];
        out += digits[bytes[i] & 15];
    }
    return out;
}

// As the driver reads CUDA_VISIBLE_DEVICES (HIP: HIP_VISIBLE_DEVICES): ordinals or beginnings of UUIDs; the first entry that
// names no device ends the list (CUDA C++ Programming Guide, "CUDA Environment Variables").
std::vector<int> visible_devices(int present) {
    std::vector<int> all;
    for (int i = 0; i < present; i++) all.push_back(i);
    const char* list = std::getenv(visible_variable());
    if (!list) return all;
    std::vector<int> chosen;
    std::string rest = list;
    while (!rest.empty()) {
        size_t comma = rest.find(',');
        std::string entry = rest.substr(0, comma);
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
        entry.erase(std::remove(entry.begin(), entry.end(), ' '), entry.end());
        int found = -1;
        char* end = nullptr;
        long ordinal = std::strtol(entry.c_str(), &end, 10);
        if (!entry.empty() && *end == 0) {
            if (ordinal >= 0 && ordinal < present) found = static_cast<int>(ordinal);
        } else if (entry.rfind("GPU-", 0) == 0) {
            for (int i = 0; i < present; i++)
                if (uuid_text(i).rfind(entry, 0) == 0) found = i;
        }
        if (found < 0) break;
        if (std::count(chosen.begin(), chosen.end(), found)) return {};
        chosen.push_back(found);
    }
    return chosen;
}

}  // namespace

uint64_t this_thread() { return static_cast<uint64_t>(syscall(SYS_gettid)); }

Result initialise() {
    Devices& all = devices();
    std::lock_guard<std::mutex> hold(all.mutex);
    if (all.process == getpid()) return all.outcome;
    if (all.process != 0) return NotInitialized;  // a forked child of a process that uses CUDA
    all.process = getpid();
    uint64_t planted = number("BUSBW_SHIM_CUINIT", Success);
    all.outcome = static_cast<Result>(planted);
    if (planted != Success) return all.outcome;
    all.visible = visible_devices(static_cast<int>(number("BUSBW_SHIM_GPUS", 8)));
    all.primary.assign(all.visible.size(), nullptr);
    if (all.visible.empty()) all.outcome = NoDevice;
    return all.outcome;
}

Result ready() {
    Devices& all = devices();
    std::lock_guard<std::mutex> hold(all.mutex);
    return all.process == getpid() ? all.outcome : NotInitialized;
}

int driver_version() { return static_cast<int>(number("BUSBW_SHIM_DRIVER", 13000)); }

int device_count() {
    std::lock_guard<std::mutex> hold(devices().mutex);
    return static_cast<int>(devices().visible.size());
}

int physical(int device) {
    std::lock_guard<std::mutex> hold(devices().mutex);
    return devices().visible[static_cast<size_t>(device)];
}

size_t memory_of_device() { return number("BUSBW_SHIM_MEMORY", 1ull << 30); }

void uuid_of(int physical_device, unsigned char* sixteen) {
    std::memcpy(sixteen, "busbw-shim-gpu-", 15);
    sixteen[15] = static_cast<unsigned char>(physical_device);
}

std::string bus_id_of(int physical_device) {
    char out[32];
    std::snprintf(out, sizeof out, "0000:%02X:00.0", 0x10 + physical_device);
    return out;
}

bool live_context(const Context* context) { return contexts().has(context); }

Context* context_of_thread() { return thread_context; }

Result retain_primary(int device, Context** out) {
    Context* context = nullptr;
    {
        std::lock_guard<std::mutex> hold(devices().mutex);
        Context*& primary = devices().primary[static_cast<size_t>(device)];
        if (!primary) {
            primary = new Context;
            primary->device = device;
            primary->null_stream = new Stream;
            primary->null_stream->context = primary;
            primary->streams.push_back(primary->null_stream);
            contexts().add(primary);
        }
        primary->retained++;
        context = primary;
    }
    *out = context;
    return Success;
}

Result release_primary(int device) {
    Context* gone = nullptr;
    {
        std::lock_guard<std::mutex> hold(devices().mutex);
        Context*& primary = devices().primary[static_cast<size_t>(device)];
        if (!primary) return InvalidContext;
        if (--primary->retained > 0) return Success;
        gone = primary;
        primary = nullptr;
    }
    contexts().remove(gone);
    bool idle = true;
    std::vector<Stream*> streams;
    {
        std::lock_guard<std::mutex> hold(devices().mutex);
        streams = gone->streams;
    }
    for (Stream* stream : streams) {
        std::lock_guard<std::mutex> hold(stream->mutex);
        if (stream->done < stream->enqueued) idle = false;
        stream->closing = true;
        stream->changed.notify_all();
    }
    forget_context(gone, idle);
    return Success;
}

Result set_current(Context* context) {
    if (context && !live_context(context)) return InvalidContext;
    thread_context = context;
    return Success;
}

Result current(Context** out) {
    if (Result no = ready()) return no;
    if (!thread_context || !live_context(thread_context)) return InvalidContext;
    *out = thread_context;
    return Success;
}

}  // namespace shim
