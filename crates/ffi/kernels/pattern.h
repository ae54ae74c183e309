// The parameters of a launch of a pattern kernel, and what it finds.
// Not the pattern, and nothing that only a device has. docs/kernels.md explains every field.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// The numbers of busbw_core: DataType::ALL, ReduceOp::ALL, and the order of Content's variants.
enum : u32 { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, F8E4M3,
             F8E5M2 };
enum : u32 { SUM, PROD, MAX, MIN, AVG, MULSUM };
enum : u32 { COPIED, CONTRIBUTION, REDUCED, POISON };

// By value, 48 bytes, no padding: busbw_ffi::kernels::Parameters.
struct Parameters {
    u64 seed;
    u64 first;      // index in the pattern of the first element of the memory
    u64 base;       // verify: what the index in the memory is reported from
    u32 datatype;
    u32 content;
    u32 op;         // only read for CONTRIBUTION and REDUCED, as is `ranks`
    u32 rank;       // that contributes, or whose data is copied
    u32 ranks;      // 1 ..= 2^20
    u32 tolerance;  // verify: numbers of the type between got and want that are allowed; 0: no bit
};

// In device memory, 40 bytes: busbw_ffi::kernels::WrongElements. The host writes {0, all ones, 0, 0, 0};
// any number of launches on one stream may then add to it.
struct WrongElements {
    u64 wrong;
    u64 first_index;
    u64 got;
    u64 want;
    u32 lock;
    u32 padding;
};

static_assert(sizeof(Parameters) == 48 && sizeof(WrongElements) == 40, "as in busbw_ffi::kernels");
