//! The rank assignment that a supervisor passes to a rank process in one environment variable: the hub's address,
//! the descriptors of shared memory, its ranks and their devices.
//! Not the plan: that comes through the hub.

use anyhow::Result;
use busbw_core::{
    algorithm::Table,
    plan::{Memory, Plan},
    record::{Cpu, Machine},
};
use serde::{Deserialize, Serialize};

use crate::backend::{
    mpi,
    nccl::{Gpus, Libraries},
    net,
};
use busbw_store as store;

/// What NCCL takes for the host's identity (nccl's src/misc/utils.cc, getHostHash).
const HOST_ID: &str = "NCCL_HOSTID";
/// Whether NCCL joins hosts by NVLink.
const MNNVL: &str = "NCCL_MNNVL_ENABLE";

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
    /// How many nodes all processes present themselves as to NCCL.
    pub(super) virtual_nodes: usize,
    /// Processes of all nodes.
    pub(super) processes: usize,
    /// Whether it shares no memory with other processes, since it may be on another host.
    pub(super) apart: bool,
    /// Cores for all rank threads that share memory.
    pub(super) cores: usize,
    /// The devices of the rank threads.
    pub(super) devices: Devices,
    /// Host name.
    pub(super) host: String,
    /// Fastest algorithms that earlier runs measured on this machine.
    pub(super) tables: Vec<Table>,
    /// Which launch this is.
    pub(super) launch: u32,
}

/// The devices of rank threads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Devices {
    /// One core for each rank thread to bind to; without cores devices are numbered from `first`.
    Cores {
        /// Core of each rank thread.
        cores: Vec<usize>,
        /// Number of the first one.
        first: usize,
        /// The processor's name.
        name: String,
    },
    /// Processors as the launcher assigned them, and the MPI.
    Mpi {
        /// The library.
        libraries: mpi::Libraries,
        /// The processor's name.
        name: String,
        /// GPU of each rank thread whose buffers are on one, for a process at this local rank.
        ordinals: Vec<Option<usize>>,
    },
    /// Host memory, between which a net plugin sends.
    Net {
        /// Which.
        wanted: net::Wanted,
        /// The processor's name.
        name: String,
    },
    /// GPUs of each rank thread, and the libraries that reach them.
    Gpus {
        /// Ordinals by rank thread.
        ordinals: Vec<Vec<usize>>,
        /// Which files.
        libraries: Libraries,
        /// Whether rank threads are bound to the processors of their GPUs' NUMA node.
        bind: bool,
        /// Whether several ranks may use one GPU.
        shared: bool,
        /// The net plugin that NCCL is to load, if one is asked for.
        net: Option<net::Wanted>,
    },
}

impl Devices {
    /// GPUs for each rank thread, from the plan's first one on, modulo the number of GPUs.
    pub(super) fn of_gpus(plan: &Plan, gpus: &Gpus, net: Option<net::Wanted>) -> Devices {
        let each = plan.ranks_each();
        let ordinal = |rank| (plan.first_device + rank % each) % gpus.count;
        let ordinals = |rank_thread| plan.ranks_of(rank_thread).map(ordinal).collect();
        Devices::Gpus {
            ordinals: (0..plan.rank_threads()).map(ordinals).collect(),
            libraries: gpus.libraries.clone(),
            bind: plan.bind,
            shared: plan.first_device + each > gpus.count,
            net,
        }
    }

    /// The processors that the launcher assigned; the GPU of the process's local rank.
    pub(super) fn of_mpi(plan: &Plan, libraries: &mpi::Libraries, cpu: &Cpu) -> Devices {
        let gpu = libraries.gpus.as_ref().map(|gpus| plan.first_device % gpus.count);
        let ordinal = |rank| gpu.filter(|_| plan.memory_of(rank) == Memory::Gpu);
        let ordinals = (0..plan.rank_threads()).map(ordinal).collect();
        Devices::Mpi { libraries: libraries.clone(), name: cpu.model.clone(), ordinals }
    }

    /// No core of its own for a rank: a plugin's threads need processors, too.
    pub(super) fn of_net(wanted: &net::Wanted, cpu: &Cpu) -> Devices {
        Devices::Net { wanted: wanted.clone(), name: cpu.model.clone() }
    }

