//! Device binding: what a rank thread uses, bound before it joins: a core, or GPUs and their libraries.
//! Not communicators: they need the other ranks.

use busbw_core::exit::Exit;
use busbw_ffi::gpu::Facts;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{
    backend::{
        mpi::{self, Gpu},
        nccl::Opened,
        net,
    },
    launch::rank_assignment::{Devices, NO_ADDRESS, RankDevice},
    measure::Failure,
};
use busbw_host::machine;

/// The devices of a rank thread.
pub(super) enum DeviceBinding {
    /// A core of this host, of its own or shared.
    Core,
    /// The processors that the launcher assigned, the MPI, and the GPU of the buffers, if any.
    Mpi { libraries: mpi::Libraries, gpu: Option<Gpu> },
    /// Any processor of the process, and the net plugin.
    Net { wanted: net::Wanted },
    /// GPUs by number.
    Gpus { opened: Opened, ordinals: Vec<usize> },
}

impl DeviceBinding {
    /// Binds a rank thread to its devices and describes the device of each of its ranks.
    ///
    /// # Errors
    /// A library or a GPU that cannot be used.
    pub(super) fn bind(
        rank_thread: usize,
        devices: &Devices,
    ) -> Result<(DeviceBinding, Vec<RankDevice>), Failure> {
        match devices {
            Devices::Cores { cores, first, name } => {
                if let Some(core) = cores.get(rank_thread) {
                    bind_to(&[*core]);
                }
                let device = RankDevice {
                    device: cores.get(rank_thread).copied().unwrap_or(first + rank_thread),
                    address: NO_ADDRESS.to_owned(),
                    name: name.clone(),
                    bound: None,
                };
                Ok((DeviceBinding::Core, vec![device]))
            }
            Devices::Mpi { libraries, name, ordinals } => {
                let libraries = libraries.clone();
                let ordinal = ordinals.get(rank_thread).copied().flatten();
                if let (Some(gpus), Some(ordinal)) = (&libraries.gpus, ordinal) {
                    let gpu =
                        gpus.take(ordinal).map_err(|text| Failure::new(Exit::Library, text))?;
                    let device = rank_device(&gpu.facts, None);
                    return Ok((DeviceBinding::Mpi { libraries, gpu: Some(gpu) }, vec![device]));
                }
                let device = RankDevice {
                    device: machine::usable_cores().first().copied().unwrap_or(0),
                    address: NO_ADDRESS.to_owned(),
                    name: name.clone(),
                    bound: None,
                };
                Ok((DeviceBinding::Mpi { libraries, gpu: None }, vec![device]))
            }
            Devices::Net { wanted, name } => {
                let device = RankDevice {
                    device: machine::usable_cores().first().copied().unwrap_or(0),
                    address: NO_ADDRESS.to_owned(),
                    name: name.clone(),
                    bound: None,
                };
                Ok((DeviceBinding::Net { wanted: wanted.clone() }, vec![device]))
            }
            Devices::Gpus { ordinals, libraries, bind, .. } => {
                let refused = |text: String| Failure::new(Exit::Library, text);
                let opened = libraries.open().map_err(|e| refused(e.to_string()))?;
                let ordinals = ordinals.get(rank_thread).cloned().unwrap_or_default();
                let gpus = ordinals
                    .iter()
                    .map(|ordinal| opened.runtime.facts(*ordinal))
                    .collect::<Result<Vec<Facts>, _>>()
                    .map_err(|e| refused(e.to_string()))?;
                let bound = if *bind { bind_near(&gpus) } else { None };
                let devices = gpus.iter().map(|gpu| rank_device(gpu, bound.clone())).collect();
                Ok((DeviceBinding::Gpus { opened, ordinals }, devices))
            }
        }
    }

    /// NCCL's version code; 0 without it.
    pub(super) fn nccl(&self) -> u32 {
        match self {
            DeviceBinding::Core | DeviceBinding::Mpi { .. } | DeviceBinding::Net { .. } => 0,
            DeviceBinding::Gpus { opened, .. } => opened.nccl.version().0,
        }
    }
}

/// A device on a GPU.
fn rank_device(gpu: &Facts, bound: Option<String>) -> RankDevice {
    RankDevice {
        device: gpu.ordinal as usize,
        // nccl-tests prints the address without the function.
        address: gpu.address.trim_end_matches(".0").to_owned(),
        name: gpu.name.clone(),
        bound,
    }
}

/// Binds this thread, and those that it starts, to the processors of the GPUs' NUMA node. Returns their list; none
/// when the GPUs are on different nodes, or the node is unknown.
fn bind_near(gpus: &[Facts]) -> Option<String> {
    let root = machine::Root::system();
    let mut near = gpus.iter().map(|gpu| machine::near(&root, &gpu.address));
    let first = near.next()??;
    if near.any(|other| other.as_ref() != Some(&first)) {
        return None;
    }
    bind_to(&machine::processor_list(&first)).then_some(first)
}

/// Binds this thread; true on success. Without binding, times only vary more.
fn bind_to(processors: &[usize]) -> bool {
    let mut set = CpuSet::new();
    for processor in processors.iter().filter(|p| **p < CpuSet::MAX_CPU) {
        set.set(*processor);
    }
    set.count() > 0 && sched_setaffinity(None, &set).is_ok()
}
