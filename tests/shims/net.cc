// A net plugin that keeps NCCL's contract, over TCP on 127.0.0.1, and breaks one rule of it on demand:
// BUSBW_SHIM_NET_BREAK=RULE. It is slow, has no threads of its own, and serves tests of `busbw plugin check` and of the
// net backend. BUSBW_SHIM_NET_GROUPED=1: it takes four receives in one request.
#include "net_comm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <unistd.h>

namespace {

bool has_listened;

// In the handle, which comes back to `connect` as it left it.
struct Handle {
    uint32_t magic;
    uint16_t port;
    uint16_t stage;
    int32_t socket;
};
constexpr uint32_t MAGIC = 0x62757362;

struct Listener {
    int socket;
    int accepted = -1;
};
std::deque<Listener*> listeners;

void* rest(void*) {
    for (;;) pause();
    return nullptr;
}

Comm* comm_of(int socket, bool sends) {
    int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Comm* comm = new Comm;
    comm->socket = socket;
    comm->sends = sends;
    if (breaks("threads")) {
        pthread_t thread;
        pthread_create(&thread, nullptr, rest, nullptr);
        pthread_detach(thread);
    }
    return comm;
}

// Devices of its own, all of them the loopback interface, and at most one that is made of two.
int own_devices() {
    const char* count = getenv("BUSBW_SHIM_NET_DEVICES");
    return count ? atoi(count) : 1;
}
int merged[2], merged_count;

int devices(int* count) {
    *count = own_devices() + (merged_count && !breaks("merged") ? 1 : 0);
    return OK;
}

template <int N> int merge(int* number, Parts<N>* parts) {
    if (parts->count != 2 || merged_count) return INVALID;
    merged[0] = parts->devices[0];
    merged[1] = parts->devices[1];
    merged_count = 2;
    *number = own_devices();
    return OK;
}

template <class Properties> void common(int device, Properties* to) {
    static char names[][8] = {"lo", "lo.1", "lo+lo.1"};
    static int calls;
    to->name = names[merged_count && device == own_devices() ? 2 : device % 2];
    to->pciPath = nullptr;
    to->guid = 1;
    to->ptrSupport = 1;
    to->regIsGlobal = 0;
    to->speed = breaks("properties") ? 0 : 10000;
    if (breaks("stable")) to->speed = 10000 + calls++;
    if (merged_count && device == own_devices()) to->speed *= 2;
    to->port = 1;
    to->latency = 0;
    to->maxComms = 65536;
    to->maxRecvs = grouped() ? MOST_GROUPED : 1;
    to->deviceType = to->deviceVersion = 0;
}
template <class Properties> void longer(int device, Properties* to) {
    common(device, to);
    to->forceFlush = 0;
    to->parts.count = 1;
    to->parts.devices[0] = device;
    if (merged_count && device == own_devices()) {
        to->parts.count = 2;
        to->parts.devices[0] = merged[0];
        to->parts.devices[1] = merged[1];
    }
    to->maxP2pBytes = to->maxCollBytes = size_t(1) << 30;
}
int properties(int device, PropertiesV8* to) {
    common(device, to);
    if (breaks("versions")) to->speed = 40000;
    return OK;
}
template <int N> int properties(int device, PropertiesV9<N>* to) {
    longer(device, to);
    return OK;
}
int properties(int device, PropertiesV11* to) {
    longer(device, to);
    to->maxMultiRequest = 1;
    return OK;
}
int properties(int device, PropertiesV12* to) {
    longer(device, to);
    to->maxMultiRequest = 1;
    to->rail = to->plane = -1;
    return OK;
}

int init(Logger log) {
    logger = log;
    return OK;
}
int init(Logger log, void*) { return init(log); }
int init(void** context, uint64_t, void*, Logger log, void*) {
    *context = nullptr;
    return init(log);
}

int listen(int, void* opaque, void** listener) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0 || ::bind(socket, reinterpret_cast<sockaddr*>(&address), length) ||
        ::listen(socket, 8) || getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length)) {
        return SYSTEM;
    }
    Handle handle{MAGIC, address.sin_port, 0, -1};
    memcpy(opaque, &handle, sizeof handle);
    Listener* made = new Listener;
    made->socket = socket;
    listeners.push_back(made);
    *listener = made;
    has_listened = true;
    return OK;
}
int listen(void*, int device, void* handle, void** listener) { return listen(device, handle, listener); }

