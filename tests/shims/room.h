// Where the ranks of one communicator meet: shared memory without a name in any file system.
// Not what they do there: collective.cc.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shim {

// Lets a wait end early; checked every few milliseconds.
using Stop = std::function<bool()>;

struct Gate {
    std::atomic<uint32_t> arrived, passed;
    uint32_t arrive(uint32_t ranks);                // the ticket to await
    bool await(uint32_t ticket, const Stop& stop);  // false where stop() ended it
    bool pass(uint32_t ranks, const Stop& stop) { return await(arrive(ranks), stop); }
};

// What a rank says of the operation it begins; all ranks' words must agree.
struct Words {
    int32_t kind, type, op, root;
    uint64_t count;
    uint64_t given;  // stands for what the call's configuration says
};

struct Seat {
    std::atomic<uint32_t> taken;
    int32_t pid, version, device;  // device: of the machine, whatever the process sees
    uint64_t thread;               // that called init
    uint64_t host;                 // hash of NCCL_HOSTID, or of nothing
    std::atomic<uint32_t> connected;
    Words words;
    unsigned char scalar[8];  // of a scaled sum: each rank's own
};

constexpr size_t stage_bytes = 256 << 10;
constexpr size_t letter_bytes = 32 << 10;

// One slot from one rank to another, for send and receive.
struct Mailbox {
    std::atomic<uint32_t> full;
    uint32_t type;
    uint64_t total, chunk;
    unsigned char letter[letter_bytes];
};

struct Hall {
    std::atomic<uint32_t> state;  // 0 fresh, 1 being furnished, 2 open
    uint32_t ranks;
    uint64_t nonce;
    std::atomic<uint32_t> entered;
    Gate init, connect, window, step;
};

class Room {
  public:
    // The 128 bytes of a unique id: which process holds the memory, and a number nobody guesses.
    static bool found(char id[128]);
    // Null with the reason in `why`: a foreign id, its process gone, another number of ranks, a
    // seat taken.
    static Room* enter(const char id[128], int rank, int ranks, std::string* why);
    // Closes the memory of an id that was made here, once all ranks are in.
    static void forget(uint64_t nonce);
    ~Room();

    Hall& hall() { return *hall_; }
    Seat& seat(int rank) { return seats_[rank]; }
    unsigned char* stage(int rank) { return stages_ + static_cast<size_t>(rank) * stage_bytes; }
    unsigned char* result() { return stages_ + static_cast<size_t>(ranks_) * stage_bytes; }
    Mailbox& mailbox(int from, int to) { return mail_[from * ranks_ + to]; }
    uint64_t nonce() const { return hall_->nonce; }

  private:
    Hall* hall_ = nullptr;
    Seat* seats_ = nullptr;
    unsigned char* stages_ = nullptr;
    Mailbox* mail_ = nullptr;
    int ranks_ = 0;
    size_t bytes_ = 0;
};

}  // namespace shim
