//! The backends, what there is to say of each, and options of GPUs alone.
//! Not whether this machine has them.

mod spec;

use serde::{Deserialize, Serialize};

pub use self::spec::{BackendSpec, BufferMemory, GpuOptionUse, MovedBy, RankHolder};
use super::VerbsOptions;
use crate::cost::CostModel;

/// The backend, which moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// Shared memory of this machine.
    Host,
    /// GPUs, by NCCL or RCCL.
    Nccl(GpuOptions),
    /// MPI, between processes of its launcher.
    Mpi,
    /// A NCCL net plugin, between memory of hosts.
    Net,
    /// RDMA devices, between memory of hosts.
    Verbs(VerbsOptions),
    /// A cost model; no bytes move.
    Fake(CostModel),
}

impl BackendChoice {
    /// Every backend, with the defaults of its own options.
    pub fn all() -> [BackendChoice; 6] {
        [
            BackendChoice::Host,
            BackendChoice::Nccl(GpuOptions::default()),
            BackendChoice::Mpi,
            BackendChoice::Net,
            BackendChoice::Verbs(VerbsOptions::default()),
            BackendChoice::Fake(CostModel::default()),
        ]
    }

    /// What there is to say of it.
    pub const fn spec(&self) -> &'static BackendSpec {
        match self {
            BackendChoice::Host => &HOST,
            BackendChoice::Nccl(_) => &NCCL,
            BackendChoice::Mpi => &MPI,
            BackendChoice::Net => &NET,
            BackendChoice::Verbs(_) => &VERBS,
            BackendChoice::Fake(_) => &FAKE,
        }
    }

    /// Its name in options, records and messages.
    pub const fn name(&self) -> &'static str {
        self.spec().name
    }

    /// The options of GPUs, where it has them.
    pub const fn gpu_options(&self) -> Option<&GpuOptions> {
        match self {
            BackendChoice::Nccl(options) => Some(options),
            _ => None,
        }
    }

    /// The options of RDMA, where it has them.
    pub const fn verbs_options(&self) -> Option<&VerbsOptions> {
        match self {
            BackendChoice::Verbs(options) => Some(options),
            _ => None,
        }
    }
}

const HOST: BackendSpec = BackendSpec {
    name: "host",
    help: Some("Shared memory of this machine"),
    moved_by: MovedBy::Busbw,
    buffers: BufferMemory::Host,
    shares_memory: true,
    rank_holder: RankHolder::Thread,
    needs_launcher: false,
    several_communicators: false,
    gpu_options: GpuOptionUse::Waived {
        registration: "host buffers are shared memory already: nothing is registered",
    },
};

const NCCL: BackendSpec = BackendSpec {
    name: "nccl",
    help: Some("GPUs, by the NCCL or RCCL of this machine"),
    moved_by: MovedBy::Nccl,
    buffers: BufferMemory::Gpu,
    shares_memory: false,
    rank_holder: RankHolder::Device,
    needs_launcher: false,
    several_communicators: true,
    gpu_options: GpuOptionUse::Used,
};

const MPI: BackendSpec = BackendSpec {
    name: "mpi",
    help: Some("Processes of the MPI whose launcher started them"),
    moved_by: MovedBy::Mpi,
    buffers: BufferMemory::Chosen,
    shares_memory: false,
    rank_holder: RankHolder::Process,
    needs_launcher: true,
    several_communicators: false,
    gpu_options: GpuOptionUse::Waived {
        registration: "MPI registers buffers itself, where it does",
    },
};

const NET: BackendSpec = BackendSpec {
    name: "net",
    help: Some("A net plugin of NCCL's kind, between memory of hosts"),
    moved_by: MovedBy::NetPlugin,
    buffers: BufferMemory::Host,
    shares_memory: false,
    rank_holder: RankHolder::Process,
    needs_launcher: false,
    several_communicators: true,
    gpu_options: GpuOptionUse::Waived {
        registration: "every buffer is registered with the plugin",
    },
};

const VERBS: BackendSpec = BackendSpec {
    name: "verbs",
    help: Some("RDMA devices, between memory of hosts: perftest's tests"),
    moved_by: MovedBy::Verbs,
    buffers: BufferMemory::Chosen,
    shares_memory: false,
    rank_holder: RankHolder::Process,
    needs_launcher: false,
    several_communicators: false,
    gpu_options: GpuOptionUse::Waived {
        registration: "every buffer is registered with the device",
    },
};

const FAKE: BackendSpec = BackendSpec {
    name: "fake",
    help: None,
    moved_by: MovedBy::Nothing,
    buffers: BufferMemory::None,
    shares_memory: false,
    rank_holder: RankHolder::Simulated,
    needs_launcher: false,
    several_communicators: false,
    gpu_options: GpuOptionUse::Modelled,
};

/// The memory of a rank's buffers, where there is a choice (`--buffers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// In memory of its process.
    #[default]
    Host,
    /// On a GPU.
    Gpu,
}

impl Memory {
    /// Its word in options.
    pub const fn name(self) -> &'static str {
        match self {
            Memory::Host => "host",
            Memory::Gpu => "gpu",
        }
    }
}

/// Options of GPUs alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuOptions {
    /// How buffers are registered with the communicator (`-R`).
    pub register: Registration,
    /// ncclConfig.CTAPolicy (`-x`): 0 default, 1 efficiency, 2 zero; unset leaves NCCL's own.
    pub cta_policy: Option<i32>,
    /// Operations go to the default stream (`-y`).
    pub default_stream: bool,
    /// The side that fills and verifies the data.
    #[serde(default)]
    #[serde(rename = "proof")]
    pub checked_by: CheckedBy,
}

/// The side that fills buffers with the pattern, and the one that compares results with it: GPU and
/// host give the same answer, and each can be checked against the other (`--proof`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckedBy {
    /// The GPU does both; on GPUs without PTX, the host.
    #[default]
    Gpu,
    /// The host fills, the GPU verifies.
    HostFills,
    /// The GPU fills, the host verifies.
    HostVerifies,
}

/// How buffers are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// 0: not at all.
    #[default]
    None,
    /// 1: ncclCommRegister.
    Local,
    /// 2: ncclCommWindowRegister with symmetric addresses.
    Symmetric,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_options_use_the_same_names() {
        for backend in BackendChoice::all() {
            let written = serde_json::to_value(backend).unwrap();
            let tag = written.as_object().and_then(|fields| fields.keys().next().cloned());
            let tag = tag.or_else(|| written.as_str().map(str::to_owned));
            assert_eq!(tag.as_deref(), Some(backend.name()));
        }
    }
}