    /// One core for each rank thread, from NCCL_TESTS_DEVICE on; none when threads must share cores.
    pub(super) fn of_cores(plan: &Plan, cpu: &Cpu) -> Devices {
        let (first, rank_threads) = (plan.first_device, plan.rank_threads());
        let cores: Vec<usize> = cpu.cores.iter().skip(first).copied().take(rank_threads).collect();
        let cores = if cores.len() == rank_threads { cores } else { Vec::new() };
        Devices::Cores { cores, first, name: cpu.model.clone() }
    }
}

impl RankAssignment {
    /// The same for a launcher's worker, which finds its GPUs itself.
    pub(super) fn for_worker(mut self) -> RankAssignment {
        if let Devices::Gpus { ordinals, .. } = &mut self.devices {
            ordinals.clear();
        }
        self
    }

    /// Variables that a process of ranks gets besides our own. Where ranks share a GPU, each process
    /// presents itself as a host of its own: NCCL refuses two ranks of one host on one GPU, and only those (nccl's
    /// src/init.cc, the check of busId within a hostHash). Virtual nodes are as many hosts; without
    /// NCCL_MNNVL_ENABLE=0 GPUs of one NVLink fabric would be joined again.
    ///
    /// # Errors
    /// A net plugin of ours that cannot be written out.
    pub(super) fn environment(&self) -> Result<Vec<(&'static str, String)>> {
        let (shared, net) = match &self.devices {
            Devices::Gpus { shared, net, .. } => (*shared, net),
            Devices::Net { .. } | Devices::Cores { .. } | Devices::Mpi { .. } => {
                return Ok(Vec::new());
            }
        };
        let mut variables = Vec::from_iter(net.as_ref().map(net::Wanted::for_nccl).transpose()?);
        if shared {
            variables.push((HOST_ID, format!("{}-{}", self.host, self.process)));
        } else if self.virtual_nodes > 1 {
            let node = self.process * self.virtual_nodes / self.processes.max(1);
            variables.push((HOST_ID, format!("{}-node{node}", self.host)));
            if std::env::var_os(MNNVL).is_none() {
                variables.push((MNNVL, "0".to_owned()));
            }
        }
        Ok(variables)
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

/// The PCI address of a rank that is on no GPU.
pub(super) const NO_ADDRESS: &str = "0000:00:00";

/// A rank's device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RankDevice {
    /// Its number; on `host` a core.
    pub(super) device: usize,
    /// PCI address as `domain:bus:device`.
    pub(super) address: String,
    /// Its name.
    pub(super) name: String,
    /// The processors to which its thread is bound, as a list of ranges.
    pub(super) bound: Option<String>,
}

/// What earlier runs measured that this one can use. No more than that: a rank assignment is one
/// environment variable, which has room for 128 KiB.
pub(super) fn tables(plan: &Plan, machine: &Machine) -> Vec<Table> {
    let sizes: Vec<usize> = plan.groups().iter().map(Vec::len).collect();
    let mut tables = store::algorithms::measured(machine).tables;
    let collective = plan.benchmark.collective();
    tables.retain(|t| Some(t.collective) == collective && sizes.contains(&t.ranks));
    tables
}

#[cfg(test)]
mod tests {
    use busbw_core::{Benchmark, messages::Messages};

    use super::*;

    #[test]
    fn the_end_of_a_pair_says_whether_a_process_has_a_gpu() {
        let plan = Plan {
            benchmark: Benchmark::Messages(Messages::MultiBandwidth),
            devices: 4,
            first_device: 3,
            buffers: Some([Memory::Gpu, Memory::Host]),
            ..Plan::example()
        };
        let of = |gpus| {
            let cpu = Cpu { model: "a processor".to_owned(), ..Cpu::default() };
            match Devices::of_mpi(&plan, &mpi::Libraries { mpi: "m".into(), gpus }, &cpu) {
                Devices::Mpi { ordinals, .. } => ordinals,
                other => panic!("{other:?}"),
            }
        };
        let gpus = mpi::Gpus { amd: false, driver: "d".into(), count: 2, memory: 1 << 30 };
        // Process 3 of its host has the second of two, if its rank is one that begins.
        assert_eq!(of(Some(gpus)), [Some(1), Some(1), None, None]);
        assert_eq!(of(None), [None; 4]);
    }
}
