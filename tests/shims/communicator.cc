// Communicators: how ranks join, what is checked between them, how operations get onto streams.
// Not what operations do: collective.cc.
#include "launch.h"
#include "log.h"
#include "setting.h"
#include "tuning.h"

#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <chrono>
#include <cstdio>
#include <set>

namespace shim {

namespace {

#ifdef SHIM_ROCM
constexpr const char* driver = "libamdhip64.so.6";
#else
constexpr const char* driver = "libcuda.so.1";
#endif

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

uint64_t host_hash() {
    std::string id = text("NCCL_HOSTID");
    char name[256] = "";
    // Network namespaces are hosts by their names.
    if (id.empty() && gethostname(name, sizeof name - 1) == 0) id = name;
    uint64_t hash = 5381;
    for (char c : id) hash = hash * 33 + static_cast<unsigned char>(c);
    return hash;
}

std::string bus_number(int device) {  // as NCCL logs it: domain, bus, device, function in hex
    char out[32];
    std::snprintf(out, sizeof out, "%x",
                  std::stoi(the_machine()->bus_id_of(the_machine()->physical(device)).substr(5, 2),
                            nullptr, 16)
                      << 12);
    return out;
}

// Whether BUSBW_SHIM_FALLBACK names this rank: it reaches other hosts over sockets, whatever the others do.
bool falls_back(int rank) { return text("BUSBW_SHIM_FALLBACK") == std::to_string(rank); }

// The network as NCCL chooses it: NCCL_NET's, else IB before sockets. BUSBW_SHIM_HCA names RDMA devices.
std::string network(int rank) {
    if (falls_back(rank)) return "Socket";
    std::string asked = text("NCCL_NET"), device = text("BUSBW_SHIM_HCA");
    bool ib = !device.empty() && !number("NCCL_IB_DISABLE", 0);
    if (!strcasecmp(asked.c_str(), "Socket")) return "Socket";
    return ib ? "IB" : "Socket";
}

std::string socket_interface() {
    std::string name = text("NCCL_SOCKET_IFNAME", "lo");
    if (name[0] == '=') name = name.substr(1);
    return name.substr(0, name.find(','));
}

// `[0]mlx5_0:1/RoCE [1]mlx5_1:1/IB`: of BUSBW_SHIM_HCA=mlx5_0,mlx5_1/IB those that NCCL_IB_HCA==NAME:PORT,… leaves.
std::string adapters() {
    std::string wanted = text("NCCL_IB_HCA"), said, name;
    std::stringstream all(text("BUSBW_SHIM_HCA"));
    for (int at = 0; std::getline(all, name, ',');) {
        size_t slash = name.find('/');
        std::string kind = slash == std::string::npos ? "RoCE" : name.substr(slash + 1);
        name = name.substr(0, slash);
        if (wanted[0] == '=' && (wanted.substr(1) + ",").find(name + ":1,") == std::string::npos) continue;
        said += " [" + std::to_string(at++) + "]" + name + ":1/" + kind;
    }
    return said;
}

// NVLink multicast: where the GPUs have it and nobody has switched it off.
bool nvls() { return number("BUSBW_SHIM_MULTICAST", 0) && number("NCCL_NVLS_ENABLE", 2); }

void say_start(const Communicator& comm, const std::string& line) {
    int device = comm.device;
    info(Init, device, "ENV/Plugin: Could not find: libnccl-env.so");
    info(Init, device, "cudaDriverVersion %d", the_machine()->driver_version());
    say_version(library_version());
    info(Init, device, "NET/Plugin: Could not find: libnccl-net.so");
    std::string net = network(comm.rank);
    if (net == "IB") {
        info(Init, device, "NET/IB : Using%s [RO]; OOB lo:127.0.0.1<0>", adapters().c_str());
    } else {
        info(Init, device, "NET/IB : No device found.");
        info(Init, device, "Failed to initialize NET plugin IB");
        info(Init, device, "NET/Socket : Using [0]%s:127.0.0.1<0>", socket_interface().c_str());
    }
    info(Init, device, "Initialized NET plugin %s", net.c_str());
    info(Init, device, "Assigned NET plugin %s to comm", net.c_str());
    info(Init, device, "Using network %s", net.c_str());
    info(Init, device, "%s - Init START", line.c_str());
}

void say_complete(Communicator& comm, const std::string& line, int local_ranks, int local_rank) {
    int device = comm.device, channels = channels_of(comm);
    info(Init, device, "comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d MNNVL 0",
         static_cast<void*>(&comm), comm.rank, comm.ranks, comm.nodes, local_ranks, local_rank);
    for (int c = 0; comm.rank == 0 && c < channels; c++) {
        std::string ring;
        for (int r = 0; r < comm.ranks; r++) ring += " " + std::to_string(r);
        info(Init, device, "Channel %02d/%02d :%s", c, channels, ring.c_str());
    }
    if (nvls())
        info(Init, device, "NVLS comm %p headRank %d nHeads %d buffSize 4194304 nvlsPerRankSize 12582912 "
             "nvlsTotalSize 100663296", static_cast<void*>(&comm), comm.rank, comm.ranks);
    info(Init, device, "P2P Chunksize set to 524288");
    info(Init, device, "%d coll channels, %d collnet channels, 0 nvls channels, 32 p2p channels, 32 "
         "p2p channels per peer", channels, channels);
    info(Init, device, "%s - Init COMPLETE", line.c_str());
}

// In the first collective, as since 2.22: how the ring to the next rank is set up.
void say_connections(Communicator& comm) {
    if (comm.ranks < 2) return;
    int next = (comm.rank + 1) % comm.ranks, before = (comm.rank + comm.ranks - 1) % comm.ranks;
    Room& room = *comm.room;
    auto way = [&](int peer) -> std::string {
        const Seat &mine = room.seat(comm.rank), &other = room.seat(peer);
        bool peers = !number("BUSBW_SHIM_NO_PEER", 0) && !number("NCCL_P2P_DISABLE", 0);
        bool fallen = falls_back(comm.rank) || falls_back(peer);
        std::string planted = text("BUSBW_SHIM_VIA");
        std::string net = "NET/" + network(fallen ? (falls_back(peer) ? peer : comm.rank) : comm.rank) + "/0";
        if (net == "NET/IB/0" && number("BUSBW_SHIM_GDR", 0) && text("NCCL_NET_GDR_LEVEL") != "LOC") net += "/GDRDMA";
        if (!planted.empty()) return planted;
        bool joined = number("BUSBW_SHIM_MNNVL", 0) && number("NCCL_MNNVL_ENABLE", 2) &&
                      !number("NCCL_P2P_DISABLE", 0) && !fallen;
        if (mine.host != other.host) return joined ? "P2P/MNNVL" : net;
        if (peers) return mine.pid == other.pid ? "P2P/direct pointer" : "P2P/CUMEM";
        return number("NCCL_SHM_DISABLE", 0) ? net : "SHM/direct/direct";
    };
    auto say = [&](int c, int from, int to, const char* side, const std::string& by) {
        int from_device = room.seat(from).device, to_device = room.seat(to).device;
        info(Init, comm.device, "Channel %02d/0 : %d[%d] -> %d[%d]%s via %s", c, from, from_device,
             to, to_device, side, by.c_str());
    };
    for (int c = 0; c < channels_of(comm); c++) {
        std::string by = way(next), by_before = way(before);
        if (by_before.rfind("NET", 0) == 0) say(c, before, comm.rank, " [receive]", by_before);
        say(c, comm.rank, next, by.rfind("NET", 0) == 0 ? " [send]" : "", by);
    }
    info(Init, comm.device, "Connected all rings, use ring PXN 0 GDR 1");
}

// What NCCL compares of all ranks once they know each other (src/init.cc, initTransportsRank).
int compare_ranks(Communicator& comm) {
    Room& room = *comm.room;
    std::set<uint64_t> hosts;
    for (int r = 0; r < comm.ranks; r++) {
        const Seat& seat = room.seat(r);
        hosts.insert(seat.host);
        if (seat.version != room.seat(0).version) {
            warn("initTransportsRank",
                 "Mismatched NCCL version detected : rank %d version %d rank %d version %d", comm.rank,
                 library_version(), r, seat.version);
            return BadUsage;
        }
        for (int other = 0; other < r; other++) {
            if (room.seat(other).host != seat.host || room.seat(other).device != seat.device) continue;
            warn("initTransportsRank",
                 "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", other, r,
                 (0x10 + seat.device) << 12);
            return BadUsage;
        }
    }
    comm.nodes = static_cast<int>(hosts.size());
    return Ok;
}

}  // namespace

const Machine* the_machine() {
    static const Machine* found = [] {
        void* library = dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
        if (!library) library = dlopen(driver, RTLD_NOW);
        using Get = Machine (*)();
        auto get = library ? reinterpret_cast<Get>(dlsym(library, "busbw_shim_machine")) : nullptr;
        return get ? new Machine(get()) : nullptr;
    }();
    return found;
}

int join(const Joining& joining) {
    Communicator& comm = *joining.comm;
    uint64_t seconds = number("BUSBW_SHIM_INIT_SECONDS", 120);
    Clock::time_point start = Clock::now();
    Stop stop = [&] { return comm.aborted || seconds_since(start) > static_cast<double>(seconds); };
    if (Fault("BUSBW_SHIM_INIT_DIE").strikes(comm.rank, 0)) kill(getpid(), SIGKILL);
    if (Fault("BUSBW_SHIM_INIT_HANG").strikes(comm.rank, 0))
        while (!stop()) usleep(2000);
    Fault error("BUSBW_SHIM_INIT_ERROR");
    if (error.strikes(comm.rank, 0)) {
        warn(joining.api, "planted by BUSBW_SHIM_INIT_ERROR");
        return error.code ? error.code : SystemError;
    }
    std::string why;
    comm.room = Room::enter(joining.id.data(), comm.rank, comm.ranks, &why);
    if (!comm.room) {
        warn(joining.api, "%s", why.c_str());
        return why.find("ncclGetUniqueId") != std::string::npos ? BadArgument : InternalError;
    }
    Seat& seat = comm.room->seat(comm.rank);
    seat.pid = getpid();
    seat.thread = joining.thread;
    seat.version = library_version();
    seat.device = the_machine()->physical(comm.device);
    seat.host = host_hash();
    char line[256];
    std::snprintf(line, sizeof line,
                  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %s commId 0x%lx",
                  joining.api, static_cast<void*>(&comm), comm.rank, comm.ranks, comm.device,
                  seat.device, bus_number(comm.device).c_str(), comm.room->nonce());
    say_start(comm, line);
    if (!comm.room->hall().init.pass(static_cast<uint32_t>(comm.ranks), stop)) {
        if (comm.aborted) return InternalError;
        warn(joining.api, "not all of %d ranks have joined", comm.ranks);
        return SystemError;
    }
    Room::forget(comm.room->nonce());
    if (int different = compare_ranks(comm)) return different;
    if (int failed = begin_tuner(comm)) return failed;
    int local_ranks = 0, local_rank = 0;
    for (int r = 0; r < comm.ranks; r++) {
        if (comm.room->seat(r).host != seat.host) continue;
        if (r < comm.rank) local_rank++;
        local_ranks++;
    }
    say_complete(comm, line, local_ranks, local_rank);
    return Ok;
}

namespace {

// NCCL connects in the first operation and waits there for the peers. A thread that gives the
// operations of its GPUs one by one would wait for itself for ever: here, for five seconds.
int connect(const std::vector<Communicator*>& comms) {
    std::vector<std::pair<Communicator*, uint32_t>> waiting;
    for (Communicator* comm : comms) {
        if (comm->connected) continue;
        comm->room->seat(comm->rank).connected = 1;
        waiting.emplace_back(comm,
                             comm->room->hall().connect.arrive(static_cast<uint32_t>(comm->ranks)));
    }
    Clock::time_point start = Clock::now();
    for (auto& [comm, ticket] : waiting) {
        int missing = -1;
        Stop stop = [&, comm = comm] {
            if (comm->aborted) return true;
            if (seconds_since(start) < 5) return false;
            const Seat& mine = comm->room->seat(comm->rank);
            for (int r = 0; r < comm->ranks; r++) {
                Seat& seat = comm->room->seat(r);
                if (!seat.connected && seat.pid == mine.pid && seat.thread == mine.thread) missing = r;
            }
            return missing >= 0;
        };
        if (comm->room->hall().connect.await(ticket, stop)) {
            comm->connected = true;
            say_connections(*comm);
            continue;
        }
        if (comm->aborted) return InternalError;
        std::fprintf(stderr,
                     "busbw shim: rank %d waits for rank %d, which the same thread drives: NCCL would "
                     "hang here; operations of several GPUs belong between ncclGroupStart and "
                     "ncclGroupEnd\n", comm->rank, missing);
        return BadUsage;
    }
    return Ok;
}

bool captured(Stream* stream) {
    std::lock_guard<std::mutex> hold(stream->mutex);
    return stream->capture != nullptr;
}

// `later` goes on when `earlier` has done what it has now; nothing between captured streams.
Result follow(Stream* later, Stream* earlier) {
    if (later == earlier || captured(later) || captured(earlier)) return Success;
    uint64_t ticket = 0;
    {
        std::lock_guard<std::mutex> hold(earlier->mutex);
        ticket = earlier->enqueued;
    }
    return the_machine()->enqueue(later, [=] {
        earlier->wait_for(ticket);
        return Success;
    });
}

int enqueue_all(Communicator* comm, const std::vector<Pending>& pending) {
    auto operations = std::make_shared<std::vector<Operation>>();
    std::vector<Stream*> streams;
    for (const Pending& p : pending) {
        if (p.comm != comm) continue;
        operations->push_back(p.operation);
        tune(*comm, operations->back());
        if (std::find(streams.begin(), streams.end(), p.stream) == streams.end())
            streams.push_back(p.stream);
    }
    std::lock_guard<std::mutex> hold(comm->mutex);
    Stream* first = streams[0];
    if (comm->last_stream) streams.push_back(comm->last_stream);
    Result result = Success;
    for (Stream* other : streams)
        if (result == Success) result = follow(first, other);
    if (result == Success)
        result = the_machine()->enqueue(first, [comm, operations] {
            if (comm->destroyed) {
                std::fprintf(stderr, "busbw shim: rank %d works on a communicator that is destroyed\n",
                             comm->rank);
                return IllegalAddress;
            }
            comm->unfinished++;
            Result end = run(*comm, *operations);
            comm->unfinished--;
            return end;
        });
    if (comm->last_stream) streams.pop_back();
    for (Stream* other : streams)
        if (result == Success) result = follow(other, first);
    if (!captured(first)) comm->last_stream = first;
    if (result == Success) return Ok;
    warn("ncclLaunchKernel", "Cuda failure %d", result);
    return CudaError;
}

}  // namespace

int launch_all(const std::vector<Pending>& pending) {
    std::vector<Communicator*> comms;
    for (const Pending& p : pending)
        if (std::find(comms.begin(), comms.end(), p.comm) == comms.end()) comms.push_back(p.comm);
    if (int no = connect(comms)) return no;
    for (Communicator* comm : comms)
        if (int no = enqueue_all(comm, pending)) return no;
    return Ok;
}

}  // namespace shim
