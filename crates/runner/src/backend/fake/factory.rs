//! Preparing a run on `fake`: devices that are only numbers.
//! Not the cost model (`busbw_core::cost`).

use anyhow::Result;
use busbw_core::{
    plan::{BackendChoice, Plan},
    record::Machine,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Fake;
use crate::backend::{
    BackendError, Resources,
    device::RankDevice,
    factory::{Bound, Capacity, Cores, Devices, Factory, RankProcess, read, unfit},
};

/// Runs on `fake`.
pub(crate) struct FakeFactory;

/// The numbers of the ranks' devices.
#[derive(Serialize, Deserialize)]
struct Numbers {
    first: usize,
    ranks: usize,
}

impl Factory for FakeFactory {
    fn capacities(&self, _: usize, _: &Resources, _: &Machine) -> Vec<Capacity> {
        Vec::new()
    }

    fn devices(&self, plan: &Plan, _: &Resources, _: &Cores<'_>) -> Result<Devices> {
        Devices::without_cores(Numbers { first: plan.first_device, ranks: plan.ranks() })
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        Ok(Box::new(read::<Numbers>(devices)?))
    }
}

impl RankProcess for Numbers {
    fn bind(&self, _: usize) -> Result<Bound, BackendError> {
        let device = |device| RankDevice {
            device,
            address: format!("0000:{device:02x}:00"),
            name: "fake".to_owned(),
            bound: None,
        };
        Ok(Bound {
            devices: (self.first..self.first + self.ranks).map(device).collect(),
            nccl: 0,
            open: Box::new(|joined| {
                let BackendChoice::Fake(model) = joined.plan.backend else { return Err(unfit()) };
                Ok(Box::new(Fake::new(joined.plan, model)))
            }),
        })
    }
}
