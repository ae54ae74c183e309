//! What libibverbs and this process share: structures and constants of `infiniband/verbs.h` (rdma-core 44).
//! Not what is done with them. Newer versions add fields behind these, and keep their places.

use std::ffi::{c_int, c_uint, c_void};

/// A structure of the library that only it looks into.
pub(super) type Opaque = c_void;

/// `struct ibv_context_ops`: of its 32 functions those that `verbs.h` calls through it. They are not symbols of the
/// library, since the provider of each device has its own.
#[repr(C)]
pub(super) struct ContextOps {
    _before_poll: [*const c_void; 11],
    pub(super) poll_cq:
        Option<unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut Completion) -> c_int>,
    _before_send: [*const c_void; 13],
    pub(super) post_send: Option<
        unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int,
    >,
    pub(super) post_recv: Option<
        unsafe extern "C" fn(
            *mut QueuePair,
            *mut ReceiveRequest,
            *mut *mut ReceiveRequest,
        ) -> c_int,
    >,
    _behind: [*const c_void; 5],
}

/// `struct ibv_context`, as far as `async_fd`.
#[repr(C)]
pub(super) struct Context {
    _device: *mut Opaque,
    pub(super) ops: ContextOps,
    _cmd_fd: c_int,
    pub(super) async_fd: c_int,
}

/// The beginning of `struct ibv_cq`.
#[repr(C)]
pub(super) struct CompletionQueue {
    pub(super) context: *mut Context,
}

/// `struct ibv_qp`, as far as `qp_num`.
#[repr(C)]
pub(super) struct QueuePair {
    pub(super) context: *mut Context,
    _own: [*mut Opaque; 5],
    _handle: u32,
    pub(super) number: u32,
}

/// `struct ibv_mr`, as far as `rkey`.
#[repr(C)]
pub(super) struct MemoryRegion {
    _own: [*mut Opaque; 3],
    _length: usize,
    _handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `struct ibv_port_attr`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct PortAttributes {
    pub(super) state: c_int,
    _max_mtu: c_int,
    pub(super) active_mtu: c_int,
    _gid_tbl_len: c_int,
    _cap_flags: u32,
    pub(super) max_msg_sz: u32,
    _counters: [u32; 2],
    _pkey_tbl_len: u16,
    pub(super) lid: u16,
    _sm_lid: u16,
    _bytes: [u8; 6],
    _active_speed: u8,
    pub(super) phys_state: u8,
    pub(super) link_layer: u8,
    _flags: u8,
    _cap_flags2: u16,
    /// Newer versions have `active_speed_ex` behind it.
    _behind: [u32; 8],
}

/// `struct ibv_device_attr`, and room for what newer versions may add.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct DeviceAttributes {
    _fw_ver: [u8; 64],
    _guids: [u64; 2],
    _sizes: [u64; 2],
    _ids: [u32; 3],
    _max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    _flags: c_uint,
    _max_sge: [c_int; 2],
    _max_cq: c_int,
    pub(super) max_cqe: c_int,
    _max_mr_pd: [c_int; 2],
    pub(super) max_qp_rd_atom: c_int,
    _more: [c_int; 2],
    pub(super) max_qp_init_rd_atom: c_int,
    _behind: [u64; 16],
}

/// `struct ibv_sge`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`: of its unions the arms that are used here.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct SendRequest {
    pub(super) id: u64,
    pub(super) next: *mut SendRequest,
    pub(super) pieces: *mut Piece,
    pub(super) piece_count: c_int,
    pub(super) opcode: c_int,
    pub(super) flags: c_uint,
    /// In network byte order.
    pub(super) immediate: u32,
    pub(super) target: Target,
    pub(super) _behind: [u64; 7],
}

/// `wr` of [`SendRequest`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Target {
    pub(super) remote: Remote,
    pub(super) datagram: Datagram,
    _size: [u64; 4],
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Target")
    }
}

/// Memory of the other end.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Remote {
    pub(super) address: u64,
    pub(super) rkey: u32,
}

/// The other end of a datagram.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Datagram {
    pub(super) address: *mut Opaque,
    pub(super) number: u32,
    pub(super) key: u32,
}

