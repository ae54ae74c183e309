// The adapter's thread: takes requests off send queues, frames off the network, and puts completions into queues.
// Not the names that a program sees (verbs.cc), and not the network (verbs_wire.cc).
#include "verbs_adapter.h"

#include "setting.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

namespace verbs {

using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t most_held = 64;
constexpr unsigned routing_header = 40;  // in front of a datagram
constexpr unsigned with_header = 1, with_number = 2;  // flags of a completion

uint64_t length_of(const std::vector<Piece>& pieces) {
    uint64_t all = 0;
    for (const Piece& piece : pieces) all += piece.length;
    return all;
}

// Per mille of the frames of unreliable queue pairs that are lost: a file of the host says so, and the environment until it is there.
std::atomic<uint64_t> per_mille{0};

void look_at_losses() {
    static const uint64_t of_environment = shim::number("BUSBW_SHIM_UNRELIABLE_LOSS", 0);
    uint64_t now = of_environment;
    std::ifstream(folder() + "/unreliable_loss") >> now;
    per_mille = now;
}

// Whether the network loses this frame of an unreliable queue pair.
bool is_lost() {
    static thread_local std::minstd_rand random(static_cast<unsigned>(getpid()));
    return per_mille > 0 && random() % 1000 < per_mille;
}

// How long a message is sent again before it is given up.
std::chrono::nanoseconds patience(const QueuePair& pair) {
    return std::chrono::nanoseconds((4096ull << pair.with.timeout) * (pair.with.retries + 1));
}

}  // namespace

std::string of_port(const std::string& device, int port, const std::string& file) {
    std::ifstream in(folder() + "/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/" + file);
    std::string line;
    std::getline(in, line);
    return line;
}

Adapter::Adapter(Context* context) : context(context) { std::thread([this] { run(); }).detach(); }

void Adapter::run() {
    auto looked = Clock::now();
    look_at_losses();
    unsigned idle = 0;
    for (;;) {
        bool moved = false;
        {
            std::lock_guard<std::mutex> hold(mutex);
            if (Clock::now() - looked > std::chrono::milliseconds(20)) {
                looked = Clock::now();
                look_at_losses();
                moved |= look_at_ports();
            }
            for (QueuePair* pair : pairs) moved |= work_on(*pair);
        }
        idle = moved ? 0 : idle + 1;
        if (idle > 2000) usleep(200);
        else std::this_thread::yield();
    }
}

bool Adapter::look_at_ports() {
    bool changed = false;
    for (int port = 1; !of_port(context->device->name, port, "state").empty(); port++) {
        bool up = of_port(context->device->name, port, "state") == "4: ACTIVE";
        auto known = is_up.find(port);
        if (known != is_up.end() && known->second != up) {
            AsyncEvent event{};
            event.port = port;
            event.kind = up ? PortActive : PortError;
            events.push_back(event);
            uint64_t one = 1;
            if (write(context->event_file, &one, sizeof one) < 0) return false;
            changed = true;
        }
        is_up[port] = up;
    }
    return changed;
}

bool Adapter::work_on(QueuePair& pair) {
    auto up = is_up.find(pair.with.port);
    bool is_port_up = up == is_up.end() || up->second;
    wire()[pair.place].reachable = is_port_up && (pair.state == ReadyToReceive || pair.state == ReadyToSend);
    bool moved = false;
    if (is_port_up) moved = take_in(pair) | respond(pair) | transmit(pair);
    if (pair.kind == Reliable && pair.state == ReadyToSend) expire(pair);
    return moved;
}

// Gives up what the other end cannot acknowledge.
void Adapter::expire(QueuePair& pair) {
    auto now = Clock::now();
    if (pair.next == 0 && pair.sends.empty()) {
        pair.progressed = now;
        return;
    }
    uint32_t other = pair.with.other - first_number;
    bool is_reachable = other < places && wire()[other].used && wire()[other].reachable;
    bool is_up_here = is_up.find(pair.with.port) == is_up.end() || is_up[pair.with.port];
    if (is_reachable && is_up_here) {
        // Its process may be stopped, or wait for its turn: an adapter of its own would have answered.
        pair.progressed = now;
        return;
    }
    if (now - pair.progressed > patience(pair)) fail(pair, RetriesExceeded);
}

Region* Adapter::region(uint32_t key, uint64_t address, uint64_t bytes, int access, bool remote) {
    auto at = regions.find(key);
    if (at == regions.end()) return nullptr;
    Region* found = at->second;
    (void)remote;
    if ((found->access & access) != access) return nullptr;
    if (address < found->first || bytes > found->length) return nullptr;
    return address - found->first <= found->length - bytes ? found : nullptr;
}

