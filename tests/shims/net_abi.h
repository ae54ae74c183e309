// The tables of a net plugin, v8 to v12, as NCCL 2.30.7 lays them out (src/include/plugin/net/net_v8.h to
// net_v12.h), written down a second time: nccl_plugin_abi is held against NCCL's own by its tests.
#pragma once
#include <cstddef>
#include <cstdint>

enum Status { OK = 0, SYSTEM = 2, INTERNAL = 3, INVALID = 4 };
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
using Close = int (*)(void*);

// One struct for the properties of all versions from v9 on would have holes; these are theirs.
struct PropertiesV8 {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, regIsGlobal, speed, port;
    float latency;
    int maxComms, maxRecvs, deviceType, deviceVersion;
};
template <int N> struct Parts { int count, devices[N]; };
template <int N> struct PropertiesV9 {
    char *name, *pciPath;
    uint64_t guid;
    int ptrSupport, regIsGlobal, forceFlush, speed, port;
    float latency;
    int maxComms, maxRecvs, deviceType, deviceVersion;
    Parts<N> parts;
    size_t maxP2pBytes, maxCollBytes;
};
struct PropertiesV11 : PropertiesV9<4> { int maxMultiRequest; };
struct PropertiesV12 : PropertiesV9<8> { int maxMultiRequest; int16_t rail, plane; };

// What all tables have in the same places: Init, Listen, … are each version's own kind of function.
template <class Init, class Properties, class Listen, class Connect, class Isend, class Irecv> struct Table {
    const char* name;
    Init init;
    int (*devices)(int*);
    int (*getProperties)(int, Properties*);
    Listen listen;
    Connect connect;
    int (*accept)(void*, void**, void**);
    int (*regMr)(void*, void*, size_t, int, void**);
    int (*regMrDmaBuf)(void*, void*, size_t, int, uint64_t, int, void**);
    int (*deregMr)(void*, void*);
    Isend isend;
    Irecv irecv;
    int (*iflush)(void*, int, void**, int*, void**, void**);
    int (*test)(void*, int*, int*);
    Close closeSend, closeRecv, closeListen;
    int (*getDeviceMr)(void*, void*, void**);
    int (*irecvConsumed)(void*, int, void*);
};

using InitV8 = int (*)(Logger);
using InitV10 = int (*)(Logger, void*);
using InitV11 = int (*)(void**, uint64_t, void*, Logger, void*);
using ListenV8 = int (*)(int, void*, void**);
using ListenV11 = int (*)(void*, int, void*, void**);
using ConnectV8 = int (*)(int, void*, void**, void**);
using ConnectV10 = int (*)(int, void*, void*, void**, void**);
using ConnectV11 = int (*)(void*, int, void*, void**, void**);
using IsendV8 = int (*)(void*, void*, int, int, void*, void**);
using IsendV9 = int (*)(void*, void*, size_t, int, void*, void**);
using IsendV10 = int (*)(void*, void*, size_t, int, void*, void*, void**);
using IrecvV8 = int (*)(void*, int, void**, int*, int*, void**, void**);
using IrecvV9 = int (*)(void*, int, void**, size_t*, int*, void**, void**);
using IrecvV10 = int (*)(void*, int, void**, size_t*, int*, void**, void**, void**);

struct NetV8 : Table<InitV8, PropertiesV8, ListenV8, ConnectV8, IsendV8, IrecvV8> {};
template <int N> using Merge = int (*)(int*, Parts<N>*);
struct NetV9 : Table<InitV8, PropertiesV9<4>, ListenV8, ConnectV8, IsendV9, IrecvV9> { Merge<4> makeVDevice; };
struct NetV10 : Table<InitV10, PropertiesV9<4>, ListenV8, ConnectV10, IsendV10, IrecvV10> { Merge<4> makeVDevice; };
struct NetV11 : Table<InitV11, PropertiesV11, ListenV11, ConnectV11, IsendV10, IrecvV10> {
    Merge<4> makeVDevice;
    Close finalize;
    void* setNetAttr;
};
struct NetV12 : Table<InitV11, PropertiesV12, ListenV11, ConnectV11, IsendV10, IrecvV10> {
    Merge<8> makeVDevice;
    Close finalize;
    void* setNetAttr;
};
