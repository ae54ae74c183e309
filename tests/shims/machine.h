// The table that the collectives library takes from the driver's: filled the same in both drivers.
// Not an interface of CUDA or HIP.
#pragma once
#include "core.h"

namespace shim {

inline Machine machine() {
    Machine m;
    m.current_device = [] {
        if (ready() != Success && initialise() != Success) return -1;
        Context* context = context_of_thread();
        return context && live_context(context) ? context->device : 0;
    };
    m.device_count = device_count;
    m.physical = physical;
    m.uuid_of = uuid_of;
    m.bus_id_of = bus_id_of;
    m.stream_on = [](int device, void* handle, Stream** out) -> Result {
        Context* before = context_of_thread();
        Context* context = nullptr;
        retain_primary(device, &context);
        set_current(context);
        Result found = stream_of(handle, out);
        set_current(before);
        release_primary(device);
        if (found == Success && (*out)->context != context) return InvalidHandle;
        return found;
    };
    m.enqueue = enqueue;
    m.find = find;
    m.allocate = [](int device, size_t size, void** out) {
        Context* context = nullptr;
        retain_primary(device, &context);  // as the runtime does, for the life of the process
        return allocate(context, size, Kind::Collective, out);
    };
    m.release = [](void* base) {
        Allocation block;
        if (!find(base, 0, &block) || block.kind != Kind::Collective) return InvalidValue;
        return release(base, false);
    };
    m.driver_version = driver_version;
    return m;
}

}  // namespace shim
