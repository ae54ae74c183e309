// The adapter of the RDMA shim: regions, queues and queue pairs of one open device, and the thread that moves their bytes.
// Not the names that a program sees (verbs.cc), and not the network (verbs_wire.h).
#pragma once
#include "verbs_abi.h"
#include "verbs_wire.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace verbs {

struct Device {
    std::string name;
};

// The public beginnings of these are the header's.
struct Context {
    Device* device;
    Ops ops;
    int command_file, event_file, vectors;
    struct Adapter* adapter;
};

struct Domain {
    Context* context;
};

struct Region {
    Context* context;
    Domain* domain;
    void* address;
    size_t length;
    uint32_t handle, local_key, remote_key;
    // From here on ours.
    uint64_t first;
    int access;
    bool of_gpu;
    void* gpu_context;
};

struct Taken {
    Completion completion;
    QueuePair* pair;   // whose send queue has room again
    uint64_t reclaims;  // up to this request
};

struct CompletionQueue {
    Context* context;
    size_t capacity;
    std::deque<Taken> entries;
    // How many there are: whoever polls an empty queue does not hold up the adapter's thread.
    std::atomic<size_t> ready{0};
};

struct AddressHandle {
    Context* context;
    AddressAttributes attributes;
};

struct Work {
    SendRequest request;
    std::vector<Piece> pieces;
    std::vector<unsigned char> copied;  // what was inline
    uint64_t message, length, sent = 0;
    int status = 0;
    bool done = false;
};

struct Receive {
    uint64_t id;
    std::vector<Piece> pieces;
};

struct Response {
    Frame request;
    uint64_t sent = 0;
};

struct QueuePair {
    Context* context;
    void* user;
    Domain* domain;
    CompletionQueue *send, *receive;
    void* shared;
    uint32_t handle, number;
    // From here on ours.
    int state = Reset, kind = Reliable, place = -1;
    Capacity capacity{};
    QueuePairAttributes with{};
    std::deque<Work> sends;
    size_t next = 0;  // of them, the first that has not left
    uint64_t posted = 0, reclaimed = 0, messages = 0, left = 0;
    std::deque<Receive> receives;
    std::deque<Response> responses;
    std::deque<std::pair<Frame, std::vector<unsigned char>>> held;  // until there is a receive
    Receive current;
    bool has_current = false, drops = false;
    std::chrono::steady_clock::time_point progressed{}, arrived{};
};

// One open device. All of it is behind `mutex`.
struct Adapter {
    Context* context;
    std::mutex mutex;
    std::vector<QueuePair*> pairs;
    std::map<uint32_t, Region*> regions;
    std::deque<AsyncEvent> events;
    std::map<int, bool> is_up;  // ports, as last looked
    uint32_t next_key = 1;

    explicit Adapter(Context* context);
    void run();
    void fail(QueuePair& pair, int status);
    bool is_of_gpu(uint64_t address, uint64_t bytes) const;

private:
    bool look_at_ports();
    bool work_on(QueuePair& pair);
    bool transmit(QueuePair& pair);
    bool respond(QueuePair& pair);
    bool take_in(QueuePair& pair);
    bool deliver(QueuePair& pair, const Frame& frame, const unsigned char* bytes);
    void refuse(QueuePair& pair, const Frame& frame, int code);
    void settle(QueuePair& pair);
    void expire(QueuePair& pair);
    void complete(CompletionQueue* queue, const Completion& completion, QueuePair* pair, uint64_t reclaims);
    Region* region(uint32_t key, uint64_t address, uint64_t bytes, int access, bool remote);
    bool gather(const Work& work, uint64_t from, unsigned char* to, uint64_t bytes);
    bool scatter(const std::vector<Piece>& pieces, uint64_t at, const unsigned char* from, uint64_t bytes);
};

// A line of a port's folder in our /sys.
std::string of_port(const std::string& device, int port, const std::string& file);

// Whether the address is a GPU's, as the GPU's driver says; and the driver's current context.
bool driver_says_gpu(uint64_t address);
void* current_gpu_context();
// Copies between this process and a GPU.
bool from_gpu(void* context, void* to, uint64_t from, uint64_t bytes);
bool to_gpu(void* context, uint64_t to, const void* from, uint64_t bytes);

}  // namespace verbs