impl SendRequest {
    /// A request of no memory at all.
    pub(super) const EMPTY: SendRequest = SendRequest {
        id: 0,
        next: std::ptr::null_mut(),
        pieces: std::ptr::null_mut(),
        piece_count: 0,
        opcode: opcode::SEND,
        flags: 0,
        immediate: 0,
        target: Target { _size: [0; 4] },
        _behind: [0; 7],
    };
}

/// `struct ibv_recv_wr`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct ReceiveRequest {
    pub(super) id: u64,
    pub(super) next: *mut ReceiveRequest,
    pub(super) pieces: *mut Piece,
    pub(super) piece_count: c_int,
}

/// `struct ibv_wc`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) status: c_int,
    _opcode: c_int,
    pub(super) vendor_error: u32,
    pub(super) bytes: u32,
    /// In network byte order.
    pub(super) immediate: u32,
    pub(super) number: u32,
    _source: u32,
    pub(super) flags: c_uint,
    _behind: [u32; 2],
}

/// `struct ibv_qp_cap`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Capacity {
    pub(super) send_requests: u32,
    pub(super) receive_requests: u32,
    pub(super) send_pieces: u32,
    pub(super) receive_pieces: u32,
    pub(super) inline_bytes: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct NewQueuePair {
    pub(super) user: *mut c_void,
    pub(super) send: *mut CompletionQueue,
    pub(super) receive: *mut CompletionQueue,
    pub(super) shared: *mut Opaque,
    pub(super) capacity: Capacity,
    pub(super) kind: c_int,
    pub(super) all_signaled: c_int,
}

/// `struct ibv_ah_attr` with its `struct ibv_global_route`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct AddressAttributes {
    pub(super) gid: Gid,
    pub(super) flow_label: u32,
    pub(super) own_gid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) _pad: u8,
    pub(super) lid: u16,
    pub(super) service_level: u8,
    pub(super) path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port: u8,
    pub(super) _end: u8,
}

/// `union ibv_gid`: 16 bytes in network order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct Gid(pub(super) [u8; 16]);

/// `struct ibv_qp_attr`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct QueuePairAttributes {
    pub(super) state: c_int,
    pub(super) current_state: c_int,
    pub(super) mtu: c_int,
    pub(super) _migration: c_int,
    pub(super) qkey: u32,
    pub(super) receive_sequence: u32,
    pub(super) send_sequence: u32,
    pub(super) other_number: u32,
    pub(super) access: c_uint,
    pub(super) capacity: Capacity,
    pub(super) address: AddressAttributes,
    pub(super) _alternative: AddressAttributes,
    pub(super) pkey_index: u16,
    pub(super) _alternative_pkey: u16,
    pub(super) _drain: [u8; 2],
    pub(super) most_reads: u8,
    pub(super) most_answered_reads: u8,
    pub(super) receiver_not_ready_timer: u8,
    pub(super) port: u8,
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) receiver_not_ready_retries: u8,
    pub(super) _alternative_port: [u8; 2],
    pub(super) _rate_limit: u32,
    /// Newer versions may add something.
    pub(super) _behind: [u32; 8],
}

/// `enum ibv_wr_opcode`.
pub(super) mod opcode {
    use std::ffi::c_int;

    pub(crate) const WRITE: c_int = 0;
    pub(crate) const WRITE_WITH_IMMEDIATE: c_int = 1;
    pub(crate) const SEND: c_int = 2;
    pub(crate) const SEND_WITH_IMMEDIATE: c_int = 3;
    pub(crate) const READ: c_int = 4;
}

/// `enum ibv_send_flags`.
pub(super) const SIGNALED: c_uint = 1 << 1;
pub(super) const INLINE: c_uint = 1 << 3;

/// `enum ibv_access_flags`.
pub(super) mod access {
    use std::ffi::c_uint;

    pub(crate) const LOCAL_WRITE: c_uint = 1;
    pub(crate) const REMOTE_WRITE: c_uint = 1 << 1;
    pub(crate) const REMOTE_READ: c_uint = 1 << 2;
    /// Of those that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE).
    pub(crate) const RELAXED_ORDERING: c_uint = 1 << 20;
}

/// `enum ibv_qp_attr_mask`.
pub(super) mod mask {
    use std::ffi::c_int;

