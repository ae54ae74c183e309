// libnvidia-ml.so.1: NVML's start and end, who the GPUs are, who uses them, and events.
// Not their state (nvml_state.cc), and nothing follows from what runs. Numbers: nvml.h of 13.0.
#include "nvml_planted.h"

#include <strings.h>
#include <unistd.h>

#include <cstdio>

using namespace shim;

namespace {

std::string bus_id(int gpu, int digits) {
    char out[32];
    std::snprintf(out, sizeof out, "%0*x:%02X:00.0", digits, 0, 0x10 + gpu);
    return out;
}

std::string uuid(int gpu) {  // the bytes of cuDeviceGetUuid: "busbw-shim-gpu-" and the number
    char out[48];
    std::snprintf(out, sizeof out, "GPU-62757362-772d-7368-696d-2d6770752d%02x", gpu);
    return out;
}

Return list_processes(Device device, unsigned* count, Process* out) {
    if (Return no = valid(device)) return no;
    if (!count) return InvalidArgument;
    auto all = processes(index_of(device));
    unsigned room = *count;
    *count = static_cast<unsigned>(all.size());
    if (all.empty()) return Success;
    if (room < all.size() || !out) return InsufficientSize;
    for (size_t i = 0; i < all.size(); i++) out[i] = all[i].process;
    return Success;
}

struct PciInfo {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct Memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct MemoryOld {
    unsigned long long total, free, used;
};

struct EventData {
    Device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

uint64_t used_memory(int gpu) {
    uint64_t used = number("BUSBW_SHIM_USED", 0);
    for (const Planted& one : processes(gpu)) used += one.process.bytes;
    answer(gpu, "memory.used", used, &used);
    return used;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvmlInitWithFlags(unsigned) {
    uint64_t nothing = 0;
    Return result = answer(0, "init", 0, &nothing);
    if (result == Success) users++;
    return result;
}
int nvmlInit_v2() { return nvmlInitWithFlags(0); }
int nvmlShutdown() { return users == 0 ? Uninitialized : (users--, Success); }

const char* nvmlErrorString(int code) { return code == 0 ? "Success" : "an NVML error"; }

int nvmlSystemGetDriverVersion(char* out, unsigned length) {
    return say(out, length, text("BUSBW_SHIM_DRIVER_NAME", "580.65.06"));
}
int nvmlSystemGetNVMLVersion(char* out, unsigned length) { return say(out, length, "13.580.65.06"); }
int nvmlSystemGetCudaDriverVersion(int* version) {
    if (!version) return InvalidArgument;
    *version = static_cast<int>(number("BUSBW_SHIM_DRIVER", 13000));
    return Success;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return nvmlSystemGetCudaDriverVersion(version); }
int nvmlSystemGetProcessName(unsigned pid, char* out, unsigned length) {
    for (int gpu = 0; gpu < gpus(); gpu++)
        for (const Planted& one : processes(gpu))
            if (one.process.pid == pid) return say(out, length, one.name);
    return NotFound;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
    if (users == 0) return Uninitialized;
    if (!count) return InvalidArgument;
    *count = static_cast<unsigned>(gpus());
    return Success;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* out) {
    if (users == 0) return Uninitialized;
    if (!out || index >= static_cast<unsigned>(gpus())) return InvalidArgument;
    *out = reinterpret_cast<Device>(static_cast<intptr_t>(index) + 1);
    return Success;
}
int nvmlDeviceGetHandleByUUID(const char* id, Device* out) {
    for (int gpu = 0; id && gpu < gpus(); gpu++)
        if (uuid(gpu) == id) return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), out);
    return users == 0 ? Uninitialized : NotFound;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* out) {
    for (int gpu = 0; id && gpu < gpus(); gpu++)
        if (!strcasecmp(bus_id(gpu, 8).c_str(), id) || !strcasecmp(bus_id(gpu, 4).c_str(), id))
            return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), out);
    return users == 0 ? Uninitialized : NotFound;
}