int connect(int, void* opaque, void** connection, void**) {
    *connection = nullptr;
    Handle* handle = static_cast<Handle*>(opaque);
    if (handle->magic != MAGIC) return INVALID;
    if (breaks("connect-before-listen") && !has_listened) return INTERNAL;
    if (breaks("connect-returns")) usleep(300 * 1000);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = handle->port;
    if (handle->stage == 0) {
        handle->socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (handle->socket < 0) return SYSTEM;
        handle->stage = 1;
    } else if (breaks("same-handle")) {
        say("this handle was used before");
        return INVALID;
    } else if (!::connect(handle->socket, reinterpret_cast<sockaddr*>(&address), sizeof address)) {
        *connection = comm_of(handle->socket, true);
    } else if (errno != EINPROGRESS && errno != EALREADY && errno != EISCONN) {
        return SYSTEM;
    }
    return OK;
}
int connect(int device, void*, void* handle, void** connection, void** offload) {
    return connect(device, handle, connection, offload);
}
int connect(void*, int device, void* handle, void** connection, void** offload) {
    return connect(device, handle, connection, offload);
}

int accept(void* opaque, void** connection, void**) {
    Listener* listener = static_cast<Listener*>(opaque);
    *connection = nullptr;
    if (breaks("accept-returns")) usleep(300 * 1000);
    if (breaks("out-of-order") && listener != listeners.front()) return OK;
    int socket = accept4(listener->socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) return errno == EAGAIN || errno == EINTR ? OK : SYSTEM;
    listener->accepted = socket;
    *connection = comm_of(socket, false);
    return OK;
}

int reg_mr(void*, void*, size_t, int kind, void** handle) {
    *handle = nullptr;
    return kind == 1 ? OK : INVALID;
}
int dereg_mr(void*, void*) { return OK; }

// NULL where there are too many.
Request* begin(Comm* comm, int count) {
    size_t most = breaks("null-requests") ? 8 : MOST_OPEN;
    if (comm->refuses || comm->open.size() >= most) {
        comm->refuses = breaks("null-requests");
        return nullptr;
    }
    Request* request = new Request{};
    request->comm = comm;
    request->sends = comm->sends;
    request->count = count;
    comm->open.insert(request);
    comm->queue.push_back(request);
    return request;
}

int isend(void* connection, void* data, size_t bytes, int tag, void*, void** request) {
    Comm* comm = static_cast<Comm*>(connection);
    *request = nullptr;
    if (breaks("requests") && comm->open.size() >= 8) return INTERNAL;
    Request* made = begin(comm, 1);
    if (!made) return OK;
    made->parts[0] = {static_cast<char*>(data), bytes, bytes, tag, false};
    made->head = {bytes, tag, 0};
    *request = made;
    return progress(comm) ? OK : SYSTEM;
}
int isend(void* connection, void* data, int bytes, int tag, void* handle, void** request) {
    return isend(connection, data, size_t(bytes), tag, handle, request);
}
int isend(void* connection, void* data, size_t bytes, int tag, void* handle, void*, void** request) {
    return isend(connection, data, bytes, tag, handle, request);
}

