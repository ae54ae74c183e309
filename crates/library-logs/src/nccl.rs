//! Parses NCCL's output with NCCL_DEBUG=INFO into facts that go into the record.
//! Not who captures it, and not what the facts mean for a user.
//!
//! It reads NCCL 2.18 to 2.32 in every subsystem that carries facts (docs/nccl_log.md), NCCL's own
//! diagnostics reports, and older releases' connections. Input may have any prefix, colours, and lines of several ranks in any
//! order, concatenated or torn. Every line takes time linear in its length, and memory is bounded
//! for any length of the log. Nothing is guessed: a message that may lack its end counts as torn.

mod call;
mod channels;
mod choice;
mod communicator;
mod connection;
mod cursor;
mod diagnostics;
mod facts;
mod gdr_distance;
mod graph;
mod ignored;
pub(crate) mod message;
mod network;
mod nvlink;
mod plugin;
mod ras;
mod selection;
mod sentence;
mod settings;
mod tally;
mod timing;
mod topology_dump;
mod transport;
mod version;
mod warning;
mod wqe_latency;

pub use call::{Call, CallReader, CommunicatorAt, Known};
pub use channels::Channels;
pub use choice::{Choice, Execution};
pub use communicator::{Communicator, CommunicatorRank};
pub use connection::{Ends, Pair};
pub use diagnostics::{
    DiagnosedGpu, DiagnosticFact, DiagnosticResult, Diagnostics, DiagnosticsKind, DiagnosticsReport,
};
pub use facts::{Messages, NcclFacts};
pub use gdr_distance::{GdrDistance, path_word};
pub use graph::Graph;
pub use message::plain;
pub use network::{GpuDirect, NetDevice, SocketThreads, SpeedChange};
pub use nvlink::{Fabric, Nvls};
pub use plugin::{Plugin, PluginState};
pub use ras::RasTimeout;
pub use selection::Selection;
pub use sentence::transports_set_up;
pub use settings::Settings;
pub use tally::Counted;
pub use timing::InitTime;
pub use topology_dump::{DumpedGpu, DumpedNet, TopologyDump};
pub use transport::{Mapping, Transport};
pub use version::NcclVersion;
pub use warning::Warning;
pub use wqe_latency::{WqeLatency, WqeSummary};

use cursor::Cursor;
use message::{Level, Message};
use tally::{Tally, counted, keep};

/// The most messages of unknown kinds that are kept as examples.
const MAX_EXAMPLES: usize = 16;
/// The most distinct pairs of a GPU and a NIC that are kept.
const MAX_DISTANCES: usize = 1024;
/// The most distinct plugins, and events of them, that are kept.
const MAX_PLUGIN_EVENTS: usize = 512;

/// Parses a log line by line. Ranks' lines may be interleaved, or follow each other file by file.
#[derive(Debug)]
pub struct Parser {
    versions: version::Versions,
    network: network::Network,
    plugins: Tally<Plugin>,
    dma_buf: u64,
    distances: Tally<GdrDistance>,
    communicators: communicator::Communicators,
    connections: connection::Connections,
    structures: channels::Structures,
    nvlink: nvlink::NvLink,
    graphs: graph::Graphs,
    topologies: topology_dump::TopologyDumps,
    choices: choice::Choices,
    selections: Tally<Selection>,
    wqe_latencies: wqe_latency::WqeLatencies,
    ras: Tally<RasTimeout>,
    diagnostics: diagnostics::DiagnosticsReader,
    settings: settings::SettingsReader,
    timings: timing::Timings,
    words: warning::Words,
    messages: Messages,
    unknown: Vec<String>,
}

impl Default for Parser {
    fn default() -> Self {
        Parser::new()
    }
}

impl Parser {
    /// A parser that has read nothing.
    pub fn new() -> Parser {
        Parser {
            versions: version::Versions::default(),
            network: network::Network::default(),
            plugins: Tally::new(MAX_PLUGIN_EVENTS),
            dma_buf: 0,
            distances: Tally::new(MAX_DISTANCES),
            communicators: communicator::Communicators::default(),
            connections: connection::Connections::default(),
            structures: channels::Structures::default(),
            nvlink: nvlink::NvLink::default(),
            graphs: graph::Graphs::default(),
            topologies: topology_dump::TopologyDumps::default(),
            choices: choice::Choices::default(),
            selections: Tally::new(selection::MAX_SELECTIONS),
            wqe_latencies: wqe_latency::WqeLatencies::default(),
            ras: Tally::new(ras::MAX_RAS_EVENTS),
            diagnostics: diagnostics::DiagnosticsReader::default(),
            settings: settings::SettingsReader::default(),
            timings: timing::Timings::default(),
            words: warning::Words::default(),
            messages: Messages::default(),
            unknown: Vec::new(),
        }
    }

    /// Reads one line, with or without its line end. Lines of other programs have no effect.
    pub fn line(&mut self, line: &str) {
        for line in line.split('\n') {
            let line = message::plain(line);
            let mut spoken = false;
            let torn = message::messages(&line, |message| {
                spoken = true;
                self.hear(&message);
            });
            self.messages.torn += torn;
            if !spoken && torn == 0 && self.versions.read_bare(&line).is_some() {
                self.messages.read += 1;
            }
        }
    }

