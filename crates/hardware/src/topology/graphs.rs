//! NCCL's graphs: the rings and trees that it decided on (NCCL_GRAPH_DUMP_FILE; NCCL 2.30.7,
//! src/graph/search.cc, ncclTopoGetXmlFromGraphs). Not the search for them.

use serde::{Deserialize, Serialize};

use super::{Refused, elements::Element};

/// All graphs of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graphs {
    /// Form of the file.
    pub version: u32,
    /// By the order of the file.
    pub graphs: Vec<Graph>,
}

/// How one algorithm would run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// 0 to 4, see [`Graph::algorithm`].
    pub id: u32,
    /// NCCL_TOPO_PATTERN_*.
    pub pattern: u32,
    /// Whether a ring may come back by another NIC.
    pub cross_nic: u32,
    /// Channels that the search found.
    pub channels_found: u32,
    /// GB/s of one channel within the host and between hosts, as NCCL counts.
    pub speed_intra: f64,
    /// See `speed_intra`.
    pub speed_inter: f64,
    /// us.
    pub latency_inter: f64,
    /// Longest path between GPUs: NVL, SYS and so on.
    pub type_intra: String,
    /// Longest path from a GPU to its NIC.
    pub type_inter: String,
    /// Whether all channels are alike.
    pub same_channels: bool,
    /// The channels.
    pub channels: Vec<Channel>,
}

/// One ring or tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel(pub Vec<Hop>);

/// What a channel goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hop {
    /// A GPU, by the driver's number.
    Gpu(u64),
    /// A NIC, by NCCL's number.
    Net(u64),
}

impl Graph {
    /// The algorithm that an id stands for.
    pub const fn algorithm(&self) -> &'static str {
        match self.id {
            0 => "Ring",
            1 => "Tree",
            2 => "CollNet chain",
            3 => "NVLS",
            4 => "CollNet direct",
            _ => "unknown",
        }
    }

    /// GB/s that NCCL expects of all channels within the host: its own estimate of busbw, before its
    /// corrections for algorithm and protocol.
    pub fn nccl_expects(&self) -> f64 {
        f64::from(self.channels_found) * self.speed_intra
    }
}

/// Reads the element `<graphs>`.
pub(super) fn graphs(root: Element) -> Result<Graphs, Refused> {
    let version = root.number("version")?.unwrap_or(1);
    let graphs = root.children().filter(|child| child.name() == "graph").map(graph);
    Ok(Graphs { version, graphs: graphs.collect::<Result<_, _>>()? })
}

fn graph(element: Element) -> Result<Graph, Refused> {
    let number = |name| Ok(element.number::<u32>(name)?.unwrap_or(0));
    let decimal = |name| Ok(element.decimal(name)?.unwrap_or(0.0));
    let text = |name| element.text(name).unwrap_or("?").to_owned();
    element.needed("id")?;
    let channels = element.children().filter(|child| child.name() == "channel").map(channel);
    Ok(Graph {
        id: number("id")?,
        pattern: number("pattern")?,
        cross_nic: number("crossnic")?,
        channels_found: number("nchannels")?,
        speed_intra: decimal("speedintra")?,
        speed_inter: decimal("speedinter")?,
        latency_inter: decimal("latencyinter")?,
        type_intra: text("typeintra"),
        type_inter: text("typeinter"),
        same_channels: element.flag("samechannels")?.unwrap_or(false),
        channels: channels.collect::<Result<_, _>>()?,
    })
}

fn channel(element: Element) -> Result<Channel, Refused> {
    let mut hops = Vec::new();
    for child in element.children() {
        let number = child.number("dev")?;
        match (child.name(), number) {
            ("gpu", Some(number)) => hops.push(Hop::Gpu(number)),
            ("net", Some(number)) => hops.push(Hop::Net(number)),
            ("gpu" | "net", None) => return Err(child.refuse("has no dev")),
            _ => {}
        }
    }
    Ok(Channel(hops))
}