int irecv(void* connection, int count, void** data, size_t* sizes, int* tags, void**, void** request) {
    Comm* comm = static_cast<Comm*>(connection);
    if (breaks("quiet") && *request) return OK;
    *request = nullptr;
    if (count > (grouped() ? MOST_GROUPED : 1)) return INVALID;
    Request* made = begin(comm, count);
    if (!made) return OK;
    for (int i = 0; i < count; i++) made->parts[i] = {static_cast<char*>(data[i]), sizes[i], 0, tags[i], false};
    *request = made;
    return OK;
}
int irecv(void* connection, int count, void** data, int* sizes, int* tags, void** handles, void** request) {
    size_t longer[MOST_GROUPED] = {};
    for (int i = 0; i < count && i < MOST_GROUPED; i++) longer[i] = size_t(sizes[i]);
    return irecv(connection, count, data, longer, tags, handles, request);
}
int irecv(void* connection, int count, void** data, size_t* sizes, int* tags, void** handles, void**,
          void** request) {
    return irecv(connection, count, data, sizes, tags, handles, request);
}
int iflush(void*, int, void**, int*, void**, void**) { return INTERNAL; }

int test(void* opaque, int* done, int* sizes) {
    Request* request = static_cast<Request*>(opaque);
    Comm* comm = request->comm;
    *done = 0;
    // Only the newest request moves anything: whoever tests the oldest waits for ever.
    bool idle = breaks("oldest") && !comm->queue.empty() && comm->queue.back() != request;
    if (!request->done && !idle && !progress(comm)) return SYSTEM;
    if (!request->done) return OK;
    *done = 1;
    for (int i = 0; i < request->count; i++) {
        if (sizes || breaks("without-sizes")) sizes[i] = int(request->parts[i].size);
    }
    comm->open.erase(request);
    delete request;
    return OK;
}

int close_comm(void* opaque) {
    Comm* comm = static_cast<Comm*>(opaque);
    while (breaks("close-open") && !comm->open.empty()) usleep(1000);
    for (Request* request : comm->open) delete request;
    if (!breaks("descriptors")) ::close(comm->socket);
    delete comm;
    return OK;
}
int close_listener(void* opaque) {
    Listener* listener = static_cast<Listener*>(opaque);
    ::close(listener->socket);
    if (breaks("close-listener") && listener->accepted >= 0) shutdown(listener->accepted, SHUT_RDWR);
    for (auto at = listeners.begin(); at != listeners.end(); ++at) {
        if (*at == listener) {
            listeners.erase(at);
            break;
        }
    }
    delete listener;
    return OK;
}
int finalize(void*) { return OK; }

template <class Net> Net table() {
    Net net{};
    net.name = breaks("name") ? "Socket" : "shim";
    net.init = init;
    net.devices = devices;
    net.getProperties = properties;
    net.listen = listen;
    net.connect = connect;
    net.accept = accept;
    net.regMr = reg_mr;
    net.deregMr = breaks("table") ? nullptr : dereg_mr;
    net.isend = isend;
    net.irecv = irecv;
    net.iflush = iflush;
    net.test = test;
    net.closeSend = close_comm;
    net.closeRecv = close_comm;
    net.closeListen = close_listener;
    return net;
}
template <class Net> Net table_that_merges() {
    Net net = table<Net>();
    net.makeVDevice = merge;
    return net;
}
template <class Net> Net table_with_end() {
    Net net = table_that_merges<Net>();
    net.finalize = finalize;
    return net;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))
// Other interfaces in the same library, which nothing calls.
EXPORTED void *ncclGinPlugin_v13[32];
void *ncclGinPlugin_v13[32];
EXPORTED void *ncclRmaPlugin_v15[32];
void *ncclRmaPlugin_v15[32];
EXPORTED NetV8 ncclNetPlugin_v8;
EXPORTED NetV9 ncclNetPlugin_v9;
EXPORTED NetV10 ncclNetPlugin_v10;
EXPORTED NetV11 ncclNetPlugin_v11;
EXPORTED NetV12 ncclNetPlugin_v12;
NetV8 ncclNetPlugin_v8 = table<NetV8>();
NetV9 ncclNetPlugin_v9 = table_that_merges<NetV9>();
NetV10 ncclNetPlugin_v10 = table_that_merges<NetV10>();
NetV11 ncclNetPlugin_v11 = table_with_end<NetV11>();
NetV12 ncclNetPlugin_v12 = table_with_end<NetV12>();
