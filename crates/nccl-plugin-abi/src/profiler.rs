//! ncclProfiler_v2_t to v7_t: the tables by which NCCL 2.24 to 2.32 tell a profiler of events.
//! Not what an event carries (`descriptions`), and not what a profiler makes of it (docs/watch.md).
//!
//! v2 to v6: src/include/plugin/profiler/profiler_v2.h to profiler_v6.h of NCCL 2.30.7 (5067397c). v7: the DWARF of 2.32.3's
//! library. The tests hold the layouts against those of NCCL's libraries.

mod descriptions;

use std::ffi::{c_char, c_int, c_void};

pub use self::descriptions::{
    CollectiveCall, CollectiveV2, CollectiveV3, CollectiveV4, CollectiveV5, CollectiveV7,
    Description, DescriptionV2, DescriptionV3, DescriptionV4, DescriptionV5, DescriptionV7,
    KernelChannelV3, KernelChannelV4, MessageV2, MessageV4, MessageV5, MessageV7, OfV2, OfV3, OfV4,
    OfV5, OfV7, ProxyOperation, ProxyStep,
};
use crate::{Logger, Status};

/// The symbols by which NCCL finds the tables, newest first, as it tries them (src/plugin/profiler.cc of 2.30.7;
/// `ncclProfiler_v7` stands in 2.31.2's library).
pub const SYMBOLS: [&str; 6] = [
    "ncclProfiler_v7",
    "ncclProfiler_v6",
    "ncclProfiler_v5",
    "ncclProfiler_v4",
    "ncclProfiler_v3",
    "ncclProfiler_v2",
];

/// Kinds of events: bits of the mask, and the field `type` of a description (nccl_profiler.h).
pub mod kind {
    /// A group of calls that one kernel runs. Up to NCCL 2.27 there are no events of calls where it has no handle.
    pub const GROUP: u64 = 1 << 0;
    /// A collective.
    pub const COLLECTIVE: u64 = 1 << 1;
    /// A send or a receive.
    pub const MESSAGE: u64 = 1 << 2;
    /// What the proxy does for one channel of a call.
    pub const PROXY_OPERATION: u64 = 1 << 3;
    /// One transfer over the network.
    pub const PROXY_STEP: u64 = 1 << 4;
    /// A channel of a kernel (v3 and newer).
    pub const KERNEL_CHANNEL: u64 = 1 << 6;
    /// A program's call of a collective (v5 and newer). It comes where any event of a collective is asked for.
    pub const COLLECTIVE_CALL: u64 = 1 << 9;
}

/// States that an event enters, as `recordEventState` takes them (nccl_profiler.h).
pub mod state {
    use std::ffi::c_int;

    /// A send's step waits for this rank's GPU.
    pub const SEND_GPU_WAIT: c_int = 8;
    /// A send's step waits for the network to complete it.
    pub const SEND_WAIT: c_int = 9;
    /// A receive's step waits for data.
    pub const RECEIVE_WAIT: c_int = 10;
    /// A receive's step waits until what came is in GPU memory.
    pub const RECEIVE_FLUSH_WAIT: c_int = 11;
    /// A receive's step waits for this rank's GPU.
    pub const RECEIVE_GPU_WAIT: c_int = 12;
    /// A send's step waits for the receiver's credit (v4 and newer).
    pub const SEND_PEER_WAIT: c_int = 20;
    /// A channel of a kernel ended (v4 and newer).
    pub const KERNEL_CHANNEL_STOP: c_int = 22;
}

/// `init(context, mask)` of v2 and v3.
pub type InitV2 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> Status;
/// `init(context, mask, communicator's name, communicator, nodes, ranks, rank, logger)` of v4.
pub type InitV4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Option<Logger>,
) -> Status;
/// `init(context, communicator, mask, communicator's name, nodes, ranks, rank, logger)` since v5.
pub type InitV5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Option<Logger>,
) -> Status;
/// `startEvent(context, handle, description)`. A handle that stays null is not told of again.
pub type StartEvent<D> = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const D) -> Status;
/// `stopEvent(handle)`.
pub type StopEvent = unsafe extern "C" fn(*mut c_void) -> Status;
/// `recordEventState(handle, state, arguments)`.
pub type RecordState<A> = unsafe extern "C" fn(*mut c_void, c_int, *const A) -> Status;
/// `finalize(context)`.
pub type Finalize = unsafe extern "C" fn(*mut c_void) -> Status;

/// ncclProfiler_v2_t to v7_t: they differ in init, descriptions and arguments of states.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Profiler<Init, D, A> {
    /// Name of the profiler, ended by a zero.
    pub name: *const c_char,
    /// [`InitV2`], [`InitV4`] or [`InitV5`].
    pub init: Option<Init>,
    /// [`StartEvent`].
    pub start: Option<StartEvent<D>>,
    /// [`StopEvent`].
    pub stop: Option<StopEvent>,
    /// [`RecordState`].
    pub record_state: Option<RecordState<A>>,
    /// [`Finalize`].
    pub finalize: Option<Finalize>,
}

/// ncclProfiler_v2_t (the newest of NCCL 2.24 and 2.25).
pub type ProfilerV2 = Profiler<InitV2, DescriptionV2, StateArgumentsV2>;
/// ncclProfiler_v3_t (the newest of NCCL 2.26).
pub type ProfilerV3 = Profiler<InitV2, DescriptionV3, StateArgumentsV2>;
/// ncclProfiler_v4_t (the newest of NCCL 2.27).
pub type ProfilerV4 = Profiler<InitV4, DescriptionV4, StateArgumentsV4>;
/// ncclProfiler_v5_t (the newest of NCCL 2.28), and ncclProfiler_v6_t (2.29 and 2.30), whose description adds kinds of
/// events to those of v5 and moves nothing.
pub type ProfilerV5 = Profiler<InitV5, DescriptionV5, StateArgumentsV4>;
/// ncclProfiler_v7_t (NCCL 2.31 and 2.32).
pub type ProfilerV7 = Profiler<InitV5, DescriptionV7, StateArgumentsV4>;

/// ncclProfilerEventStateArgs_v2_t, the same in v3: of a proxy operation.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct StateArgumentsV2 {
    /// Bytes transferred so far.
    pub transfer_bytes: usize,
    /// Steps so far.
    pub steps: c_int,
}

/// ncclProfilerEventStateArgs_v4_t, the same to v7: which field it is depends on the state.
#[derive(Clone, Copy)]
#[repr(C)]
pub union StateArgumentsV4 {
    /// Of a proxy step: bytes of the transfer that its operation began last.
    pub transfer_bytes: usize,
    /// Of [`state::KERNEL_CHANNEL_STOP`]: when, ns of the GPU's own clock.
    pub timer: u64,
}
