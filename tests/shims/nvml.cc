// libnvidia-ml.so.1: what NVML says of the shim's GPUs; BUSBW_SHIM_NVML_FILE plants other values.
// Not what the GPUs do: nothing here follows from what runs on them. Numbers: nvml.h of 13.0.
#include "setting.h"

#include <strings.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace {

enum Return : int {
    Success = 0, Uninitialized = 1, InvalidArgument = 2, NotSupported = 3, NotFound = 6,
    InsufficientSize = 7, Timeout = 10, VersionMismatch = 25
};

constexpr unsigned links = 18;  // of an H200

std::atomic<int> users{0};

int gpus() { return static_cast<int>(shim::number("BUSBW_SHIM_GPUS", 8)); }

// A handle is the GPU's number plus one.
using Device = void*;
int index_of(Device device) { return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1; }

Return valid(Device device) {
    if (users == 0) return Uninitialized;
    int index = index_of(device);
    return index >= 0 && index < gpus() ? Success : InvalidArgument;
}

// The lines "GPU KEY VALUE" of the file that concern this GPU and key; GPU may be "*".
std::vector<std::string> planted(int gpu, const std::string& key) {
    std::vector<std::string> values;
    std::string path = shim::text("BUSBW_SHIM_NVML_FILE"), line;
    std::ifstream file(path);
    while (!path.empty() && std::getline(file, line)) {
        std::istringstream words(line);
        std::string who, what, value;
        if (!(words >> who >> what) || who[0] == '#' || what != key) continue;
        if (who != "*" && who != std::to_string(gpu)) continue;
        std::getline(words >> std::ws, value);
        values.push_back(value);
    }
    return values;
}

// "+N" counts up by N with every question, "!N" is answered with NVML's error N.
Return answer(int gpu, const std::string& key, uint64_t otherwise, uint64_t* out) {
    auto values = planted(gpu, key);
    *out = otherwise;
    if (values.empty()) return Success;
    const std::string& value = values.back();
    if (value[0] == '!') return static_cast<Return>(std::atoi(&value[1]));
    uint64_t number = std::strtoull(value.c_str() + (value[0] == '+'), nullptr, 0);
    if (value[0] == '+') {
        static auto* counters = new std::map<std::string, uint64_t>;
        static auto* mutex = new std::mutex;
        std::lock_guard<std::mutex> hold(*mutex);
        number = (*counters)[std::to_string(gpu) + key] += number;
    }
    *out = number;
    return Success;
}

template <typename T>
Return ask(Device device, const std::string& key, uint64_t otherwise, T* out) {
    if (Return no = valid(device)) return no;
    if (!out) return InvalidArgument;
    uint64_t value = 0;
    Return result = answer(index_of(device), key, otherwise, &value);
    if (result == Success) *out = static_cast<T>(value);
    return result;
}

Return say(char* out, unsigned length, const std::string& words) {
    if (users == 0) return Uninitialized;
    if (!out) return InvalidArgument;
    if (length <= words.size()) return InsufficientSize;
    std::strcpy(out, words.c_str());
    return Success;
}

Return say(Device device, const std::string& key, const std::string& otherwise, char* out,
           unsigned length) {
    if (Return no = valid(device)) return no;
    auto values = planted(index_of(device), key);
    if (!values.empty() && values.back()[0] == '!')
        return static_cast<Return>(std::atoi(&values.back()[1]));
    return say(out, length, values.empty() ? otherwise : values.back());
}

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

struct Process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct Planted {
    Process process;
    std::string name;
};

std::vector<Planted> processes(int gpu) {
    std::vector<Planted> all;
    for (const std::string& value : planted(gpu, "process")) {
        Planted one = {{0, 0, ~0u, ~0u}, ""};
        std::istringstream(value) >> one.process.pid >> one.process.bytes >> one.name;
        all.push_back(one);
    }
    return all;
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

struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int result;
    unsigned long long value;
};

