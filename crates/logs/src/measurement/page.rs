//! What a published page says around a table: the machine in its sentences, and a topology between them.
//! Not the table, and not how a text is read (`import`): nothing here is more than the page's word.

/// The facts of a page that hold for one table. What the page does not clearly say is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Hosts.
    pub nodes: Option<usize>,
    /// Ranks.
    pub ranks: Option<usize>,
    /// GPUs of a host.
    pub gpus: Option<usize>,
    /// The GPUs' model as written, in capitals, such as `H100`.
    pub model: Option<String>,
    /// Whether the GPUs have NVLink.
    pub nvlink: Option<bool>,
    /// NVLinks of a GPU.
    pub links: Option<u32>,
    /// GB/s of one NVLink in one direction.
    pub link_line: Option<f64>,
    /// Whether NVLink joins GPUs of several hosts (MNNVL).
    pub nvlink_joins_hosts: bool,
    /// The NICs of a host.
    pub nics: Option<StatedNics>,
    /// Bytes of the message that a figure without a size is of.
    pub size: Option<u64>,
    /// What the figure's row in a table of settings says before it.
    pub setting: Option<String>,
    /// The topology file that stands beside the table.
    pub topology: Option<String>,
}

/// NICs of a host that are alike, as a sentence states them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatedNics {
    /// How many a host has.
    pub count: usize,
    /// Whether that is for each GPU.
    pub for_each_gpu: bool,
    /// Gb/s of one.
    pub gbit: f64,
    /// The network, where the page says it.
    pub network: Option<Network>,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
}

/// A network by the name that people write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Ethernet.
    Roce,
    /// Ethernet, of which nothing more is said.
    Ethernet,
}

impl Page {
    /// Whether the page says anything of the machine in sentences.
    pub fn states_machine(&self) -> bool {
        self.gpus.is_some()
            || self.model.is_some()
            || self.links.is_some()
            || self.nics.is_some()
            || self.nvlink_joins_hosts
    }

    /// The facts of this part of a page, and those of `before` that it does not state anew.
    pub(crate) fn or(self, before: &Page) -> Page {
        Page {
            nodes: self.nodes.or(before.nodes),
            ranks: self.ranks.or(before.ranks),
            gpus: self.gpus.or(before.gpus),
            model: self.model.or_else(|| before.model.clone()),
            nvlink: self.nvlink.or(before.nvlink),
            links: self.links.or(before.links),
            link_line: self.link_line.or(before.link_line),
            nvlink_joins_hosts: self.nvlink_joins_hosts || before.nvlink_joins_hosts,
            nics: self.nics.or(before.nics),
            size: self.size.or(before.size),
            setting: self.setting.or_else(|| before.setting.clone()),
            topology: self.topology.or_else(|| before.topology.clone()),
        }
    }
}
