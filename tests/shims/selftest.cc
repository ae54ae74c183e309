// The self-test of the shims: three layouts of ranks, the driver's rules, faults, nothing left behind.
// Not a test of busbw. Built and run by selftest.sh.
#include "selftest.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

int checks = 0, failures = 0;

void expect(const char* file, int line, const char* what, long got, long expected) {
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
    if (got == expected) return;
    __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    std::printf("%s:%d: %s gives %ld, expected %ld\n", file, line, what, got, expected);
}

int in_child(int seconds, const std::function<void()>& body) {
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        alarm(static_cast<unsigned>(seconds + 5));
        failures = 0;
        body();
        std::fflush(nullptr);
        _exit(failures ? 1 : 0);
    }
    for (int turn = 0; turn < seconds * 100; turn++) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        usleep(10000);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return -1;
}

void open_rank(Rank& rank, int device) {
    EXPECT(cuInit(0), 0);
    EXPECT(cuDevicePrimaryCtxRetain(&rank.context, device), 0);
    EXPECT(cuCtxSetCurrent(rank.context), 0);
    EXPECT(cuStreamCreate(&rank.stream, 1), 0);
}

namespace {

constexpr int ranks = 4;

void four_threads() {
    UniqueId id;
    EXPECT(cuInit(0), 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; r++)
        threads.emplace_back([=] {
            std::vector<Rank> mine(1);
            mine[0].rank = r;
            mine[0].ranks = ranks;
            open_rank(mine[0], r);
            EXPECT(ncclCommInitRank(&mine[0].comm, ranks, id, r), 0);
            test_collectives(mine);
            EXPECT(ncclCommDestroy(mine[0].comm), 0);
        });
    for (auto& thread : threads) thread.join();
}

void one_thread() {
    UniqueId id;
    EXPECT(cuInit(0), 0);
    EXPECT(ncclGetUniqueId(&id), 0);
    std::vector<Rank> mine(ranks);
    EXPECT(ncclGroupStart(), 0);
    for (int r = 0; r < ranks; r++) {
        mine[static_cast<size_t>(r)].rank = r;
        mine[static_cast<size_t>(r)].ranks = ranks;
        open_rank(mine[static_cast<size_t>(r)], r);
        EXPECT(ncclCommInitRank(&mine[static_cast<size_t>(r)].comm, ranks, id, r), 0);
    }
    EXPECT(ncclGroupEnd(), 0);
    test_collectives(mine);
    for (Rank& rank : mine) EXPECT(ncclCommDestroy(rank.comm), 0);
}

void four_processes() {
    void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* id = static_cast<UniqueId*>(shared);
    auto* made = reinterpret_cast<volatile int*>(id + 1);
    std::vector<pid_t> children;
    for (int r = 0; r < ranks; r++) {
        pid_t child = fork();
        if (child != 0) {
            children.push_back(child);
            continue;
        }
        alarm(120);
        std::vector<Rank> mine(1);
        mine[0].rank = r;
        mine[0].ranks = ranks;
        open_rank(mine[0], r);
        if (r == 0) {
            EXPECT(ncclGetUniqueId(id), 0);
            __atomic_store_n(made, 1, __ATOMIC_RELEASE);
        }
        while (!__atomic_load_n(made, __ATOMIC_ACQUIRE)) usleep(1000);
        EXPECT(ncclCommInitRank(&mine[0].comm, ranks, *id, r), 0);
        test_collectives(mine);
        EXPECT(ncclCommDestroy(mine[0].comm), 0);
        std::fflush(nullptr);
        _exit(failures ? 1 : 0);
    }
    for (pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT(status, 0);
    }
}

int files_in_shm() {
    int count = 0;
    DIR* folder = opendir("/dev/shm");
    while (dirent* entry = readdir(folder)) count += std::strncmp(entry->d_name, "busbw-shim", 10) == 0;
    closedir(folder);
    return count;
}

}  // namespace

int main() {
    alarm(300);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const struct {
        const char* name;
        std::function<void()> body;
    } parts[] = {{"1 process, 4 threads", four_threads},   {"4 processes", four_processes},
                 {"1 thread, 4 GPUs in a group", one_thread}, {"driver", test_driver},
                 {"NVML, RCCL and older releases", test_libraries}};
    for (auto& part : parts) {
        int ended = in_child(120, part.body);
        std::printf("%s: %s\n", part.name, ended == 0 ? "ok" : ended < 0 ? "TIMED OUT" : "FAILED");
        EXPECT(ended, 0);
    }
    test_faults();
    EXPECT(files_in_shm(), 0);
    std::printf("%s\n", failures ? "selftest: FAILED" : "selftest: ok");
    return failures ? 1 : 0;
}
