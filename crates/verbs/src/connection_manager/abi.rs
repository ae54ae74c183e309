//! What librdmacm and this process share: structures and constants of `rdma/rdma_cma.h` (rdma-core 44).
//! Not what is done with them.

use std::ffi::{c_int, c_void};

use crate::abi::Context;

/// The beginning of `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct Channel {
    pub(super) file: c_int,
}

/// The beginning of `struct rdma_cm_id`.
#[repr(C)]
pub(super) struct Identifier {
    /// The device that its address belongs to, opened by librdmacm itself; null before that is known.
    pub(super) device: *mut Context,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub(super) said: *const c_void,
    pub(super) said_bytes: u8,
    pub(super) answered_reads: u8,
    pub(super) open_reads: u8,
    pub(super) flow_control: u8,
    pub(super) retries: u8,
    pub(super) receiver_not_ready_retries: u8,
    pub(super) shared: u8,
    pub(super) number: u32,
}

/// `struct rdma_cm_event`, as far as the parameters of a connection.
#[repr(C)]
pub(super) struct Event {
    pub(super) id: *mut Identifier,
    pub(super) listener: *mut Identifier,
    pub(super) kind: c_int,
    pub(super) status: c_int,
    pub(super) parameters: Parameters,
}

/// `RDMA_PS_TCP`: the ports of reliable connections.
pub(super) const RELIABLE_PORTS: c_int = 0x0106;

/// `enum rdma_cm_event_type`.
pub(super) mod event {
    use std::ffi::c_int;

    pub(crate) const ADDRESS_RESOLVED: c_int = 0;
    pub(crate) const ROUTE_RESOLVED: c_int = 2;
    pub(crate) const CONNECT_REQUEST: c_int = 4;
    pub(crate) const CONNECT_RESPONSE: c_int = 5;
    pub(crate) const ESTABLISHED: c_int = 9;
    pub(crate) const DISCONNECTED: c_int = 10;
    pub(crate) const TIMEWAIT_EXIT: c_int = 15;
}
