// Which algorithm, protocol and channels an operation gets, and the tuner plugin that is asked.
// Not NCCL's model: sizes decide, or NCCL_ALGO and NCCL_PROTO.
#pragma once
#include "communicator.h"

namespace shim {

int channels_of(const Communicator& comm);

// Loads the plugin of NCCL_TUNER_PLUGIN and calls its init; an Answer.
int begin_tuner(Communicator& comm);
void end_tuner(Communicator& comm);

// Chooses for an operation, says so in the log as NCCL does, and keeps the choice in it.
void tune(const Communicator& comm, Operation& operation);

}  // namespace shim
