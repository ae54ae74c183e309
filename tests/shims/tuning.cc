// The choice for an operation, and tuner plugins of v2 to v7: loaded as NCCL does it, asked with a table of costs in
// which -1 means that it cannot run. Not the plugin's default name, libnccl-tuner.so, nor one in the net plugin's library.
#include "tuning.h"

#include "launch.h"
#include "log.h"
#include "setting.h"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace shim {

namespace {

const char* const algorithms[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
const char* const protocols[] = {"LL", "LL128", "SIMPLE"};
constexpr int TREE = 0, RING = 1, LL128 = 1;
constexpr float ignored = -1, own_cost = 1, other_cost = 5;
using Costs = float[7][3];

// ncclFunc_t of 2.32.
int function_of(What what) {
    switch (what) {
        case What::Broadcast: return 0;
        case What::Reduce: return 1;
        case What::AllGather: return 2;
        case What::ReduceScatter: return 3;
        case What::AllReduce: return 4;
        default: return -1;
    }
}

template <size_t N> int place_of(const std::string& word, const char* const (&names)[N]) {
    for (size_t at = 0; at < N; at++)
        if (!strcasecmp(word.c_str(), names[at])) return static_cast<int>(at);
    return -1;
}

// src/include/plugin/tuner/tuner_v2.h to tuner_v7.h.
using Log = void (*)(int, unsigned long, const char*, int, const char*, ...);
using Init2 = int (*)(size_t, size_t, Log, void**);
using Init5 = int (*)(void**, uint64_t, size_t, size_t, Log, int*, double*);
using Ask2 = int (*)(void*, int, size_t, int, int, int, int*, int*, int*);
using Ask3 = int (*)(void*, int, size_t, int, float**, int, int, int*);
using Ask4 = int (*)(void*, int, size_t, int, float**, int, int, int, int*);
using End = int (*)(void*);
struct Table {
    const char* name;
    void *init, *ask, *end;
};

struct Plugin {
    int version = 0;
    const Table* table = nullptr;
};

void plugin_log(int level, unsigned long flags, const char*, int, const char* format, ...) {
    char words[2048];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (level == static_cast<int>(Level::Warn)) return warn("tuner", "%s", words);
    info(static_cast<unsigned>(flags), 0, "%s", words);
}

int newest_table(int version) {
    const std::pair<int, int> firsts[] = {{23206, 7}, {23000, 6}, {22800, 5}, {22400, 4}, {22200, 3}, {22100, 2}};
    for (auto [first, table] : firsts)
        if (version >= first) return table;
    return 1;
}

Plugin load(int device) {
    Plugin found;
    std::string name = text("NCCL_TUNER_PLUGIN");
    if (name.empty() || !strcasecmp(name.c_str(), "none")) return found;
    info(Env | Tuning, device, "NCCL_TUNER_PLUGIN set by environment to %s", name.c_str());
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string longer = "libnccl-tuner-" + name + ".so";
    if (!library && name.find('/') == std::string::npos) library = dlopen(longer.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        info(Init | Tuning, device, "TUNER/Plugin: Could not find: %s %s", name.c_str(), longer.c_str());
        return found;
    }
    for (int version = newest_table(library_version()); version >= 2 && !found.table; version--) {
        auto symbol = "ncclTunerPlugin_v" + std::to_string(version);
        found = {version, static_cast<const Table*>(dlsym(library, symbol.c_str()))};
    }
    if (!found.table) {
        info(Init | Tuning, device, "External tuner plugin %s is unsupported", name.c_str());
        return found;
    }
    info(Init | Tuning, device, "TUNER/Plugin: Using %s (v%d)", found.table->name, found.version);
    info(Init | Tuning, device, "Successfully loaded external tuner plugin %s", name.c_str());
    return found;
}

const Plugin& plugin(int device) {
    static const Plugin one = load(device);
    return one;
}

// What can run: Ring for all five, Tree for AllReduce; only what NCCL_ALGO or NCCL_PROTO names, where they are set.
void fill(Costs& costs, const Operation& o, int algorithm, int protocol) {
    for (int a = 0; a < 7; a++)
        for (int p = 0; p < 3; p++) {
            bool runs = a == RING || (a == TREE && o.what == What::AllReduce);
            if (p == LL128 && number("BUSBW_SHIM_NO_LL128", 0)) runs = false;
            if (!text("NCCL_ALGO").empty() && a != algorithm) runs = false;
            if (!text("NCCL_PROTO").empty() && p != protocol) runs = false;
            costs[a][p] = runs ? other_cost : ignored;
        }
    if (costs[algorithm][protocol] != ignored) costs[algorithm][protocol] = own_cost;
}

// Asks the plugin; changes what it is to change, and returns the channels that it asks for, or 0.
int ask(const Communicator& comm, const Operation& o, int* algorithm, int* protocol) {
    const Plugin& tuner = plugin(comm.device);
    int function = function_of(o.what), channels = 0;
    // Of one rank NCCL asks nobody (src/enqueue.cc of 2.28.9, ncclPrepareTasks).
    if (!tuner.table || comm.ranks == 1 || function < 0 || *algorithm < 0 || *protocol < 0) return 0;
    size_t elements = std::max(sent(o, comm.rank, comm.ranks), received(o, comm.rank, comm.ranks));
    if (o.what == What::Broadcast || o.what == What::Reduce) elements = o.count;
    size_t bytes = elements * size_of(o.type);
    if (tuner.version == 2) {
        int a = -1, p = -1;
        reinterpret_cast<Ask2>(tuner.table->ask)(comm.tuner, function, bytes, 0, 0, 1, &a, &p, &channels);
        if (a >= 0 && p >= 0) *algorithm = a, *protocol = p;
        return channels;
    }
    Costs costs;
    fill(costs, o, *algorithm, *protocol);
    auto table = reinterpret_cast<float**>(costs);
    if (tuner.version == 3)
        reinterpret_cast<Ask3>(tuner.table->ask)(comm.tuner, function, bytes, 1, table, 7, 3, &channels);
    else
        reinterpret_cast<Ask4>(tuner.table->ask)(comm.tuner, function, bytes, 1, table, 7, 3, 0, &channels);
    float least = 1e30f;
    for (int a = 0; a < 7; a++)
        for (int p = 0; p < 3; p++)
            if (costs[a][p] >= 0 && costs[a][p] < least) least = costs[a][p], *algorithm = a, *protocol = p;
    return channels;
}

}  // namespace

int channels_of(const Communicator& comm) {
    int channels = comm.nodes > 1 ? 2 : 24;
    channels = std::max(channels, static_cast<int>(number("NCCL_MIN_NCHANNELS", 0)));
    return std::min(channels, static_cast<int>(number("NCCL_MAX_NCHANNELS", 64)));
}

int begin_tuner(Communicator& comm) {
    const Plugin& tuner = plugin(comm.device);
    if (!tuner.table) return Ok;
    auto ranks = static_cast<size_t>(comm.ranks), nodes = static_cast<size_t>(comm.nodes);
    if (tuner.version < 5)
        return reinterpret_cast<Init2>(tuner.table->init)(ranks, nodes, plugin_log, &comm.tuner);
    int domains[3] = {1, comm.ranks, comm.ranks};
    double constants[159] = {};
    return reinterpret_cast<Init5>(tuner.table->init)(&comm.tuner, comm.room->nonce(), ranks, nodes, plugin_log,
                                                      domains, constants);
}

void end_tuner(Communicator& comm) {
    const Plugin& tuner = plugin(comm.device);
    if (tuner.table) reinterpret_cast<End>(tuner.table->end)(comm.tuner);
    comm.tuner = nullptr;
}

void tune(const Communicator& comm, Operation& o) {
    if (o.what > What::AllGather) return;
    size_t bytes = o.count * size_of(o.type);
    std::string algorithm = text("NCCL_ALGO", "RING"), protocol = text("NCCL_PROTO");
    algorithm = algorithm.substr(0, algorithm.find(','));
    if (o.algorithm) {
        std::string name = text("BUSBW_SHIM_RAN", o.algorithm);
        algorithm = name.substr(0, name.rfind('_'));
        protocol = name.substr(name.rfind('_') + 1);
    } else if (protocol.find(',') != std::string::npos) {
        protocol.clear();
    }
    if (protocol.empty()) {
        bool ll128 = bytes >= 65536 && bytes < 1048576 && !number("BUSBW_SHIM_NO_LL128", 0);
        protocol = bytes < 65536 ? "LL" : ll128 ? "LL128" : "SIMPLE";
    }
    for (auto* word : {&algorithm, &protocol})
        std::transform(word->begin(), word->end(), word->begin(), ::toupper);
    size_t last = std::min<size_t>(bytes / 32768, static_cast<size_t>(channels_of(comm)) - 1);
    if (o.max_ctas != INT_MIN) last = std::min(last, static_cast<size_t>(o.max_ctas) - 1);
    if (o.min_ctas != INT_MIN) last = std::max(last, static_cast<size_t>(o.min_ctas) - 1);
    if (!o.algorithm) {
        int a = place_of(algorithm, algorithms), p = place_of(protocol, protocols);
        int channels = ask(comm, o, &a, &p);
        if (a >= 0 && p >= 0) algorithm = algorithms[a], protocol = protocols[p];
        if (channels > 0) last = static_cast<size_t>(std::min(channels, channels_of(comm))) - 1;
        o.tuned = (a * 3 + p) * 1000 + channels;
    }
    if (comm.rank != 0 || comm.ranks < 2) return;
    if (o.algorithm)
        info(Tuning, comm.device, "algSelection: %s picked within the selected set",
             text("BUSBW_SHIM_RAN", o.algorithm).c_str());
    info(Tuning, comm.device, "%s: %zu Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%zu}%s",
         name_of(o.what), bytes, algorithm.c_str(), protocol.c_str(), last,
         library_version() >= 23200 ? " cgaClusterSize 0" : "");
}

}  // namespace shim
