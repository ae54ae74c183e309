// Structures and constants of infiniband/verbs.h (rdma-core 44), as far as the shim has them.
// Not what is done with them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace verbs {

struct Device;
struct Context;
struct CompletionQueue;
struct QueuePair;

enum Opcode : int { Write = 0, WriteNumber = 1, Send = 2, SendNumber = 3, Read = 4 };
enum Status : int {
    Success = 0,
    LocalLength = 1,
    LocalProtection = 4,
    Flushed = 5,
    RemoteInvalid = 9,
    RemoteAccess = 10,
    RetriesExceeded = 12,
};
enum State : int { Reset = 0, Init = 1, ReadyToReceive = 2, ReadyToSend = 3, Failed = 6 };
enum Kind : int { Reliable = 2, Unreliable = 3, Datagrams = 4 };
enum Access : int { LocalWrite = 1, RemoteWrite = 2, RemoteRead = 4, Relaxed = 1 << 20 };
enum SendFlags : unsigned { Signaled = 2, Inline = 8 };
enum Event : int { QueuePairFatal = 1, DeviceFatal = 8, PortActive = 9, PortError = 10 };

struct Piece {
    uint64_t address;
    uint32_t length, key;
};

struct SendRequest {
    uint64_t id;
    SendRequest* next;
    Piece* pieces;
    int piece_count, opcode;
    unsigned flags;
    uint32_t number;  // network byte order
    union {
        struct {
            uint64_t address;
            uint32_t key;
        } remote;
        struct {
            struct AddressHandle* handle;
            uint32_t pair, key;
        } datagram;
        uint64_t room[4];
    };
    uint64_t behind[7];
};

struct ReceiveRequest {
    uint64_t id;
    ReceiveRequest* next;
    Piece* pieces;
    int piece_count;
};

struct Completion {
    uint64_t id;
    int status, opcode;
    uint32_t vendor, bytes, number, pair, source;
    unsigned flags;
    uint16_t pkey, slid;
    uint8_t level, path;
};

struct Ops {
    const void* before_poll[11];
    int (*poll)(CompletionQueue*, int, Completion*);
    const void* before_send[13];
    int (*post_send)(QueuePair*, SendRequest*, SendRequest**);
    int (*post_receive)(QueuePair*, ReceiveRequest*, ReceiveRequest**);
    const void* behind[5];
};

struct Capacity {
    uint32_t sends, receives, send_pieces, receive_pieces, inline_bytes;
};

struct NewQueuePair {
    void* user;
    CompletionQueue *send, *receive;
    void* shared;
    Capacity capacity;
    int kind, all_signaled;
};

struct AddressAttributes {
    uint8_t gid[16];
    uint32_t flow;
    uint8_t gid_index, hops, traffic_class, pad;
    uint16_t lid;
    uint8_t level, bits, rate, is_global, port, end;
};

struct QueuePairAttributes {
    int state, current, mtu, migration;
    uint32_t qkey, receive_sequence, send_sequence, other;
    unsigned access;
    Capacity capacity;
    alignas(8) AddressAttributes address;
    alignas(8) AddressAttributes alternative;
    uint16_t pkey, alternative_pkey;
    uint8_t draining[2], reads, answered_reads, timer, port, timeout, retries, number_retries, rest[2];
};

// Bits of the mask of ibv_modify_qp.
enum Mask : int {
    HasState = 1,
    HasAccess = 1 << 3,
    HasPkey = 1 << 4,
    HasPort = 1 << 5,
    HasQkey = 1 << 6,
    HasAddress = 1 << 7,
    HasMtu = 1 << 8,
    HasTimeout = 1 << 9,
    HasRetries = 1 << 10,
    HasNumberRetries = 1 << 11,
    HasReceiveSequence = 1 << 12,
    HasReads = 1 << 13,
    HasTimer = 1 << 15,
    HasSendSequence = 1 << 16,
    HasAnsweredReads = 1 << 17,
    HasOther = 1 << 20,
};

struct PortAttributes {
    int state, most_mtu, mtu, gids;
    uint32_t capabilities, largest_message, counters[2];
    uint16_t pkeys, lid, manager;
    uint8_t bytes[6], speed, physical, link_layer, flags;
    uint16_t capabilities2;
};

struct DeviceAttributes {
    char firmware[64];
    uint64_t guids[2], sizes[2];
    uint32_t ids[3];
    int pairs, requests;
    unsigned flags;
    int pieces[2], queues, completions, regions, domains, reads, more[2], open_reads;
};

struct AsyncEvent {
    union {
        void* element;
        int port;
    };
    int kind;
};

static_assert(sizeof(Ops) == 256 && sizeof(SendRequest) == 128 && sizeof(Completion) == 48, "layout");
static_assert(offsetof(QueuePairAttributes, address) == 56 && offsetof(QueuePairAttributes, pkey) == 120, "layout");
static_assert(offsetof(DeviceAttributes, requests) == 112 && offsetof(DeviceAttributes, open_reads) == 156, "layout");
static_assert(offsetof(PortAttributes, lid) == 34 && offsetof(PortAttributes, link_layer) == 46, "layout");

}  // namespace verbs
