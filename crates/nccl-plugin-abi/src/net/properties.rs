//! What a device of a network is, and NCCL's hints about what it will send.
//! Not the functions.

use std::ffi::{c_char, c_int};

/// Devices that are used as one: `N` is 4 up to v11, 8 from v12 on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct VirtualDevice<const N: usize> {
    /// How many.
    pub count: c_int,
    /// Which.
    pub devices: [c_int; N],
}

/// ncclNetProperties_v8_t.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV8 {
    /// Its name, for logs.
    pub name: *mut c_char,
    /// Where it is in /sys; null where it is nowhere.
    pub pci_path: *mut c_char,
    /// The same for all ports of a chip.
    pub guid: u64,
    /// `PTR_*` bits.
    pub ptr_support: c_int,
    /// Whether a registration serves all connections.
    pub reg_is_global: c_int,
    /// Mb/s.
    pub speed: c_int,
    /// Number of the port.
    pub port: c_int,
    /// Microseconds.
    pub latency: f32,
    /// Connections at most.
    pub max_comms: c_int,
    /// Receives of one request at most.
    pub max_recvs: c_int,
    /// [`super::DEVICE_HOST`], or a kind of offload.
    pub device_type: c_int,
    /// Version of the offload.
    pub device_version: c_int,
}

/// ncclNetProperties_v9_t, and v10: one field in the middle of [`PropertiesV8`], three behind.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV9 {
    /// As in [`PropertiesV8`].
    pub name: *mut c_char,
    /// As there.
    pub pci_path: *mut c_char,
    /// As there.
    pub guid: u64,
    /// As there.
    pub ptr_support: c_int,
    /// As there.
    pub reg_is_global: c_int,
    /// Whether receives are to be flushed, whatever the GPU is.
    pub force_flush: c_int,
    /// As there.
    pub speed: c_int,
    /// As there.
    pub port: c_int,
    /// As there.
    pub latency: f32,
    /// As there.
    pub max_comms: c_int,
    /// As there.
    pub max_recvs: c_int,
    /// As there.
    pub device_type: c_int,
    /// As there.
    pub device_version: c_int,
    /// What it consists of.
    pub virtual_device: VirtualDevice<4>,
    /// Bytes of a message between two ranks at most.
    pub max_p2p_bytes: usize,
    /// Bytes of a message of a collective at most.
    pub max_coll_bytes: usize,
}

/// ncclNetProperties_v11_t: one field behind those of v9.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV11 {
    /// All of v9; nothing is between them and what follows.
    pub v9: PropertiesV9,
    /// Requests that one may consist of at most.
    pub max_multi_request: c_int,
}

/// ncclNetProperties_v12_t: room for more devices in one, and where it is.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV12 {
    /// As in [`PropertiesV9`], up to the next word.
    pub name: *mut c_char,
    /// As there.
    pub pci_path: *mut c_char,
    /// As there.
    pub guid: u64,
    /// As there.
    pub ptr_support: c_int,
    /// As there.
    pub reg_is_global: c_int,
    /// As there.
    pub force_flush: c_int,
    /// As there.
    pub speed: c_int,
    /// As there.
    pub port: c_int,
    /// As there.
    pub latency: f32,
    /// As there.
    pub max_comms: c_int,
    /// As there.
    pub max_recvs: c_int,
    /// As there.
    pub device_type: c_int,
    /// As there.
    pub device_version: c_int,
    /// What it consists of.
    pub virtual_device: VirtualDevice<8>,
    /// Bytes of a message between two ranks at most.
    pub max_p2p_bytes: usize,
    /// Bytes of a message of a collective at most.
    pub max_coll_bytes: usize,
    /// Requests that one may consist of at most.
    pub max_multi_request: c_int,
    /// Rail, or [`super::UNDEFINED`].
    pub rail: i16,
    /// Plane, or [`super::UNDEFINED`]; different planes are never connected.
    pub plane: i16,
}

/// ncclNetCommConfig_v10_t to v12.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CommConfig {
    /// Traffic class, or [`super::UNDEFINED`].
    pub traffic_class: c_int,
}

/// ncclNetCommAttr_v11_t and v12: what is known of one direction, or [`super::UNDEFINED`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DirectionHints {
    /// Peers at once, at most.
    pub most_peers: i32,
    /// Peers at once, at least.
    pub least_peers: i32,
    /// Flows to a peer, at most.
    pub most_flows: i32,
    /// Flows to a peer, at least.
    pub least_flows: i32,
}

/// ncclNetAttr_v11_t and v12: NCCL's hints about what it will send.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Hints {
    /// Of sends.
    pub send: DirectionHints,
    /// Of receives.
    pub recv: DirectionHints,
    /// Bits of collectives.
    pub op: u32,
    /// Bits of algorithms.
    pub algo: u32,
    /// Bits of protocols.
    pub proto: u32,
}
