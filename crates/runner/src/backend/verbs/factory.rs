//! Preparing a run on `verbs`: the devices that were asked for.
//! Not opening one (`join`).

use anyhow::Result;
use busbw_core::{Collective, plan::Plan};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Wanted, join};
use crate::backend::{
    BackendError, Resources,
    device::RankDevice,
    factory::{Bound, Cores, Devices, Factory, RankProcess, read},
};

/// Runs on `verbs`.
pub(crate) struct VerbsFactory;

/// The rank's own host chooses the device, and the processors next to it: hosts may differ.
#[derive(Serialize, Deserialize)]
struct Assigned {
    wanted: Wanted,
    /// The processor's name.
    name: String,
}

impl Factory for VerbsFactory {
    fn collectives(&self) -> Option<&'static [Collective]> {
        Some(&[])
    }

    fn devices(&self, _: &Plan, resources: &Resources, cores: &Cores<'_>) -> Result<Devices> {
        let wanted = resources.verbs.clone().unwrap_or_default();
        Devices::without_cores(Assigned { wanted, name: cores.cpu.model.clone() })
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        Ok(Box::new(read::<Assigned>(devices)?))
    }
}

impl RankProcess for Assigned {
    fn bind(&self, _: usize) -> Result<Bound, BackendError> {
        let wanted = self.wanted.clone();
        Ok(Bound {
            devices: vec![RankDevice::first_core(&self.name)],
            nccl: 0,
            open: Box::new(move |joined| {
                Ok(Box::new(join::join(joined.plan, &wanted, joined.world, joined.stopped)?))
            }),
        })
    }
}
