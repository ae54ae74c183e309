//! The library itself: its functions, and the list of devices.
//! Not the devices (`device`).

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    path::Path,
    sync::OnceLock,
};

use super::abi;
use dynamic_library::{Library, LoadError, table, text};

/// The name by which NCCL, UCX and perftest load it.
const NAME: &str = "libibverbs.so.1";

table! {
    /// The functions that are used. Those of the first half return a status: 0, or an error number. Those of the second return an
    /// object, or null with an error number in errno.
    Calls: 1 {
        query_device = [c"ibv_query_device"] (*mut abi::Context, *mut abi::DeviceAttributes) -> c_int;
        query_port = [c"ibv_query_port"] (*mut abi::Context, u8, *mut abi::PortAttributes) -> c_int;
        query_gid = [c"ibv_query_gid"] (*mut abi::Context, u8, c_int, *mut abi::Gid) -> c_int;
        close_device = [c"ibv_close_device"] (*mut abi::Context) -> c_int;
        dealloc_pd = [c"ibv_dealloc_pd"] (*mut abi::Opaque) -> c_int;
        dereg_mr = [c"ibv_dereg_mr"] (*mut abi::MemoryRegion) -> c_int;
        destroy_cq = [c"ibv_destroy_cq"] (*mut abi::CompletionQueue) -> c_int;
        modify_qp = [c"ibv_modify_qp"] (*mut abi::QueuePair, *mut abi::QueuePairAttributes, c_int) -> c_int;
        destroy_qp = [c"ibv_destroy_qp"] (*mut abi::QueuePair) -> c_int;
        destroy_ah = [c"ibv_destroy_ah"] (*mut abi::Opaque) -> c_int;
        get_async_event = [c"ibv_get_async_event"] (*mut abi::Context, *mut abi::AsyncEvent) -> c_int;
        get_device_list = [c"ibv_get_device_list"] (*mut c_int) -> *mut *mut abi::Opaque;
        open_device = [c"ibv_open_device"] (*mut abi::Opaque) -> *mut abi::Context;
        alloc_pd = [c"ibv_alloc_pd"] (*mut abi::Context) -> *mut abi::Opaque;
        reg_mr = [c"ibv_reg_mr"] (*mut abi::Opaque, *mut c_void, usize, c_int) -> *mut abi::MemoryRegion;
        reg_mr_iova2 = [c"ibv_reg_mr_iova2"] (*mut abi::Opaque, *mut c_void, usize, u64, c_uint) -> *mut abi::MemoryRegion;
        reg_dmabuf_mr = [c"ibv_reg_dmabuf_mr"] (*mut abi::Opaque, u64, usize, u64, c_int, c_int) -> *mut abi::MemoryRegion;
        create_cq = [c"ibv_create_cq"] (*mut abi::Context, c_int, *mut c_void, *mut c_void, c_int) -> *mut abi::CompletionQueue;
        create_qp = [c"ibv_create_qp"] (*mut abi::Opaque, *mut abi::NewQueuePair) -> *mut abi::QueuePair;
        create_ah = [c"ibv_create_ah"] (*mut abi::Opaque, *mut abi::AddressAttributes) -> *mut abi::Opaque;
        get_device_name = [c"ibv_get_device_name"] (*mut abi::Opaque) -> *const c_char;
        wc_status_str = [c"ibv_wc_status_str"] (c_int) -> *const c_char;
        free_device_list = [c"ibv_free_device_list"] (*mut *mut abi::Opaque) -> ();
        ack_async_event = [c"ibv_ack_async_event"] (*mut abi::AsyncEvent) -> ();
    }
}

/// libibverbs. It stays loaded for the life of the process.
#[derive(Debug)]
pub struct Verbs {
    library: Library,
    pub(super) calls: Calls,
}

impl Verbs {
    /// Opens the library, once a process.
    ///
    /// # Errors
    /// The loader does not find it, or it is none.
    pub fn open() -> Result<&'static Verbs, LoadError> {
        static OPEN: OnceLock<Result<Verbs, LoadError>> = OnceLock::new();
        OPEN.get_or_init(Verbs::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Verbs, LoadError> {
        let library = Library::open(Path::new(NAME))?;
        let verbs = Verbs { calls: Calls::open(&library, 0), library };
        if verbs.calls.open_device.is_none() {
            let path = verbs.library.path().display().to_string();
            let function = Calls::name_of("open_device", 0);
            return Err(LoadError::Missing { path, function, library: "libibverbs" });
        }
        Ok(verbs)
    }

    /// Whether it passes the flag for relaxed ordering on (rdma-core 28).
    #[must_use]
    pub fn relaxes_ordering(&self) -> bool {
        self.calls.reg_mr_iova2.is_some()
    }

    /// Whether it registers dma-bufs, which some devices take.
    #[must_use]
    pub fn takes_dma_bufs(&self) -> bool {
        self.calls.reg_dmabuf_mr.is_some()
    }

    /// Names of the devices that the library and its providers can open. A device of /sys that is not among them lacks
    /// its provider, or its /dev/infiniband/uverbs*.
    pub fn devices(&self) -> Vec<String> {
        self.with_list(|list| list.iter().map(|device| self.name(*device)).collect())
    }

    pub(super) fn name(&self, device: *mut abi::Opaque) -> String {
        let Some(name) = self.calls.get_device_name else { return String::new() };
        // SAFETY: a device of the list; the name is the library's, and ends with a zero.
        unsafe { text(name(device)) }
    }

    /// Calls `f` with the list of devices, which is freed afterwards: only open devices live longer.
    pub(super) fn with_list<T>(&self, f: impl FnOnce(&[*mut abi::Opaque]) -> T) -> T {
        let mut count: c_int = 0;
        let list = match self.calls.get_device_list {
            // SAFETY: a place for the number.
            Some(list) => unsafe { list(&raw mut count) },
            None => std::ptr::null_mut(),
        };
        if list.is_null() {
            return f(&[]);
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the library gave so many pointers, and they stay until they are freed.
        let all = f(unsafe { std::slice::from_raw_parts(list, count) });
        if let Some(free) = self.calls.free_device_list {
            // SAFETY: the list, once.
            unsafe { free(list) };
        }
        all
    }

    /// The text of a status of `struct ibv_wc`.
    pub(super) fn status(&self, status: c_int) -> String {
        let Some(call) = self.calls.wc_status_str else { return format!("status {status}") };
        // SAFETY: any number is allowed; the text is the library's own.
        let name: *const c_char = unsafe { call(status) };
        if name.is_null() {
            return format!("status {status}");
        }
        // SAFETY: not null; a text of the library that ends with a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}
