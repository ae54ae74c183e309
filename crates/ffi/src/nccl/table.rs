//! NCCL's functions with the types of its public header (nccl.h of 2.28, of 2.32 for those that end
//! in Config; RCCL has the same names).
//! Not what they are called for.

use std::ffi::{c_char, c_int, c_void};

use super::{
    call_config::RawCallConfig,
    config::{RawConfig, RawPrediction},
};
use dynamic_library::table;

/// A communicator, a window, a registration.
pub(crate) type Handle = *mut c_void;

/// ncclUniqueId: 128 bytes, passed by value.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawId(pub(crate) [u8; 128]);

table! {
    /// Every function but the first few is missing in some version.
    Table: 1 {
        version = [c"ncclGetVersion"] (*mut c_int) -> c_int;
        unique_id = [c"ncclGetUniqueId"] (*mut RawId) -> c_int;
        init_rank_config = [c"ncclCommInitRankConfig"]
            (*mut Handle, c_int, RawId, c_int, *mut RawConfig) -> c_int;
        destroy = [c"ncclCommDestroy"] (Handle) -> c_int;
        abort = [c"ncclCommAbort"] (Handle) -> c_int;
        async_error = [c"ncclCommGetAsyncError"] (Handle, *mut c_int) -> c_int;
        error_text = [c"ncclGetErrorString"] (c_int) -> *const c_char;
        last_error = [c"ncclGetLastError"] (Handle) -> *const c_char;
        group_start = [c"ncclGroupStart"] () -> c_int;
        group_end = [c"ncclGroupEnd"] () -> c_int;
        group_simulate = [c"ncclGroupSimulateEnd"] (*mut RawPrediction) -> c_int;
        mem_alloc = [c"ncclMemAlloc"] (*mut *mut c_void, usize) -> c_int;
        mem_free = [c"ncclMemFree"] (*mut c_void) -> c_int;
        register = [c"ncclCommRegister"] (Handle, *mut c_void, usize, *mut Handle) -> c_int;
        deregister = [c"ncclCommDeregister"] (Handle, Handle) -> c_int;
        window_register = [c"ncclCommWindowRegister"]
            (Handle, *mut c_void, usize, *mut Handle, c_int) -> c_int;
        window_deregister = [c"ncclCommWindowDeregister"] (Handle, Handle) -> c_int;
        premultiplied_sum = [c"ncclRedOpCreatePreMulSum"]
            (*mut c_int, *mut c_void, c_int, c_int, Handle) -> c_int;
        operator_destroy = [c"ncclRedOpDestroy"] (c_int, Handle) -> c_int;
        all_reduce = [c"ncclAllReduce"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        reduce = [c"ncclReduce"]
            (*const c_void, *mut c_void, usize, c_int, c_int, c_int, Handle, Handle) -> c_int;
        broadcast = [c"ncclBroadcast"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        reduce_scatter = [c"ncclReduceScatter"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        all_gather = [c"ncclAllGather"]
            (*const c_void, *mut c_void, usize, c_int, Handle, Handle) -> c_int;
        all_to_all = [c"ncclAlltoAll"]
            (*const c_void, *mut c_void, usize, c_int, Handle, Handle) -> c_int;
        // RCCL's own name for it, since long before NCCL had one.
        all_to_all_of_rccl = [c"ncclAllToAll"]
            (*const c_void, *mut c_void, usize, c_int, Handle, Handle) -> c_int;
        gather = [c"ncclGather"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        scatter = [c"ncclScatter"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        all_reduce_config = [c"ncclAllReduceConfig"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        reduce_config = [c"ncclReduceConfig"]
            (*const c_void, *mut c_void, usize, c_int, c_int, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        broadcast_config = [c"ncclBroadcastConfig"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        reduce_scatter_config = [c"ncclReduceScatterConfig"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        all_gather_config = [c"ncclAllGatherConfig"]
            (*const c_void, *mut c_void, usize, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        all_to_all_config = [c"ncclAlltoAllConfig"]
            (*const c_void, *mut c_void, usize, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        gather_config = [c"ncclGatherConfig"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        scatter_config = [c"ncclScatterConfig"]
            (*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle, *const RawCallConfig) -> c_int;
        send = [c"ncclSend"] (*const c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        recv = [c"ncclRecv"] (*mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
        reset_debug = [c"ncclResetDebugInit"] () -> ();
    }
}
