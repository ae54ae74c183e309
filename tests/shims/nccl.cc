// libnccl.so.2 and librccl.so.1: the names that busbw uses.
// Not their checks of arguments, nor groups: call.cc. SHIM_NCCL_VERSION hides what a release did not have.
#include "call.h"
#include "config.h"
#include "log.h"
#include "setting.h"
#include "tuning.h"

#include <unistd.h>

#include <cstdio>

using namespace shim;

namespace shim {

int library_version() {
    return static_cast<int>(number("BUSBW_SHIM_NCCL_VERSION", SHIM_NCCL_VERSION));
}

}  // namespace shim

namespace {

int initialise_one(Communicator** out, int ranks, UniqueId id, int rank, const void* config,
                   const char* api) {
    int answer = grouped(begin(out, ranks, id, rank, config, api));
    if (answer == Ok || answer == InProgress || !out || !*out) return answer;
    communicators().remove(*out);
    *out = nullptr;
    return answer;
}

int retire(Communicator* comm, const char* function) {
    if (!comm) return Ok;
    if (!communicators().remove(comm)) {
        warn(function, "Error: corrupted comm object detected");
        return BadArgument;
    }
    return Ok;
}

void say_gone(Communicator* comm, const char* how) {
    info(Init, comm->device, "comm %p rank %d nranks %d cudaDev %d busId %x - %s COMPLETE",
         static_cast<void*>(comm), comm->rank, comm->ranks, comm->device,
         (0x10 + the_machine()->physical(comm->device)) << 12, how);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int ncclGetVersion(int* version) {
    if (!version) return BadArgument;
    *version = library_version();
    return Ok;
}

int ncclGetUniqueId(UniqueId* id) {
    if (!id) return BadArgument;
    return Room::found(id->bytes) ? Ok : SystemError;
}

int ncclCommInitRank(Communicator** out, int ranks, UniqueId id, int rank) {
    return initialise_one(out, ranks, id, rank, nullptr, "ncclCommInitRank");
}

int ncclCommInitRankConfig(Communicator** out, int ranks, UniqueId id, int rank, const void* config) {
    return initialise_one(out, ranks, id, rank, config, "ncclCommInitRankConfig");
}

int ncclGroupStart() {
    group.depth++;
    return Ok;
}

int ncclGroupEnd() {
    if (group.depth == 0) {
        warn("ncclGroupEnd", "ncclGroupEnd: not in a group call.");
        return BadUsage;
    }
    return --group.depth > 0 ? Ok : end_group();
}

int ncclCommInitAll(Communicator** out, int count, const int* devices) {
    const Machine* machine = the_machine();
    if (!out || count < 1) return BadArgument;
    if (!machine || machine->current_device() < 0) return CudaError;
    UniqueId id;
    if (!Room::found(id.bytes)) return SystemError;
    std::vector<Joining> joining;
    for (int i = 0; i < count; i++) {
        int device = devices ? devices[i] : i;
        bool twice = false;
        for (int j = 0; devices && j < i; j++) twice = twice || devices[j] == device;
        if (device < 0 || device >= machine->device_count() || twice) {
            warn("ncclCommInitAll", "Invalid CUDA device: %d", device);
            return twice ? BadUsage : BadArgument;
        }
        Group outer = std::move(group);
        group = Group();
        int no = begin(&out[i], count, id, i, nullptr, "ncclCommInitAll");
        if (no == Ok) joining.push_back(group.joining[0]);
        group = std::move(outer);
        if (no != Ok) return no;
        out[i]->device = device;
    }
    return join_all(joining);
}

int ncclCommFinalize(Communicator* comm) {
    if (int no = usable(comm, "ncclCommFinalize")) return no;
    return comm->finalised.exchange(true) ? BadArgument : Ok;
}

int ncclCommDestroy(Communicator* comm) {
    if (int no = retire(comm, "ncclCommDestroy")) return no;
    if (!comm) return Ok;
    if (comm->unfinished)
        std::fprintf(stderr, "busbw shim: rank %d destroys its communicator while it works\n",
                     comm->rank);
    comm->destroyed = true;
    end_tuner(*comm);
    say_gone(comm, "Destroy");
    return Ok;
}

int ncclCommAbort(Communicator* comm) {
    if (int no = retire(comm, "ncclCommAbort")) return no;
    if (!comm) return Ok;
    comm->aborted = true;
    for (int turn = 0; comm->unfinished && turn < 5000; turn++) usleep(1000);
    end_tuner(*comm);
    say_gone(comm, "Abort");
    return Ok;
}

int ncclCommGetAsyncError(Communicator* comm, int* error) {
    if (!comm || !communicators().has(comm) || !error) return BadArgument;
    *error = comm->async;
    return Ok;
}

const char* ncclGetErrorString(int code) {
    static const char* words[] = {
        "no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error", "NCCL operation in progress"};
    return code >= 0 && code <= InProgress ? words[code] : "unknown result code";
}

const char* ncclGetLastError(Communicator*) { return last_warning(); }

int ncclCommCount(Communicator* comm, int* count) {
    if (int no = usable(comm, "CommCount")) return no;
    if (!count) return BadArgument;
    *count = comm->ranks;
    return Ok;
}

int ncclCommCuDevice(Communicator* comm, int* device) {
    if (int no = usable(comm, "CommCuDevice")) return no;
    if (!device) return BadArgument;
    *device = comm->device;
    return Ok;
}

int ncclCommUserRank(Communicator* comm, int* rank) {
    if (int no = usable(comm, "CommUserRank")) return no;
    if (!rank) return BadArgument;
    *rank = comm->rank;
    return Ok;
}

#if SHIM_NCCL_VERSION >= 21900
int ncclMemAlloc(void** out, size_t size) {
    if (!out || size == 0) return BadArgument;
    const Machine* machine = the_machine();
    int device = machine ? machine->current_device() : -1;
    if (device < 0) return CudaError;
    constexpr size_t granularity = 2 << 20;
    size_t rounded = (size + granularity - 1) / granularity * granularity;
    return machine->allocate(device, rounded, out) == Success ? Ok : CudaError;
}

int ncclMemFree(void* pointer) {
    if (!pointer) return Ok;
    return the_machine()->release(pointer) == Success ? Ok : CudaError;
}

int ncclCommRegister(Communicator* comm, void* buffer, size_t size, void** handle) {
    if (int no = usable(comm, "ncclCommRegister")) return no;
    if (!buffer || !handle || size == 0 || !inside(buffer, size, comm->device)) return BadArgument;
    std::lock_guard<std::mutex> hold(comm->mutex);
    *handle = new char;
    comm->registered[*handle] = buffer;
    return Ok;
}

int ncclCommDeregister(Communicator* comm, void* handle) {
    if (int no = usable(comm, "ncclCommDeregister")) return no;
    std::lock_guard<std::mutex> hold(comm->mutex);
    auto at = comm->registered.find(handle);
    if (at == comm->registered.end()) {
        warn("ncclCommDeregister", "Deregister with invalid handle %p", handle);
        return BadUsage;
    }
    bool freed = !the_machine()->find(at->second, 1, nullptr);
    comm->registered.erase(at);
    if (freed) std::fprintf(stderr, "busbw shim: memory was freed while it was registered\n");
    return freed ? BadUsage : Ok;
}
#endif

#if SHIM_NCCL_VERSION >= 22700
int ncclCommWindowRegister(Communicator* comm, void* buffer, size_t size, void** window, int flags) {
    if (int no = usable(comm, "ncclCommWindowRegister")) return grouped(no);
    Allocation block;
    bool sound = buffer && window && size && flags >= 0 && flags <= 1 &&
                 reinterpret_cast<uintptr_t>(buffer) % 4096 == 0 &&
                 the_machine()->find(buffer, size, &block) && block.kind == Kind::Collective &&
                 block.device == comm->device;
    if (sound) group.windows.push_back({comm, buffer, window});
    else warn("ncclCommWindowRegister", "not memory of ncclMemAlloc of this device, or not aligned");
    return grouped(sound ? Ok : BadArgument);
}

int ncclCommWindowDeregister(Communicator* comm, void* window) {
    if (int no = usable(comm, "ncclCommWindowDeregister")) return no;
    std::lock_guard<std::mutex> hold(comm->mutex);
    auto at = comm->windows.find(window);
    if (at == comm->windows.end()) return BadArgument;
    bool freed = !the_machine()->find(at->second, 1, nullptr);
    comm->windows.erase(at);
    if (freed) std::fprintf(stderr, "busbw shim: memory was freed while it was a window\n");
    return freed ? BadUsage : Ok;
}
#endif

int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, Communicator* comm) {
    if (int no = usable(comm, "ncclRedOpCreatePreMulSum")) return no;
    if (!op || !scalar || type < 0 || type >= types || residence < 0 || residence > 1)
        return BadArgument;
    Scale scale;
    scale.type = type;
    if (residence == 1) std::memcpy(scale.host.data(), scalar, size_of(type));
    else scale.device = scalar;
    std::lock_guard<std::mutex> hold(comm->mutex);
    comm->scales.push_back(scale);
    *op = 5 + static_cast<int>(comm->serial << 8) + static_cast<int>(comm->scales.size()) - 1;
    return Ok;
}

int ncclRedOpDestroy(int op, Communicator* comm) {
    if (op >= 0 && op < 5) {
        warn("ncclRedOpDestroy", "ncclRedOpDestroy : operator is a NCCL builtin.");
        return BadArgument;
    }
    if (!comm || !communicators().has(comm)) return BadArgument;
    std::lock_guard<std::mutex> hold(comm->mutex);
    int index = op - 5 - static_cast<int>(comm->serial << 8);
    if (index < 0 || index >= static_cast<int>(comm->scales.size()) ||
        !comm->scales[static_cast<size_t>(index)].alive)
        return BadArgument;
    comm->scales[static_cast<size_t>(index)].alive = false;
    return Ok;
}

int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, Communicator* comm,
                  void* stream) {
    return give({What::AllReduce, send, recv, count, type, op, 0, {}}, comm, stream);
}

