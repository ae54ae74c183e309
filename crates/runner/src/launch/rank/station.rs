//! What a driver works with, taken before it joins: a core, or GPUs and the libraries that reach them.
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
    launch::invite::{Devices, NO_ADDRESS, Seat},
    measure::Failure,
};
use busbw_host::machine;

/// A driver's devices.
pub(super) enum Station {
    /// A core of this host, or a share of some.
    Core,
    /// Whatever core the launcher has put us on, the MPI, and the GPU that buffers are on, if they are.
    Mpi { libraries: mpi::Libraries, gpu: Option<Gpu> },
    /// Wherever the process is, and the net plugin.
    Net { wanted: net::Wanted },
    /// GPUs by number.
    Gpus { opened: Opened, ordinals: Vec<usize> },
}

impl Station {
    /// Takes driver `driver`'s station and says what its ranks sit on.
    ///
    /// # Errors
    /// A library or a GPU that cannot be used.
    pub(super) fn take(driver: usize, devices: &Devices) -> Result<(Station, Vec<Seat>), Failure> {
        match devices {
            Devices::Cores { cores, first, name } => {
                if let Some(core) = cores.get(driver) {
                    stay_on(&[*core]);
                }
                let seat = Seat {
                    device: cores.get(driver).copied().unwrap_or(first + driver),
                    address: NO_ADDRESS.to_owned(),
                    name: name.clone(),
                    bound: None,
                };
                Ok((Station::Core, vec![seat]))
            }
            Devices::Mpi { libraries, name, ordinals } => {
                let libraries = libraries.clone();
                let ordinal = ordinals.get(driver).copied().flatten();
                if let (Some(gpus), Some(ordinal)) = (&libraries.gpus, ordinal) {
                    let gpu =
                        gpus.take(ordinal).map_err(|text| Failure::new(Exit::Library, text))?;
                    let seat = seat(&gpu.facts, None);
                    return Ok((Station::Mpi { libraries, gpu: Some(gpu) }, vec![seat]));
                }
                let seat = Seat {
                    device: machine::usable_cores().first().copied().unwrap_or(0),
                    address: NO_ADDRESS.to_owned(),
                    name: name.clone(),
                    bound: None,
                };
                Ok((Station::Mpi { libraries, gpu: None }, vec![seat]))
            }
            Devices::Net { wanted, name } => {
                let seat = Seat {
                    device: machine::usable_cores().first().copied().unwrap_or(0),
                    address: NO_ADDRESS.to_owned(),
                    name: name.clone(),
                    bound: None,
                };
                Ok((Station::Net { wanted: wanted.clone() }, vec![seat]))
            }
            Devices::Gpus { ordinals, libraries, bind, .. } => {
                let refused = |text: String| Failure::new(Exit::Library, text);
                let opened = libraries.open().map_err(|e| refused(e.to_string()))?;
                let ordinals = ordinals.get(driver).cloned().unwrap_or_default();
                let gpus = ordinals
                    .iter()
                    .map(|ordinal| opened.runtime.facts(*ordinal))
                    .collect::<Result<Vec<Facts>, _>>()
                    .map_err(|e| refused(e.to_string()))?;
                let bound = if *bind { stay_near(&gpus) } else { None };
                let seats = gpus.iter().map(|gpu| seat(gpu, bound.clone())).collect();
                Ok((Station::Gpus { opened, ordinals }, seats))
            }
        }
    }

    /// NCCL's version code; 0 without it.
    pub(super) fn nccl(&self) -> u32 {
        match self {
            Station::Core | Station::Mpi { .. } | Station::Net { .. } => 0,
            Station::Gpus { opened, .. } => opened.nccl.version().0,
        }
    }
}

/// A seat on a GPU.
fn seat(gpu: &Facts, bound: Option<String>) -> Seat {
    Seat {
        device: gpu.ordinal as usize,
        // nccl-tests leaves out the function.
        address: gpu.address.trim_end_matches(".0").to_owned(),
        name: gpu.name.clone(),
        bound,
    }
}

/// Keeps this thread, and those that it starts, on the processors next to the GPUs; which these are.
/// Nothing when the GPUs are next to different ones, or the machine does not say.
fn stay_near(gpus: &[Facts]) -> Option<String> {
    let root = machine::Root::system();
    let mut near = gpus.iter().map(|gpu| machine::near(&root, &gpu.address));
    let first = near.next()??;
    if near.any(|other| other.as_ref() != Some(&first)) {
        return None;
    }
    stay_on(&machine::processor_list(&first)).then_some(first)
}

/// Binds this thread; whether that worked. An unbound one only measures a little less steadily.
fn stay_on(processors: &[usize]) -> bool {
    let mut set = CpuSet::new();
    for processor in processors.iter().filter(|p| **p < CpuSet::MAX_CPU) {
        set.set(*processor);
    }
    set.count() > 0 && sched_setaffinity(None, &set).is_ok()
}
