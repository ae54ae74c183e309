// The checks of ncclCollConfig_t. Stricter than NCCL: size and version must belong together.
// Not NCCL's tuning model: which algorithm can run is a rule or two.
#include "call_config.h"

#include "launch.h"
#include "log.h"
#include "setting.h"

#include <climits>
#include <cstdio>
#include <cstring>

#include <strings.h>

namespace shim {

namespace {

// nccl.h of 2.32; 2.31's ends before the event.
struct CallConfig {
    size_t size;
    unsigned magic, version;
    const void* extensions;
    int min_ctas, max_ctas, nvls_ctas, cga_cluster_size;
    const char* algorithms;
    int forced, cta_policy;
    uint64_t profiler_tag;
    void* launch_event;
};
static_assert(sizeof(CallConfig) == 72 && offsetof(CallConfig, launch_event) == 64);

// config/algorithm_registry.cc, without its symmetric kernels.
const char* const names[] = {"TREE_LL", "TREE_LL128", "TREE_SIMPLE", "RING_LL", "RING_LL128",
                             "RING_SIMPLE", "COLLNET_DIRECT_SIMPLE", "COLLNET_CHAIN_SIMPLE",
                             "NVLS_SIMPLE", "NVLSTREE_SIMPLE", "PAT_SIMPLE"};

int misuse(const char* what, unsigned long value) {
    std::fprintf(stderr, "busbw shim: ncclCollConfig_t: %s is %lu\n", what, value);
    return BadArgument;
}

}  // namespace

int read_call_config(const void* given, Operation* o) {
    if (!given) return Ok;
    CallConfig config = {};
    std::memcpy(&config, given, offsetof(CallConfig, extensions));
    if (config.magic != 0xcafebeef) {
        warn("ncclParseCollConfig", "ncclCollConfig_t magic mismatch (got 0x%x, expected 0x%x)",
             config.magic, 0xcafebeef);
        return BadArgument;
    }
    auto library = static_cast<unsigned>(library_version());
    if (config.version < 23100 || config.version > library) return misuse("version", config.version);
    size_t wanted = config.version < 23200 ? offsetof(CallConfig, launch_event) : sizeof config;
    if (config.size != wanted) return misuse("size", config.size);
    std::memcpy(&config, given, config.size);
    if (config.extensions || config.launch_event) return misuse("a pointer of nobody's", 1);
    if (config.forced != 0 && config.forced != 1) return misuse("forceAlgSelection", static_cast<unsigned>(config.forced));
    bool unset = config.cta_policy == INT_MIN;
    if (!unset && (config.cta_policy < 0 || config.cta_policy > 3)) {
        warn("ncclParseCollConfig", "config->CTAPolicy=%d is invalid, accepted values are [1, %d]", config.cta_policy, 3);
        return BadArgument;
    }
    for (int ctas : {config.min_ctas, config.max_ctas})
        if (ctas != INT_MIN && (ctas < 1 || ctas > 64)) return misuse("CTAs", static_cast<unsigned>(ctas));
    o->min_ctas = config.min_ctas;
    o->max_ctas = config.max_ctas;
    o->cta_policy = config.cta_policy;
    if (!config.algorithms || !*config.algorithms) return Ok;
    // Where a variable chooses, 2.32.3 ignores what a call asks for, without a message.
    if (!text("NCCL_ALGO").empty() || !text("NCCL_PROTO").empty()) return Ok;
    for (const char* name : names)
        if (!strcasecmp(name, config.algorithms)) o->algorithm = name;
    if (o->algorithm) return Ok;
    warn("ncclCollConfigGetAlgMask",
         "config->algSelection \"%s\" cannot be honored for %s (set forceAlgSelection=0 to if need to "
         "allow fall back to automatic selection)", config.algorithms, name_of(o->what));
    return BadArgument;
}

int available(const Communicator& comm, const Operation& o) {
    if (!o.algorithm) return Ok;
    std::string name = o.algorithm;
    std::string family = name.substr(0, name.find('_')), protocol = name.substr(name.rfind('_') + 1);
    bool covered = family == "RING" ? o.what <= What::AllGather
                                    : family == "TREE" && o.what == What::AllReduce;
    bool declines = text("BUSBW_SHIM_DECLINE") == std::to_string(comm.rank);
    if (covered && protocol != "LL128" && !declines) return Ok;
    warn("ncclGetAlgoInfo", "algSelection: no algorithm in the selected set is available for %s",
         name_of(o.what));
    return BadArgument;
}

}  // namespace shim
