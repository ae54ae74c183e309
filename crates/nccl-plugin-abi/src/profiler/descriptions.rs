//! ncclProfilerEventDescr_v2_t to v7_t: what an event is, as far as a profiler of calls and network steps reads it.
//! Not events of the API, the copy engines and net plugins: they lie in the same union and are not read.

use std::ffi::{c_char, c_int, c_void};

/// ncclProfilerEventDescr: the head is the same in all versions but for the width of its first field.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Description<Kind, Of> {
    /// One of [`kind`](super::kind): u8 to v4, u64 since v5.
    pub kind: Kind,
    /// The handle of the event that this one belongs to.
    pub parent: *mut c_void,
    /// The rank.
    pub rank: c_int,
    /// By the kind.
    pub of: Of,
}

/// v2.
pub type DescriptionV2 = Description<u8, OfV2>;
/// v3.
pub type DescriptionV3 = Description<u8, OfV3>;
/// v4.
pub type DescriptionV4 = Description<u8, OfV4>;
/// v5 and v6.
pub type DescriptionV5 = Description<u64, OfV5>;
/// v7.
pub type DescriptionV7 = Description<u64, OfV7>;

macro_rules! of {
    ($(#[$doc:meta])* $name:ident, $collective:ty, $message:ty $(, $kernel:ty)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub union $name {
            /// Of a collective.
            pub collective: $collective,
            /// Of a send or a receive.
            pub message: $message,
            /// Of what the proxy does for one channel.
            pub proxy_operation: ProxyOperation,
            /// Of one transfer.
            pub proxy_step: ProxyStep,
            /// Of a program's call of a collective (v5 and newer).
            pub collective_call: CollectiveCall,
            $(
            /// Of a channel of a kernel.
            pub kernel_channel: $kernel,
            )?
        }
    };
}

of!(
    /// Events of v2.
    OfV2, CollectiveV2, MessageV2
);
of!(
    /// Events of v3.
    OfV3, CollectiveV3, MessageV2, KernelChannelV3
);
of!(
    /// Events of v4.
    OfV4, CollectiveV4, MessageV4, KernelChannelV4
);
of!(
    /// Events of v5 and v6.
    OfV5, CollectiveV5, MessageV5, KernelChannelV4
);
of!(
    /// Events of v7.
    OfV7, CollectiveV7, MessageV7, KernelChannelV4
);

/// A collective of v2. Strings end with a zero; those that NCCL says are constants of its library.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollectiveV2 {
    /// The communicator's name, or null.
    pub communicator_name: *const c_char,
    /// The communicator, the same on all ranks. 0 from NCCL 2.27 on.
    pub communicator: u64,
    /// The number of the call among those of this operation, from 0.
    pub sequence: u64,
    /// `AllReduce`, …
    pub function: *const c_char,
    /// From where.
    pub send_buffer: *const c_void,
    /// To where.
    pub receive_buffer: *mut c_void,
    /// Elements. Of an AllGather and a Broadcast bytes, with the type `ncclInt8` (`collTaskAppend` in enqueue.cc).
    pub count: usize,
    /// The root.
    pub root: c_int,
    /// `ncclFloat32`, …
    pub datatype: *const c_char,
    /// Bytes that are moved.
    pub traffic_bytes: usize,
    /// Most channels: the call may take fewer.
    pub most_channels: u8,
    /// Warps.
    pub warps: u8,
    /// `RING`, …
    pub algorithm: *const c_char,
    /// `SIMPLE`, …
    pub protocol: *const c_char,
}

/// A collective of v3: as of v2, without the traffic.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollectiveV3 {
    /// The communicator's name, or null.
    pub communicator_name: *const c_char,
    /// The communicator, the same on all ranks. 0 from NCCL 2.27 on.
    pub communicator: u64,
    /// The number of the call among those of this operation, from 0.
    pub sequence: u64,
    /// `AllReduce`, …
    pub function: *const c_char,
    /// From where.
    pub send_buffer: *const c_void,
    /// To where.
    pub receive_buffer: *mut c_void,
    /// As [`CollectiveV2::count`].
    pub count: usize,
    /// The root.
    pub root: c_int,
    /// `ncclFloat32`, …
    pub datatype: *const c_char,
    /// Most channels: the call may take fewer.
    pub most_channels: u8,
    /// Warps.
    pub warps: u8,
    /// `RING`, …
    pub algorithm: *const c_char,
    /// `SIMPLE`, …
    pub protocol: *const c_char,
}

