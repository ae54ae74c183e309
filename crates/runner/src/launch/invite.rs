//! What a supervisor tells a rank's process, in one environment variable: where the hub is, and which
//! inherited descriptors hold the shared memory.
//! Not the plan: that comes through the hub.

use anyhow::{Context, Result};
use busbw_core::{
    algorithm::Table,
    plan::{Memory, Plan},
    record::{Cpu, Machine},
};
use rustix::rand::{GetRandomFlags, getrandom};
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

/// The invitation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Invite {
    /// The hub's address.
    pub(super) hub: String,
    /// Proof of invitation.
    pub(super) token: String,
    /// Process that must be our parent.
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
    /// Drivers of all processes.
    pub(super) drivers: usize,
    /// Which process this is.
    pub(super) process: usize,
    /// Its drivers.
    pub(super) seats: Vec<usize>,
    /// As how many nodes all processes pose.
    pub(super) virtual_nodes: usize,
    /// Processes of all nodes.
    pub(super) processes: usize,
    /// Whether it shares memory with no other process, being on another host, possibly.
    pub(super) apart: bool,
    /// Cores for all drivers that share memory.
    pub(super) cores: usize,
    /// What the drivers drive.
    pub(super) devices: Devices,
    /// Host name.
    pub(super) host: String,
    /// What earlier runs measured of this machine.
    pub(super) tables: Vec<Table>,
    /// Which launch this is.
    pub(super) launch: u32,
}

/// What drivers drive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Devices {
    /// Cores to be bound to by driver, or none; numbers count from `first` where there are none.
    Cores {
        /// Core of every driver.
        cores: Vec<usize>,
        /// Number of the first one.
        first: usize,
        /// The processor's name.
        name: String,
    },
    /// Processors as the launcher dealt them out, and the MPI.
    Mpi {
        /// The library.
        libraries: mpi::Libraries,
        /// The processor's name.
        name: String,
        /// GPU of every driver whose buffers are on one, were it a process of this place.
        ordinals: Vec<Option<usize>>,
    },
    /// Memory of hosts, between which a net plugin sends.
    Net {
        /// Which.
        wanted: net::Wanted,
        /// The processor's name.
        name: String,
    },
    /// GPUs of every driver, and the libraries that reach them.
    Gpus {
        /// Ordinals by driver.
        ordinals: Vec<Vec<usize>>,
        /// Which files.
        libraries: Libraries,
        /// Whether drivers stay on the processors next to their GPUs.
        bind: bool,
        /// Whether several ranks may sit on one GPU.
        shared: bool,
        /// The net plugin that NCCL is to load, if one is asked for.
        net: Option<net::Wanted>,
    },
}

impl Devices {
    /// GPUs for every driver, from the plan's first one on. Where ranks share GPUs, numbers begin again.
    pub(super) fn of_gpus(plan: &Plan, gpus: &Gpus, net: Option<net::Wanted>) -> Devices {
        let each = plan.ranks_each();
        let ordinal = |rank| (plan.first_device + rank % each) % gpus.count;
        let ordinals = |driver| plan.ranks_of(driver).map(ordinal).collect();
        Devices::Gpus {
            ordinals: (0..plan.rank_threads()).map(ordinals).collect(),
            libraries: gpus.libraries.clone(),
            bind: plan.bind,
            shared: plan.first_device + each > gpus.count,
            net,
        }
    }

    /// Wherever the launcher has put each process; its GPU by its place on its host.
    pub(super) fn of_mpi(plan: &Plan, libraries: &mpi::Libraries, cpu: &Cpu) -> Devices {
        let gpu = libraries.gpus.as_ref().map(|gpus| plan.first_device % gpus.count);
        let ordinal = |rank| gpu.filter(|_| plan.memory_of(rank) == Memory::Gpu);
        let ordinals = (0..plan.rank_threads()).map(ordinal).collect();
        Devices::Mpi { libraries: libraries.clone(), name: cpu.model.clone(), ordinals }
    }

    /// Wherever each process is: a plugin's threads need processors, too.
    pub(super) fn of_net(wanted: &net::Wanted, cpu: &Cpu) -> Devices {
        Devices::Net { wanted: wanted.clone(), name: cpu.model.clone() }
    }

    /// A core for every driver, from NCCL_TESTS_DEVICE on; none when drivers must share cores.
    pub(super) fn of_cores(plan: &Plan, cpu: &Cpu) -> Devices {
        let (first, drivers) = (plan.first_device, plan.rank_threads());
        let cores: Vec<usize> = cpu.cores.iter().skip(first).copied().take(drivers).collect();
        let cores = if cores.len() == drivers { cores } else { Vec::new() };
        Devices::Cores { cores, first, name: cpu.model.clone() }
    }
}

impl Invite {
    /// The same for a launcher's process: GPUs are its own affair.
    pub(super) fn for_guest(mut self) -> Invite {
        if let Devices::Gpus { ordinals, .. } = &mut self.devices {
            ordinals.clear();
        }
        self
    }

    /// Variables that a process of ranks gets besides our own. Where ranks share a GPU, each process poses
    /// as a host of its own: NCCL refuses two ranks of one host on one GPU, and only those (nccl's
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

/// What a driver tells when it joins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Its process.
    pub(super) pid: u32,
    /// The device of each of its ranks.
    pub(super) devices: Vec<Seat>,
    /// NCCL's version code; 0 without NCCL.
    pub(super) nccl: u32,
}

/// The PCI address of a rank that is on no GPU.
pub(super) const NO_ADDRESS: &str = "0000:00:00";

/// A rank's device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Seat {
    /// Its number; on `host` a core.
    pub(super) device: usize,
    /// PCI address as `domain:bus:device`.
    pub(super) address: String,
    /// Its name.
    pub(super) name: String,
    /// The processors that its driver stays on, as a list of ranges.
    pub(super) bound: Option<String>,
}

/// What earlier runs measured that this one can use. No more than that: an invitation is an environment
/// variable, which has room for 128 KiB.
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
