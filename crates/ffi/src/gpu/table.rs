//! The functions of the driver that are called, with the types of its public header (CUDA 12 driver
//! API; HIP 6 has the same under its own names). Not what they are called for.

use std::ffi::{c_char, c_int, c_uint, c_void};

use dynamic_library::table;

/// A handle of the driver's: context, stream, event, graph, module, function.
pub(crate) type Handle = *mut c_void;
/// An address in a GPU's memory.
pub(crate) type Address = u64;

table! {
    /// Column 0 is CUDA's driver, column 1 HIP. An empty name is never found.
    Table: 2 {
        init = [c"cuInit", c"hipInit"] (c_uint) -> c_int;
        driver_version = [c"cuDriverGetVersion", c"hipDriverGetVersion"] (*mut c_int) -> c_int;
        device_count = [c"cuDeviceGetCount", c"hipGetDeviceCount"] (*mut c_int) -> c_int;
        device_get = [c"cuDeviceGet", c"hipDeviceGet"] (*mut c_int, c_int) -> c_int;
        device_name = [c"cuDeviceGetName", c"hipDeviceGetName"] (*mut c_char, c_int, c_int) -> c_int;
        device_memory = [c"cuDeviceTotalMem_v2", c"hipDeviceTotalMem"] (*mut usize, c_int) -> c_int;
        device_address = [c"cuDeviceGetPCIBusId", c"hipDeviceGetPCIBusId"]
            (*mut c_char, c_int, c_int) -> c_int;
        // The attributes' numbers are CUDA's own.
        device_attribute = [c"cuDeviceGetAttribute", c""] (*mut c_int, c_int, c_int) -> c_int;
        can_access_peer = [c"cuDeviceCanAccessPeer", c"hipDeviceCanAccessPeer"]
            (*mut c_int, c_int, c_int) -> c_int;
        context_retain = [c"cuDevicePrimaryCtxRetain", c"hipDevicePrimaryCtxRetain"]
            (*mut Handle, c_int) -> c_int;
        context_release = [c"cuDevicePrimaryCtxRelease_v2", c"hipDevicePrimaryCtxRelease"]
            (c_int) -> c_int;
        context_set = [c"cuCtxSetCurrent", c"hipCtxSetCurrent"] (Handle) -> c_int;
        memory_info = [c"cuMemGetInfo_v2", c"hipMemGetInfo"] (*mut usize, *mut usize) -> c_int;
        allocate = [c"cuMemAlloc_v2", c"hipMalloc"] (*mut Address, usize) -> c_int;
        free = [c"cuMemFree_v2", c"hipFree"] (Address) -> c_int;
        copy_to_host = [c"cuMemcpyDtoH_v2", c"hipMemcpyDtoH"] (*mut c_void, Address, usize) -> c_int;
        copy_to_device = [c"cuMemcpyHtoDAsync_v2", c"hipMemcpyHtoDAsync"]
            (Address, *const c_void, usize, Handle) -> c_int;
        stream_wait = [c"cuStreamSynchronize", c"hipStreamSynchronize"] (Handle) -> c_int;
        set_bytes = [c"cuMemsetD8Async", c"hipMemsetD8Async"]
            (Address, u8, usize, Handle) -> c_int;
        export_range = [c"cuMemGetHandleForAddressRange", c"hipMemGetHandleForAddressRange"]
            (*mut c_void, Address, usize, c_int, u64) -> c_int;
        flush_writes = [c"cuFlushGPUDirectRDMAWrites", c""] (c_int, c_int) -> c_int;
        stream_create = [c"cuStreamCreate", c"hipStreamCreateWithFlags"]
            (*mut Handle, c_uint) -> c_int;
        stream_destroy = [c"cuStreamDestroy_v2", c"hipStreamDestroy"] (Handle) -> c_int;
        stream_query = [c"cuStreamQuery", c"hipStreamQuery"] (Handle) -> c_int;
        stream_capture = [c"cuStreamBeginCapture_v2", c"hipStreamBeginCapture"]
            (Handle, c_int) -> c_int;
        stream_captured = [c"cuStreamEndCapture", c"hipStreamEndCapture"]
            (Handle, *mut Handle) -> c_int;
        graph_instantiate = [c"cuGraphInstantiateWithFlags", c"hipGraphInstantiateWithFlags"]
            (*mut Handle, Handle, u64) -> c_int;
        graph_launch = [c"cuGraphLaunch", c"hipGraphLaunch"] (Handle, Handle) -> c_int;
        graph_destroy = [c"cuGraphDestroy", c"hipGraphDestroy"] (Handle) -> c_int;
        graph_exec_destroy = [c"cuGraphExecDestroy", c"hipGraphExecDestroy"] (Handle) -> c_int;
        event_create = [c"cuEventCreate", c"hipEventCreateWithFlags"]
            (*mut Handle, c_uint) -> c_int;
        event_record = [c"cuEventRecord", c"hipEventRecord"] (Handle, Handle) -> c_int;
        event_elapsed = [c"cuEventElapsedTime", c"hipEventElapsedTime"]
            (*mut f32, Handle, Handle) -> c_int;
        event_destroy = [c"cuEventDestroy_v2", c"hipEventDestroy"] (Handle) -> c_int;
        module_load = [c"cuModuleLoadData", c"hipModuleLoadData"]
            (*mut Handle, *const c_void) -> c_int;
        module_function = [c"cuModuleGetFunction", c"hipModuleGetFunction"]
            (*mut Handle, Handle, *const c_char) -> c_int;
        module_unload = [c"cuModuleUnload", c"hipModuleUnload"] (Handle) -> c_int;
        launch = [c"cuLaunchKernel", c"hipModuleLaunchKernel"]
            (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
             *mut *mut c_void, *mut *mut c_void) -> c_int;
        // CUDA hands the text out through its second argument and HIP returns it: see `runtime`.
        error_name = [c"cuGetErrorName", c""] (c_int, *mut *const c_char) -> c_int;
        error_text = [c"cuGetErrorString", c""] (c_int, *mut *const c_char) -> c_int;
        returned_error_name = [c"", c"hipGetErrorName"] (c_int) -> *const c_char;
        returned_error_text = [c"", c"hipGetErrorString"] (c_int) -> *const c_char;
    }
}
