// What a test plants: BUSBW_SHIM_* of the environment, read at the moment of use.
// Not which of them exist: README.md lists them all.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace shim {

inline std::string text(const char* name, const char* otherwise = "") {
    const char* value = std::getenv(name);
    return value ? value : otherwise;
}

inline uint64_t number(const char* name, uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? std::strtoull(value, nullptr, 0) : otherwise;
}

// A fault "R", "R:K" or "R:K:CODE": rank R, at its operation number K (from 0), with this code.
struct Fault {
    bool set = false;
    int rank = -1;
    int64_t at = 0;
    bool at_given = false;
    int code = 0;

    explicit Fault(const char* name) {
        const char* value = std::getenv(name);
        if (!value || !*value) return;
        char* rest = nullptr;
        rank = static_cast<int>(std::strtol(value, &rest, 10));
        set = rest != value;
        if (*rest == ':') {
            at = std::strtoll(rest + 1, &rest, 10);
            at_given = true;
        }
        if (*rest == ':') code = static_cast<int>(std::strtol(rest + 1, &rest, 10));
    }

    bool strikes(int who, int64_t operation) const {
        return set && who == rank && operation >= at;
    }
};

}  // namespace shim
