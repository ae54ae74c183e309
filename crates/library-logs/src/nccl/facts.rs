//! The facts in NCCL's own output of a run, in the form of the record.
//! Only what was printed: an absent field means that no message contained it, not that it is not
//! so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::channels::Channels;
use super::choice::Choice;
use super::communicator::Communicator;
use super::connection::{Ends, Pair};
use super::diagnostics::Diagnostics;
use super::gdr_distance::GdrDistance;
use super::graph::Graph;
use super::network::{GpuDirect, NetDevice, SocketThreads, SpeedChange};
use super::nvlink::{Fabric, Nvls};
use super::plugin::Plugin;
use super::ras::RasTimeout;
use super::selection::Selection;
use super::settings::Settings;
use super::tally::{Counted, is_zero};
use super::timing::InitTime;
use super::topology_dump::TopologyDump;
use super::version::NcclVersion;
use super::warning::Warning;
use super::wqe_latency::WqeLatency;

/// The facts in the output of one or several ranks. docs/nccl_log.md says what each part proves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NcclFacts {
    /// NCCL's versions: more than one means that ranks differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Counted<NcclVersion>>,
    /// The driver's CUDA version, such as `13000`, and how many messages contained it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cuda_driver: BTreeMap<String, u64>,
    /// Interfaces of the bootstrap network.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bootstrap: BTreeMap<String, u64>,
    /// The networks that communicators use (`Using network …`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, u64>,
    /// Plugins, with one entry for each event of one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Counted<Plugin>>,
    /// Network devices that were found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub net_devices: Vec<Counted<NetDevice>>,
    /// Whether GPU Direct RDMA is enabled, for each network device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_direct: Vec<Counted<GpuDirect>>,
    /// Messages that a GPU can export its memory by DMA-BUF.
    #[serde(skip_serializing_if = "is_zero")]
    pub dma_buf: u64,
    /// How far NICs are from GPUs, and how far they may be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gdr_distances: Vec<Counted<GdrDistance>>,
    /// Helper threads of NET/Socket.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub socket_threads: Vec<Counted<SocketThreads>>,
    /// Every communicator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub communicators: Vec<Communicator>,
    /// Numbers of channels, counted over ranks of all communicators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Counted<Channels>>,
    /// The most channels in lines of their ranks' order (`Channel 00/12 : 0 1 3 2`): all that releases before 2.17 say of their
    /// number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered_channels: Option<u32>,
    /// The transports that were set up, over all pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transports: Vec<Ends>,
    /// The same for each pair of ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Structures whose connections are complete: `rings`, `trees`, `binomial trees`, `NVLS tree`,
    /// `CollNet`, `CollNet chains`; by messages, one of each rank and communicator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub connected: BTreeMap<String, u64>,
    /// NVLink multicast, where a message mentions it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvls: Option<Nvls>,
    /// NVLink fabrics that GPUs report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fabrics: Vec<Counted<Fabric>>,
    /// Graphs that were found (GRAPH).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<Counted<Graph>>,
    /// The topology of each host (GRAPH).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topologies: Vec<TopologyDump>,
    /// The choice for each call (TUNING).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// What became of the algorithms that calls asked for (TUNING, 2.31 on).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selections: Vec<Counted<Selection>>,
    /// How long work requests of queue pairs took (NET, 2.31 on).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wqe_latencies: Vec<WqeLatency>,
    /// Ports whose speed changed during the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub speed_changes: Vec<Counted<SpeedChange>>,
    /// Peers that did not answer RAS in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ras_timeouts: Vec<Counted<RasTimeout>>,
    /// NCCL's own diagnostics reports (2.31 on).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Diagnostics>,
    /// Variables that NCCL logged as taken from the environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: Settings,
    /// The configuration of communicators that the program set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: Settings,
    /// The time that communicators took to initialise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init: Vec<InitTime>,
    /// Warnings, word for word.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Counted<Warning>>,
    /// Other messages that are kept word for word because they explain a choice.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub remarks: BTreeMap<String, u64>,
    /// How many messages there were, and how many of them were understood.
    pub messages: Messages,
    /// The first messages of unknown kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Entries that were parsed and dropped, because there were too many different ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// How many messages there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Messages {
    /// Understood: they are in the facts.
    pub read: u64,
    /// Known, and ignored on purpose.
    pub ignored: u64,
    /// Of no known kind.
    pub unknown: u64,
    /// Unreadable, because another message begins in their middle.
    pub torn: u64,
}

impl NcclFacts {
    /// Whether there was no message of NCCL at all.
    pub fn is_empty(&self) -> bool {
        *self == NcclFacts::default()
    }
}
