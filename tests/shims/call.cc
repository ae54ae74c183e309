// What every call goes through: checks of its arguments, the group that it belongs to.
// Not joining and launching: communicator.cc.
#include "call.h"

#include "call_config.h"
#include "config.h"
#include "log.h"
#include "setting.h"

#include <climits>
#include <cstdio>
#include <thread>
#include <unistd.h>

namespace shim {

thread_local Group group;

Handles& communicators() {
    static auto* live = new Handles;
    return *live;
}

int usable(Communicator* comm, const char* function) {
    if (!comm) {
        warn(function, "%s : comm argument is NULL", function);
        return BadArgument;
    }
    if (!communicators().has(comm)) {
        warn(function, "Error: corrupted comm object detected");
        return BadArgument;
    }
    int state = comm->async;
    if (state == Ok) return Ok;
    warn(function, "Attempt to use communicator before the previous operation returned ncclSuccess");
    return state == InProgress ? BadArgument : state;
}

namespace {

int open_windows(const std::vector<Registration>& windows) {
    std::vector<uint32_t> tickets;
    for (const Registration& window : windows)
        tickets.push_back(window.comm->room->hall().window.arrive(
            static_cast<uint32_t>(window.comm->ranks)));
    for (size_t i = 0; i < windows.size(); i++) {
        Communicator* comm = windows[i].comm;
        if (!comm->room->hall().window.await(tickets[i], [&] { return comm->aborted.load(); }))
            return InternalError;
        std::lock_guard<std::mutex> hold(comm->mutex);
        void* handle = new char;
        comm->windows[handle] = windows[i].buffer;
        *windows[i].out = handle;
    }
    return Ok;
}

}  // namespace

int join_all(const std::vector<Joining>& joining) {
    std::atomic<int> failed{Ok};
    std::vector<std::thread> threads;
    for (const Joining& one : joining)
        threads.emplace_back([&] {
            int answer = join(one), none = Ok;
            one.comm->async = answer;
            // The first failure ends the group: groupCleanup of src/group.cc.
            if (answer == Ok || !failed.compare_exchange_strong(none, answer)) return;
            for (const Joining& other : joining) other.comm->aborted = true;
        });
    for (auto& thread : threads) thread.join();
    return failed;
}

namespace {

int run_group(Group work) {
    if (!work.joining.empty() && !work.pending.empty()) {
        warn("ncclGroupEnd", "a group holds both initialisation and operations");
        return BadUsage;
    }
    if (int no = join_all(work.joining)) return no;
    if (int no = open_windows(work.windows)) return no;
    for (const Pending& p : work.pending)
        if (int no = available(*p.comm, p.operation)) return no;
    return launch_all(work.pending);
}

}  // namespace

int end_group() {
    Group work = std::move(group);
    group = Group();
    if (work.error != Ok) return work.error;
    std::vector<Communicator*> concerned;
    for (auto& j : work.joining) concerned.push_back(j.comm);
    for (auto& p : work.pending) concerned.push_back(p.comm);
    for (auto& w : work.windows) concerned.push_back(w.comm);
    bool blocking = true;
    for (Communicator* comm : concerned) blocking = blocking && comm->blocking;
    if (blocking) return run_group(std::move(work));
    for (Communicator* comm : concerned) comm->async = InProgress;
    std::thread([work = std::move(work), concerned] {
        int answer = run_group(work);
        for (Communicator* comm : concerned) comm->async = answer;
    }).detach();
    return InProgress;
}

int grouped(int answer) {
    if (answer != Ok) group.error = answer;
    if (group.depth > 0) return answer;
    return end_group();
}

bool inside(const void* buffer, size_t bytes, int device) {
    if (bytes == 0) return true;
    Allocation block;
    if (!the_machine()->find(buffer, bytes, &block)) return false;
    return block.kind == Kind::Pinned || block.device == device;
}

namespace {

// Overlap other than the documented ways of working in place.
bool tangled(const Communicator& comm, const Operation& o) {
    size_t size = size_of(o.type);
    size_t read = sent(o, comm.rank, comm.ranks) * size;
    size_t written = received(o, comm.rank, comm.ranks) * size;
    auto from = reinterpret_cast<uintptr_t>(o.send), to = reinterpret_cast<uintptr_t>(o.recv);
    if (!read || !written || from + read <= to || to + written <= from) return false;
    size_t own = static_cast<size_t>(comm.rank) * o.count * size;
    switch (o.what) {
        case What::AllGather: case What::Gather: return from != to + own;
        case What::ReduceScatter: case What::Scatter: return to != from + own;
        default: return from != to;
    }
}

int check_operator(Communicator& comm, Operation& o) {
    if (o.op >= 0 && o.op <= Average) return Ok;
    std::lock_guard<std::mutex> hold(comm.mutex);
    int index = o.op - 5 - static_cast<int>(comm.serial << 8);
    if (index < 0 || index >= static_cast<int>(comm.scales.size()) ||
        !comm.scales[static_cast<size_t>(index)].alive) {
        warn("ArgsCheck", "reduction operation unknown to this communicator");
        return BadArgument;
    }
    o.scale = comm.scales[static_cast<size_t>(index)];
    if (o.scale.type != o.type) {
        warn("ArgsCheck", "Data type supplied to user-created ncclRedOp_t does not match type given "
             "to reduction operation");
        return BadArgument;
    }
    o.op = ScaledSum;
    return Ok;
}

// Ok without a stream: the operation has failed already, in the way of a kernel.
int check(Communicator* comm, Operation& o, void* handle, Stream** stream) {
    const char* name = name_of(o.what);
    if (int no = usable(comm, name)) return no;
    if (comm->finalised) {
        warn(name, "the communicator was finalised");
        return BadArgument;
    }
    bool rooted = o.what != What::AllReduce && o.what != What::ReduceScatter &&
                  o.what != What::AllGather && o.what != What::AllToAll;
    if (rooted && (o.root < 0 || o.root >= comm->ranks)) {
        warn("ArgsCheck", "%s : invalid root %d (root should be in the 0..%d range)", name, o.root,
             comm->ranks - 1);
        return BadArgument;
    }
    if (o.type < 0 || o.type >= types || (library_version() < 22400 && o.type > 9)) {
        warn("ArgsCheck", "%s : invalid type %d", name, o.type);
        return BadArgument;
    }
    bool reduces = o.what == What::AllReduce || o.what == What::Reduce || o.what == What::ReduceScatter;
    if (reduces)
        if (int no = check_operator(*comm, o)) return no;
    if (Result no = the_machine()->stream_on(comm->device, handle, stream)) {
        warn(name, "Cuda failure %d: stream of another device, or destroyed", no);
        return CudaError;
    }
    size_t size = size_of(o.type);
    bool sound = inside(o.send, sent(o, comm->rank, comm->ranks) * size, comm->device) &&
                 inside(o.recv, received(o, comm->rank, comm->ranks) * size, comm->device) &&
                 (!o.scale.device || inside(o.scale.device, size, comm->device));
    if (!sound) {
        std::fprintf(stderr,
                     "busbw shim: rank %d, %s of %zu elements of type %d: send %p or recv %p is not "
                     "memory of device %d over that length\n",
                     comm->rank, name, o.count, o.type, o.send, o.recv, comm->device);
        if (number("NCCL_CHECK_POINTERS", 0)) return BadArgument;
        // Without that setting the kernel runs, and faults; the other ranks wait for ever.
        Stream* faulting = *stream;
        *stream = nullptr;
        return the_machine()->enqueue(faulting, [] { return IllegalAddress; }) ? CudaError : Ok;
    }
    if (!tangled(*comm, o)) return Ok;
    std::fprintf(stderr, "busbw shim: rank %d, %s: send %p and recv %p overlap, but not in place\n",
                 comm->rank, name, o.send, o.recv);
    return BadUsage;
}

}  // namespace

int give(Operation o, Communicator* comm, void* handle, const void* config) {
    Stream* stream = nullptr;
    int answer = read_call_config(config, &o);
    if (answer == Ok) answer = check(comm, o, handle, &stream);
    bool letter = o.what == What::Send || o.what == What::Recv;
    if (answer == Ok && stream && (o.count > 0 || letter)) group.pending.push_back({comm, stream, o});
    return grouped(answer);
}

int begin(Communicator** out, int ranks, UniqueId id, int rank, const void* given, const char* api) {
    Config config;
    if (!out) return BadArgument;
    *out = nullptr;
    if (ranks < 1 || rank < 0 || rank >= ranks) {
        warn(api, "Invalid rank requested : %d/%d", rank, ranks);
        return BadArgument;
    }
    if (given && !read_config(given, library_version(), &config)) return BadArgument;
    const Machine* machine = the_machine();
    int device = machine ? machine->current_device() : -1;
    if (device < 0) {
        warn(api, "Cuda failure 'no CUDA-capable device is detected'");
        return CudaError;
    }
    static std::atomic<uint64_t> serial{1};
    auto* comm = new Communicator;
    comm->rank = rank;
    comm->ranks = ranks;
    comm->device = device;
    comm->serial = serial++ & 0x7fffff;
    comm->blocking = config.blocking != 0;
    if (config.blocking != INT_MIN) info(Init, device, "Comm config Blocking set to %d", config.blocking);
    if (config.nvlink_centric_sched != INT_MIN)
        info(Init, device, "Comm config nvlinkCentricSched set to %d", config.nvlink_centric_sched);
    communicators().add(comm);
    Joining joining = {comm, {}, api, static_cast<uint64_t>(gettid())};
    std::memcpy(joining.id.data(), id.bytes, sizeof id.bytes);
    group.joining.push_back(joining);
    *out = comm;
    return Ok;
}

}  // namespace shim
