// NCCL's words: the lines of NCCL_DEBUG in 2.28's format, where NCCL_DEBUG_FILE says.
// Not every line that NCCL prints: README.md lists those.
#pragma once
#include <string>

namespace shim {

enum class Level { None = 0, Version = 1, Warn = 2, Info = 3, Abort = 4, Trace = 5 };

// The bits of NCCL's subsystems that the shim uses (nccl_common.h).
enum Subsystem : unsigned { Init = 1, Coll = 2, Graphs = 0x20, Tuning = 0x40, Env = 0x80, Boot = 0x1000 };

bool logs(Level level, unsigned subsystem);
void info(unsigned subsystem, int device, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
// Also what ncclGetLastError answers.
void warn(const char* function, const char* format, ...) __attribute__((format(printf, 2, 3)));
void say_version(int version);  // once a process, at NCCL_DEBUG=VERSION and above
void reread_environment();
const char* last_warning();

}  // namespace shim
