// Misuse of the collectives, and the faults that a test can plant: each in a process of its own.
// Not every pair of fault and collective.
#include "selftest.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace {

struct Config {
    size_t size = 80;
    unsigned magic = 0xcafebeef, version = 22809;
    int blocking = INT_MIN, rest[3] = {INT_MIN, INT_MIN, INT_MIN};
    const char* net = nullptr;
    int more[2] = {INT_MIN, INT_MIN};
    const char* name = nullptr;
    int last[6] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN};
};

// Two ranks on two devices of one thread.
std::vector<Rank> two_ranks() {
    std::vector<Rank> pair(2);
    UniqueId id;
    EXPECT(cuInit(0), 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    EXPECT(ncclGroupStart(), 0);
    for (int r = 0; r < 2; r++) {
        Rank& at = pair[static_cast<size_t>(r)];
        at.rank = r;
        at.ranks = 2;
        open_rank(at, r);
        EXPECT(ncclCommInitRank(&at.comm, 2, id, r), 0);
    }
    EXPECT(ncclGroupEnd(), 0);
    return pair;
}

void* memory_of(Rank& at, size_t bytes) {
    void* block = nullptr;
    EXPECT(cuCtxSetCurrent(at.context), 0);
    EXPECT(cuMemAlloc_v2(&block, bytes), 0);
    return block;
}

void arguments() {
    int version = 0, count = 0;
    EXPECT(ncclGetVersion(&version), 0);
    EXPECT(version, 22809);
    EXPECT(ncclGroupEnd(), 5);
    UniqueId id = {};
    Rank one;
    open_rank(one, 0);
    EXPECT(ncclCommInitRank(&one.comm, 1, id, 0), 4);  // an id of nobody
    EXPECT(ncclGetUniqueId(&id), 0);
    EXPECT(ncclCommInitRank(&one.comm, 2, id, 2), 4);
    Config wrong;
    wrong.magic = 1;
    EXPECT(ncclCommInitRankConfig(&one.comm, 1, id, 0, &wrong), 4);
    wrong = Config();
    wrong.size = 40;  // less than a header of that version has
    EXPECT(ncclCommInitRankConfig(&one.comm, 1, id, 0, &wrong), 4);
    wrong = Config();
    wrong.last[5] = 2;  // nvlinkCentricSched
    EXPECT(ncclCommInitRankConfig(&one.comm, 1, id, 0, &wrong), 4);
    Config right;
    right.last[5] = 1;
    EXPECT(ncclCommInitRankConfig(&one.comm, 1, id, 0, &right), 0);
    EXPECT(ncclCommCount(one.comm, &count), 0);
    EXPECT(count, 1);
    void *again = nullptr, *unknown = &one;
    EXPECT(ncclCommInitRank(&again, 1, id, 0), 3);  // an id serves once
    EXPECT(ncclCommCount(unknown, &count), 4);
    EXPECT(ncclCommCount(nullptr, &count), 4);
    void* block = memory_of(one, 4096);
    EXPECT(ncclAllReduce(block, block, 1024, 12, 0, one.comm, one.stream), 4);
    EXPECT(ncclAllReduce(block, block, 1024, 7, 9, one.comm, one.stream), 4);
    EXPECT(ncclBroadcast(block, block, 1024, 7, 1, one.comm, one.stream), 4);
    EXPECT(ncclAllReduce(block, static_cast<char*>(block) + 4, 64, 7, 0, one.comm, one.stream), 5);
    int op = 0;
    float scalar = 2;
    EXPECT(ncclRedOpCreatePreMulSum(&op, &scalar, 7, 1, one.comm), 0);
    EXPECT(ncclAllReduce(block, block, 8, 8, op, one.comm, one.stream), 4);  // of another type
    EXPECT(ncclRedOpDestroy(op, one.comm), 0);
    EXPECT(ncclAllReduce(block, block, 8, 7, op, one.comm, one.stream), 4);
    EXPECT(ncclRedOpDestroy(0, one.comm), 4);
    void *handle = nullptr, *window = nullptr, *big = nullptr;
    EXPECT(ncclCommRegister(one.comm, block, 4096, &handle), 0);
    EXPECT(ncclCommDeregister(one.comm, handle), 0);
    EXPECT(ncclCommDeregister(one.comm, handle), 5);
    EXPECT(ncclCommWindowRegister(one.comm, block, 4096, &window, 0), 4);  // not of ncclMemAlloc
    EXPECT(ncclMemAlloc(&big, 100), 0);
    EXPECT(ncclMemFree(block), 1);
    EXPECT(ncclCommWindowRegister(one.comm, big, 100, &window, 1), 0);
    EXPECT(ncclCommWindowDeregister(one.comm, window), 0);
    EXPECT(ncclMemFree(big), 0);
    struct {
        size_t size = 24;
        unsigned magic = 0x74685283, version = 22809;
        float time = -1;
    } sim;
    EXPECT(ncclGroupStart(), 0);
    EXPECT(ncclAllReduce(block, block, 1024, 7, 0, one.comm, one.stream), 0);
    EXPECT(ncclGroupSimulateEnd(&sim), 0);
    EXPECT(sim.time > 0, 1);
    EXPECT(ncclCommFinalize(one.comm), 0);
    EXPECT(ncclAllReduce(block, block, 1024, 7, 0, one.comm, one.stream), 4);
    EXPECT(ncclCommDestroy(one.comm), 0);
    EXPECT(ncclCommDestroy(one.comm), 4);
    EXPECT(ncclAllReduce(block, block, 1, 7, 0, one.comm, one.stream), 4);
    EXPECT(cuMemFree_v2(block), 0);
    int twice[] = {0, 0};
    void* both[2];
    EXPECT(ncclCommInitAll(both, 2, twice), 5);
    EXPECT(ncclCommInitAll(both, 2, nullptr), 0);
    for (void* comm : both) EXPECT(ncclCommDestroy(comm), 0);
}

// Memory of another device, too short a buffer, a stream of another device.
void wrong_memory() {
    std::vector<Rank> pair = two_ranks();
    void* own = memory_of(pair[0], 64);
    void* other = memory_of(pair[1], 64);
    EXPECT(cuCtxSetCurrent(pair[0].context), 0);
    EXPECT(ncclAllReduce(own, own, 16, 7, 0, pair[0].comm, pair[1].stream), 1);
    setenv("NCCL_CHECK_POINTERS", "1", 1);
    EXPECT(ncclAllReduce(other, own, 16, 7, 0, pair[0].comm, pair[0].stream), 4);
    EXPECT(ncclAllReduce(own, own, 17, 7, 0, pair[0].comm, pair[0].stream), 4);
    unsetenv("NCCL_CHECK_POINTERS");
    ncclAllReduce(own, own, 17, 7, 0, pair[0].comm, pair[0].stream);
    EXPECT(cuStreamSynchronize(pair[0].stream), 700);
}

void mismatch() {
    std::vector<Rank> pair = two_ranks();
    EXPECT(ncclGroupStart(), 0);
    for (Rank& at : pair) {
        void* block = memory_of(at, 64);
        EXPECT(ncclAllReduce(block, block, 8 + static_cast<size_t>(at.rank), 7, 0, at.comm, at.stream), 0);
    }
    EXPECT(ncclGroupEnd(), 0);
    for (Rank& at : pair) {
        int error = 0;
        cuCtxSetCurrent(at.context);
        EXPECT(cuStreamSynchronize(at.stream), 719);
        EXPECT(ncclCommGetAsyncError(at.comm, &error), 0);
        EXPECT(error, 5);
    }
}

void without_group() {
    std::vector<Rank> pair = two_ranks();
    void* block = memory_of(pair[0], 64);
    EXPECT(ncclAllReduce(block, block, 8, 7, 0, pair[0].comm, pair[0].stream), 5);
}

// Replays of a captured collective, both devices of one thread.
void captured() {
    std::vector<Rank> pair = two_ranks();
    std::vector<void*> blocks, runs;
    float one = 1;
    for (Rank& at : pair) {
        blocks.push_back(memory_of(at, 4));
        EXPECT(cuMemcpyHtoD_v2(blocks.back(), &one, 4), 0);
        EXPECT(cuStreamBeginCapture_v2(at.stream, 2), 0);
    }
    EXPECT(ncclGroupStart(), 0);
    for (Rank& at : pair) {
        void* block = blocks[static_cast<size_t>(at.rank)];
        EXPECT(ncclAllReduce(block, block, 1, 7, 0, at.comm, at.stream), 0);
    }
    EXPECT(ncclGroupEnd(), 0);
    for (Rank& at : pair) {
        void *graph = nullptr, *run = nullptr;
        cuCtxSetCurrent(at.context);
        EXPECT(cuStreamEndCapture(at.stream, &graph), 0);
        EXPECT(cuGraphInstantiateWithFlags(&run, graph, 0), 0);
        EXPECT(cuGraphDestroy(graph), 0);
        runs.push_back(run);
    }
    for (int replay = 0; replay < 3; replay++)
        for (Rank& at : pair) {
            cuCtxSetCurrent(at.context);
            EXPECT(cuGraphLaunch(runs[static_cast<size_t>(at.rank)], at.stream), 0);
        }
    for (Rank& at : pair) {
        float sum = 0;
        cuCtxSetCurrent(at.context);
        EXPECT(cuStreamSynchronize(at.stream), 0);
        EXPECT(cuMemcpyDtoH_v2(&sum, blocks[static_cast<size_t>(at.rank)], 4), 0);
        EXPECT(static_cast<int>(sum), 8);
        EXPECT(ncclCommDestroy(at.comm), 0);
    }
}

// Two threads; `each` is called with its rank after one operation was enqueued on both.
void two_threads(const std::function<void(Rank&)>& each) {
    UniqueId id;
    EXPECT(cuInit(0), 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; r++)
        threads.emplace_back([=] {
            Rank at;
            at.rank = r;
            open_rank(at, r);
            EXPECT(ncclCommInitRank(&at.comm, 2, id, r), 0);
            at.block = memory_of(at, 64);
            EXPECT(cuMemsetD8_v2(at.block, 0, 64), 0);
            EXPECT(cuCtxSynchronize(), 0);
            EXPECT(ncclAllReduce(at.block, at.block, 16, 2, 0, at.comm, at.stream), 0);
            each(at);
        });
    for (auto& thread : threads) thread.join();
}

void async_error() {
    setenv("BUSBW_SHIM_ASYNC_ERROR", "1:0", 1);
    two_threads([](Rank& at) {
        usleep(200000);
        int error = -1;
        EXPECT(ncclCommGetAsyncError(at.comm, &error), 0);
        EXPECT(error, at.rank == 1 ? 6 : 0);
        EXPECT(cuStreamQuery(at.stream), 600);
        EXPECT(ncclCommAbort(at.comm), 0);
        EXPECT(cuStreamSynchronize(at.stream), 0);
    });
}

void init_error() {
    setenv("BUSBW_SHIM_INIT_ERROR", "0", 1);
    setenv("BUSBW_SHIM_INIT_SECONDS", "1", 1);
    UniqueId id;
    EXPECT(cuInit(0), 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; r++)
        threads.emplace_back([=] {
            Rank at;
            open_rank(at, r);
            EXPECT(ncclCommInitRank(&at.comm, 2, id, r), 2);
        });
    for (auto& thread : threads) thread.join();
}

void same_gpu() {
    UniqueId id;
    Rank at;
    open_rank(at, 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    void* comms[2];
    EXPECT(ncclGroupStart(), 0);
    for (int r = 0; r < 2; r++) EXPECT(ncclCommInitRank(&comms[r], 2, id, r), 0);
    EXPECT(ncclGroupEnd(), 5);
}

// Two processes, of which one has another release.
void two_versions() {
    int way[2];
    EXPECT(pipe(way), 0);
    pid_t child = fork();
    int rank = child == 0;
    UniqueId id;
    Rank at;
    setenv("BUSBW_SHIM_NCCL_VERSION", rank ? "22703" : "22809", 1);
    open_rank(at, rank);
    if (rank == 0) {
        EXPECT(ncclGetUniqueId(&id), 0);
        EXPECT(write(way[1], &id, sizeof id), sizeof id);
    } else {
        EXPECT(read(way[0], &id, sizeof id), sizeof id);
    }
    EXPECT(ncclCommInitRank(&at.comm, 2, id, rank), 5);
    if (rank == 1) _exit(failures);
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT(status, 0);
}

void non_blocking() {
    UniqueId id;
    Config config;
    config.blocking = 0;
    Rank at;
    open_rank(at, 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    std::thread other([&] {
        Rank second;
        open_rank(second, 1);
        usleep(200000);
        EXPECT(ncclCommInitRank(&second.comm, 2, id, 1), 0);
    });
    EXPECT(ncclCommInitRankConfig(&at.comm, 2, id, 0, &config), 7);
    int error = 0, count = 0;
    EXPECT(ncclCommGetAsyncError(at.comm, &error), 0);
    EXPECT(error, 7);
    EXPECT(ncclCommCount(at.comm, &count), 4);  // not before it is done
    while (error == 7) ncclCommGetAsyncError(at.comm, &error);
    EXPECT(error, 0);
    EXPECT(ncclCommCount(at.comm, &count), 0);
    other.join();
}

void log_lines() {
    char name[] = "/tmp/busbw-shim-selftest-XXXXXX";
    int file = mkstemp(name);
    close(file);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 1);
    setenv("NCCL_DEBUG_FILE", (std::string(name) + ".%p").c_str(), 1);
    two_threads([](Rank& at) { EXPECT(cuStreamSynchronize(at.stream), 0); });
    std::string real = std::string(name) + "." + std::to_string(getpid()), text;
    FILE* lines = std::fopen(real.c_str(), "r");
    char line[4096];
    while (lines && std::fgets(line, sizeof line, lines)) text += line;
    for (const char* part :
         {"NCCL INFO NCCL version 2.28.9+cuda13.0", "Using network Socket", "Init START",
          "Init COMPLETE", "nNodes 1 localRanks 2", "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer",
          "Connected all rings", "AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}"})
        EXPECT(text.find(part) == std::string::npos, 0);
    unlink(name);
    unlink(real.c_str());
}

void environment_of_devices() {
    int count = 0;
    setenv("BUSBW_SHIM_GPUS", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "2,GPU-62757362-772d-7368-696d-2d6770752d01,9,0", 1);
    setenv("BUSBW_SHIM_USED", "1073741000", 1);
    Rank at;
    open_rank(at, 0);
    EXPECT(cuDeviceGetCount(&count), 0);
    EXPECT(count, 2);
    void* block = nullptr;
    EXPECT(cuMemAlloc_v2(&block, 8192), 2);  // others use the rest
    size_t free = 0, total = 0;
    EXPECT(cuMemGetInfo_v2(&free, &total), 0);
    EXPECT(static_cast<long>(total - free), 1073741000);
}

}  // namespace

void test_faults() {
    const struct {
        const char* name;
        void (*body)();
    } parts[] = {{"arguments", arguments}, {"wrong memory", wrong_memory}, {"mismatch", mismatch},
                 {"without a group", without_group}, {"captured", captured},
                 {"async error and abort", async_error}, {"error in init", init_error},
                 {"two ranks on a GPU", same_gpu}, {"two releases", two_versions}, {"non-blocking", non_blocking},
                 {"log", log_lines}, {"environment of devices", environment_of_devices}};
    for (auto& part : parts) {
        int ended = in_child(20, part.body);
        std::printf("%s: %s\n", part.name, ended == 0 ? "ok" : ended < 0 ? "TIMED OUT" : "FAILED");
        EXPECT(ended, 0);
    }
    EXPECT(in_child(3, [] {
        setenv("BUSBW_SHIM_CUINIT", "802", 1);
        EXPECT(cuInit(0), 802);
    }), 0);
    EXPECT(in_child(3, [] {
        setenv("BUSBW_SHIM_INIT_HANG", "1", 1);
        two_threads([](Rank&) {});
    }), -1);
    EXPECT(in_child(3, [] {
        setenv("BUSBW_SHIM_HANG", "1", 1);
        two_threads([](Rank& at) { cuStreamSynchronize(at.stream); });
    }), -1);
    EXPECT(in_child(3, [] {
        setenv("BUSBW_SHIM_DIE", "1:0", 1);
        two_threads([](Rank& at) { cuStreamSynchronize(at.stream); });
    }), 128 + SIGKILL);
    EXPECT(in_child(5, [] {
        setenv("BUSBW_SHIM_CORRUPT", "1:0", 1);
        two_threads([](Rank& at) {
            int values[16], wrong = 0;
            EXPECT(cuStreamSynchronize(at.stream), 0);
            EXPECT(cuMemcpyDtoH_v2(values, at.block, sizeof values), 0);
            for (int value : values) wrong += value != 0;
            EXPECT(wrong, at.rank == 1 ? 1 : 0);
        });
    }), 0);
}
