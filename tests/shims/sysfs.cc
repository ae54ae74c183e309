// Preloaded into a program (LD_PRELOAD): what the folder BUSBW_SHIM_RDMA has below sys/ stands for /sys.
// Not a file system: the calls of Rust's std::fs and those by which NCCL reads its topology, no others.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <typename Function>
Function* real(Function*& known, const char* name) {
    if (!known) known = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    return known;
}

using Stat = int(const char*, struct stat*);
using Statx = int(int, const char*, int, unsigned, struct statx*);

// The path instead of this one, if the folder has it.
const char* instead(const char* path, std::string& room) {
    const char* folder = std::getenv("BUSBW_SHIM_RDMA");
    if (!path || !folder || std::strncmp(path, "/sys/", 5) != 0) return path;
    static Statx* statx_of = nullptr;
    struct statx about;
    room = std::string(folder) + path;
    return real(statx_of, "statx")(AT_FDCWD, room.c_str(), 0, STATX_TYPE, &about) == 0 ? room.c_str() : path;
}

mode_t mode_of(int flags, va_list arguments) { return flags & O_CREAT ? va_arg(arguments, mode_t) : 0; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
    static int (*of)(const char*, int, ...) = nullptr;
    std::string room;
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return real(of, "open")(instead(path, room), flags, mode);
}

int open64(const char* path, int flags, ...) {
    static int (*of)(const char*, int, ...) = nullptr;
    std::string room;
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return real(of, "open64")(instead(path, room), flags, mode);
}

DIR* opendir(const char* path) {
    static DIR* (*of)(const char*) = nullptr;
    std::string room;
    return real(of, "opendir")(instead(path, room));
}

// What is in the folder is in /sys: NCCL knows PCI devices by that.
char* realpath(const char* path, char* into) {
    static char* (*of)(const char*, char*) = nullptr;
    std::string room;
    char* found = real(of, "realpath")(instead(path, room), into);
    const char* folder = std::getenv("BUSBW_SHIM_RDMA");
    size_t length = folder ? std::strlen(folder) : 0;
    if (found && length && std::strncmp(found, folder, length) == 0 && std::strncmp(found + length, "/sys/", 5) == 0) {
        std::memmove(found, found + length, std::strlen(found + length) + 1);
    }
    return found;
}

FILE* fopen(const char* path, const char* mode) {
    static FILE* (*of)(const char*, const char*) = nullptr;
    std::string room;
    return real(of, "fopen")(instead(path, room), mode);
}

FILE* fopen64(const char* path, const char* mode) {
    static FILE* (*of)(const char*, const char*) = nullptr;
    std::string room;
    return real(of, "fopen64")(instead(path, room), mode);
}

ssize_t readlink(const char* path, char* into, size_t bytes) {
    static ssize_t (*of)(const char*, char*, size_t) = nullptr;
    std::string room;
    return real(of, "readlink")(instead(path, room), into, bytes);
}

int stat64(const char* path, struct stat64* about) {
    static int (*of)(const char*, struct stat64*) = nullptr;
    std::string room;
    return real(of, "stat64")(instead(path, room), about);
}

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* about) {
    static Statx* of = nullptr;
    std::string room;
    return real(of, "statx")(folder, instead(path, room), flags, mask, about);
}

}  // extern "C"
#pragma GCC visibility pop
