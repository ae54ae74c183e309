// What every call goes through: checks of its arguments, the group that it belongs to.
// Not the names that a program sees: nccl.cc.
#pragma once
#include "launch.h"

namespace shim {

struct UniqueId {
    char bytes[128];
};

struct Registration {  // of a window, which all ranks make together
    Communicator* comm;
    void* buffer;
    void** out;
};

struct Group {
    int depth = 0;
    int error = Ok;
    std::vector<Pending> pending;
    std::vector<Joining> joining;
    std::vector<Registration> windows;
};

extern thread_local Group group;  // what the calling thread has gathered since ncclGroupStart

Handles& communicators();
int usable(Communicator* comm, const char* function);  // an Answer: a live handle, nothing pending
bool inside(const void* buffer, size_t bytes, int device);  // memory that the device reaches

// Each an Answer.
int grouped(int answer);  // one call as a group of its own, unless it is in one already
int end_group();
int join_all(const std::vector<Joining>& joining);
int give(Operation operation, Communicator* comm, void* stream, const void* config = nullptr);
int begin(Communicator** out, int ranks, UniqueId id, int rank, const void* config, const char* api);

}  // namespace shim
