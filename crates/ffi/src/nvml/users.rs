//! The processes that compute on a GPU.
//! Not how busy it is (`gpu`).

use nvml_wrapper::{Nvml, enums::device::UsedGpuMemory, error::NvmlError};

/// A process that computes on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its process number; the host's number for a process of another container.
    pub pid: u32,
    /// Bytes of the GPU's memory that it uses, if the driver reports it.
    pub bytes: Option<u64>,
    /// Its program, if the driver reports it.
    pub name: Option<String>,
}

/// Processes that compute on the GPU at a PCI address such as `0000:19:00.0`.
///
/// # Errors
/// There is no such GPU, or NVML does not report its processes.
pub fn users(nvml: &Nvml, address: &str) -> Result<Vec<User>, NvmlError> {
    let device = nvml.device_by_pci_bus_id(address)?;
    let user = |process: nvml_wrapper::struct_wrappers::device::ProcessInfo| User {
        pid: process.pid,
        bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
        name: nvml.sys_process_name(process.pid, MAX_NAME_BYTES).ok(),
    };
    Ok(device.running_compute_processes()?.into_iter().map(user).collect())
}

/// Bytes for a name.
const MAX_NAME_BYTES: usize = 256;
