// Shared memory of one communicator: a memfd of the process that made the id, opened by the others
// through /proc/PID/fd, so that nothing is left behind however a rank ends.
// Not NCCL's bootstrap over TCP.
#include "room.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace shim {

namespace {

constexpr char mark[8] = {'b', 'u', 's', 'b', 'w', 's', 'h', 'm'};

struct Id {
    char mark[8];
    int32_t pid, file;
    uint64_t nonce;
};

// Files of ids made here, by nonce: closed once every rank is in.
struct Held {
    std::mutex mutex;
    std::map<uint64_t, int> files;
};

Held& held() {
    static auto* all = new Held;
    return *all;
}

size_t up(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

uint32_t Gate::arrive(uint32_t ranks) {
    uint32_t ticket = passed.load();
    if (arrived.fetch_add(1) + 1 == ranks) {
        arrived = 0;
        passed.fetch_add(1);
        syscall(SYS_futex, &passed, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
    }
    return ticket;
}

bool Gate::await(uint32_t ticket, const Stop& stop) {
    for (int turn = 0; passed.load() == ticket; turn++) {
        if (turn < 20) {
            sched_yield();
            continue;
        }
        if (stop()) return false;
        timespec nap = {0, 5'000'000};
        syscall(SYS_futex, &passed, FUTEX_WAIT, ticket, &nap, nullptr, 0);
    }
    return true;
}

bool Room::found(char id[128]) {
    Id made;
    std::memcpy(made.mark, mark, sizeof mark);
    made.pid = getpid();
    made.file = memfd_create("busbw-shim", MFD_CLOEXEC);
    if (made.file < 0) return false;
    if (getrandom(&made.nonce, sizeof made.nonce, 0) != sizeof made.nonce) return false;
    // The furniture's size depends on the number of ranks, which only those who enter know.
    if (ftruncate(made.file, sizeof(Hall)) != 0) return false;
    void* base = mmap(nullptr, sizeof(Hall), PROT_READ | PROT_WRITE, MAP_SHARED, made.file, 0);
    if (base == MAP_FAILED) return false;
    static_cast<Hall*>(base)->nonce = made.nonce;
    munmap(base, sizeof(Hall));
    std::memset(id, 0, 128);
    std::memcpy(id, &made, sizeof made);
    std::lock_guard<std::mutex> hold(held().mutex);
    held().files[made.nonce] = made.file;
    return true;
}

Room* Room::enter(const char id[128], int rank, int ranks, std::string* why) {
    Id from;
    std::memcpy(&from, id, sizeof from);
    if (std::memcmp(from.mark, mark, sizeof mark) != 0) {
        *why = "the unique id is not one of ncclGetUniqueId";
        return nullptr;
    }
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", from.pid, from.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        *why = "the process that made the unique id is gone, or all its ranks have joined before";
        return nullptr;
    }
    // The descriptor's number may have been given to another file since.
    uint64_t nonce = 0;
    if (pread(file, &nonce, sizeof nonce, offsetof(Hall, nonce)) != sizeof nonce ||
        nonce != from.nonce) {
        *why = "the unique id was used before";
        close(file);
        return nullptr;
    }
    auto n = static_cast<size_t>(ranks);
    size_t seats = up(sizeof(Hall)), stages = up(seats + n * sizeof(Seat));
    size_t mail = stages + (n + 1) * stage_bytes, bytes = up(mail + n * n * sizeof(Mailbox));
    auto* room = new Room;
    room->ranks_ = ranks;
    room->bytes_ = bytes;
    // Growing is the same for all who agree on the number of ranks, and harmless where not.
    off_t grown = lseek(file, 0, SEEK_END);
    if (grown < static_cast<off_t>(bytes) && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        *why = "no shared memory";
        close(file);
        delete room;
        return nullptr;
    }
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (base == MAP_FAILED) {
        *why = "no address space for the shared memory";
        delete room;
        return nullptr;
    }
    room->hall_ = static_cast<Hall*>(base);
    auto* start = static_cast<unsigned char*>(base);
    room->seats_ = reinterpret_cast<Seat*>(start + seats);
    room->stages_ = start + stages;
    room->mail_ = reinterpret_cast<Mailbox*>(start + mail);
    Hall& hall = room->hall();
    uint32_t fresh = 0;
    if (hall.state.compare_exchange_strong(fresh, 1)) {
        hall.ranks = static_cast<uint32_t>(ranks);
        hall.state = 2;
    }
    while (hall.state != 2) sched_yield();
    if (hall.ranks != static_cast<uint32_t>(ranks)) {
        *why = "mismatch in rank count from procs " + std::to_string(hall.ranks) + " : " +
               std::to_string(ranks);
    } else if (room->seat(rank).taken.exchange(1)) {
        *why = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
               " ranks has already checked in";
    }
    if (!why->empty()) {
        delete room;
        return nullptr;
    }
    hall.entered.fetch_add(1);
    return room;
}

void Room::forget(uint64_t nonce) {
    std::lock_guard<std::mutex> hold(held().mutex);
    auto at = held().files.find(nonce);
    if (at == held().files.end()) return;
    close(at->second);
    held().files.erase(at);
}

Room::~Room() {
    if (hall_) munmap(hall_, bytes_);
}

}  // namespace shim
