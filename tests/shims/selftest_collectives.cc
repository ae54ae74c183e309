// Every collective with every type and operator, against sums done here in double precision.
// Not timing, and not inexact sums.
#include "selftest.h"

#include <cmath>

namespace {

constexpr int types = 12;
constexpr size_t sizes[types] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr int premul = 5;  // stands for an operator of ncclRedOpCreatePreMulSum

// Each rank's own.
double scalar(int rank) { return 1 + rank % 2; }

double small_float(unsigned bits, int mantissa, int bias, int width) {
    int exponent = static_cast<int>(bits >> mantissa) & ((1 << (width - 1 - mantissa)) - 1);
    double fraction = bits & ((1u << mantissa) - 1);
    double size = exponent ? std::ldexp(1 + std::ldexp(fraction, -mantissa), exponent - bias)
                           : std::ldexp(fraction, 1 - bias - mantissa);
    return bits >> (width - 1) & 1 ? -size : size;
}

template <typename T>
double as(const void* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
}

double load(int type, const void* at) {
    switch (type) {
        case 0: return as<int8_t>(at);
        case 1: return as<uint8_t>(at);
        case 2: return as<int32_t>(at);
        case 3: return as<uint32_t>(at);
        case 4: return static_cast<double>(as<int64_t>(at));
        case 5: return static_cast<double>(as<uint64_t>(at));
        case 6: return small_float(static_cast<unsigned>(as<uint16_t>(at)), 10, 15, 16);
        case 7: return as<float>(at);
        case 8: return as<double>(at);
        case 9: return small_float(static_cast<unsigned>(as<uint16_t>(at)), 7, 127, 16);
        case 10: return small_float(static_cast<unsigned>(as<uint8_t>(at)), 3, 7, 8);
        default: return small_float(static_cast<unsigned>(as<uint8_t>(at)), 2, 15, 8);
    }
}

// 0, 1, 2 and 4, which every type holds exactly: found by trying bit patterns for the small floats.
void store(int type, double value, void* at) {
    auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
    switch (type) {
        case 0: return put(static_cast<int8_t>(value));
        case 1: return put(static_cast<uint8_t>(value));
        case 2: return put(static_cast<int32_t>(value));
        case 3: return put(static_cast<uint32_t>(value));
        case 4: return put(static_cast<int64_t>(value));
        case 5: return put(static_cast<uint64_t>(value));
        case 7: return put(static_cast<float>(value));
        case 8: return put(value);
        default: break;
    }
    unsigned bits = 0;
    int exponent = value == 0 ? 0 : std::ilogb(value);
    if (value != 0) {
        if (type == 6) bits = static_cast<unsigned>(exponent + 15) << 10;
        if (type == 9) bits = static_cast<unsigned>(exponent + 127) << 7;
        if (type == 10) bits = static_cast<unsigned>(exponent + 7) << 3;
        if (type == 11) bits = static_cast<unsigned>(exponent + 15) << 2;
    }
    if (sizes[type] == 2) put(static_cast<uint16_t>(bits));
    else put(static_cast<uint8_t>(bits));
}

double input(int rank, size_t i) {
    size_t choice = (static_cast<size_t>(rank) * 7 + i * 3 + i / 5) % 3;
    return choice == 0 ? 1 : choice == 1 ? 2 : 0;
}

double combined(int op, int type, int ranks, size_t i) {
    double total = input(0, i);
    if (op == premul) total *= scalar(0);
    for (int r = 1; r < ranks; r++) {
        double next = input(r, i);
        if (op == 1) total *= next;
        else if (op == 2) total = std::max(total, next);
        else if (op == 3) total = std::min(total, next);
        else total += op == premul ? scalar(r) * next : next;
    }
    if (op == 4) total = type < 6 ? std::floor(total / ranks) : total / ranks;
    return total;
}

enum Kind { AllReduce, Reduce, Broadcast, ReduceScatter, AllGather, AllToAll, Gather, Scatter, Ring };

struct Case {
    Kind kind;
    int type, op, root;
    size_t count;
    bool in_place;
};

size_t send_count(const Case& c, int ranks) {
    bool parts = c.kind == ReduceScatter || c.kind == AllToAll || c.kind == Scatter;
    return parts ? c.count * static_cast<size_t>(ranks) : c.count;
}

size_t receive_count(const Case& c, int ranks) {
    bool parts = c.kind == AllGather || c.kind == AllToAll || c.kind == Gather;
    return parts ? c.count * static_cast<size_t>(ranks) : c.count;
}

double expected(const Case& c, const Rank& at, size_t i) {
    auto me = static_cast<size_t>(at.rank);
    switch (c.kind) {
        case AllReduce: case Reduce: return combined(c.op, c.type, at.ranks, i);
        case ReduceScatter: return combined(c.op, c.type, at.ranks, me * c.count + i);
        case Broadcast: return input(c.root, i);
        case Scatter: return input(c.root, me * c.count + i);
        case AllGather: case Gather: return input(static_cast<int>(i / c.count), i % c.count);
        case AllToAll: return input(static_cast<int>(i / c.count), me * c.count + i % c.count);
        default: return input((at.rank + at.ranks - 1) % at.ranks, i);
    }
}

struct Buffers {
    char* send = nullptr;
    char* recv = nullptr;
    void* base[2] = {nullptr, nullptr};
};

int call(const Case& c, Rank& at, const Buffers& b, int op) {
    switch (c.kind) {
        case AllReduce: return ncclAllReduce(b.send, b.recv, c.count, c.type, op, at.comm, at.stream);
        case Reduce:
            return ncclReduce(b.send, b.recv, c.count, c.type, op, c.root, at.comm, at.stream);
        case Broadcast:
            return ncclBroadcast(b.send, b.recv, c.count, c.type, c.root, at.comm, at.stream);
        case ReduceScatter:
            return ncclReduceScatter(b.send, b.recv, c.count, c.type, op, at.comm, at.stream);
        case AllGather: return ncclAllGather(b.send, b.recv, c.count, c.type, at.comm, at.stream);
        case AllToAll: return ncclAlltoAll(b.send, b.recv, c.count, c.type, at.comm, at.stream);
        case Gather: return ncclGather(b.send, b.recv, c.count, c.type, c.root, at.comm, at.stream);
        case Scatter: return ncclScatter(b.send, b.recv, c.count, c.type, c.root, at.comm, at.stream);
        default: {
            int next = (at.rank + 1) % at.ranks, before = (at.rank + at.ranks - 1) % at.ranks;
            ncclGroupStart();
            ncclSend(b.send, c.count, c.type, next, at.comm, at.stream);
            ncclRecv(b.recv, c.count, c.type, before, at.comm, at.stream);
            return ncclGroupEnd();
        }
    }
}

void run_case(const Case& c, std::vector<Rank>& mine) {
    size_t size = sizes[c.type];
    std::vector<Buffers> buffers(mine.size());
    std::vector<int> ops(mine.size(), c.op);
    for (size_t k = 0; k < mine.size(); k++) {
        Rank& at = mine[k];
        Buffers& b = buffers[k];
        cuCtxSetCurrent(at.context);
        size_t send = send_count(c, at.ranks) * size, recv = receive_count(c, at.ranks) * size;
        EXPECT(cuMemAlloc_v2(&b.base[0], std::max(send, recv)), 0);
        EXPECT(cuMemAlloc_v2(&b.base[1], recv), 0);
        b.send = static_cast<char*>(b.base[0]);
        b.recv = static_cast<char*>(c.in_place ? b.base[0] : b.base[1]);
        size_t own = static_cast<size_t>(at.rank) * c.count * size;
        if (c.in_place && (c.kind == AllGather || (c.kind == Gather && at.rank == c.root))) b.send += own;
        if (c.in_place && (c.kind == ReduceScatter || (c.kind == Scatter && at.rank == c.root))) b.recv += own;
        std::vector<char> host(send);
        for (size_t i = 0; i < send / size; i++) store(c.type, input(at.rank, i), &host[i * size]);
        EXPECT(cuMemcpyHtoD_v2(b.send, host.data(), send), 0);
        if (c.op == premul) {
            char own[8];
            store(c.type, scalar(at.rank), own);
            EXPECT(ncclRedOpCreatePreMulSum(&ops[k], own, c.type, 1, at.comm), 0);
        }
    }
    if (mine.size() > 1) ncclGroupStart();
    for (size_t k = 0; k < mine.size(); k++) EXPECT(call(c, mine[k], buffers[k], ops[k]), 0);
    if (mine.size() > 1) EXPECT(ncclGroupEnd(), 0);
    for (size_t k = 0; k < mine.size(); k++) {
        Rank& at = mine[k];
        cuCtxSetCurrent(at.context);
        EXPECT(cuStreamSynchronize(at.stream), 0);
        if (c.op == premul) EXPECT(ncclRedOpDestroy(ops[k], at.comm), 0);
        bool result = (c.kind != Reduce && c.kind != Gather) || at.rank == c.root;
        size_t n = receive_count(c, at.ranks), wrong = 0;
        std::vector<char> host(n * size);
        EXPECT(cuMemcpyDtoH_v2(host.data(), buffers[k].recv, host.size()), 0);
        for (size_t i = 0; result && i < n; i++)
            wrong += load(c.type, &host[i * size]) != expected(c, at, i);
        if (wrong)
            std::printf("kind %d type %d op %d root %d count %zu in place %d rank %d:\n", c.kind, c.type,
                        c.op, c.root, c.count, c.in_place, at.rank);
        EXPECT(static_cast<int>(wrong), 0);
        for (void* base : buffers[k].base) EXPECT(cuMemFree_v2(base), 0);
    }
}

}  // namespace

void test_collectives(std::vector<Rank>& mine) {
    int last = mine[0].ranks - 1;
    for (int type = 0; type < types; type++) {
        for (int op = 0; op <= premul; op++)
            for (bool in_place : {false, true}) {
                run_case({AllReduce, type, op, 0, 257, in_place}, mine);
                run_case({Reduce, type, op, last, 257, in_place}, mine);
                run_case({ReduceScatter, type, op, 0, 67, in_place}, mine);
            }
        for (bool in_place : {false, true}) {
            run_case({Broadcast, type, 0, 1, 257, in_place}, mine);
            run_case({AllGather, type, 0, 0, 67, in_place}, mine);
            run_case({Gather, type, 0, last, 67, in_place}, mine);
            run_case({Scatter, type, 0, 1, 67, in_place}, mine);
        }
        run_case({AllToAll, type, 0, 0, 67, false}, mine);
        run_case({Ring, type, 0, 0, 257, false}, mine);
    }
    // Larger than the staging, so that every operation goes in several steps.
    for (Kind kind : {AllReduce, Reduce, Broadcast, ReduceScatter, AllGather, AllToAll, Gather, Scatter, Ring})
        run_case({kind, 7, 0, 0, 70001, false}, mine);
}
