//! Preparing a run on `nccl`: its libraries and its log, the GPUs of each rank thread, and the nodes that NCCL sees.
//! Not communicators: they need the other ranks (`join`).

use std::sync::Arc;

use anyhow::{Context, Result};
use busbw_core::{plan::Plan, record::Machine};
use busbw_ffi::{gpu::Facts, search::Environment};
use busbw_host::{
    doctor,
    machine::{self, Root},
};
use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Gpus, Libraries, Log, Nccl, next_calls,
    tuner::{self, Tuner},
};
use crate::backend::{
    BackendError, Resources,
    device::{RankDevice, bind_to},
    factory::{Bound, Capacity, Cores, Devices, Factory, RankProcess, read, refused, unfit},
    net,
};

/// What NCCL takes for the host's identity (nccl's src/misc/utils.cc, getHostHash).
const HOST_ID: &str = "NCCL_HOSTID";
/// Whether NCCL joins hosts by NVLink.
const MNNVL: &str = "NCCL_MNNVL_ENABLE";

/// Runs on `nccl`.
pub(crate) struct NcclFactory;

/// GPUs of each rank thread, and the libraries that reach them.
#[derive(Serialize, Deserialize)]
struct Assigned {
    /// Ordinals by rank thread.
    ordinals: Vec<Vec<usize>>,
    /// Which files.
    libraries: Libraries,
    /// Whether rank threads are bound to the processors of their GPUs' NUMA node.
    bind: bool,
    /// Whether several ranks may use one GPU.
    shared: bool,
    /// How many nodes all processes present themselves as to NCCL.
    virtual_nodes: usize,
    /// Processes of all nodes.
    processes: usize,
    /// The net plugin that NCCL is to load, if one is asked for.
    net: Option<net::Wanted>,
    /// The tuner that NCCL is to ask, if one is asked for.
    tuner: Option<Tuner>,
    /// Whether calls have variants, which before NCCL 2.31 busbw's tuner is told.
    variants: bool,
}

/// The GPU of a rank: from the plan's first one on, modulo the number of GPUs of this host.
fn ordinal(plan: &Plan, gpus: &Gpus, rank: usize) -> usize {
    (plan.first_device + rank % plan.ranks_each()) % gpus.count
}

impl Factory for NcclFactory {
    fn remarks(&self, plan: &Plan, resources: &Resources) -> Vec<String> {
        let apart = resources.gpus.as_ref().and_then(|gpus| {
            let here = (0..plan.ranks_each()).map(|rank| ordinal(plan, gpus, rank));
            gpus.apart(&here.collect::<Vec<_>>())
        });
        let lacking = doctor::lacking(Root::system(), Environment::of_process(), plan.ranks_each());
        apart.into_iter().chain(Log::absence()).chain(lacking).collect()
    }

    /// Each rank has a GPU: the smallest counts.
    fn capacities(&self, _: usize, resources: &Resources, _: &Machine) -> Vec<Capacity> {
        let bytes = resources.gpus.as_ref().map_or(0, |gpus| gpus.memory);
        vec![Capacity { bytes, ranks: 1 }]
    }

    fn devices(&self, plan: &Plan, resources: &Resources, _: &Cores<'_>) -> Result<Devices> {
        let gpus = resources.gpus.as_ref().context("no GPUs were found")?;
        let of_thread = |thread| plan.ranks_of(thread).map(|rank| ordinal(plan, gpus, rank));
        Devices::without_cores(Assigned {
            ordinals: (0..plan.rank_threads()).map(|t| of_thread(t).collect()).collect(),
            libraries: gpus.libraries.clone(),
            bind: plan.bind,
            shared: plan.first_device + plan.ranks_each() > gpus.count,
            virtual_nodes: plan.virtual_nodes,
            processes: plan.processes(),
            net: resources.net.clone(),
            tuner: resources.tuner.clone(),
            variants: !plan.variants.is_empty(),
        })
    }

    /// Where ranks share a GPU, each process presents itself as a host of its own: NCCL refuses two ranks of one host
    /// on one GPU, and only those (nccl's src/init.cc, the check of busId within a hostHash). Virtual nodes are as
    /// many hosts; without NCCL_MNNVL_ENABLE=0 GPUs of one NVLink fabric would be joined again.
    fn environment(
        &self,
        devices: &Value,
        host: &str,
        process: usize,
    ) -> Result<Vec<(&'static str, String)>> {
        let Assigned { shared, virtual_nodes, processes, net, tuner, .. } = read(devices)?;
        let mut variables = Vec::from_iter(net.as_ref().map(net::Wanted::for_nccl).transpose()?);
        if let Some(tuner) = tuner {
            variables.extend(tuner.variables()?);
        }
        if shared {
            variables.push((HOST_ID, format!("{host}-{process}")));
        } else if virtual_nodes > 1 {
            let node = process * virtual_nodes / processes.max(1);
            variables.push((HOST_ID, format!("{host}-node{node}")));
            if std::env::var_os(MNNVL).is_none() {
                variables.push((MNNVL, "0".to_owned()));
            }
        }
        Ok(variables)
    }

    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>> {
        let log = Log::capture().context("cannot make a file for NCCL's log")?.map(Arc::new);
        let stats = net::Stats::capture().context("cannot make a file for the net plugin")?;
        let assigned: Assigned = read(devices)?;
        if assigned.variants {
            next_calls::load(&assigned.libraries)?;
        }
        Ok(Box::new(Process { assigned, log, stats }))
    }
}

/// A process of rank threads with GPUs.
struct Process {
    assigned: Assigned,
    /// NCCL's log, if it can be captured.
    log: Option<Arc<Log>>,
    stats: net::Stats,
}

impl RankProcess for Process {
    fn bind(&self, thread: usize) -> Result<Bound, BackendError> {
        let opened = self.assigned.libraries.open().map_err(refused)?;
        let version = opened.nccl.version();
        if self.assigned.tuner.as_ref().is_some_and(Tuner::is_asked_for)
            && version.0 < tuner::FIRST_RELEASE
        {
            return Err(refused(format!(
                "NCCL {version} asks no tuner with a table of busbw's: --tuner needs NCCL 2.21 or newer (--nccl names one)"
            )));
        }
        let ordinals = self.assigned.ordinals.get(thread).cloned().unwrap_or_default();
        let gpus = ordinals.iter().map(|ordinal| opened.runtime.facts(*ordinal));
        let gpus = gpus.collect::<Result<Vec<Facts>, _>>().map_err(refused)?;
        let bound = if self.assigned.bind { bind_near(&gpus) } else { None };
        let log = self.log.clone();
        Ok(Bound {
            devices: gpus.iter().map(|gpu| RankDevice::gpu(gpu, bound.clone())).collect(),
            nccl: version.0,
            open: Box::new(move |joined| {
                let options = *joined.plan.backend.gpu_options().ok_or_else(unfit)?;
                let (ordinals, log) = (ordinals.clone(), log.clone());
                let nccl = Nccl::new(joined.plan, options, opened, ordinals, log, joined.stopped);
                Ok(Box::new(nccl))
            }),
        })
    }

    fn net_stats(&self, rank: usize) -> Option<NetStats> {
        self.stats.last(rank)
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
