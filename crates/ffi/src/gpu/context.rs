//! One GPU as this process uses it: its primary context, which NCCL and all other libraries share.
//! Not its memory (`memory`).

use std::ffi::{CStr, c_char, c_int};

use super::{
    runtime::{GpuError, Runtime, call},
    table::Handle,
};

/// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
const CAPABILITY: [c_int; 2] = [75, 76];
/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
const MULTIPROCESSORS: c_int = 16;
/// CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, of CUDA 12.1.
const MULTICAST: c_int = 132;

/// Facts about a GPU that need no context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Number among the GPUs that this process may use.
    pub ordinal: i32,
    /// Name, such as "NVIDIA H200".
    pub name: String,
    /// PCI address in full, such as `0000:19:00.0`, lower case.
    pub address: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability as 10 × major + minor; `None` on HIP.
    pub capability: Option<u32>,
    /// Multiprocessors; `None` on HIP.
    pub multiprocessors: Option<u32>,
    /// Whether it can be in an NVLink multicast group (NVLS); `None` where the driver does not
    /// know.
    pub multicast: Option<bool>,
}

impl Runtime {
    /// Facts of GPU `ordinal`.
    ///
    /// # Errors
    /// There is no such GPU, or the driver refuses the call.
    pub fn facts(&self, ordinal: usize) -> Result<Facts, GpuError> {
        let ordinal = ordinal as c_int;
        let device = self.device(ordinal)?;
        let mut memory = 0;
        call!(self, device_memory(&mut memory, device)).map_err(|e| e.on(ordinal))?;
        let name = self.say(|buffer, room| call!(self, device_name(buffer, room, device)));
        let address = self.say(|buffer, room| call!(self, device_address(buffer, room, device)));
        let attribute = |which| {
            let mut value = 0;
            call!(self, device_attribute(&mut value, which, device)).ok()?;
            u32::try_from(value).ok()
        };
        let [major, minor] = CAPABILITY.map(attribute);
        Ok(Facts {
            ordinal,
            name: name.map_err(|e| e.on(ordinal))?,
            address: address.map_err(|e| e.on(ordinal))?.to_ascii_lowercase(),
            memory: memory as u64,
            capability: major.zip(minor).map(|(major, minor)| 10 * major + minor),
            multiprocessors: attribute(MULTIPROCESSORS),
            multicast: attribute(MULTICAST).map(|can| can > 0),
        })
    }

    /// Whether one GPU can read and write another's memory.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn can_access_peer(&self, from: usize, to: usize) -> Result<bool, GpuError> {
        let (from, to) = (self.device(from as c_int)?, self.device(to as c_int)?);
        let mut can = 0;
        call!(self, can_access_peer(&mut can, from, to))?;
        Ok(can != 0)
    }

    fn device(&self, ordinal: c_int) -> Result<c_int, GpuError> {
        let mut device = 0;
        call!(self, device_get(&mut device, ordinal)).map_err(|e| e.on(ordinal))?;
        Ok(device)
    }

    /// A text that a function writes into a buffer.
    fn say(
        &self,
        function: impl Fn(*mut c_char, c_int) -> Result<(), GpuError>,
    ) -> Result<String, GpuError> {
        let mut buffer = [0u8; 256];
        function(buffer.as_mut_ptr().cast(), buffer.len() as c_int - 1)?;
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        Ok(text.to_string_lossy().trim().to_owned())
    }
}

/// A GPU's primary context. Released when dropped; memory and streams in it must be gone by then.
#[derive(Debug)]
pub struct Context {
    pub(super) runtime: &'static Runtime,
    ordinal: c_int,
    device: c_int,
    handle: Handle,
}

// SAFETY: a context may be made current in any thread.
unsafe impl Send for Context {}
// SAFETY: the driver's functions may be called from several threads at once.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of GPU `ordinal` and makes it current on this thread.
    ///
    /// # Errors
    /// There is no such GPU, or no memory left for a context.
    pub fn take(runtime: &'static Runtime, ordinal: usize) -> Result<Context, GpuError> {
        let ordinal = ordinal as c_int;
        let device = runtime.device(ordinal)?;
        let mut handle = std::ptr::null_mut();
        call!(runtime, context_retain(&mut handle, device)).map_err(|e| e.on(ordinal))?;
        let context = Context { runtime, ordinal, device, handle };
        context.enter()?;
        Ok(context)
    }

    /// Makes it current on this thread.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn enter(&self) -> Result<(), GpuError> {
        call!(self.runtime, context_set(self.handle)).map_err(|e| e.on(self.ordinal))
    }

    /// An attribute of the GPU, by its number in CUDA's header; `None` where the driver does not know it.
    pub(super) fn attribute(&self, which: c_int) -> Option<c_int> {
        let mut value = 0;
        call!(self.runtime, device_attribute(&mut value, which, self.device)).ok()?;
        Some(value)
    }

    /// Number of its GPU.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// The driver.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// Bytes free, and bytes in total.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn memory(&self) -> Result<(u64, u64), GpuError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        call!(self.runtime, memory_info(&mut free, &mut total)).map_err(|e| e.on(self.ordinal))?;
        Ok((free as u64, total as u64))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _ = call!(self.runtime, context_release(self.device));
    }
}
