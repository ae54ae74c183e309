//! Who computes on a GPU, by process.
//! Not how busy it is (`gpu`).

use nvml_wrapper::{Nvml, enums::device::UsedGpuMemory, error::NvmlError};

/// A process that computes on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number; of another container's process the host's.
    pub pid: u32,
    /// Bytes of the GPU's memory that it has, where the driver says so.
    pub bytes: Option<u64>,
    /// Its program, where the driver says so.
    pub name: Option<String>,
}

/// Processes that compute on the GPU at a PCI address such as `0000:19:00.0`.
///
/// # Errors
/// [`NvmlError`]: no such GPU, or NVML does not say.
pub fn users(nvml: &Nvml, address: &str) -> Result<Vec<User>, NvmlError> {
    let device = nvml.device_by_pci_bus_id(address)?;
    let user = |process: nvml_wrapper::struct_wrappers::device::ProcessInfo| User {
        pid: process.pid,
        bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
        name: nvml.sys_process_name(process.pid, NAME).ok(),
    };
    Ok(device.running_compute_processes()?.into_iter().map(user).collect())
}

/// Room for a name, bytes.
const NAME: usize = 256;