struct EventData {
    Device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

std::string of_link(unsigned link, const char* what) {
    return "nvlink." + std::to_string(link) + "." + what;
}

uint64_t used_memory(int gpu) {
    uint64_t used = shim::number("BUSBW_SHIM_USED", 0);
    for (const Planted& one : processes(gpu)) used += one.process.bytes;
    answer(gpu, "memory.used", used, &used);
    return used;
}

const char* const clocks[] = {"graphics", "sm", "memory", "video"};
const unsigned clock_now[] = {1980, 1980, 3201, 1545};

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
    return say(out, length, shim::text("BUSBW_SHIM_DRIVER_NAME", "580.65.06"));
}
int nvmlSystemGetNVMLVersion(char* out, unsigned length) { return say(out, length, "13.580.65.06"); }
int nvmlSystemGetCudaDriverVersion(int* version) {
    if (!version) return InvalidArgument;
    *version = static_cast<int>(shim::number("BUSBW_SHIM_DRIVER", 13000));
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
    return say(device, "name", shim::text("BUSBW_SHIM_NAME", "Shim H200"), out, length);
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

int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned* mhz) {
    if (type > 3) return InvalidArgument;
    return ask(device, std::string("clock.") + clocks[type], clock_now[type], mhz);
}
int nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned* mhz) {
    if (type > 3) return InvalidArgument;
    return ask(device, std::string("max.") + clocks[type], clock_now[type], mhz);
}
int nvmlDeviceGetClock(Device device, unsigned type, unsigned, unsigned* mhz) {
    return nvmlDeviceGetClockInfo(device, type, mhz);
}
int nvmlDeviceGetApplicationsClock(Device device, unsigned type, unsigned* mhz) {
    return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
    return ask(device, "throttle", 0, reasons);
}
int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
int nvmlDeviceGetSupportedClocksThrottleReasons(Device device, unsigned long long* reasons) {
    return ask(device, "throttle.supported", 0x1ff, reasons);
}
int nvmlDeviceGetPerformanceState(Device device, unsigned* state) { return ask(device, "pstate", 0, state); }
int nvmlDeviceGetPowerUsage(Device device, unsigned* mw) { return ask(device, "power", 120000, mw); }
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* mw) {
    return ask(device, "power.limit", 700000, mw);
}
int nvmlDeviceGetPowerManagementLimit(Device device, unsigned* mw) {
    return nvmlDeviceGetEnforcedPowerLimit(device, mw);
}
int nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* mw) {
    return ask(device, "power.default", 700000, mw);
}
int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* mj) {
    return ask(device, "energy", 1000, mj);
}
int nvmlDeviceGetTemperature(Device device, unsigned, unsigned* celsius) {
    return ask(device, "temperature", 35, celsius);
}

int nvmlDeviceGetEccMode(Device device, int* now, int* pending) {
    if (int no = ask(device, "ecc", 1, now)) return no;
    return ask(device, "ecc.pending", 1, pending);
}
int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned, unsigned long long* count) {
    return ask(device, type == 0 ? "ecc.corrected" : "ecc.uncorrected", 0, count);
}
int nvmlDeviceGetMemoryErrorCounter(Device device, unsigned type, unsigned counter, unsigned,
                                    unsigned long long* count) {
    return nvmlDeviceGetTotalEccErrors(device, type, counter, count);
}
int nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
    if (int no = ask(device, "field.142", 0, corrected)) return no;
    if (int no = ask(device, "field.143", 0, uncorrected)) return no;
    if (int no = ask(device, "field.144", 0, pending)) return no;
    return ask(device, "field.145", 0, failed);
}
int nvmlDeviceGetPersistenceMode(Device device, int* mode) { return ask(device, "persistence", 1, mode); }
int nvmlDeviceGetComputeMode(Device device, int* mode) { return ask(device, "compute_mode", 0, mode); }
int nvmlDeviceGetMigMode(Device device, unsigned* now, unsigned* pending) {
    if (int no = ask(device, "mig", 0, now)) return no;
    return ask(device, "mig", 0, pending);
}

int nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* value) {
    return ask(device, "pcie.generation", 5, value);
}
int nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* value) {
    return ask(device, "pcie.width", 16, value);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* value) {
    return ask(device, "pcie.max_generation", 5, value);
}
int nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* value) {
    return ask(device, "pcie.max_width", 16, value);
}
int nvmlDeviceGetPcieReplayCounter(Device device, unsigned* value) {
    return ask(device, "pcie.replay", 0, value);
}
int nvmlDeviceGetPcieThroughput(Device device, unsigned counter, unsigned* kib_per_second) {
    return ask(device, counter == 0 ? "pcie.tx" : "pcie.rx", 0, kib_per_second);
}