bool Adapter::is_of_gpu(uint64_t address, uint64_t bytes) const {
    return std::any_of(regions.begin(), regions.end(), [&](const auto& one) {
        const Region& region = *one.second;
        return region.of_gpu && address < region.first + region.length && region.first < address + bytes;
    });
}

bool Adapter::gather(const Work& work, uint64_t from, unsigned char* to, uint64_t bytes) {
    if (!work.copied.empty()) {
        std::memcpy(to, work.copied.data() + from, bytes);
        return true;
    }
    for (const Piece& piece : work.pieces) {
        if (from >= piece.length) {
            from -= piece.length;
            continue;
        }
        uint64_t part = std::min<uint64_t>(bytes, piece.length - from);
        Region* memory = region(piece.key, piece.address + from, part, 0, false);
        if (!memory) return false;
        if (memory->of_gpu) {
            if (!from_gpu(memory->gpu_context, to, piece.address + from, part)) return false;
        } else {
            std::memcpy(to, reinterpret_cast<void*>(piece.address + from), part);
        }
        to += part;
        bytes -= part;
        from = 0;
    }
    return bytes == 0;
}

bool Adapter::scatter(const std::vector<Piece>& pieces, uint64_t at, const unsigned char* from, uint64_t bytes) {
    for (const Piece& piece : pieces) {
        if (at >= piece.length) {
            at -= piece.length;
            continue;
        }
        uint64_t part = std::min<uint64_t>(bytes, piece.length - at);
        Region* memory = region(piece.key, piece.address + at, part, LocalWrite, false);
        if (!memory) return false;
        if (memory->of_gpu) {
            if (!to_gpu(memory->gpu_context, piece.address + at, from, part)) return false;
        } else {
            std::memcpy(reinterpret_cast<void*>(piece.address + at), from, part);
        }
        from += part;
        bytes -= part;
        at = 0;
        if (bytes == 0) break;
    }
    return bytes == 0;
}

void Adapter::complete(CompletionQueue* queue, const Completion& completion, QueuePair* pair, uint64_t reclaims) {
    if (queue->entries.size() >= queue->capacity) {
        std::fprintf(stderr, "busbw shim: a completion queue of %zu entries overruns\n", queue->capacity);
        return;
    }
    queue->entries.push_back({completion, pair, reclaims});
    queue->ready.store(queue->entries.size(), std::memory_order_release);
}

// Reports what has completed, in order.
void Adapter::settle(QueuePair& pair) {
    while (!pair.sends.empty() && pair.sends.front().done) {
        const Work& work = pair.sends.front();
        if ((work.request.flags & Signaled) || work.status != Success) {
            Completion completion{};
            completion.id = work.request.id;
            completion.status = work.status;
            completion.bytes = static_cast<uint32_t>(work.length);
            completion.pair = pair.number;
            complete(pair.send, completion, &pair, work.message);
        }
        pair.sends.pop_front();
        if (pair.next > 0) pair.next--;
        pair.progressed = Clock::now();
    }
}

// The oldest request fails with `status`, and all others are flushed.
void Adapter::fail(QueuePair& pair, int status) {
    pair.state = Failed;
    wire()[pair.place].reachable = 0;
    for (Work& work : pair.sends) {
        if (work.done) continue;
        work.done = true;
        work.status = status;
        status = Flushed;
    }
    pair.next = pair.sends.size();
    settle(pair);
    if (pair.has_current) pair.receives.push_front(pair.current);
    pair.has_current = false;
    for (const Receive& receive : pair.receives) {
        Completion completion{};
        completion.id = receive.id;
        completion.status = Flushed;
        completion.pair = pair.number;
        complete(pair.receive, completion, nullptr, 0);
    }
    pair.receives.clear();
    pair.responses.clear();
    pair.held.clear();
}