    pub(crate) const STATE: c_int = 1;
    pub(crate) const ACCESS: c_int = 1 << 3;
    pub(crate) const PKEY: c_int = 1 << 4;
    pub(crate) const PORT: c_int = 1 << 5;
    pub(crate) const QKEY: c_int = 1 << 6;
    pub(crate) const ADDRESS: c_int = 1 << 7;
    pub(crate) const MTU: c_int = 1 << 8;
    pub(crate) const TIMEOUT: c_int = 1 << 9;
    pub(crate) const RETRIES: c_int = 1 << 10;
    pub(crate) const RNR_RETRIES: c_int = 1 << 11;
    pub(crate) const RECEIVE_SEQUENCE: c_int = 1 << 12;
    pub(crate) const MOST_READS: c_int = 1 << 13;
    pub(crate) const RNR_TIMER: c_int = 1 << 15;
    pub(crate) const SEND_SEQUENCE: c_int = 1 << 16;
    pub(crate) const MOST_ANSWERED_READS: c_int = 1 << 17;
    pub(crate) const OTHER_NUMBER: c_int = 1 << 20;
}

/// `enum ibv_qp_state`.
pub(super) mod state {
    use std::ffi::c_int;

    pub(crate) const INIT: c_int = 1;
    pub(crate) const READY_TO_RECEIVE: c_int = 2;
    pub(crate) const READY_TO_SEND: c_int = 3;
    pub(crate) const FAILED: c_int = 6;
}

/// `struct ibv_async_event`.
#[repr(C)]
pub(super) struct AsyncEvent {
    pub(super) element: u64,
    pub(super) kind: c_int,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// As a C compiler lays out rdma-core 44's header (64 bits).
    #[test]
    fn places_are_the_headers() {
        assert_eq!(size_of::<ContextOps>(), 256);
        assert_eq!(offset_of!(ContextOps, poll_cq), 88);
        assert_eq!(offset_of!(ContextOps, post_send), 200);
        assert_eq!(offset_of!(ContextOps, post_recv), 208);
        assert_eq!(offset_of!(Context, ops), 8);
        assert_eq!(offset_of!(Context, async_fd), 268);
        assert_eq!(offset_of!(QueuePair, number), 52);
        assert_eq!((offset_of!(MemoryRegion, lkey), offset_of!(MemoryRegion, rkey)), (36, 40));
        assert_eq!(offset_of!(PortAttributes, lid), 34);
        assert_eq!(offset_of!(PortAttributes, phys_state), 45);
        assert_eq!(offset_of!(PortAttributes, link_layer), 46);
        assert!(size_of::<PortAttributes>() >= 52);
        assert_eq!(offset_of!(DeviceAttributes, max_qp_wr), 112);
        assert_eq!(offset_of!(DeviceAttributes, max_cqe), 132);
        assert_eq!(offset_of!(DeviceAttributes, max_qp_rd_atom), 144);
        assert_eq!(offset_of!(DeviceAttributes, max_qp_init_rd_atom), 156);
        assert!(size_of::<DeviceAttributes>() >= 232);
        assert_eq!((size_of::<SendRequest>(), offset_of!(SendRequest, opcode)), (128, 28));
        assert_eq!(offset_of!(SendRequest, immediate), 36);
        assert_eq!((offset_of!(SendRequest, target), offset_of!(SendRequest, _behind)), (40, 72));
        assert_eq!((size_of::<ReceiveRequest>(), size_of::<Piece>()), (32, 16));
        assert_eq!((size_of::<Completion>(), offset_of!(Completion, immediate)), (48, 24));
        assert_eq!(offset_of!(Completion, number), 28);
        assert_eq!(offset_of!(Completion, bytes), 20);
        assert_eq!((size_of::<NewQueuePair>(), offset_of!(NewQueuePair, kind)), (64, 52));
        assert_eq!(offset_of!(NewQueuePair, capacity), 32);
        assert_eq!((size_of::<AddressAttributes>(), offset_of!(AddressAttributes, lid)), (32, 24));
        assert_eq!(offset_of!(QueuePairAttributes, capacity), 36);
        assert_eq!(offset_of!(QueuePairAttributes, address), 56);
        assert_eq!(offset_of!(QueuePairAttributes, pkey_index), 120);
        assert_eq!(offset_of!(QueuePairAttributes, port), 129);
        assert_eq!(offset_of!(QueuePairAttributes, receiver_not_ready_retries), 132);
        assert_eq!(offset_of!(QueuePairAttributes, _rate_limit), 136);
        assert_eq!((size_of::<AsyncEvent>(), offset_of!(AsyncEvent, kind)), (16, 8));
    }
}
