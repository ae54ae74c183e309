// Memory of the devices: pages of this process between two guard pages, counted per device.
// Not other processes' use of the same GPU: only BUSBW_SHIM_USED plants that.
#include "core.h"
#include "setting.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>

namespace shim {

namespace {

constexpr size_t page = 4096;
constexpr unsigned char beyond = 0xA5;    // between the end of an allocation and its guard page
constexpr unsigned char unwritten = 0xCD;  // what fresh memory holds; a GPU's is not zero either
constexpr size_t spoilt_bytes = 1 << 20;   // of the beginning; the rest stays uncommitted zeros

struct Memory {
    std::mutex mutex;
    std::map<uintptr_t, Allocation> allocations;
    std::map<int, size_t> used;
};

Memory& memory() {
    static auto* all = new Memory;
    return *all;
}

size_t rounded(size_t bytes) { return (bytes + page - 1) / page * page; }

bool intact(const Allocation& block) {
    auto* end = reinterpret_cast<unsigned char*>(block.base + block.size);
    auto* guard = reinterpret_cast<unsigned char*>(block.base + rounded(block.size));
    return std::all_of(end, guard, [](unsigned char byte) { return byte == beyond; });
}

void unmap(const Allocation& block) {
    munmap(reinterpret_cast<void*>(block.base - page), rounded(block.size) + 2 * page);
}

}  // namespace

Result allocate(Context* context, size_t size, Kind kind, void** out) {
    if (!out || size == 0) return InvalidValue;
    std::lock_guard<std::mutex> hold(memory().mutex);
    if (kind != Kind::Pinned) {
        size_t taken = memory().used[context->device] + number("BUSBW_SHIM_USED", 0);
        size_t whole = memory_of_device();
        if (taken > whole || rounded(size) > whole - taken) return OutOfMemory;
    }
    void* region = mmap(nullptr, rounded(size) + 2 * page, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return OutOfMemory;
    Allocation block;
    block.base = reinterpret_cast<uintptr_t>(region) + page;
    block.size = size;
    block.kind = kind;
    block.device = context->device;
    block.context = context;
    auto* start = reinterpret_cast<unsigned char*>(block.base);
    mprotect(start, rounded(size), PROT_READ | PROT_WRITE);
    std::memset(start, unwritten, std::min(size, spoilt_bytes));
    std::memset(start + size, beyond, rounded(size) - size);
    memory().allocations[block.base] = block;
    if (kind != Kind::Pinned) memory().used[block.device] += rounded(size);
    *out = start;
    return Success;
}

Result release(void* base, bool pinned) {
    Allocation block;
    {
        std::lock_guard<std::mutex> hold(memory().mutex);
        auto at = memory().allocations.find(reinterpret_cast<uintptr_t>(base));
        if (at == memory().allocations.end()) return InvalidValue;
        if ((at->second.kind == Kind::Pinned) != pinned) return InvalidValue;
        block = at->second;
    }
    // Freeing waits for what runs on the device, as cuMemFree does.
    Result spoiled = synchronise_context(block.context);
    std::lock_guard<std::mutex> hold(memory().mutex);
    if (memory().allocations.erase(block.base) == 0) return InvalidValue;
    if (!pinned) memory().used[block.device] -= rounded(block.size);
    bool whole = intact(block);
    unmap(block);
    if (!whole) {
        std::fprintf(stderr, "busbw shim: written past the end of %zu bytes at %p\n", block.size,
                     base);
        return IllegalAddress;
    }
    return spoiled;
}

bool find(const void* pointer, size_t bytes, Allocation* out) {
    auto at = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard<std::mutex> hold(memory().mutex);
    auto next = memory().allocations.upper_bound(at);
    if (next == memory().allocations.begin()) return false;
    const Allocation& block = std::prev(next)->second;
    if (at - block.base > block.size || bytes > block.size - (at - block.base)) return false;
    if (out) *out = block;
    return true;
}

size_t used_memory(int device) {
    std::lock_guard<std::mutex> hold(memory().mutex);
    return memory().used[device] + number("BUSBW_SHIM_USED", 0);
}

void forget_context(Context* context, bool idle) {
    std::lock_guard<std::mutex> hold(memory().mutex);
    auto& all = memory().allocations;
    for (auto at = all.begin(); at != all.end();) {
        if (at->second.context != context) {
            ++at;
            continue;
        }
        if (at->second.kind != Kind::Pinned) memory().used[context->device] -= rounded(at->second.size);
        if (idle) unmap(at->second);  // else an operation that never ends may still touch it
        at = all.erase(at);
    }
}

namespace {

bool on_device(const void* pointer, size_t bytes) {
    Allocation block;
    return find(pointer, bytes, &block) && block.kind != Kind::Pinned;
}

Result finish(Result enqueued, Stream* stream, bool wait) {
    if (enqueued != Success || !wait) return enqueued;
    return synchronise(stream);
}

}  // namespace

Result copy_to_host(void* to, const void* from, size_t bytes, void* handle, bool wait) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (bytes == 0) return Success;
    if (!to || !on_device(from, bytes)) return InvalidValue;
    return finish(enqueue(stream,
                          [=] {
                              std::memcpy(to, from, bytes);
                              return Success;
                          }),
                  stream, wait);
}

Result copy_to_device(void* to, const void* from, size_t bytes, void* handle, bool wait) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (bytes == 0) return Success;
    if (!from || !on_device(to, bytes)) return InvalidValue;
    // Pageable memory may be reused at once, since the driver has staged it; pinned memory not.
    if (find(from, bytes, nullptr) || wait) {
        return finish(enqueue(stream,
                              [=] {
                                  std::memcpy(to, from, bytes);
                                  return Success;
                              }),
                      stream, wait);
    }
    auto bytes_of_source = static_cast<const char*>(from);
    auto staged = std::make_shared<std::vector<char>>(bytes_of_source, bytes_of_source + bytes);
    return enqueue(stream, [=] {
        std::memcpy(to, staged->data(), bytes);
        return Success;
    });
}

Result fill(void* to, unsigned char value, size_t bytes, void* handle) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (bytes == 0) return Success;
    if (!find(to, bytes, nullptr)) return InvalidValue;
    return enqueue(stream, [=] {
        std::memset(to, value, bytes);
        return Success;
    });
}

}  // namespace shim