bool Adapter::transmit(QueuePair& pair) {
    if (pair.state != ReadyToSend) return false;
    bool moved = false;
    static thread_local unsigned char bytes[frame_bytes];
    while (pair.next < pair.sends.size()) {
        Work& work = pair.sends[pair.next];
        bool is_datagram = pair.kind == Datagrams;
        Frame frame{};
        frame.source = pair.number;
        frame.sequence = pair.with.send_sequence;
        frame.message = work.message;
        frame.length = work.length;
        frame.number = work.request.number;
        uint32_t to = is_datagram ? work.request.datagram.pair : pair.with.other;
        if (is_datagram) frame.key = work.request.datagram.key;
        uint64_t left = work.length - work.sent;
        if (work.request.opcode == Read) {
            frame.what = What::Read;
            frame.address = work.request.remote.address;
            frame.key = work.request.remote.key;
        } else {
            bool is_write = work.request.opcode == Write || work.request.opcode == WriteNumber;
            bool numbered = work.request.opcode == WriteNumber || work.request.opcode == SendNumber;
            frame.what = What::Message;
            frame.bytes = static_cast<uint32_t>(std::min<uint64_t>(left, frame_bytes));
            frame.flags = (work.sent == 0 ? First : 0u) | (left == frame.bytes ? Last : 0u) | (numbered ? HasNumber : 0u) |
                          (is_write ? IsWrite : 0u);
            frame.address = is_write ? work.request.remote.address + work.sent : work.sent;
            if (is_write) frame.key = work.request.remote.key;
            if (!gather(work, work.sent, bytes, frame.bytes)) {
                fail(pair, LocalProtection);
                return true;
            }
            if (shim::number("BUSBW_SHIM_RDMA_CORRUPT", 0) && frame.bytes > 0 && work.length > 64) {
                bytes[frame.bytes / 2] ^= 1;
            }
        }
        int refused = append(to, frame, bytes);
        if (refused == 1) return moved;               // its ring is full
        if (refused == 2 && pair.kind == Reliable) return moved;  // see expire
        moved = true;
        work.sent += frame.bytes;
        if (frame.what == What::Message && !(frame.flags & Last)) continue;
        pair.next++;
        pair.left++;
        if (pair.kind != Reliable) {
            work.done = true;
            settle(pair);
        }
        uint64_t planted = shim::number("BUSBW_SHIM_QP_ERROR", 0);
        if (planted && pair.left == planted) {
            fail(pair, RetriesExceeded);
            return true;
        }
    }
    return moved;
}

bool Adapter::respond(QueuePair& pair) {
    bool moved = false;
    static thread_local unsigned char bytes[frame_bytes];
    while (!pair.responses.empty()) {
        Response& response = pair.responses.front();
        Frame frame = response.request;
        frame.source = pair.number;
        frame.sequence = pair.with.send_sequence;
        bool is_last = true;
        if (frame.what == What::ReadData) {
            uint64_t left = frame.length - response.sent;
            frame.bytes = static_cast<uint32_t>(std::min<uint64_t>(left, frame_bytes));
            is_last = left == frame.bytes;
            frame.flags = is_last ? Last : 0u;
            Work from{};
            from.pieces.push_back({response.request.address + response.sent, frame.bytes, frame.key});
            frame.address = response.sent;
            if (frame.bytes && !gather(from, 0, bytes, frame.bytes)) {
                response.request.what = What::Refused;
                response.request.code = RemoteAccess;
                continue;
            }
        }
        if (append(pair.with.other, frame, bytes) == 1) return moved;
        moved = true;
        response.sent += frame.bytes;
        if (is_last) pair.responses.pop_front();
    }
    return moved;
}

void Adapter::refuse(QueuePair& pair, const Frame& frame, int code) {
    if (pair.kind != Reliable) return;
    Frame answer{};
    answer.what = What::Refused;
    answer.source = pair.number;
    answer.sequence = pair.with.send_sequence;
    answer.message = frame.message;
    answer.code = static_cast<uint32_t>(code);
    append(pair.with.other, answer, nullptr);
    fail(pair, Flushed);
}

// A message's frame. False: there is no receive for it yet.
bool Adapter::deliver(QueuePair& pair, const Frame& frame, const unsigned char* bytes) {
    bool is_write = frame.flags & IsWrite, needs_receive = !is_write || (frame.flags & HasNumber);
    unsigned header = pair.kind == Datagrams ? routing_header : 0;
    if (frame.flags & First) pair.drops = false;
    if (pair.drops) return true;
    bool takes_receive = needs_receive && !pair.has_current && (is_write ? bool(frame.flags & Last) : bool(frame.flags & First));
    if (takes_receive) {
        if (pair.receives.empty()) {
            pair.drops = pair.kind != Reliable;
            return pair.drops;
        }
        pair.current = pair.receives.front();
        pair.receives.pop_front();
        pair.has_current = true;
        if (!is_write && frame.length + header > length_of(pair.current.pieces)) {
            refuse(pair, frame, RemoteInvalid);
            pair.drops = true;
            return true;
        }
    }
    bool stored = true;
    if (is_write) {
        bool may = pair.with.access & RemoteWrite;
        Region* memory = may ? region(frame.key, frame.address, frame.bytes, RemoteWrite, true) : nullptr;
        std::vector<Piece> to{{frame.address, frame.bytes, frame.key}};
        stored = frame.bytes == 0 || (memory && scatter(to, 0, bytes, frame.bytes));
    } else if (pair.has_current) {
        stored = frame.bytes == 0 || scatter(pair.current.pieces, header + frame.address, bytes, frame.bytes);
    }
    if (!stored) {
        refuse(pair, frame, RemoteAccess);
        pair.drops = true;
        return true;
    }
    if (!(frame.flags & Last)) return true;
    if (needs_receive) {
        Completion completion{};
        completion.id = pair.current.id;
        completion.opcode = is_write ? 129 : 128;
        completion.bytes = static_cast<uint32_t>(frame.length) + header;
        completion.number = frame.number;
        completion.pair = pair.number;
        completion.source = frame.source;
        completion.flags = (frame.flags & HasNumber ? with_number : 0u) | (header ? with_header : 0u);
        pair.has_current = false;
        complete(pair.receive, completion, nullptr, 0);
    }
    if (pair.kind == Reliable) {
        Response answer{};
        answer.request.what = What::Acknowledged;
        answer.request.message = frame.message;
        pair.responses.push_back(answer);
    }
    return true;
}

