// ncclCollConfig_t as callers fill it, and NCCL's checks of it and of what it asks for.
// Not its effect on speed: there is none, but on the lines about the algorithm.
#pragma once
#include "communicator.h"

namespace shim {

// Reads what a call was given into the operation; an Answer (config/collconfig.cc of 2.32.3).
int read_call_config(const void* given, Operation* operation);

// Whether the algorithm that an operation must have can run here; an Answer, after a warning. NCCL
// asks at the end of the group (enqueue/enqueue.cc, ncclGetAlgoInfo).
int available(const Communicator& comm, const Operation& operation);

}  // namespace shim
