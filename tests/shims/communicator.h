// A communicator of the collectives library, and the operations given to it.
// Not the names that a program sees: nccl.cc.
#pragma once
#include "core.h"
#include "reduction.h"
#include "room.h"

#include <array>
#include <climits>

namespace shim {

// ncclResult_t of nccl.h 2.28.
enum Answer : int {
    Ok = 0,
    CudaError = 1,
    SystemError = 2,
    InternalError = 3,
    BadArgument = 4,
    BadUsage = 5,
    RemoteError = 6,
    InProgress = 7,
};

enum class What {
    AllReduce, Reduce, Broadcast, ReduceScatter, AllGather, AllToAll, Gather, Scatter, Send, Recv
};

struct Scale {
    bool alive = true;
    int type = 0;
    const void* device = nullptr;        // read when the operation runs
    std::array<unsigned char, 8> host{};  // else read when the operator was made
};

struct Operation {
    What what;
    const void* send = nullptr;
    void* recv = nullptr;
    size_t count = 0;
    int type = 0, op = 0, root = 0;  // root: the peer, for Send and Recv
    Scale scale;
    // Of the call's own configuration; null or INT_MIN where it has none.
    const char* algorithm = nullptr;
    int min_ctas = INT_MIN, max_ctas = INT_MIN, cta_policy = INT_MIN;
    int tuned = 0;  // algorithm, protocol and channels that were chosen, in one number
};

struct Communicator {
    int rank = 0, ranks = 0, device = 0, nodes = 1;
    uint64_t serial = 0;
    Room* room = nullptr;
    bool blocking = true, connected = false;
    std::atomic<bool> aborted{false}, finalised{false}, destroyed{false};
    std::atomic<int> async{Ok};
    std::atomic<int64_t> started{0};
    std::atomic<int> unfinished{0};
    std::mutex mutex;  // of what follows
    std::vector<Scale> scales;
    std::map<void*, const void*> registered;
    std::map<void*, const void*> windows;
    Stream* last_stream = nullptr;
    void* tuner = nullptr;  // the plugin's context
};

const Machine* the_machine();  // null where there is no driver

const char* name_of(What what);
size_t sent(const Operation& operation, int rank, int ranks);      // elements that are read
size_t received(const Operation& operation, int rank, int ranks);  // elements that are written

// Runs on a stream: the collectives in order, then the sends and receives at once.
Result run(Communicator& comm, const std::vector<Operation>& operations);

}  // namespace shim