/// A collective of v4.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollectiveV4 {
    /// The number of the call among those of this operation, from 0.
    pub sequence: u64,
    /// `AllReduce`, …
    pub function: *const c_char,
    /// From where.
    pub send_buffer: *const c_void,
    /// To where.
    pub receive_buffer: *mut c_void,
    /// As [`CollectiveV2::count`].
    pub count: usize,
    /// The root.
    pub root: c_int,
    /// `ncclFloat32`, …
    pub datatype: *const c_char,
    /// Channels. Where a switch reduces (CollNet, NVLS on several nodes) NCCL does not set it.
    pub channels: u8,
    /// Warps.
    pub warps: u8,
    /// `RING`, …
    pub algorithm: *const c_char,
    /// `SIMPLE`, …
    pub protocol: *const c_char,
}

/// A collective of v5 and v6.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollectiveV5 {
    /// As in v4.
    pub v4: CollectiveV4,
    /// The group's handle.
    pub group: *mut c_void,
}

/// A collective of v7.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollectiveV7 {
    /// As in v5.
    pub v5: CollectiveV5,
    /// The kernel, by name, or null.
    pub kernel_variant: *const c_char,
    /// Whether a symmetric kernel runs it.
    pub symmetric: bool,
    /// What the application gave.
    pub user_tag: u64,
}

/// A program's call of a collective (v5 and newer): the first of its members.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollectiveCall {
    /// `AllReduce`, …
    pub function: *const c_char,
}

/// A send or a receive of v2 and v3.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MessageV2 {
    /// The communicator's name, or null.
    pub communicator_name: *const c_char,
    /// The communicator, the same on all ranks. 0 from NCCL 2.27 on.
    pub communicator: u64,
    /// `Send` or `Recv`.
    pub function: *const c_char,
    /// From or to where.
    pub buffer: *mut c_void,
    /// `ncclFloat32`, …
    pub datatype: *const c_char,
    /// Elements.
    pub count: usize,
    /// The other rank.
    pub peer: c_int,
}

/// A send or a receive of v4.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MessageV4 {
    /// `Send` or `Recv`.
    pub function: *const c_char,
    /// From or to where.
    pub buffer: *mut c_void,
    /// `ncclFloat32`, …
    pub datatype: *const c_char,
    /// Elements.
    pub count: usize,
    /// The other rank.
    pub peer: c_int,
    /// Channels. One that has no bytes to move gives no event.
    pub channels: u8,
}

/// A send or a receive of v5 and v6.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MessageV5 {
    /// As in v4.
    pub v4: MessageV4,
    /// The group's handle.
    pub group: *mut c_void,
}

/// A send or a receive of v7.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MessageV7 {
    /// As in v5.
    pub v5: MessageV5,
    /// What the application gave.
    pub user_tag: u64,
}

/// What the proxy does for one channel of a call, all versions.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ProxyOperation {
    /// The process of the call. Where it is another one, the context and the parent are that process's pointers: a proxy of
    /// this process works for it (PXN).
    pub pid: c_int,
    /// The channel.
    pub channel: u8,
    /// The other rank.
    pub peer: c_int,
    /// Transfers.
    pub steps: c_int,
    /// Most bytes of a transfer.
    pub chunk_bytes: c_int,
    /// 1: to the peer; 0: from it.
    pub send: c_int,
}

/// One transfer, all versions.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ProxyStep {
    /// Its number.
    pub step: c_int,
}

/// A channel of a kernel, v3.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelChannelV3 {
    /// The channel.
    pub channel: u8,
}

/// A channel of a kernel, since v4.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelChannelV4 {
    /// The channel.
    pub channel: u8,
    /// When it began, ns of the GPU's own clock.
    pub timer: u64,
}