bool Adapter::take_in(QueuePair& pair) {
    bool moved = false;
    static thread_local unsigned char bytes[frame_bytes];
    while (!pair.held.empty()) {
        auto [frame, kept] = pair.held.front();
        if (!deliver(pair, frame, kept.data())) break;
        if (pair.held.empty()) return true;  // it has failed
        pair.held.pop_front();
        moved = true;
    }
    // What UC carries arrives later than what other queue pairs do: nothing orders them.
    // Asked once: a program may have a getenv of its own that takes its time (bench/peers/net_one_gpu.c).
    static const uint64_t delay = shim::number("BUSBW_SHIM_UC_DELAY_MS", 0);
    auto late = std::chrono::milliseconds(pair.kind == Unreliable ? delay : 0);
    if (late.count() > 0) {
        Frame first;
        auto now = Clock::now();
        if (!front(pair.place, &first, bytes)) pair.arrived = {};
        else if (pair.arrived == Clock::time_point{}) pair.arrived = now;
        if (pair.arrived == Clock::time_point{} || now - pair.arrived < late) return moved;
    }
    Frame frame;
    for (int taken = 0; taken < 64 && front(pair.place, &frame, bytes); taken++) {
        bool is_ready = pair.state == ReadyToReceive || pair.state == ReadyToSend;
        bool is_ours = pair.kind == Datagrams
                           ? frame.key == pair.with.qkey
                           : frame.source == pair.with.other && frame.sequence == pair.with.receive_sequence;
        // Sent again until this end is connected; here it waits.
        if (pair.kind == Reliable && pair.state < ReadyToReceive) return moved;
        if (is_ready && is_ours && frame.what == What::Message && pair.held.size() >= most_held) return moved;
        pop(pair.place);
        moved = true;
        if (!is_ready || !is_ours) continue;
        if (frame.what == What::Message && pair.kind != Reliable && is_lost()) {
            // The rest of its message is worth nothing.
            pair.drops = true;
            if (pair.has_current) pair.receives.push_front(pair.current);
            pair.has_current = false;
            continue;
        }
        auto of = [&](uint64_t message) {
            return std::find_if(pair.sends.begin(), pair.sends.end(),
                                [&](const Work& work) { return work.message == message; });
        };
        switch (frame.what) {
            case What::Message:
                if (!pair.held.empty() || !deliver(pair, frame, bytes)) {
                    pair.held.emplace_back(frame, std::vector<unsigned char>(bytes, bytes + frame.bytes));
                }
                break;
            case What::Read: {
                bool may = pair.with.access & RemoteRead;
                if (!may || (frame.length && !region(frame.key, frame.address, frame.length, RemoteRead, true))) {
                    refuse(pair, frame, RemoteAccess);
                    break;
                }
                Response answer{};
                answer.request = frame;
                answer.request.what = What::ReadData;
                pair.responses.push_back(answer);
                break;
            }
            case What::ReadData: {
                auto work = of(frame.message);
                if (work == pair.sends.end()) break;
                if (frame.bytes && !scatter(work->pieces, frame.address, bytes, frame.bytes)) {
                    fail(pair, LocalProtection);
                    break;
                }
                if (frame.flags & Last) {
                    work->done = true;
                    settle(pair);
                }
                break;
            }
            case What::Acknowledged: {
                auto work = of(frame.message);
                if (work == pair.sends.end()) break;
                work->done = true;
                settle(pair);
                break;
            }
            case What::Refused: {
                auto work = of(frame.message);
                if (work != pair.sends.end()) {
                    work->done = true;
                    work->status = static_cast<int>(frame.code);
                }
                fail(pair, Flushed);
                break;
            }
        }
    }
    return moved;
}

}  // namespace verbs
