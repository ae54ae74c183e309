// Answers of NVML: as BUSBW_SHIM_NVML_FILE plants them, read anew with every question, or the usual.
// Not which keys there are: README.md.
#pragma once
#include "setting.h"

#include <atomic>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace shim {

// nvmlReturn_t.
enum Return : int {
    Success = 0, Uninitialized = 1, InvalidArgument = 2, NotSupported = 3, NotFound = 6,
    InsufficientSize = 7, Timeout = 10, VersionMismatch = 25
};

// The values of the lines that concern this GPU and key; GPU may be "*".
inline std::vector<std::string> planted(int gpu, const std::string& key) {
    std::vector<std::string> values;
    std::string path = text("BUSBW_SHIM_NVML_FILE"), line;
    std::ifstream file(path);
    while (!path.empty() && std::getline(file, line)) {
        std::istringstream words(line);
        std::string who, what, value;
        if (!(words >> who >> what) || who[0] == '#' || what != key) continue;
        if (who != "*" && who != std::to_string(gpu)) continue;
        std::getline(words >> std::ws, value);
        values.push_back(value);
    }
    return values;
}

// "+N" counts up by N with every question, "!N" is answered with NVML's error N.
inline Return answer(int gpu, const std::string& key, uint64_t otherwise, uint64_t* out) {
    auto values = planted(gpu, key);
    *out = otherwise;
    if (values.empty()) return Success;
    const std::string& value = values.back();
    if (value[0] == '!') return static_cast<Return>(std::atoi(&value[1]));
    uint64_t number = std::strtoull(value.c_str() + (value[0] == '+'), nullptr, 0);
    if (value[0] == '+') {
        static auto* counters = new std::map<std::string, uint64_t>;
        static auto* mutex = new std::mutex;
        std::lock_guard<std::mutex> hold(*mutex);
        number = (*counters)[std::to_string(gpu) + key] += number;
    }
    *out = number;
    return Success;
}

struct Process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct Planted {
    Process process;
    std::string name;
};

// nvmlProcessInfo_t and the process's name.
inline std::vector<Planted> processes(int gpu) {
    std::vector<Planted> all;
    for (const std::string& value : planted(gpu, "process")) {
        Planted one = {{0, 0, ~0u, ~0u}, ""};
        std::istringstream(value) >> one.process.pid >> one.process.bytes >> one.name;
        all.push_back(one);
    }
    return all;
}

constexpr unsigned links = 18;  // of an H200

inline std::atomic<int> users{0};  // of nvmlInit not yet matched by nvmlShutdown

inline int gpus() { return static_cast<int>(number("BUSBW_SHIM_GPUS", 8)); }

// A handle is the GPU's number plus one.
using Device = void*;
inline int index_of(Device device) { return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1; }

inline Return valid(Device device) {
    if (users == 0) return Uninitialized;
    int index = index_of(device);
    return index >= 0 && index < gpus() ? Success : InvalidArgument;
}

template <typename T>
Return ask(Device device, const std::string& key, uint64_t otherwise, T* out) {
    if (Return no = valid(device)) return no;
    if (!out) return InvalidArgument;
    uint64_t value = 0;
    Return result = answer(index_of(device), key, otherwise, &value);
    if (result == Success) *out = static_cast<T>(value);
    return result;
}

inline Return say(char* out, unsigned length, const std::string& words) {
    if (users == 0) return Uninitialized;
    if (!out) return InvalidArgument;
    if (length <= words.size()) return InsufficientSize;
    std::strcpy(out, words.c_str());
    return Success;
}

inline Return say(Device device, const std::string& key, const std::string& otherwise, char* out,
           unsigned length) {
    if (Return no = valid(device)) return no;
    auto values = planted(index_of(device), key);
    if (!values.empty() && values.back()[0] == '!')
        return static_cast<Return>(std::atoi(&values.back()[1]));
    return say(out, length, values.empty() ? otherwise : values.back());
}

}  // namespace shim