int nvmlDeviceGetName(Device device, char* out, unsigned length) {
    return say(device, "name", text("BUSBW_SHIM_NAME", "Shim H200"), out, length);
}
int nvmlDeviceGetUUID(Device device, char* out, unsigned length) {
    return say(device, "uuid", uuid(index_of(device)), out, length);
}
int nvmlDeviceGetSerial(Device device, char* out, unsigned length) {
    return say(device, "serial", "165" + std::to_string(index_of(device)), out, length);
}
int nvmlDeviceGetVbiosVersion(Device device, char* out, unsigned length) {
    return say(device, "vbios", "96.00.D9.00.01", out, length);
}
int nvmlDeviceGetIndex(Device device, unsigned* index) {
    return ask(device, "index", static_cast<uint64_t>(index_of(device)), index);
}
int nvmlDeviceGetMinorNumber(Device device, unsigned* minor) { return nvmlDeviceGetIndex(device, minor); }
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* out) {
    if (Return no = valid(device)) return no;
    if (!out) return InvalidArgument;
    int gpu = index_of(device);
    *out = PciInfo();
    std::strcpy(out->bus_id_legacy, bus_id(gpu, 4).c_str());
    std::strcpy(out->bus_id, bus_id(gpu, 8).c_str());
    out->bus = 0x10u + static_cast<unsigned>(gpu);
    out->device_id = 0x233510de;
    out->subsystem_id = 0x18be10de;
    return Success;
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
    if (int no = ask(device, "capability.major", 9, major)) return no;
    return ask(device, "capability.minor", 0, minor);
}
int nvmlDeviceGetNumaNodeId(Device device, unsigned* node) { return ask(device, "numa", 0, node); }

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* out) {
    if (Return no = valid(device)) return no;
    if (link >= links || !out) return InvalidArgument;
    *out = PciInfo();
    std::strcpy(out->bus_id_legacy, "0000:05:00.0");
    std::strcpy(out->bus_id, "00000000:05:00.0");
    out->bus = 5;
    out->device_id = 0x22a310de;
    return Success;
}
int nvmlDeviceGetMemoryInfo(Device device, MemoryOld* out) {
    if (Return no = valid(device)) return no;
    if (!out) return InvalidArgument;
    out->total = number("BUSBW_SHIM_MEMORY", 1ull << 30);
    out->used = used_memory(index_of(device));
    out->free = out->used < out->total ? out->total - out->used : 0;
    return Success;
}
int nvmlDeviceGetMemoryInfo_v2(Device device, Memory* out) {
    if (!out) return InvalidArgument;
    if (out->version != (sizeof(Memory) | 2u << 24)) return VersionMismatch;
    MemoryOld old;
    if (int no = nvmlDeviceGetMemoryInfo(device, &old)) return no;
    out->total = old.total;
    out->reserved = 0;
    out->free = old.free;
    out->used = old.used;
    return Success;
}
int nvmlDeviceGetUtilizationRates(Device device, unsigned* gpu_and_memory) {
    if (int no = ask(device, "utilization", 0, &gpu_and_memory[0])) return no;
    return ask(device, "utilization.memory", 0, &gpu_and_memory[1]);
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, Process* out) {
    return list_processes(device, count, out);
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, Process* out) {
    return list_processes(device, count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, Process*) {
    if (Return no = valid(device)) return no;
    if (!count) return InvalidArgument;
    *count = 0;
    return Success;
}

int nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned, unsigned* status) {
    if (Return no = valid(peer)) return no;
    return ask(device, "p2p", number("BUSBW_SHIM_NO_PEER", 0) ? 5 : 0, status);
}

// Events: an XID that is planted ("0 xid 79") is reported once for each registration.
int nvmlEventSetCreate(void** set) {
    if (users == 0) return Uninitialized;
    *set = new std::vector<int>;
    return Success;
}
int nvmlDeviceRegisterEvents(Device device, unsigned long long, void* set) {
    if (Return no = valid(device)) return no;
    static_cast<std::vector<int>*>(set)->push_back(index_of(device));
    return Success;
}
int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
    return ask(device, "events", 0x1f, types);
}
int nvmlEventSetWait_v2(void* set, EventData* out, unsigned milliseconds) {
    auto& registered = *static_cast<std::vector<int>*>(set);
    for (auto at = registered.begin(); at != registered.end(); ++at) {
        uint64_t xid = 0;
        int gpu = *at;
        answer(gpu, "xid", 0, &xid);
        if (xid == 0) continue;
        registered.erase(at);
        *out = {reinterpret_cast<Device>(static_cast<intptr_t>(gpu) + 1), 8, xid, ~0u, ~0u};
        return Success;
    }
    usleep(milliseconds * 1000);
    return Timeout;
}
int nvmlEventSetWait(void* set, EventData* out, unsigned milliseconds) {
    return nvmlEventSetWait_v2(set, out, milliseconds);
}
int nvmlEventSetFree(void* set) {
    delete static_cast<std::vector<int>*>(set);
    return Success;
}

}  // extern "C"
#pragma GCC visibility pop
