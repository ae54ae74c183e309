// The checks of ncclConfig_t.
// Not its effects.
#include "config.h"

#include "log.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace shim {

namespace {

struct Field {
    const char* name;
    int Config::*value;
    int low, high;
    int since;  // the release that added it: NCCL ignores fields newer than the caller's header
};

const Field fields[] = {
    {"blocking", &Config::blocking, 0, 1, 21400},
    {"cgaClusterSize", &Config::cga_cluster_size, 0, 8, 21700},
    {"minCTAs", &Config::min_ctas, 1, 64, 21700},
    {"maxCTAs", &Config::max_ctas, 1, 64, 21700},
    {"splitShare", &Config::split_share, 0, 1, 21800},
    {"trafficClass", &Config::traffic_class, 0, INT_MAX, 22600},
    {"collnetEnable", &Config::collnet_enable, 0, 1, 22700},
    {"CTAPolicy", &Config::cta_policy, 0, 2, 22700},
    {"shrinkShare", &Config::shrink_share, 0, 1, 22700},
    {"nvlsCTAs", &Config::nvls_ctas, 1, 64, 22700},
    {"nChannelsPerNetPeer", &Config::channels_per_net_peer, 1, 32, 22800},
    {"nvlinkCentricSched", &Config::nvlink_centric_sched, 0, 1, 22800},
};

// How much struct a header of that version has, at the least.
size_t size_at(unsigned version) {
    if (version >= 22800) return offsetof(Config, nvlink_centric_sched) + sizeof(int);
    if (version >= 22700) return offsetof(Config, shrink_share) + sizeof(int);
    if (version >= 21800) return offsetof(Config, split_share) + sizeof(int);
    if (version >= 21700) return offsetof(Config, net_name) + sizeof(char*);
    return offsetof(Config, blocking) + sizeof(int);
}

}  // namespace

bool read_config(const void* given, int library_version, Config* out) {
    auto refuse = [](const char* what) {
        warn("parseCommConfig", "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER: "
             "%s", what);
        return false;
    };
    Config head;
    std::memcpy(static_cast<void*>(&head), given, offsetof(Config, blocking));
    if (head.magic != config_magic) return refuse("wrong magic");
    if (head.version < 21400 || head.version >= 100000) return refuse("impossible version");
    if (head.size < size_at(head.version) || head.size > 4096) return refuse("size unlike version");
    std::memcpy(static_cast<void*>(out), given, std::min(head.size, size_at(static_cast<unsigned>(library_version))));
    for (const Field& field : fields) {
        int& value = out->*field.value;
        if (head.version < static_cast<unsigned>(field.since)) value = INT_MIN;
        if (value == INT_MIN || (value >= field.low && value <= field.high)) continue;
        warn("parseCommConfig", "Invalid config %s attribute value %d", field.name, value);
        return false;
    }
    if (out->min_ctas != INT_MIN && out->max_ctas != INT_MIN && out->min_ctas > out->max_ctas) {
        warn("parseCommConfig", "Invalid config min/max channels attribute value %d/%d",
             out->min_ctas, out->max_ctas);
        return false;
    }
    return true;
}

}  // namespace shim
