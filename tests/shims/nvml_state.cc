// NVML on the state of a GPU: clocks, power, errors, PCIe, NVLink, fields, fabric.
// Not who the GPU is and who uses it: nvml.cc.
#include "nvml_planted.h"

using namespace shim;

namespace {

struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int result;
    unsigned long long value;
};

std::string of_link(unsigned link, const char* what) {
    return "nvlink." + std::to_string(link) + "." + what;
}

const char* const clocks[] = {"graphics", "sm", "memory", "video"};
const unsigned clock_now[] = {1980, 1980, 3201, 1545};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

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
int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned* type) {
    if (link >= links) return InvalidArgument;
    return ask(device, of_link(link, "remote"), 2, type);  // a switch
}

// "field.ID" or, with a scope, "field.ID.SCOPE"; a field that is neither planted nor known here is
// answered as not supported.
int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
    if (Return no = valid(device)) return no;
    if (!values || count < 1) return InvalidArgument;
    static const std::map<unsigned, unsigned long long> known = {
        {3, 0}, {4, 0}, {38, 0}, {45, 0}, {52, 0}, {59, 0}, {74, 0}, {75, 0}, {90, 26562}, {91, links}, {138, 0}, {139, 0}, {140, 0},
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

}  // extern "C"
#pragma GCC visibility pop