    /// How many messages were read so far, and how many of each outcome.
    pub fn messages(&self) -> Messages {
        self.messages
    }

    fn hear(&mut self, message: &Message<'_>) {
        let count = match message.level {
            Level::Other => &mut self.messages.ignored,
            Level::Warn | Level::Error | Level::Attn => {
                // What was an INFO of earlier releases carries the same facts: `Failed to initialize NET plugin IB`.
                if message.level == Level::Attn {
                    let _ = self.read(message);
                }
                self.words.warn(message, self.communicators.rank_of(message.origin));
                &mut self.messages.read
            }
            Level::Info if self.read(message).is_some() => &mut self.messages.read,
            Level::Diag if self.diagnose(message).is_some() => &mut self.messages.read,
            Level::Info if ignored::ignored(message.text, message.cut) => {
                &mut self.messages.ignored
            }
            Level::Info | Level::Diag if message.cut => &mut self.messages.torn,
            Level::Info | Level::Diag => {
                if self.unknown.len() < MAX_EXAMPLES {
                    self.unknown.push(keep(message.text));
                }
                &mut self.messages.unknown
            }
        };
        *count += 1;
    }

    /// Passes a line of a diagnostics report to its reader.
    fn diagnose(&mut self, message: &Message<'_>) -> Option<()> {
        self.diagnostics.read(message.origin, message.text, message.cut)
    }

    /// Passes an INFO message to the reader of its kind.
    fn read(&mut self, message: &Message<'_>) -> Option<()> {
        let Message { origin, text, cut, .. } = *message;
        let at = Cursor::new(text, cut);
        self.connections
            .read(at)
            .or_else(|| self.choices.read(text, cut))
            .or_else(|| self.communicators.read(origin, at))
            .or_else(|| self.structures.read(at))
            .or_else(|| self.wqe_latencies.read(origin, at))
            .or_else(|| self.network.read(at))
            .or_else(|| Plugin::read(at).map(|plugin| self.plugins.add(plugin)))
            .or_else(|| self.settings.read(at))
            .or_else(|| self.versions.read(at))
            .or_else(|| self.nvlink.read(at))
            .or_else(|| self.timings.read(at))
            .or_else(|| self.graphs.read(at))
            .or_else(|| self.topologies.read(origin, text, cut))
            .or_else(|| Selection::read(at).map(|one| self.selections.add(one)))
            .or_else(|| RasTimeout::read(at).map(|one| self.ras.add(one)))
            .or_else(|| GdrDistance::read(at).map(|one| self.distances.add(one)))
            .or_else(|| self.words.read(text, cut))
            .or_else(|| {
                text.strip_prefix("DMA-BUF is available on GPU device ").map(|_| self.dma_buf += 1)
            })
    }

    /// All facts.
    pub fn finish(self) -> NcclFacts {
        let mut left_out = 0;
        let (transports, pairs) = self.connections.finish(&mut left_out);
        let (environment, config) = self.settings.finish(&mut left_out);
        let nvls = self.nvlink.nvls;
        NcclFacts {
            versions: counted(self.versions.nccl.finish(&mut left_out)),
            cuda_driver: self.versions.cuda_driver.finish(&mut left_out),
            bootstrap: self.network.bootstrap.finish(&mut left_out),
            networks: self.network.names.finish(&mut left_out),
            plugins: counted(self.plugins.finish(&mut left_out)),
            net_devices: counted(self.network.devices.finish(&mut left_out)),
            gpu_direct: counted(self.network.gpu_direct.finish(&mut left_out)),
            dma_buf: self.dma_buf,
            gdr_distances: counted(self.distances.finish(&mut left_out)),
            socket_threads: counted(self.network.socket_threads.finish(&mut left_out)),
            communicators: self.communicators.finish(&mut left_out),
            connected: self.structures.connected(),
            ordered_channels: self.structures.ordered,
            channels: counted(self.structures.channels.finish(&mut left_out)),
            transports,
            pairs,
            nvls: (nvls != Nvls::default()).then_some(nvls),
            fabrics: counted(self.nvlink.fabrics.finish(&mut left_out)),
            graphs: self.graphs.finish(&mut left_out),
            topologies: self.topologies.finish(&mut left_out),
            choices: self.choices.finish(&mut left_out),
            selections: counted(self.selections.finish(&mut left_out)),
            wqe_latencies: self.wqe_latencies.finish(&mut left_out),
            speed_changes: counted(self.network.speed_changes.finish(&mut left_out)),
            ras_timeouts: counted(self.ras.finish(&mut left_out)),
            diagnostics: self.diagnostics.finish(&mut left_out),
            environment,
            config,
            init: self.timings.finish(&mut left_out),
            warnings: counted(self.words.warnings.finish(&mut left_out)),
            remarks: self.words.remarks.finish(&mut left_out),
            messages: self.messages,
            unknown: self.unknown,
            left_out,
        }
    }
}

/// The facts in a complete text.
pub fn parse(text: &str) -> NcclFacts {
    let mut parser = Parser::new();
    parser.line(text);
    parser.finish()
}
