//! What one host contributes to the preparation of a job on several: its fingerprint, the doctor's findings, its
//! interfaces, RDMA ports, fabric and device tree.
//! Not how hosts are reached, and not what follows from their differences.

use std::collections::BTreeMap;

use busbw_core::finding::Finding;
use busbw_hardware::topology::System;
use serde::{Deserialize, Serialize};

use crate::{
    doctor::{self, Fingerprint, Node},
    in_use,
    machine::{self, Interface},
    topo,
};
use busbw_store as store;

/// One process's contribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// Its host, its number, and the facts that are compared among ranks.
    pub fingerprint: Fingerprint,
    /// What others use of the host: a phrase for each GPU and network device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_use: Vec<String>,
    /// Of the host, once: by its first process, or by each where a process does not know its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSurvey>,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostSurvey {
    /// What the doctor finds there.
    pub findings: Vec<Finding>,
    /// Its interfaces, in the order in which NCCL takes them.
    pub interfaces: Vec<Interface>,
    /// Ports of its RDMA devices.
    pub ports: Vec<RdmaPort>,
    /// NCCL_* variables there, with secrets masked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Its GPUs, adapters, and what joins them.
    pub system: System,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaPort {
    /// The device, such as mlx5_0.
    pub device: String,
    /// From 1.
    pub number: u32,
    /// RoCE, or InfiniBand.
    pub ethernet: bool,
    /// As the kernel writes it: ACTIVE, DOWN.
    pub state: String,
}

impl RdmaPort {
    /// `ib` or `roce`.
    pub fn family(&self) -> &'static str {
        if self.ethernet { "roce" } else { "ib" }
    }

    /// Whether it is up.
    pub fn is_active(&self) -> bool {
        self.state == "ACTIVE"
    }
}

impl Survey {
    /// Reads this machine for process `rank`, whose GPU has NVML's number `gpu`; the host's part only where
    /// `whole` says so.
    pub fn take(node: &Node, rank: usize, gpu: Option<u32>, whole: bool) -> Survey {
        let fingerprint = Fingerprint::take(node, &machine::host_name(), rank, gpu);
        let in_use = if whole { in_use::in_use(node) } else { Vec::new() };
        Survey { fingerprint, in_use, host: whole.then(|| HostSurvey::take(node)) }
    }
}

impl HostSurvey {
    /// Reads the machine of `node`.
    pub fn take(node: &Node) -> HostSurvey {
        let variables = node.environment.all().filter(|(name, _)| name.starts_with("NCCL_"));
        let variables = variables
            .map(|(name, value)| (name.clone(), store::shown(name, &value.to_string_lossy())));
        let ports = node.rdma.iter().flat_map(|device| {
            device.ports.iter().map(|port| RdmaPort {
                device: device.name.clone(),
                number: port.number,
                ethernet: port.ethernet,
                state: port.state.clone(),
            })
        });
        HostSurvey {
            findings: doctor::check(node),
            interfaces: machine::interfaces(&node.root, machine::shaped_rate),
            ports: ports.collect(),
            variables: variables.collect(),
            system: topo::read(&node.root, node.driver.as_ref().ok()),
        }
    }

    /// The NVLink clusters and cliques that its GPUs registered with (MNNVL); none unless all of them did.
    pub fn nvlink_cliques(&self) -> Option<Vec<(String, u32)>> {
        let gpus = self.system.devices.iter().filter_map(|device| device.gpu.as_ref());
        let each = gpus.map(|gpu| {
            let fabric = gpu.fabric.as_ref().filter(|fabric| fabric.state == "completed")?;
            Some((fabric.cluster.clone()?, fabric.clique))
        });
        let mut all = each.collect::<Option<Vec<(String, u32)>>>()?;
        all.sort();
        all.dedup();
        (!all.is_empty()).then_some(all)
    }
}