int ncclReduce(const void* send, void* recv, size_t count, int type, int op, int root,
               Communicator* comm, void* stream) {
    return give({What::Reduce, send, recv, count, type, op, root, {}}, comm, stream);
}

int ncclBroadcast(const void* send, void* recv, size_t count, int type, int root,
                  Communicator* comm, void* stream) {
    return give({What::Broadcast, send, recv, count, type, 0, root, {}}, comm, stream);
}

int ncclReduceScatter(const void* send, void* recv, size_t count, int type, int op,
                      Communicator* comm, void* stream) {
    return give({What::ReduceScatter, send, recv, count, type, op, 0, {}}, comm, stream);
}

int ncclAllGather(const void* send, void* recv, size_t count, int type, Communicator* comm,
                  void* stream) {
    return give({What::AllGather, send, recv, count, type, 0, 0, {}}, comm, stream);
}

#if SHIM_NCCL_VERSION >= 22800 || defined(SHIM_ROCM)
#ifdef SHIM_ROCM
#define ncclAlltoAll ncclAllToAll  // RCCL's own, older name
#endif
int ncclAlltoAll(const void* send, void* recv, size_t count, int type, Communicator* comm,
                 void* stream) {
    return give({What::AllToAll, send, recv, count, type, 0, 0, {}}, comm, stream);
}

