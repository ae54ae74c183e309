//! The first line of a record: benchmark, machine, options, and facts from before the first row.
//! Not a result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Counted;
use crate::plan::Plan;

/// The run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Schema version.
    pub schema: u32,
    /// Unique name of the run: time, program, process.
    pub id: String,
    /// busbw's version.
    pub busbw: String,
    /// Local start time, `%Y-%m-%d %H:%M:%S`.
    pub started: String,
    /// Start time, seconds since 1970.
    pub started_unix: i64,
    /// The command line.
    pub args: Vec<String>,
    /// NCCL_*, UCX_*, OMPI_*, CUDA_* of the environment, with secrets masked.
    pub environment: BTreeMap<String, String>,
    /// The machine of rank 0.
    pub machine: Machine,
    /// What the nccl-tests lines print: headers and library version codes, 0 without NCCL.
    pub nccl: [u32; 2],
    /// Lines that precede the header, such as where the JSON report goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preamble: Vec<String>,
    /// The typed options, with the requested sizes: see `reduced_max_bytes`.
    pub plan: Plan,
    /// The device of every rank.
    pub devices: Vec<Device>,
    /// The last size that was measured, when memory did not allow the plan's; the first size is
    /// lowered to it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced_max_bytes: Option<u64>,
    /// Memory that the run needs.
    pub memory: MemoryFigures,
    /// The clock that times batches.
    pub clock: Clock,
    /// The counters that are read while rows are measured; `null` on backends without devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// Options without effect on this backend.
    pub waived: Vec<Waiver>,
    /// Remarks about the options and the environment.
    pub remarks: Vec<String>,
}

/// Facts about a machine that explain results.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Host name up to the first dot.
    pub host: String,
    /// Operating system, such as "Debian GNU/Linux 12 (bookworm)".
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor.
    pub cpu: Cpu,
    /// Bytes of memory.
    pub memory_total: u64,
    /// Bytes available at the start.
    pub memory_available: u64,
    /// Bytes that the cgroup allows, if it has a limit.
    pub memory_limit: Option<u64>,
    /// Network interfaces that are up, loopback left out.
    pub nics: Vec<Nic>,
    /// GPUs as the PCI bus shows them.
    pub gpus: Vec<Gpu>,
}

/// A processor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name.
    pub model: String,
    /// Cores that this process may use.
    pub cores: Vec<usize>,
    /// Sockets.
    pub sockets: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Name, such as eth0 or mlx5_0.
    pub name: String,
    /// "ethernet" or "infiniband".
    pub kind: String,
    /// Mb/s, if the driver reports it.
    pub speed_mbps: Option<u64>,
}

/// A GPU on the PCI bus, read without its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// PCI address.
    pub address: String,
    /// Vendor and device number, such as 10de:2335.
    pub id: String,
}

/// The device of a rank: one line under "Using devices".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// World rank.
    pub rank: usize,
    /// Colour of its communicator.
    pub group: u64,
    /// Process.
    pub pid: u32,
    /// Host name up to the first dot.
    pub host: String,
    /// Device number; on `host` a core.
    pub device: usize,
    /// PCI address as `domain:bus:device`; 0000:00:00 on `host`.
    pub address: String,
    /// Device name; on `host` the processor's.
    pub name: String,
    /// Processors that the rank's thread is bound to because they are next to its GPU, as a list of
    /// ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
}

/// Memory that a run needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryFigures {
    /// Send, receive and check buffers of one rank.
    pub buffers_per_rank: u64,
    /// Control pages shared by all ranks.
    pub control: u64,
}

/// The clock, measured at start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// The smallest step seen, in nanoseconds.
    pub precision_ns: f64,
    /// Cost of one reading, nanoseconds.
    pub overhead_ns: f64,
}

/// An option that was accepted and has no effect here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// The option as typed, such as `-G 2`.
    pub option: String,
    /// Why it has no effect.
    pub reason: String,
}
