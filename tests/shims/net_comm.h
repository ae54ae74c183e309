// One end of a connection of the net plugin: its requests, and how their bytes move over TCP.
// Not the functions that NCCL calls (net.cc).
#pragma once
#include "net_abi.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>

namespace {

constexpr int MOST_OPEN = 32;
constexpr int MOST_GROUPED = 4;

// Whether a rule is broken.
bool breaks(const char* rule) {
    const char* broken = getenv("BUSBW_SHIM_NET_BREAK");
    return broken && !strcmp(broken, rule);
}
bool grouped() { return getenv("BUSBW_SHIM_NET_GROUPED") != nullptr; }

Logger logger;
void say(const char* text) {
    if (logger) logger(2, 16, __FILE__, __LINE__, "%s", text);
}

struct Head {
    uint64_t bytes;
    int32_t tag;
    int32_t unused;
};

struct Comm;
struct Request {
    Comm* comm;
    bool sends, done;
    int count;
    struct Part {
        char* data;
        size_t room, size;
        int tag;
        bool filled;
    } parts[MOST_GROUPED];
    Head head;
    size_t moved;  // of head and data
};

struct Comm {
    int socket;
    bool sends;
    std::deque<Request*> queue;  // that are not done, in order
    std::set<Request*> open;     // that NCCL has not seen done
    Head head;                   // of the message that is coming
    size_t headed = 0, came = 0;
    bool refuses = false;
};

// Moves bytes until the socket has no more room, or none; false when it is broken.
bool send_some(Comm* comm) {
    while (!comm->queue.empty()) {
        Request* request = comm->queue.front();
        char* data = request->parts[0].data;
        size_t bytes = request->parts[0].size, head = sizeof(Head);
        bool in_head = request->moved < head;
        size_t at = in_head ? request->moved : request->moved - head;
        char* from = in_head ? reinterpret_cast<char*>(&request->head) + at : data + at;
        size_t rest = (in_head ? head : bytes) - at;
        if (rest > 0) {
            ssize_t sent = ::send(comm->socket, from, rest, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0) return errno == EAGAIN || errno == EINTR;
            request->moved += sent;
        }
        if (request->moved == head + bytes) {
            request->done = true;
            comm->queue.pop_front();
        }
    }
    return true;
}

// The part that the message with this head belongs to.
Request::Part* part_for(Comm* comm, const Head& head, Request** whose) {
    bool newest = breaks("in-order");
    Request* request = newest ? comm->queue.back() : comm->queue.front();
    *whose = request;
    for (int i = 0; i < request->count; i++) {
        Request::Part& part = request->parts[i];
        bool fits = request->count == 1 || part.tag == head.tag || breaks("grouped");
        if (!part.filled && fits) return &part;
    }
    return nullptr;
}

void forget(Comm* comm, Request* request) {
    for (auto at = comm->queue.begin(); at != comm->queue.end(); ++at) {
        if (*at == request) {
            comm->queue.erase(at);
            return;
        }
    }
}

bool recv_some(Comm* comm) {
    while (!comm->queue.empty()) {
        if (comm->headed < sizeof(Head)) {
            char* to = reinterpret_cast<char*>(&comm->head) + comm->headed;
            ssize_t got = ::recv(comm->socket, to, sizeof(Head) - comm->headed, MSG_DONTWAIT);
            if (got == 0) return false;
            if (got < 0) return errno == EAGAIN || errno == EINTR;
            comm->headed += got;
            continue;
        }
        Request* request;
        Request::Part* part = part_for(comm, comm->head, &request);
        if (!part || comm->head.bytes > part->room) {
            say("a message has no place");
            return false;
        }
        size_t bytes = comm->head.bytes;
        if (comm->came < bytes) {
            ssize_t got = ::recv(comm->socket, part->data + comm->came, bytes - comm->came, MSG_DONTWAIT);
            if (got == 0) return false;
            if (got < 0) return errno == EAGAIN || errno == EINTR;
            comm->came += got;
            continue;
        }
        if (breaks("sizes") && bytes > 65536 && bytes % 2) part->data[bytes - 1] ^= 1;
        part->size = breaks("larger-receive") ? part->room : bytes;
        part->filled = true;
        comm->headed = comm->came = 0;
        bool all = true;
        for (int i = 0; i < request->count; i++) all = all && request->parts[i].filled;
        if (all && !(breaks("zero") && bytes == 0)) {
            request->done = true;
            forget(comm, request);
        } else if (all) {
            return true;
        }
    }
    return true;
}

bool progress(Comm* comm) { return comm->sends ? send_some(comm) : recv_some(comm); }

}  // namespace