int ncclGather(const void* send, void* recv, size_t count, int type, int root, Communicator* comm,
               void* stream) {
    return give({What::Gather, send, recv, count, type, 0, root, {}}, comm, stream);
}

int ncclScatter(const void* send, void* recv, size_t count, int type, int root, Communicator* comm,
                void* stream) {
    return give({What::Scatter, send, recv, count, type, 0, root, {}}, comm, stream);
}
#endif

#if SHIM_NCCL_VERSION >= 23100
int ncclAllReduceConfig(const void* send, void* recv, size_t count, int type, int op,
                        Communicator* comm, void* stream, const void* config) {
    return give({What::AllReduce, send, recv, count, type, op, 0, {}}, comm, stream, config);
}

int ncclReduceConfig(const void* send, void* recv, size_t count, int type, int op, int root,
                     Communicator* comm, void* stream, const void* config) {
    return give({What::Reduce, send, recv, count, type, op, root, {}}, comm, stream, config);
}

int ncclBroadcastConfig(const void* send, void* recv, size_t count, int type, int root,
                        Communicator* comm, void* stream, const void* config) {
    return give({What::Broadcast, send, recv, count, type, 0, root, {}}, comm, stream, config);
}

int ncclReduceScatterConfig(const void* send, void* recv, size_t count, int type, int op,
                            Communicator* comm, void* stream, const void* config) {
    return give({What::ReduceScatter, send, recv, count, type, op, 0, {}}, comm, stream, config);
}

