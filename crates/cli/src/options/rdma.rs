//! Options of RDMA: which verb, device, port and address, and how much at once. The names are perftest's.
//! Not perftest's programs and letters (`perftest`), and not choosing a device.

use std::str::FromStr;

use busbw_core::plan::{Connection, Verb};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

/// The heading of these options in the help.
pub(super) const HEADING: &str = "RDMA (--backend verbs)";

fn verbs() -> impl TypedValueParser<Value = Verb> {
    let names = Verb::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|word| {
        let named = Verb::ALL.iter().find(|(_, name, _)| **name == *word);
        named.map_or_else(Verb::default, |(verb, ..)| *verb)
    })
}

fn connections() -> impl TypedValueParser<Value = Connection> {
    let names = Connection::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|word| {
        let named = Connection::ALL.iter().find(|(_, name, _)| **name == *word);
        named.map_or_else(Connection::default, |(kind, ..)| *kind)
    })
}

/// A size of packets: 256 to 4096.
fn mtus() -> impl TypedValueParser<Value = u32> {
    PossibleValuesParser::new(["256", "512", "1024", "2048", "4096"])
        .try_map(|word| word.parse::<u32>())
}

/// The GPU whose memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuChoice {
    /// The nearest to the rank's port.
    Nearest,
    /// The one with this number.
    Number(u16),
}

impl FromStr for GpuChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<GpuChoice, String> {
        match text {
            "auto" => Ok(GpuChoice::Nearest),
            number => {
                let number = number.parse::<u16>().map(GpuChoice::Number);
                number.map_err(|_| {
                    "write a GPU's number, or auto for the nearest to the port".to_owned()
                })
            }
        }
    }
}

/// How messages go over RDMA devices.
#[derive(Debug, Clone, Default, Args)]
pub struct RdmaArguments {
    /// What moves a message: write, read or send [default: write]
    #[arg(long, value_name = "VERB", value_parser = verbs(), help_heading = HEADING, hide_short_help = true, hide_possible_values = true)]
    pub verb: Option<Verb>,
    /// Kind of queue pairs: RC, UC or UD [default: RC]
    #[arg(long, value_name = "KIND", value_parser = connections(), ignore_case = true, help_heading = HEADING, hide_short_help = true, hide_possible_values = true)]
    pub connection: Option<Connection>,
    /// Devices that ranks take in turns: mlx5_0, mlx5_0:2 for a port, several with commas, ^ before them for all others
    /// [default: all active ones of the fastest kind]
    #[arg(long, value_name = "DEVICES", help_heading = HEADING, hide_short_help = true)]
    pub ib_dev: Option<String>,
    /// Port of the device [default: the first that is active]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = HEADING, hide_short_help = true)]
    pub ib_port: Option<u8>,
    /// Index of the port's address [default: RoCE v2 for IPv4, then IPv6, then RoCE v1; 0 on InfiniBand]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    pub gid_index: Option<u8>,
    /// Largest payload of a packet: 256 to 4096 [default: the smaller of the two ports']
    #[arg(long, value_name = "BYTES", value_parser = mtus(), help_heading = HEADING, hide_short_help = true, hide_possible_values = true)]
    pub mtu: Option<u32>,
    /// Queue pairs between two ranks [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = HEADING, hide_short_help = true)]
    pub qp: Option<u16>,
    /// Messages of a queue pair in flight at once [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384), help_heading = HEADING, hide_short_help = true)]
    pub tx_depth: Option<u32>,
    /// Receives of a queue pair that are posted at once [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384), help_heading = HEADING, hide_short_help = true)]
    pub rx_depth: Option<u32>,
    /// Bytes up to which a message is copied into its request [default: 220 to write, 236 to send where latency is measured, else 0]
    #[arg(long = "inline_size", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=4096), help_heading = HEADING, hide_short_help = true)]
    pub inline_size: Option<u32>,
    /// Ask for a completion after so many messages [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384), help_heading = HEADING, hide_short_help = true)]
    pub cq_mod: Option<u32>,
    /// Post so many messages with one call, 1 to 64 [default: 1]
    #[arg(long = "post_list", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = HEADING, hide_short_help = true)]
    pub post_list: Option<u32>,
    /// RDMA reads of a queue pair that are open at once [default: the device's most, up to 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = HEADING, hide_short_help = true)]
    pub outs: Option<u8>,
    /// Connect by the kernel's connection manager (librdmacm) and the ports' IP addresses, RC only [default: the two ends tell each other
    /// their addresses]
    #[arg(long = "rdma_cm", visible_alias = "rdma-cm", help_heading = HEADING, hide_short_help = true)]
    pub rdma_cm: bool,
    /// Traffic class; with RoCE v2 its upper six bits are the DSCP [default: 0]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    pub tclass: Option<u8>,
    /// Service level, 0 to 15 [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=15), help_heading = HEADING, hide_short_help = true)]
    pub sl: Option<u8>,
    /// Send a packet again after 4.096 us times 2 to the power of this, 1 to 31 [default: 14]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=31), help_heading = HEADING, hide_short_help = true)]
    pub qp_timeout: Option<u8>,
    /// Messages from and to the memory of GPU N, or of the one nearest to the port (auto, as --buffers gpu) [default: the host's memory]
    #[arg(long = "use_cuda", visible_alias = "use_rocm", value_name = "N|auto", help_heading = HEADING, hide_short_help = true)]
    pub use_cuda: Option<GpuChoice>,
    /// Give a GPU's memory to the device as a dma-buf, or not at all [default: by nvidia_peermem where there is no dma-buf]
    #[arg(long = "use_cuda_dmabuf", visible_alias = "use_rocm_dmabuf", help_heading = HEADING, hide_short_help = true)]
    pub use_cuda_dmabuf: bool,
    /// Keep the order of packets in the device's writes to memory [default: PCIe relaxed ordering, but where a last byte is polled]
    #[arg(long = "disable_pcie_relaxed", help_heading = HEADING, hide_short_help = true)]
    pub disable_pcie_relaxed: bool,
}

impl RdmaArguments {
    /// The first of these options that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--verb", self.verb.is_some()),
            ("--connection", self.connection.is_some()),
            ("--ib-dev", self.ib_dev.is_some()),
            ("--ib-port", self.ib_port.is_some()),
            ("--gid-index", self.gid_index.is_some()),
            ("--mtu", self.mtu.is_some()),
            ("--qp", self.qp.is_some()),
            ("--tx-depth", self.tx_depth.is_some()),
            ("--rx-depth", self.rx_depth.is_some()),
            ("--inline_size", self.inline_size.is_some()),
            ("--cq-mod", self.cq_mod.is_some()),
            ("--post_list", self.post_list.is_some()),
            ("--outs", self.outs.is_some()),
            ("--rdma_cm", self.rdma_cm),
            ("--tclass", self.tclass.is_some()),
            ("--sl", self.sl.is_some()),
            ("--qp-timeout", self.qp_timeout.is_some()),
            ("--use_cuda", self.use_cuda.is_some()),
            ("--use_cuda_dmabuf", self.use_cuda_dmabuf),
            ("--disable_pcie_relaxed", self.disable_pcie_relaxed),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }
}
