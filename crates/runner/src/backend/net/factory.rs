//! Preparing a run on `net`: the plugin, and what busbw's own counts.
//! Not loading it (`join`).

use anyhow::{Context, Result};
use busbw_core::{Collective, plan::Plan};
use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Net, Stats, Wanted, operations::COLLECTIVES};
use crate::backend::{
    BackendError, Resources,
    device::RankDevice,
    factory::{Bound, Cores, Devices, Factory, Joined, RankProcess, read},
};

/// Runs on `net`.
pub(crate) struct NetFactory;

/// Host memory, between which a net plugin sends. No rank has a core of its own: a plugin's threads need
/// processors, too.
#[derive(Serialize, Deserialize)]
struct Assigned {
    wanted: Wanted,
    /// The processor's name.
    name: String,
}

impl Factory for NetFactory {
    fn collectives(&self) -> Option<&'static [Collective]> {
        Some(&COLLECTIVES)
    }

    fn devices(&self, _: &Plan, resources: &Resources, cores: &Cores<'_>) -> Result<Devices> {
        let wanted = resources.net.clone().context("no net plugin is named")?;
        Devices::without_cores(Assigned { wanted, name: cores.cpu.model.clone() })
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        let stats = Stats::capture().context("cannot make a file for the net plugin")?;
        Ok(Box::new(Process { assigned: read(devices)?, stats }))
    }
}

/// A process of one rank.
struct Process {
    assigned: Assigned,
    stats: Stats,
}

impl RankProcess for Process {
    fn bind(&self, _: usize) -> Result<Bound, BackendError> {
        let wanted = self.assigned.wanted.clone();
        Ok(Bound {
            devices: vec![RankDevice::first_core(&self.assigned.name)],
            nccl: 0,
            open: Box::new({
                // Started once a process, as NCCL does.
                let mut plugin = None;
                move |joined| {
                    let Joined { plan, world, stopped, .. } = joined;
                    Ok(Box::new(Net::new(plan, &wanted, &mut plugin, world, stopped)?))
                }
            }),
        })
    }

    fn net_stats(&self, rank: usize) -> Option<NetStats> {
        self.stats.last(rank)
    }
}
