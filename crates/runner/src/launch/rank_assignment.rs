//! The rank assignment that a supervisor passes to a rank process in one environment variable: the hub's address,
//! the descriptors of shared memory, its ranks and their devices.
//! Not the plan: that comes through the hub.

use anyhow::Result;
use busbw_core::{
    algorithm::Table,
    plan::{BackendChoice, Plan},
    record::Machine,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::{self, RankDevice};
use busbw_store as store;

/// A rank assignment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RankAssignment {
    /// The hub's address.
    pub(super) hub: String,
    /// Authenticates the ranks at the hub.
    pub(super) token: String,
    /// The supervisor's process ID: the parent that a rank process must have.
    pub(super) supervisor: i32,
    /// Descriptor of the control memory.
    pub(super) control: i32,
    /// Descriptors of all ranks' buffers, in rank order; none where they are not shared.
    pub(super) buffers: Vec<i32>,
    /// Descriptor of the mailboxes, where messages go through shared memory.
    pub(super) mailboxes: Option<i32>,
    /// Bytes of one buffer.
    pub(super) buffer_bytes: usize,
    /// Whether there are check buffers.
    pub(super) verified: bool,
    /// Rank threads of all processes.
    pub(super) rank_threads: usize,
    /// Which process this is.
    pub(super) process: usize,
    /// The numbers of its rank threads.
    pub(super) own_threads: Vec<usize>,
    /// Whether it shares no memory with other processes, since it may be on another host.
    pub(super) apart: bool,
    /// Cores for all rank threads that share memory.
    pub(super) cores: usize,
    /// Who moves the bytes.
    pub(super) backend: BackendChoice,
    /// The devices of the rank threads, as the backend's factory reads them.
    pub(super) devices: Value,
    /// Host name.
    pub(super) host: String,
    /// Fastest algorithms that earlier runs measured on this machine.
    pub(super) tables: Vec<Table>,
    /// Which launch this is.
    pub(super) launch: u32,
}

impl RankAssignment {
    /// The same for a launcher's worker, which finds its devices itself unless all ranks share one memory.
    pub(super) fn for_worker(mut self) -> RankAssignment {
        if !self.backend.spec().shares_memory {
            self.devices = Value::Null;
        }
        self
    }

    /// Variables that a process of ranks gets besides our own.
    ///
    /// # Errors
    /// A net plugin of ours that cannot be written out.
    pub(super) fn environment(&self) -> Result<Vec<(&'static str, String)>> {
        backend::factory(&self.backend).environment(&self.devices, &self.host, self.process)
    }
}

/// What a rank thread reports when it joins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Its process.
    pub(super) pid: u32,
    /// The device of each of its ranks.
    pub(super) devices: Vec<RankDevice>,
    /// NCCL's version code; 0 without NCCL.
    pub(super) nccl: u32,
}

/// What earlier runs measured that this one can use. No more than that: a rank assignment is one
/// environment variable, which has room for 128 KiB.
pub(super) fn tables(plan: &Plan, machine: &Machine) -> Vec<Table> {
    let sizes: Vec<usize> = plan.groups().iter().map(Vec::len).collect();
    let mut tables = store::algorithms::measured(machine).tables;
    let collectives = plan.collectives();
    tables.retain(|t| collectives.contains(&t.collective) && sizes.contains(&t.ranks));
    tables
}
