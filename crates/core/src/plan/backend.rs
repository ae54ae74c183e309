//! Who moves the bytes, and what only means something on GPUs.
//! Not whether this machine has it.

use serde::{Deserialize, Serialize};

use crate::cost::CostModel;

/// Who moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// Shared memory of this machine.
    Host,
    /// GPUs, by NCCL or RCCL.
    Nccl(GpuOptions),
    /// Processes of an MPI.
    Mpi,
    /// A net plugin of NCCL's kind, between memory of hosts.
    Net,
    /// A cost model; nothing moves.
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

/// Where a rank's buffers lie, where there is a choice (`--buffers`).
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

/// What only means something on GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuOptions {
    /// How buffers are registered with the communicator (`-R`).
    pub register: Registration,
    /// ncclConfig.CTAPolicy (`-x`): 0 default, 1 efficiency, 2 zero; unset leaves NCCL's own.
    pub cta_policy: Option<i32>,
    /// Operations go to the default stream (`-y`).
    pub default_stream: bool,
    /// Who makes the data, and who judges it.
    #[serde(default)]
    #[serde(rename = "proof")]
    pub checked_by: CheckedBy,
}

/// Who fills buffers with the pattern, and who compares results with it: GPU and host say the same,
/// and each can be held against the other (`--proof`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckedBy {
    /// The GPU does both; on GPUs that take no PTX, the host.
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
