// From a call to a stream: joining a communicator, and launching what a group has gathered.
// Not the checks of arguments: nccl.cc.
#pragma once
#include "communicator.h"

#include <signal.h>

namespace shim {

struct Joining {
    Communicator* comm;
    std::array<char, 128> id;
    const char* api;
    uint64_t thread;  // of the caller, whichever thread does the joining
};

struct Pending {
    Communicator* comm;
    Stream* stream;
    Operation operation;
};

int library_version();
int join(const Joining& joining);  // an Answer; waits for the other ranks
int launch_all(const std::vector<Pending>& pending);

}  // namespace shim