int ncclAllGatherConfig(const void* send, void* recv, size_t count, int type, Communicator* comm,
                        void* stream, const void* config) {
    return give({What::AllGather, send, recv, count, type, 0, 0, {}}, comm, stream, config);
}

int ncclAlltoAllConfig(const void* send, void* recv, size_t count, int type, Communicator* comm,
                       void* stream, const void* config) {
    return give({What::AllToAll, send, recv, count, type, 0, 0, {}}, comm, stream, config);
}

int ncclGatherConfig(const void* send, void* recv, size_t count, int type, int root,
                     Communicator* comm, void* stream, const void* config) {
    return give({What::Gather, send, recv, count, type, 0, root, {}}, comm, stream, config);
}

int ncclScatterConfig(const void* send, void* recv, size_t count, int type, int root,
                      Communicator* comm, void* stream, const void* config) {
    return give({What::Scatter, send, recv, count, type, 0, root, {}}, comm, stream, config);
}
#endif

int ncclSend(const void* send, size_t count, int type, int peer, Communicator* comm, void* stream) {
    return give({What::Send, send, nullptr, count, type, 0, peer, {}}, comm, stream);
}

int ncclRecv(void* recv, size_t count, int type, int peer, Communicator* comm, void* stream) {
    return give({What::Recv, nullptr, recv, count, type, 0, peer, {}}, comm, stream);
}

#if SHIM_NCCL_VERSION >= 22200
// Nothing is launched. The estimate: 7 us and the bytes at 360 GB/s for each operation.
int ncclGroupSimulateEnd(SimInfo* info) {
    if (group.depth == 0) return BadUsage;
    if (--group.depth > 0) return Ok;
    Group work = std::move(group);
    group = Group();
    if (work.error != Ok) return work.error;
    if (!info) return Ok;
    if (info->magic != sim_magic || info->size < sizeof(SimInfo) || info->version < 22200) {
        warn("ncclGroupSimulateEnd", "ncclSimInfo_t argument not initialized via "
             "NCCL_SIM_INFO_INITIALIZER");
        return BadArgument;
    }
    double microseconds = 0;
    for (const Pending& p : work.pending)
        microseconds += 7 + static_cast<double>(p.operation.count * size_of(p.operation.type)) / 360e3;
    info->estimated_time = static_cast<float>(microseconds);
    return Ok;
}
#endif

void ncclResetDebugInit() { reread_environment(); }

}  // extern "C"
#pragma GCC visibility pop
