// ncclConfig_t and ncclSimInfo_t as callers fill them, and NCCL's checks of them.
// Not what the settings do: nothing, but for `blocking`.
#pragma once
#include <climits>
#include <cstddef>

namespace shim {

// nccl.h of 2.28: append-only; an older header's struct ends earlier.
struct Config {
    size_t size = 0;
    unsigned magic = 0;
    unsigned version = 0;
    int blocking = INT_MIN;
    int cga_cluster_size = INT_MIN;
    int min_ctas = INT_MIN;
    int max_ctas = INT_MIN;
    const char* net_name = nullptr;
    int split_share = INT_MIN;
    int traffic_class = INT_MIN;
    const char* comm_name = nullptr;
    int collnet_enable = INT_MIN;
    int cta_policy = INT_MIN;
    int shrink_share = INT_MIN;
    int nvls_ctas = INT_MIN;
    int channels_per_net_peer = INT_MIN;
    int nvlink_centric_sched = INT_MIN;
};

struct SimInfo {
    size_t size;
    unsigned magic;
    unsigned version;
    float estimated_time;  // microseconds
};

constexpr unsigned config_magic = 0xcafebeef, sim_magic = 0x74685283;

// Reads what the caller gave into `out`; false after a warning where NCCL would refuse it
// (src/init.cc, parseCommConfig).
bool read_config(const void* given, int library_version, Config* out);

}  // namespace shim
