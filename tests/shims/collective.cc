// The operations: every rank stages its data in the room, all pass a gate, every rank takes its part.
// Not NCCL's algorithms: no rings, no trees, nothing that could be timed.
#include "communicator.h"
#include "setting.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace shim {

const char* name_of(What what) {
    static const char* names[] = {"AllReduce", "Reduce", "Broadcast", "ReduceScatter", "AllGather",
                                  "AlltoAll", "Gather", "Scatter", "Send", "Recv"};
    return names[static_cast<int>(what)];
}

size_t sent(const Operation& o, int rank, int ranks) {
    auto n = static_cast<size_t>(ranks);
    switch (o.what) {
        case What::ReduceScatter: case What::AllToAll: return o.count * n;
        case What::Broadcast: return rank == o.root ? o.count : 0;
        case What::Scatter: return rank == o.root ? o.count * n : 0;
        case What::Recv: return 0;
        default: return o.count;
    }
}

size_t received(const Operation& o, int rank, int ranks) {
    auto n = static_cast<size_t>(ranks);
    switch (o.what) {
        case What::AllGather: case What::AllToAll: return o.count * n;
        case What::Reduce: return rank == o.root ? o.count : 0;
        case What::Gather: return rank == o.root ? o.count * n : 0;
        case What::Send: return 0;
        default: return o.count;
    }
}

namespace {

enum class End { Done, Stopped, Mismatch };

// A number for what the call's configuration says and what was chosen, which must be the same on all ranks.
uint64_t given(const Operation& o) {
    auto all = std::string(o.algorithm ? o.algorithm : "") + "," + std::to_string(o.min_ctas) + "," +
               std::to_string(o.max_ctas) + "," + std::to_string(o.cta_policy) + "," + std::to_string(o.tuned);
    return std::hash<std::string>{}(all);
}

class Run {
  public:
    Run(Communicator& comm, const Operation& o)
        : comm_(comm), o_(o), n_(static_cast<size_t>(comm.ranks)), me_(static_cast<size_t>(comm.rank)),
          size_(size_of(o.type)), send_(static_cast<const char*>(o.send)),
          recv_(static_cast<char*>(o.recv)) {}

    End collective() {
        Words& mine = comm_.room->seat(comm_.rank).words;
        mine = {static_cast<int32_t>(o_.what), o_.type, o_.op, o_.root, o_.count, given(o_)};
        const void* scalar = o_.scale.device ? o_.scale.device : o_.scale.host.data();
        std::memcpy(comm_.room->seat(comm_.rank).scalar, scalar, size_);
        bool apart = o_.what == What::ReduceScatter || o_.what == What::AllToAll ||
                     o_.what == What::Scatter;  // a part for each rank goes into every stage
        size_t chunk = stage_bytes / size_ / (apart ? n_ : 1);
        for (size_t at = 0; at < o_.count; at += chunk) {
            size_t m = std::min(chunk, o_.count - at);
            stage(at, m, apart ? chunk : 0);
            if (!gate()) return End::Stopped;
            if (at == 0 && !agreed()) return End::Mismatch;
            if (o_.what == What::AllReduce || o_.what == What::Reduce) {
                share(m);
                if (!gate()) return End::Stopped;
            }
            take(at, m, chunk);
            // What is staged may be overwritten once everybody has taken of it.
            if (o_.what != What::AllReduce && o_.what != What::Reduce && !gate())
                return End::Stopped;
        }
        return End::Done;
    }

  private:
    bool gate() {
        return comm_.room->hall().step.pass(static_cast<uint32_t>(n_),
                                            [this] { return comm_.aborted.load(); });
    }

    bool root() const { return comm_.rank == o_.root; }

    void stage(size_t at, size_t m, size_t part) {
        unsigned char* to = comm_.room->stage(comm_.rank);
        bool whole = o_.what == What::Broadcast || o_.what == What::Scatter ? root() : true;
        if (!whole) return;
        if (!part) {
            std::memcpy(to, send_ + at * size_, m * size_);
            return;
        }
        for (size_t r = 0; r < n_; r++)
            std::memcpy(to + r * part * size_, send_ + (r * o_.count + at) * size_, m * size_);
    }

    // All ranks see the same words, so all come to the same end.
    bool agreed() {
        const Words& first = comm_.room->seat(0).words;
        for (size_t r = 1; r < n_; r++) {
            const Words& other = comm_.room->seat(static_cast<int>(r)).words;
            if (!std::memcmp(&first, &other, sizeof first)) continue;
            std::fprintf(stderr,
                         "busbw shim: rank 0 calls %s (count %lu type %d op %d root %d), rank %zu "
                         "calls %s (count %lu type %d op %d root %d)\n",
                         name_of(static_cast<What>(first.kind)), first.count, first.type, first.op,
                         first.root, r, name_of(static_cast<What>(other.kind)), other.count,
                         other.type, other.op, other.root);
            return false;
        }
        return true;
    }

    void reduce_stages(size_t from, size_t count, void* to) {
        std::vector<const void*> inputs, scalars;
        for (int r = 0; r < comm_.ranks; r++) {
            inputs.push_back(comm_.room->stage(r) + from * size_);
            scalars.push_back(comm_.room->seat(r).scalar);
        }
        reduce(o_.type, o_.op, inputs.data(), comm_.ranks, to, count, scalars.data());
    }

    void share(size_t m) {
        size_t first = m * me_ / n_, end = m * (me_ + 1) / n_;
        reduce_stages(first, end - first, comm_.room->result() + first * size_);
    }

