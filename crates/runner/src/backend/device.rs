//! A rank's device as the record describes it, and binding threads to processors.
//! Not which device a rank gets: each backend's `factory` says that.

use busbw_core::record::Device;
use busbw_ffi::gpu::Facts;
use busbw_host::machine;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// The PCI address of a rank that is on no GPU.
pub(crate) const NO_ADDRESS: &str = "0000:00:00";

/// A rank's device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RankDevice {
    /// Its number; on `host` a core.
    pub(crate) device: usize,
    /// PCI address as `domain:bus:device`.
    pub(crate) address: String,
    /// Its name.
    pub(crate) name: String,
    /// The processors to which its thread is bound, as a list of ranges.
    pub(crate) bound: Option<String>,
}

impl RankDevice {
    /// Processor number `core` of the model `name`.
    pub(super) fn core(core: usize, name: &str) -> RankDevice {
        let address = NO_ADDRESS.to_owned();
        RankDevice { device: core, address, name: name.to_owned(), bound: None }
    }

    /// The first processor that this process may use, for a rank that has none of its own.
    pub(super) fn first_core(name: &str) -> RankDevice {
        RankDevice::core(machine::usable_cores().first().copied().unwrap_or(0), name)
    }

    /// As the record describes it, for a rank of communicator `group` in process `pid` of `host`.
    pub(crate) fn of_rank(&self, rank: usize, group: u64, pid: u32, host: &str) -> Device {
        let RankDevice { device, address, name, bound } = self.clone();
        Device { rank, group, pid, host: host.to_owned(), device, address, name, bound }
    }

    /// A GPU.
    pub(super) fn gpu(gpu: &Facts, bound: Option<String>) -> RankDevice {
        RankDevice {
            device: gpu.ordinal as usize,
            // nccl-tests prints the address without the function.
            address: gpu.address.trim_end_matches(".0").to_owned(),
            name: gpu.name.clone(),
            bound,
        }
    }
}

/// Binds this thread, and those that it starts, to processors; true on success. Without binding, times only vary more.
pub(super) fn bind_to(processors: &[usize]) -> bool {
    let mut set = CpuSet::new();
    for processor in processors.iter().filter(|p| **p < CpuSet::MAX_CPU) {
        set.set(*processor);
    }
    set.count() > 0 && sched_setaffinity(None, &set).is_ok()
}
