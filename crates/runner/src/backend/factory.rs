//! What a run needs of a backend before and besides measuring: memory, devices, libraries, opening it in a rank.
//! Not the backend itself (`Backend`), and nothing that depends on options.

use std::sync::Arc;

use anyhow::{Context, Result};
use busbw_core::{
    Collective,
    algorithm::Table,
    exit::Exit,
    plan::Plan,
    record::{Cpu, Machine},
};
use busbw_job::world::World;
use busbw_shm::{Buffers, Control, Mailboxes, WaitPolicy};
use nccl_plugin_abi::net_stats::NetStats;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Backend, BackendError, Resources, RunError, device::RankDevice};

/// Prepares the runs of one backend. What it says of devices travels in rank assignments, from the supervisor to
/// processes of ranks; only the same factory reads it.
pub(crate) trait Factory: Sync {
    /// The collectives that there are, where all others are refused before any rank starts. Without them,
    /// [`Backend::supported`] says of each case why it is waived.
    fn collectives(&self) -> Option<&'static [Collective]> {
        None
    }

    /// What is to be said of the plan's devices before the run.
    fn remarks(&self, _plan: &Plan, _resources: &Resources) -> Vec<String> {
        Vec::new()
    }

    /// The memories that hold the buffers of the `here` ranks on this host.
    fn capacities(&self, here: usize, _resources: &Resources, machine: &Machine) -> Vec<Capacity> {
        vec![Capacity::of_host(here, machine)]
    }

    /// The devices of the plan's rank threads.
    ///
    /// # Errors
    /// The machine lacks what the plan needs.
    fn devices(&self, plan: &Plan, resources: &Resources, cores: &Cores<'_>) -> Result<Devices>;

    /// Variables that process `process` of ranks on `host` needs beside busbw's own.
    ///
    /// # Errors
    /// A file that a library is to load cannot be written.
    fn environment(
        &self,
        _devices: &Value,
        _host: &str,
        _process: usize,
    ) -> Result<Vec<(&'static str, String)>> {
        Ok(Vec::new())
    }

    /// Prepares this process for ranks on `devices`, before any library is loaded.
    ///
    /// # Errors
    /// `devices` is of another backend, or a library's log cannot be captured.
    fn process(&self, devices: &Value) -> Result<Box<dyn RankProcess>>;
}

/// A process of ranks, shared by its rank threads.
pub(crate) trait RankProcess: Send + Sync {
    /// Binds the calling thread, rank thread number `thread` of the run, to its devices.
    ///
    /// # Errors
    /// A library or a GPU that cannot be used.
    fn bind(&self, thread: usize) -> Result<Bound, BackendError>;

    /// What busbw's net plugin counted in this process, at the end; `rank` is its first.
    fn net_stats(&self, _rank: usize) -> Option<NetStats> {
        None
    }
}

/// A rank thread that is bound to its devices.
pub(crate) struct Bound {
    /// The device of each of its ranks.
    pub(crate) devices: Vec<RankDevice>,
    /// NCCL's version code; 0 without NCCL.
    pub(crate) nccl: u32,
    /// Opens the backend when all ranks have joined; again for each partition of the ranks, where a rank can be in several
    /// communicators.
    pub(crate) open: Box<Open>,
}

/// Opens a backend as one rank thread holds it.
pub(crate) type Open = dyn for<'a> FnMut(Joined<'a, '_>) -> Result<Box<dyn Backend + 'a>, RunError>;

/// The run that a rank thread has joined.
pub(crate) struct Joined<'a, 'w> {
    pub(crate) plan: &'a Plan,
    pub(crate) world: &'w mut dyn World,
    /// Whether the supervisor has aborted the run.
    pub(crate) stopped: Box<dyn Fn() -> bool + 'a>,
    /// The memory of all ranks' buffers, where they share it.
    pub(crate) shared: Option<SharedMemory<'a>>,
}

/// Memory that all ranks share.
pub(crate) struct SharedMemory<'a> {
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) control: Arc<Control>,
    /// For messages, where they are measured.
    pub(crate) mailboxes: Option<Arc<Mailboxes>>,
    pub(crate) policy: WaitPolicy,
    /// The fastest algorithms that earlier runs measured on this machine.
    pub(crate) tables: &'a [Table],
}

/// The processors of this host.
pub(crate) struct Cores<'m> {
    /// As the machine describes them.
    pub(crate) cpu: &'m Cpu,
    /// Whether each process may use the same ones: otherwise no rank can be given one by its number.
    pub(crate) alike: bool,
}

/// The devices of the rank threads.
pub(crate) struct Devices {
    /// As the backend's own factory reads it.
    pub(crate) assigned: Value,
    /// Cores that only rank threads use, where each has one of its own; 0 where they do not suffice.
    pub(crate) reserved_cores: Option<usize>,
}

impl Devices {
    /// Devices of which no processor belongs to a rank.
    pub(super) fn without_cores(assigned: impl serde::Serialize) -> Result<Devices> {
        let assigned = serde_json::to_value(assigned).context("cannot serialise the devices")?;
        Ok(Devices { assigned, reserved_cores: None })
    }
}

/// A memory that holds the buffers of several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Its bytes.
    pub(crate) bytes: u64,
    /// The ranks.
    pub(crate) ranks: u64,
}

impl Capacity {
    /// Memory of this host, or of the control group.
    pub(super) fn of_host(ranks: usize, machine: &Machine) -> Capacity {
        let bytes = machine.memory_limit.unwrap_or(u64::MAX).min(machine.memory_available);
        Capacity { bytes, ranks: ranks as u64 }
    }
}

/// Reads devices that the same factory has made.
///
/// # Errors
/// They are another backend's.
pub(super) fn read<D: DeserializeOwned>(devices: &Value) -> Result<D> {
    D::deserialize(devices).context("the devices of the rank assignment are of another backend")
}

/// The plan or the memory of the run is another backend's.
pub(super) fn unfit() -> RunError {
    let text = "the rank assignment does not fit the plan".to_owned();
    RunError::Backend(BackendError::Refused { text, exit: Exit::Internal })
}

/// A library or a device that cannot be used.
pub(super) fn refused(text: impl ToString) -> BackendError {
    BackendError::Refused { text: text.to_string(), exit: Exit::Library }
}
