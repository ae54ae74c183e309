//! Preparing a run on `host`: a core for each rank thread, and one memory for all of them.
//! Not the memory itself (`busbw-shm`).

use std::sync::Arc;

use anyhow::Result;
use busbw_core::plan::Plan;
use busbw_shm::{Communicator, Messages};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Host;
use crate::backend::{
    Backend, BackendError, Resources, RunError,
    device::{RankDevice, bind_to},
    factory::{Bound, Cores, Devices, Factory, Joined, RankProcess, SharedMemory, read, unfit},
};

/// Runs on `host`.
pub(crate) struct HostFactory;

/// One core for each rank thread to bind to; without cores devices are numbered from `first`.
#[derive(Serialize, Deserialize)]
struct RankCores {
    /// Core of each rank thread.
    cores: Vec<usize>,
    /// Number of the first one.
    first: usize,
    /// The processor's name.
    name: String,
}

impl Factory for HostFactory {
    /// From NCCL_TESTS_DEVICE on; none when threads must share cores.
    fn devices(&self, plan: &Plan, _: &Resources, cores: &Cores<'_>) -> Result<Devices> {
        let (first, threads) = (plan.first_device, plan.rank_threads());
        let usable = if cores.alike { cores.cpu.cores.as_slice() } else { &[] };
        let mut own: Vec<usize> = usable.iter().skip(first).copied().take(threads).collect();
        if own.len() < threads {
            own.clear();
        }
        let reserved_cores = cores.alike.then_some(own.len());
        let devices =
            Devices::without_cores(RankCores { cores: own, first, name: cores.cpu.model.clone() })?;
        Ok(Devices { reserved_cores, ..devices })
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        Ok(Box::new(read::<RankCores>(devices)?))
    }
}

impl RankProcess for RankCores {
    fn bind(&self, thread: usize) -> Result<Bound, BackendError> {
        let own = self.cores.get(thread).copied();
        if let Some(core) = own {
            bind_to(&[core]);
        }
        let device = RankDevice::core(own.unwrap_or(self.first + thread), &self.name);
        Ok(Bound { devices: vec![device], nccl: 0, open: Box::new(join) })
    }
}

/// Joins the rank's communicator over the shared memory.
fn join<'a>(joined: Joined<'a, '_>) -> Result<Box<dyn Backend + 'a>, RunError> {
    let (plan, rank) = (joined.plan, joined.world.rank());
    let Some(SharedMemory { buffers, control, mailboxes, policy, tables }) = joined.shared else {
        return Err(unfit());
    };
    let groups = plan.groups();
    let members = groups.iter().find(|g| g.contains(&rank)).map_or(&[][..], Vec::as_slice);
    let messages = mailboxes.map(|mailboxes| {
        let (buffers, control) = (Arc::clone(&buffers), Arc::clone(&control));
        Messages::new(members, rank, buffers, control, mailboxes, policy)
    });
    let communicator = Communicator::new(members, rank, buffers, control, policy);
    Ok(Box::new(Host::new(plan, rank, communicator, messages, tables)))
}
