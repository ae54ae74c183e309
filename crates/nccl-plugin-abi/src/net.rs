//! ncclNetPlugin_v8 to v12: the tables by which NCCL 2.20 to 2.30 reach a network, and their properties.
//! Not what the functions mean (docs/plugin.md).
//!
//! From src/include/plugin/net/net_v8.h to net_v12.h of NCCL 2.30.7 (5067397c). Sizes and offsets were
//! printed by a C program from these headers; the tests hold this file against them.

mod calls;
mod properties;
mod tables;

use std::ffi::c_int;

pub use self::{
    calls::{
        Accept, Close, ConnectV8, ConnectV10, ConnectV11, DeregMr, DeviceHandle, Devices,
        GetDeviceMr, GetProperties, Iflush, InitV8, InitV10, InitV11, IrecvConsumed, IrecvV8,
        IrecvV9, IrecvV10, IsendV8, IsendV9, IsendV10, ListenV8, ListenV11, MakeVirtual, Profiler,
        RegMr, RegMrDmaBuf, SetHints, Test,
    },
    properties::{
        CommConfig, DirectionHints, Hints, PropertiesV8, PropertiesV9, PropertiesV11,
        PropertiesV12, VirtualDevice,
    },
    tables::{NetV8, NetV9, NetV10, NetV11, NetV12},
};

/// Bytes of a handle, which goes from listener to sender by way of NCCL's bootstrap
/// (NCCL_NET_HANDLE_MAXSIZE).
pub const HANDLE_BYTES: usize = 128;
/// Requests that may be open on a connection at once (NCCL_NET_MAX_REQUESTS, since 2.19).
pub const MAX_REQUESTS: usize = 32;
/// Buffers in host memory are taken (NCCL_PTR_HOST).
pub const PTR_HOST: c_int = 1;
/// Buffers in a GPU's memory are taken (NCCL_PTR_CUDA).
pub const PTR_CUDA: c_int = 2;
/// So are dma-bufs (NCCL_PTR_DMABUF).
pub const PTR_DMA_BUF: c_int = 4;
/// The most bytes of one message that NCCL allows a plugin to say, 1 TiB (NCCL_MAX_NET_SIZE_BYTES).
pub const MAX_MESSAGE_BYTES: usize = 1 << 40;
/// The data are moved by the host (NCCL_NET_DEVICE_HOST).
pub const DEVICE_HOST: c_int = 0;
/// Not set (NCCL_NET_ATTR_UNDEF, NCCL_NET_ID_UNDEF, NCCL_NET_TRAFFIC_CLASS_UNDEF).
pub const UNDEFINED: c_int = -1;
/// What irecv finds in its request where its completion may stay untold to the sender
/// (NCCL_NET_OPTIONAL_RECV_COMPLETION).
pub const OPTIONAL_COMPLETION: usize = 1;
/// The symbols by which NCCL finds the tables, newest first, as it tries them.
pub const SYMBOLS: [&str; 5] = [
    "ncclNetPlugin_v12",
    "ncclNetPlugin_v11",
    "ncclNetPlugin_v10",
    "ncclNetPlugin_v9",
    "ncclNetPlugin_v8",
];
