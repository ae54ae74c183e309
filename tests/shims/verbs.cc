// libibverbs.so.1: the names of libibverbs that busbw uses, and their checks of arguments. Its devices are those of the folder
// BUSBW_SHIM_RDMA, whose sys/class/infiniband a program takes for /sys (sysfs.cc).
// Not the work behind them: verbs_adapter.cc.
#include "verbs_adapter.h"

#include "setting.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

using namespace verbs;

namespace {

int poll_queue(CompletionQueue* queue, int count, Completion* into) {
    if (queue->ready.load(std::memory_order_acquire) == 0) return 0;
    std::lock_guard<std::mutex> hold(queue->context->adapter->mutex);
    int taken = 0;
    for (; taken < count && !queue->entries.empty(); taken++) {
        const Taken& entry = queue->entries.front();
        into[taken] = entry.completion;
        auto& pairs = queue->context->adapter->pairs;
        if (std::find(pairs.begin(), pairs.end(), entry.pair) != pairs.end()) {
            entry.pair->reclaimed = std::max(entry.pair->reclaimed, entry.reclaims);
        }
        queue->entries.pop_front();
    }
    queue->ready.store(queue->entries.size(), std::memory_order_release);
    return taken;
}

bool has_verb(const QueuePair& pair, int opcode) {
    if (pair.kind == Reliable) return opcode >= Write && opcode <= Read;
    if (pair.kind == Unreliable) return opcode >= Write && opcode < Read;
    return opcode == Send || opcode == SendNumber;
}

int post_one(QueuePair& pair, const SendRequest& request) {
    Adapter& adapter = *pair.context->adapter;
    if (pair.state != ReadyToSend && pair.state != Failed) return EINVAL;
    if (!has_verb(pair, request.opcode)) return EINVAL;
    if (request.piece_count < 0 || static_cast<uint32_t>(request.piece_count) > pair.capacity.send_pieces) return EINVAL;
    // As on an adapter: a request has its place until a completion of it, or of a later one, was polled.
    if (pair.posted - pair.reclaimed >= pair.capacity.sends) return ENOMEM;
    Work work{};
    work.request = request;
    work.pieces.assign(request.pieces, request.pieces + request.piece_count);
    for (const Piece& piece : work.pieces) work.length += piece.length;
    if (request.flags & Inline) {
        if (request.opcode == Read || work.length > pair.capacity.inline_bytes) return EINVAL;
        for (const Piece& piece : work.pieces) {
            if (adapter.is_of_gpu(piece.address, piece.length)) {
                std::fprintf(stderr, "busbw shim: inline data in a GPU's memory: a processor cannot copy it\n");
                return EFAULT;
            }
            auto* from = reinterpret_cast<unsigned char*>(piece.address);
            work.copied.insert(work.copied.end(), from, from + piece.length);
        }
    }
    if (pair.kind == Datagrams && work.length > 128u << pair.with.mtu) return EINVAL;
    work.message = ++pair.posted;
    pair.sends.push_back(std::move(work));
    if (pair.state == Failed) adapter.fail(pair, Flushed);
    return 0;
}

int post_send(QueuePair* pair, SendRequest* request, SendRequest** bad) {
    std::lock_guard<std::mutex> hold(pair->context->adapter->mutex);
    for (; request; request = request->next) {
        if (int no = post_one(*pair, *request)) {
            *bad = request;
            return no;
        }
    }
    return 0;
}

int post_receive(QueuePair* pair, ReceiveRequest* request, ReceiveRequest** bad) {
    std::lock_guard<std::mutex> hold(pair->context->adapter->mutex);
    for (; request; request = request->next) {
        *bad = request;
        if (pair->state == Reset) return EINVAL;
        if (pair->receives.size() >= pair->capacity.receives) return ENOMEM;
        if (static_cast<uint32_t>(request->piece_count) > pair->capacity.receive_pieces) return EINVAL;
        pair->receives.push_back({request->id, {request->pieces, request->pieces + request->piece_count}});
        if (pair->state == Failed) pair->context->adapter->fail(*pair, Flushed);
    }
    *bad = nullptr;
    return 0;
}

// What each step of a queue pair needs (ibv_modify_qp(3)).
int needed(int kind, int from, int to) {
    bool connected = kind != Datagrams, reliable = kind == Reliable;
    if (from == Reset && to == Init) return HasState | HasPkey | HasPort | (connected ? HasAccess : HasQkey);
    if (from == Init && to == ReadyToReceive) {
        return HasState | (connected ? HasAddress | HasMtu | HasOther | HasReceiveSequence : 0) |
               (reliable ? HasAnsweredReads | HasTimer : 0);
    }
    if (from == ReadyToReceive && to == ReadyToSend) {
        return HasState | HasSendSequence | (reliable ? HasTimeout | HasRetries | HasNumberRetries | HasReads : 0);
    }
    return to == Failed || to == Reset ? HasState : -1;
}

Region* register_memory(Domain* domain, void* address, size_t length, uint64_t first, int access, bool of_gpu) {
    constexpr int known = LocalWrite | RemoteWrite | RemoteRead | Relaxed;
    if (!length || (access & ~known) || ((access & RemoteWrite) && !(access & LocalWrite))) {
        errno = EINVAL;
        return nullptr;
    }
    Adapter& adapter = *domain->context->adapter;
    std::lock_guard<std::mutex> hold(adapter.mutex);
    auto* region = new Region{};
    region->context = domain->context;
    region->domain = domain;
    region->address = address;
    region->length = length;
    region->local_key = region->remote_key = adapter.next_key++ << 8 | 0x5a;
    region->first = first;
    region->access = access;
    region->of_gpu = of_gpu;
    region->gpu_context = of_gpu ? current_gpu_context() : nullptr;
    adapter.regions[region->local_key] = region;
    return region;
}

Region* register_by_address(Domain* domain, void* address, size_t length, uint64_t first, int access) {
    bool of_gpu = driver_says_gpu(reinterpret_cast<uint64_t>(address));
    // Without nvidia_peermem get_user_pages finds no pages there.
    if (of_gpu && !shim::number("BUSBW_SHIM_PEERMEM", 0)) {
        errno = EFAULT;
        return nullptr;
    }
    return register_memory(domain, address, length, first, access, of_gpu);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Device** ibv_get_device_list(int* count) {
    std::vector<std::string> names;
    if (DIR* all = opendir((folder() + "/sys/class/infiniband").c_str())) {
        while (dirent* entry = readdir(all)) {
            if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
        }
        closedir(all);
    }
    std::sort(names.begin(), names.end());
    auto** list = new Device*[names.size() + 1]();
    for (size_t i = 0; i < names.size(); i++) list[i] = new Device{names[i]};
    if (count) *count = static_cast<int>(names.size());
    return list;
}

void ibv_free_device_list(Device** list) { delete[] list; }  // the devices stay: contexts name them

const char* ibv_get_device_name(Device* device) { return device->name.c_str(); }

Context* ibv_open_device(Device* device) {
    if (!wire()) {
        errno = ENODEV;
        return nullptr;
    }
    auto* context = new Context{};
    context->device = device;
    context->ops.poll = poll_queue;
    context->ops.post_send = post_send;
    context->ops.post_receive = post_receive;
    context->command_file = -1;
    context->event_file = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    context->adapter = new Adapter(context);
    return context;
}

// Its thread goes on, with nothing to do.
int ibv_close_device(Context* context) {
    std::lock_guard<std::mutex> hold(context->adapter->mutex);
    return context->adapter->pairs.empty() && context->adapter->regions.empty() ? 0 : EBUSY;
}

int ibv_query_device(Context*, DeviceAttributes* attributes) {
    *attributes = {};
    attributes->requests = static_cast<int>(shim::number("BUSBW_SHIM_RDMA_DEPTH", 8192));
    attributes->completions = 1 << 20;
    attributes->reads = attributes->open_reads = 16;
    return 0;
}

int ibv_query_port(Context* context, uint8_t port, PortAttributes* attributes) {
    std::string state = of_port(context->device->name, port, "state");
    if (state.empty()) return EINVAL;
    *attributes = {};
    attributes->state = std::atoi(state.c_str());
    attributes->mtu = attributes->most_mtu = 5;
    attributes->largest_message = 1u << 31;
    attributes->lid = static_cast<uint16_t>(std::strtoul(of_port(context->device->name, port, "lid").c_str(), nullptr, 0));
    attributes->physical = 5;
    attributes->link_layer = of_port(context->device->name, port, "link_layer") == "Ethernet" ? 2 : 1;
    return 0;
}

int ibv_query_gid(Context* context, uint8_t port, int index, uint8_t* gid) {
    std::string text = of_port(context->device->name, port, "gids/" + std::to_string(index));
    return inet_pton(AF_INET6, text.c_str(), gid) == 1 ? 0 : -1;
}

Domain* ibv_alloc_pd(Context* context) { return new Domain{context}; }

int ibv_dealloc_pd(Domain* domain) {
    std::lock_guard<std::mutex> hold(domain->context->adapter->mutex);
    return domain->context->adapter->regions.empty() ? 0 : EBUSY;
}

Region* ibv_reg_mr(Domain* domain, void* address, size_t length, int access) {
    if (access & Relaxed) {
        errno = EINVAL;  // a flag for kernels that may not know it goes through ibv_reg_mr_iova2
        return nullptr;
    }
    return register_by_address(domain, address, length, reinterpret_cast<uint64_t>(address), access);
}

Region* ibv_reg_mr_iova2(Domain* domain, void* address, size_t length, uint64_t first, unsigned access) {
    return register_by_address(domain, address, length, first, static_cast<int>(access));
}

Region* ibv_reg_dmabuf_mr(Domain* domain, uint64_t offset, size_t length, uint64_t first, int file, int access) {
    if (shim::number("BUSBW_SHIM_NO_DMA_BUF_MR", 0)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    off_t size = lseek(file, 0, SEEK_END);  // as a dma-buf answers, too
    if (size < 0 || offset + length > static_cast<uint64_t>(size)) {
        errno = size < 0 ? EBADF : EINVAL;
        return nullptr;
    }
    return register_memory(domain, nullptr, length, first, access, true);
}

int ibv_dereg_mr(Region* region) {
    Adapter& adapter = *region->context->adapter;
    std::lock_guard<std::mutex> hold(adapter.mutex);
    adapter.regions.erase(region->local_key);
    delete region;
    return 0;
}

CompletionQueue* ibv_create_cq(Context* context, int entries, void*, void*, int) {
    if (entries < 1) {
        errno = EINVAL;
        return nullptr;
    }
    return new CompletionQueue{context, static_cast<size_t>(entries), {}, {}};
}

int ibv_destroy_cq(CompletionQueue* queue) {
    std::lock_guard<std::mutex> hold(queue->context->adapter->mutex);
    for (QueuePair* pair : queue->context->adapter->pairs) {
        if (pair->send == queue || pair->receive == queue) return EBUSY;
    }
    delete queue;
    return 0;
}

QueuePair* ibv_create_qp(Domain* domain, NewQueuePair* wanted) {
    Adapter& adapter = *domain->context->adapter;
    std::lock_guard<std::mutex> hold(adapter.mutex);
    constexpr uint32_t most_inline = 512;
    Capacity& capacity = wanted->capacity;
    int place = -1;
    if (capacity.sends <= shim::number("BUSBW_SHIM_RDMA_DEPTH", 8192) && capacity.inline_bytes <= most_inline) {
        place = take_place();
        if (place < 0) errno = ENOMEM;
    } else {
        errno = EINVAL;
    }
    if (place < 0) return nullptr;
    auto* pair = new QueuePair{};
    pair->context = domain->context;
    pair->user = wanted->user;
    pair->domain = domain;
    pair->send = wanted->send;
    pair->receive = wanted->receive;
    pair->number = first_number + static_cast<uint32_t>(place);
    pair->kind = wanted->kind;
    pair->place = place;
    pair->capacity = capacity;
    adapter.pairs.push_back(pair);
    return pair;
}

int ibv_modify_qp(QueuePair* pair, QueuePairAttributes* to, int mask) {
    Adapter& adapter = *pair->context->adapter;
    std::lock_guard<std::mutex> hold(adapter.mutex);
    int bits = needed(pair->kind, pair->state, to->state);
    if (bits < 0 || mask != bits) return EINVAL;
    if (to->state == Failed) {
        adapter.fail(*pair, Flushed);
        return 0;
    }
    QueuePairAttributes& with = pair->with;
    if (mask & HasPort) with.port = to->port;
    if (mask & HasAccess) with.access = to->access;
    if (mask & HasQkey) with.qkey = to->qkey;
    if (mask & HasMtu) with.mtu = to->mtu;
    if (pair->kind == Datagrams) with.mtu = 5;
    if (mask & HasReceiveSequence) with.receive_sequence = to->receive_sequence;
    if (mask & HasSendSequence) with.send_sequence = to->send_sequence;
    if (mask & HasTimeout) with.timeout = to->timeout;
    if (mask & HasRetries) with.retries = to->retries;
    if (mask & HasPort) {
        Place& own = wire()[pair->place];
        own.lid = static_cast<uint16_t>(
            std::strtoul(of_port(pair->context->device->name, to->port, "lid").c_str(), nullptr, 0));
    }
    if (mask & HasAddress) {
        with.other = to->other;
        with.address = to->address;
        // The sender's own address, for those that it is connected to.
        std::string own = of_port(pair->context->device->name, with.port, "gids/" + std::to_string(to->address.gid_index));
        inet_pton(AF_INET6, own.c_str(), wire()[pair->place].gid);
    }
    pair->state = to->state;
    pair->progressed = std::chrono::steady_clock::now();
    return 0;
}

int ibv_destroy_qp(QueuePair* pair) {
    Adapter& adapter = *pair->context->adapter;
    std::lock_guard<std::mutex> hold(adapter.mutex);
    adapter.pairs.erase(std::find(adapter.pairs.begin(), adapter.pairs.end(), pair));
    give_place(pair->place);
    delete pair;
    return 0;
}

AddressHandle* ibv_create_ah(Domain* domain, AddressAttributes* attributes) {
    return new AddressHandle{domain->context, *attributes};
}

int ibv_destroy_ah(AddressHandle* handle) {
    delete handle;
    return 0;
}

int ibv_get_async_event(Context* context, AsyncEvent* event) {
    uint64_t one = 0;
    if (read(context->event_file, &one, sizeof one) < 0) return -1;
    std::lock_guard<std::mutex> hold(context->adapter->mutex);
    *event = context->adapter->events.front();
    context->adapter->events.pop_front();
    return 0;
}

void ibv_ack_async_event(AsyncEvent*) {}

const char* ibv_wc_status_str(int status) {
    switch (status) {
        case Success: return "success";
        case LocalLength: return "local length error";
        case LocalProtection: return "local protection error";
        case Flushed: return "Work Request Flushed Error";
        case RemoteInvalid: return "remote invalid request error";
        case RemoteAccess: return "remote access error";
        case RetriesExceeded: return "transport retry counter exceeded";
        default: return "unknown";
    }
}

}  // extern "C"
#pragma GCC visibility pop
