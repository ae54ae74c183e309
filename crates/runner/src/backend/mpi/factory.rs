//! Preparing a run on `mpi`: its library and its log, and the GPU of each rank whose buffers are on one.
//! Not joining MPI (`join`).

use std::sync::Arc;

use anyhow::{Context, Result};
use busbw_core::{
    plan::{Memory, Plan},
    record::Machine,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Libraries, Log, Mpi};
use crate::backend::{
    BackendError, Resources,
    device::RankDevice,
    factory::{Bound, Capacity, Cores, Devices, Factory, RankProcess, read, refused},
};

/// Runs on `mpi`.
pub(crate) struct MpiFactory;

/// Processors as the launcher assigned them, and the MPI.
#[derive(Serialize, Deserialize)]
struct Assigned {
    /// The library.
    libraries: Libraries,
    /// The processor's name.
    name: String,
    /// GPU of each rank thread whose buffers are on one, for a process at this local rank.
    ordinals: Vec<Option<usize>>,
}

/// GPU of each rank thread whose buffers are on one: that of the process's local rank.
fn ordinals(plan: &Plan, libraries: &Libraries) -> Vec<Option<usize>> {
    let gpu = libraries.gpus.as_ref().map(|gpus| plan.first_device % gpus.count);
    let ordinal = |rank| gpu.filter(|_| plan.memory_of(rank) == Memory::Gpu);
    (0..plan.rank_threads()).map(ordinal).collect()
}

impl Factory for MpiFactory {
    fn capacities(&self, here: usize, resources: &Resources, machine: &Machine) -> Vec<Capacity> {
        let gpus = resources.mpi.as_ref().and_then(|mpi| mpi.gpus.as_ref());
        let share = gpus
            .map(|gpus| Capacity { bytes: gpus.memory / gpus.ranks_on_one(here) as u64, ranks: 1 });
        std::iter::once(Capacity::of_host(here, machine)).chain(share).collect()
    }

    fn devices(&self, plan: &Plan, resources: &Resources, cores: &Cores<'_>) -> Result<Devices> {
        let libraries = resources.mpi.clone().context("no MPI was found")?;
        let (name, ordinals) = (cores.cpu.model.clone(), ordinals(plan, &libraries));
        Devices::without_cores(Assigned { libraries, name, ordinals })
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        Ok(Box::new(Process { assigned: read(devices)?, log: Arc::new(Log::capture()) }))
    }
}

/// A process of one rank.
struct Process {
    assigned: Assigned,
    log: Arc<Log>,
}

impl RankProcess for Process {
    fn bind(&self, thread: usize) -> Result<Bound, BackendError> {
        let Assigned { libraries, name, ordinals } = &self.assigned;
        let (libraries, log) = (libraries.clone(), Arc::clone(&self.log));
        let gpu = libraries.gpus.as_ref().zip(ordinals.get(thread).copied().flatten());
        let mut gpu = gpu.map(|(gpus, ordinal)| gpus.take(ordinal)).transpose().map_err(refused)?;
        let device = match &gpu {
            Some(gpu) => RankDevice::gpu(&gpu.facts, None),
            None => RankDevice::first_core(name),
        };
        Ok(Bound {
            devices: vec![device],
            nccl: 0,
            open: Box::new(move |joined| {
                let (gpu, log) = (gpu.take(), Arc::clone(&log));
                let mpi =
                    Mpi::new(joined.plan, &libraries, gpu, log, joined.world, joined.stopped)?;
                Ok(Box::new(mpi))
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::{Benchmark, messages::Messages};

    use super::*;
    use crate::backend::mpi::Gpus;

    #[test]
    fn the_end_of_a_pair_says_whether_a_process_has_a_gpu() {
        let plan = Plan {
            benchmark: Benchmark::Messages(Messages::MultiBandwidth),
            devices: 4,
            first_device: 3,
            buffers: Some([Memory::Gpu, Memory::Host]),
            ..Plan::example()
        };
        let of = |gpus| ordinals(&plan, &Libraries { mpi: "m".into(), gpus });
        let gpus = Gpus { amd: false, driver: "d".into(), count: 2, memory: 1 << 30 };
        // Process 3 of its host has the second of two, if its rank is one that begins.
        assert_eq!(of(Some(gpus)), [Some(1), Some(1), None, None]);
        assert_eq!(of(None), [None; 4]);
    }
}
