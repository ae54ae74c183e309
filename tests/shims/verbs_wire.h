// The network of the RDMA shim: for each queue pair of any process a ring of frames, in a file that all processes map.
// Not what frames mean to a queue pair (verbs_adapter.cc).
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace verbs {

enum class What : uint32_t { Message, Read, ReadData, Acknowledged, Refused };
constexpr uint32_t First = 1, Last = 2, HasNumber = 4, IsWrite = 8;  // flags of a frame

// In front of the bytes of a frame.
struct Frame {
    What what;
    uint32_t flags, source, bytes;
    uint32_t number, key, sequence, code;
    uint64_t message, address, length;
};

constexpr uint32_t ring_bytes = 128 << 10, frame_bytes = 32 << 10, places = 512;
constexpr uint32_t first_number = 0x100;  // of queue pairs: 0 and 1 are the subnet's

// A queue pair as others see it.
struct Place {
    std::atomic<uint32_t> used;       // 0: free
    std::atomic<uint32_t> reachable;  // its port is up, and it is ready to receive
    int32_t process;
    uint8_t gid[16];
    uint16_t lid;
    pthread_mutex_t mutex;  // of those that write into the ring
    std::atomic<uint64_t> head, tail;
    unsigned char ring[ring_bytes];
};

// The folder that stands for /sys, and holds the network's file.
std::string folder();

// Maps the network; null where there is no folder.
Place* wire();

// Takes a free place: its index, or -1.
int take_place();
void give_place(int index);

// Appends a frame with its bytes to the ring of queue pair `number`. 0; 1: the ring is full; 2: there is no such queue pair, or its
// process is gone.
int append(uint32_t number, const Frame& frame, const void* bytes);

// The oldest frame of our own ring, with its bytes; false: there is none.
bool front(int index, Frame* frame, unsigned char* bytes);
void pop(int index);

}  // namespace verbs
