//! The backends, and options of GPUs alone.
//! Not whether this machine has them.

use serde::{Deserialize, Serialize};

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
    /// A cost model; no bytes move.
    Fake(CostModel),
}

impl BackendChoice {
    /// Its name in records and messages.
    pub const fn name(&self) -> &'static str {
        match self {
            BackendChoice::Host => "host",
            BackendChoice::Nccl(_) => "nccl",
            BackendChoice::Mpi => "mpi",
            BackendChoice::Net => "net",
            BackendChoice::Fake(_) => "fake",
        }
    }
}

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