int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* up) {
    if (link >= links) return InvalidArgument;
    return ask(device, of_link(link, "state"), 1, up);
}
int nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned* version) {
    if (link >= links) return InvalidArgument;
    return ask(device, of_link(link, "version"), 4, version);
}
int nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter,
                                    unsigned long long* count) {
    static const char* const names[] = {"replay", "recovery", "crc_flit", "crc_data", "ecc"};
    if (link >= links || counter > 4) return InvalidArgument;
    return ask(device, of_link(link, names[counter]), 0, count);
}
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
int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned* type) {
    if (link >= links) return InvalidArgument;
    return ask(device, of_link(link, "remote"), 2, type);  // a switch
}

int nvmlDeviceGetMemoryInfo(Device device, MemoryOld* out) {
    if (Return no = valid(device)) return no;
    if (!out) return InvalidArgument;
    out->total = shim::number("BUSBW_SHIM_MEMORY", 1ull << 30);
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

// "field.ID" or, with a scope, "field.ID.SCOPE"; a field that is neither planted nor known here is
// answered as not supported.
int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
    if (Return no = valid(device)) return no;
    if (!values || count < 1) return InvalidArgument;
    static const std::map<unsigned, unsigned long long> known = {
        {38, 0}, {45, 0}, {52, 0}, {59, 0}, {90, 26562}, {91, links}, {138, 0}, {139, 0}, {140, 0},
        {141, 0}, {142, 0}, {143, 0}, {144, 0}, {145, 0}, {160, 0}, {161, 0}, {162, 0}, {163, 0},
        {230, 0}};
    for (int i = 0; i < count; i++) {
        FieldValue& value = values[i];
        std::string key = "field." + std::to_string(value.field);
        std::string scoped = key + "." + std::to_string(value.scope);
        int gpu = index_of(device);
        bool by_scope = !planted(gpu, scoped).empty();
        bool given = by_scope || !planted(gpu, key).empty();
        auto usual = known.find(value.field);
        uint64_t out = usual == known.end() ? 0 : usual->second;
        value.result = given || usual != known.end()
                           ? answer(gpu, by_scope ? scoped : key, out, &out) : NotSupported;
        value.type = 3;  // unsigned long long
        value.value = out;
        value.timestamp = value.latency = 0;
    }
    return Success;
}

// Versions 2 and 3 share their beginning: version, cluster UUID, status, clique, state, health mask.
int nvmlDeviceGetGpuFabricInfoV(Device device, unsigned char* info) {
    struct Head {
        unsigned version;
        unsigned char cluster[16];
        int status;
        unsigned clique;
        unsigned char state;
        unsigned health;
    };
    if (Return no = valid(device)) return no;
    if (!info) return InvalidArgument;
    auto* head = reinterpret_cast<Head*>(info);
    struct WithSummary : Head {
        unsigned char summary;
    };
    bool third = head->version >> 24 == 3;
    size_t size = third ? sizeof(WithSummary) : sizeof(Head);
    if (head->version != (size | (third ? 3u : 2u) << 24)) return VersionMismatch;
    std::memset(head->cluster, 0, sizeof head->cluster);
    if (int no = ask(device, "fabric.status", 0, &head->status)) return no;
    ask(device, "fabric.cluster", 0, &head->cluster[15]);
    ask(device, "fabric.clique", 0, &head->clique);
    ask(device, "fabric.state", 3, &head->state);
    if (third) ask(device, "fabric.summary", 0, &reinterpret_cast<WithSummary*>(info)->summary);
    return ask(device, "fabric.health", 0, &head->health);
}
int nvmlDeviceGetGpuFabricInfo(Device device, unsigned char* info) {
    struct Info {
        unsigned char cluster[16];
        int status;
        unsigned clique;
        unsigned char state;
    };
    auto* out = reinterpret_cast<Info*>(info);
    if (!info) return InvalidArgument;
    std::memset(out->cluster, 0, sizeof out->cluster);
    if (int no = ask(device, "fabric.status", 0, &out->status)) return no;
    ask(device, "fabric.clique", 0, &out->clique);
    return ask(device, "fabric.state", 3, &out->state);
}
int nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned, unsigned* status) {
    if (Return no = valid(peer)) return no;
    return ask(device, "p2p", shim::number("BUSBW_SHIM_NO_PEER", 0) ? 5 : 0, status);
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