    void take(size_t at, size_t m, size_t part) {
        auto stage_of = [&](size_t r) { return comm_.room->stage(static_cast<int>(r)); };
        size_t bytes = m * size_;
        switch (o_.what) {
            case What::Reduce:
                if (!root()) return;
                [[fallthrough]];
            case What::AllReduce:
                std::memcpy(recv_ + at * size_, comm_.room->result(), bytes);
                return;
            case What::Broadcast:
                std::memcpy(recv_ + at * size_, stage_of(static_cast<size_t>(o_.root)), bytes);
                return;
            case What::ReduceScatter:
                reduce_stages(me_ * part, m, recv_ + at * size_);
                return;
            case What::Scatter:
                std::memcpy(recv_ + at * size_,
                            stage_of(static_cast<size_t>(o_.root)) + me_ * part * size_, bytes);
                return;
            case What::Gather:
                if (!root()) return;
                [[fallthrough]];
            case What::AllGather:
                for (size_t r = 0; r < n_; r++)
                    std::memcpy(recv_ + (r * o_.count + at) * size_, stage_of(r), bytes);
                return;
            case What::AllToAll:
                for (size_t r = 0; r < n_; r++)
                    std::memcpy(recv_ + (r * o_.count + at) * size_,
                                stage_of(r) + me_ * part * size_, bytes);
                return;
            default: return;
        }
    }

    Communicator& comm_;
    const Operation& o_;
    size_t n_, me_, size_;
    const char* send_;
    char* recv_;
};

// Sends and receives of one group: all under way at once, those with one peer in order.
struct Letter {
    const Operation* o;
    size_t bytes, moved = 0;
    bool done = false;
};

End exchange(Communicator& comm, const std::vector<Operation>& operations) {
    std::vector<Letter> letters;
    for (const Operation& o : operations)
        if (o.what == What::Send || o.what == What::Recv)
            letters.push_back({&o, o.count * size_of(o.type)});
    size_t left = letters.size();
    for (unsigned idle = 0; left > 0;) {
        bool moved = false;
        std::vector<std::array<bool, 2>> busy(static_cast<size_t>(comm.ranks), {false, false});
        for (Letter& letter : letters) {
            const Operation& o = *letter.o;
            bool sends = o.what == What::Send;
            bool& taken = busy[static_cast<size_t>(o.root)][sends];
            if (letter.done || taken) continue;
            taken = true;
            Mailbox& box = sends ? comm.room->mailbox(comm.rank, o.root)
                                 : comm.room->mailbox(o.root, comm.rank);
            if (box.full != (sends ? 0u : 1u)) continue;
            size_t chunk = std::min(letter.bytes - letter.moved, letter_bytes);
            if (sends) {
                std::memcpy(box.letter, static_cast<const char*>(o.send) + letter.moved, chunk);
                box.type = static_cast<uint32_t>(o.type);
                box.total = letter.bytes;
                box.chunk = chunk;
                box.full = 1;
            } else {
                if (box.total != letter.bytes || box.type != static_cast<uint32_t>(o.type)) {
                    std::fprintf(stderr,
                                 "busbw shim: rank %d receives %zu bytes of type %d from rank %d, "
                                 "which sends %lu of type %u\n",
                                 comm.rank, letter.bytes, o.type, o.root, box.total, box.type);
                    return End::Mismatch;
                }
                chunk = box.chunk;
                std::memcpy(static_cast<char*>(o.recv) + letter.moved, box.letter, chunk);
                box.full = 0;
            }
            letter.moved += chunk;
            moved = true;
            if (letter.moved == letter.bytes) {
                letter.done = true;
                left--;
            }
        }
        idle = moved ? 0 : idle + 1;
        if (idle > 20) usleep(std::min(idle * 5, 1000u));
        if (idle && comm.aborted) return End::Stopped;
    }
    return End::Done;
}

void until_aborted(Communicator& comm) {
    while (!comm.aborted) usleep(2000);
}

// Faults that a test plants at operation `number` of this rank; false where it ends here.
bool strike(Communicator& comm, int64_t number) {
    if (Fault("BUSBW_SHIM_DIE").strikes(comm.rank, number)) kill(getpid(), SIGKILL);
    Fault async("BUSBW_SHIM_ASYNC_ERROR");
    bool hangs = Fault("BUSBW_SHIM_HANG").strikes(comm.rank, number);
    if (async.strikes(comm.rank, number)) {
        comm.async = async.code ? async.code : RemoteError;
        hangs = true;
    }
    if (hangs) until_aborted(comm);
    if (uint64_t delay = shim::number("BUSBW_SHIM_OPERATION_US", 0)) usleep(delay);
    return !hangs;
}

void corrupt(Communicator& comm, const Operation& o, int64_t number) {
    Fault fault("BUSBW_SHIM_CORRUPT");
    size_t elements = received(o, comm.rank, comm.ranks);
    if (!elements || !fault.strikes(comm.rank, number)) return;
    if (fault.at_given && number != fault.at) return;
    static_cast<unsigned char*>(o.recv)[elements / 2 * size_of(o.type)] ^= 1;
}

}  // namespace

Result run(Communicator& comm, const std::vector<Operation>& operations) {
    auto ended = [&](End end) {
        if (end == End::Stopped) return Success;  // an aborted kernel leaves quietly
        comm.async = BadUsage;
        return LaunchFailed;
    };
    bool letters = false;
    for (const Operation& o : operations) {
        int64_t number = comm.started++;
        if (comm.aborted || !strike(comm, number)) return Success;
        if (o.what == What::Send || o.what == What::Recv) {
            letters = true;
            continue;
        }
        End end = Run(comm, o).collective();
        if (end != End::Done) return ended(end);
        corrupt(comm, o, number);
    }
    if (!letters) return Success;
    End end = exchange(comm, operations);
    if (end != End::Done) return ended(end);
    for (const Operation& o : operations)
        if (o.what == What::Recv) corrupt(comm, o, comm.started - 1);
    return Success;
}

}  // namespace shim
