// The network of the RDMA shim: the file, its places, and the rings.
// Not what frames mean to a queue pair (verbs_adapter.cc).
#include "verbs_wire.h"

#include "setting.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace verbs {

namespace {

constexpr size_t whole = sizeof(Place) * places;

bool is_alive(int process) { return process == getpid() || kill(process, 0) == 0 || errno == EPERM; }

// The file, whose first user prepares it.
Place* map() {
    std::string path = folder() + "/wire";
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return nullptr;
    flock(file, LOCK_EX);
    bool is_new = lseek(file, 0, SEEK_END) == 0;
    if (is_new && ftruncate(file, whole) != 0) return nullptr;
    void* at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return nullptr;
    auto* all = static_cast<Place*>(at);
    if (is_new) {
        pthread_mutexattr_t shared;
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
        for (uint32_t i = 0; i < places; i++) pthread_mutex_init(&all[i].mutex, &shared);
    }
    flock(file, LOCK_UN);  // the mapping would keep it locked
    close(file);
    return all;
}

// A process may be killed while it holds the mutex; what it had not finished is not counted yet.
void lock(Place& place) {
    if (pthread_mutex_lock(&place.mutex) == EOWNERDEAD) pthread_mutex_consistent(&place.mutex);
}

void copy_in(Place& place, uint64_t at, const void* from, size_t bytes) {
    size_t start = at % ring_bytes, until_end = ring_bytes - start;
    size_t first = bytes < until_end ? bytes : until_end;
    std::memcpy(place.ring + start, from, first);
    std::memcpy(place.ring, static_cast<const char*>(from) + first, bytes - first);
}

void copy_out(const Place& place, uint64_t at, void* to, size_t bytes) {
    size_t start = at % ring_bytes, until_end = ring_bytes - start;
    size_t first = bytes < until_end ? bytes : until_end;
    std::memcpy(to, place.ring + start, first);
    std::memcpy(static_cast<char*>(to) + first, place.ring, bytes - first);
}

}  // namespace

std::string folder() { return shim::text("BUSBW_SHIM_RDMA"); }

Place* wire() {
    static Place* all = folder().empty() ? nullptr : map();
    return all;
}

int take_place() {
    for (uint32_t i = 0; i < places; i++) {
        Place& place = wire()[i];
        lock(place);
        bool is_free = !place.used || !is_alive(place.process);
        if (is_free) {
            place.process = getpid();
            place.head = place.tail = 0;
            std::memset(place.gid, 0, sizeof place.gid);
            place.lid = 0;
            place.reachable = 0;
            place.used = 1;
        }
        pthread_mutex_unlock(&place.mutex);
        if (is_free) return static_cast<int>(i);
    }
    return -1;
}

void give_place(int index) {
    wire()[index].reachable = 0;
    wire()[index].used = 0;
}

int append(uint32_t number, const Frame& frame, const void* bytes) {
    if (number < first_number || number - first_number >= places) return 2;
    Place& place = wire()[number - first_number];
    if (!place.used || !is_alive(place.process)) return 2;
    lock(place);
    uint64_t tail = place.tail, needed = sizeof frame + frame.bytes;
    bool fits = tail - place.head + needed <= ring_bytes;
    if (fits) {
        copy_in(place, tail, &frame, sizeof frame);
        copy_in(place, tail + sizeof frame, bytes, frame.bytes);
        place.tail = tail + needed;
    }
    pthread_mutex_unlock(&place.mutex);
    return fits ? 0 : 1;
}

bool front(int index, Frame* frame, unsigned char* bytes) {
    Place& place = wire()[index];
    uint64_t head = place.head;
    if (head == place.tail) return false;
    copy_out(place, head, frame, sizeof *frame);
    copy_out(place, head + sizeof *frame, bytes, frame->bytes);
    return true;
}

void pop(int index) {
    Place& place = wire()[index];
    Frame frame;
    copy_out(place, place.head, &frame, sizeof frame);
    place.head = place.head + sizeof frame + frame.bytes;
}

}  // namespace verbs
