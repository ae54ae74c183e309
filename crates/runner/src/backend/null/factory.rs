//! Preparing a run on `null`: processes of ranks without devices of their own.
//! Not what they do then (`null`).

use anyhow::Result;
use busbw_core::plan::Plan;
use serde_json::Value;

use super::Null;
use crate::backend::{
    BackendError, Resources,
    device::RankDevice,
    factory::{Bound, Cores, Devices, Factory, RankProcess, read},
};

/// Runs on `null`.
pub(crate) struct NullFactory;

/// The processor's name.
struct Processor(String);

impl Factory for NullFactory {
    fn devices(&self, _: &Plan, _: &Resources, cores: &Cores<'_>) -> Result<Devices> {
        Devices::without_cores(&cores.cpu.model)
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        Ok(Box::new(Processor(read(devices)?)))
    }
}

impl RankProcess for Processor {
    fn bind(&self, _: usize) -> Result<Bound, BackendError> {
        let devices = vec![RankDevice::first_core(&self.0)];
        Ok(Bound { devices, nccl: 0, open: Box::new(|_| Ok(Box::new(Null))) })
    }
}
