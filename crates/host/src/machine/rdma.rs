//! RDMA devices and their ports as /sys/class/infiniband shows them: InfiniBand and RoCE alike.
//! Not their counters, and no verb is called.

mod choice;

use std::net::{IpAddr, Ipv6Addr};

use busbw_hardware::{machine::PcieLink, topology::PcieReading};

use super::Root;
pub use choice::{AddressKind, Candidates, Choice, Wanted, candidates, choose};

/// One device, such as mlx5_0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RdmaDevice {
    /// Its name.
    pub name: String,
    /// Its PCI address; `None` for software devices such as rxe.
    pub address: Option<String>,
    /// Network interfaces of the same PCI function; none for software devices.
    pub interfaces: Vec<String>,
    /// The NUMA node that it is attached to; `None` for software devices and where the firmware does not say.
    pub numa: Option<u32>,
    /// Its PCIe slot as it is trained; `None` for software devices, and where the kernel does not say all of it.
    pub slot: Option<PcieLink>,
    /// What the kernel takes it for: CA (InfiniBand and RoCE), RNIC (iWARP), unspecified (EFA)
    /// (drivers/infiniband/core/sysfs.c, node_type_string).
    pub node_type: String,
    /// Firmware version.
    pub firmware: Option<String>,
    /// The adapter's identifier, which its functions and ports share.
    pub guid: Option<u64>,
    /// Board identifier, such as MT_0000000838; devices of one model share it.
    pub board: Option<String>,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Port {
    /// Number, from 1.
    pub number: u32,
    /// ACTIVE, INIT, DOWN and so on.
    pub state: String,
    /// LinkUp, Polling, Disabled and so on.
    pub physical: String,
    /// Line rate, Gb/s.
    pub gbps: Option<f64>,
    /// As the kernel writes it: 400 Gb/sec (4X NDR).
    pub rate: String,
    /// Ethernet (RoCE) or InfiniBand.
    pub ethernet: bool,
    /// The local identifier that the subnet manager gave; `None` for Ethernet, and where there is none yet.
    pub lid: Option<u16>,
    /// The subnet manager's local identifier; `None` for Ethernet, and where none has been seen.
    pub sm_lid: Option<u16>,
    /// Addresses.
    pub gids: Vec<Gid>,
}

/// An entry of a port's address table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// The index for NCCL_IB_GID_INDEX.
    pub index: u32,
    /// The address.
    pub address: Ipv6Addr,
    /// Whether it is for RoCEv2, which is routable; `None` where the kernel does not say.
    pub version_two: Option<bool>,
    /// The network interface whose address it is.
    pub interface: Option<String>,
    /// Whether that interface is not among those of this process's network namespace. A queue pair that uses
    /// such an address reaches the network of another container, or is refused.
    pub elsewhere: bool,
}

impl Gid {
    /// The IPv4 address that it maps.
    pub fn ipv4(&self) -> Option<IpAddr> {
        self.address.to_ipv4_mapped().map(IpAddr::V4)
    }
}

impl RdmaDevice {
    /// The network interfaces of a port: those of the PCI function, or for software devices those of its addresses.
    pub fn interfaces_of<'a>(&'a self, port: &'a Port) -> Vec<&'a str> {
        let mut names: Vec<&str> = self.interfaces.iter().map(String::as_str).collect();
        if names.is_empty() {
            names = port.gids.iter().filter_map(|gid| gid.interface.as_deref()).collect();
            names.sort_unstable();
            names.dedup();
        }
        names
    }
}

pub(super) fn read(root: &Root) -> Vec<RdmaDevice> {
    root.names("sys/class/infiniband").into_iter().map(|name| device(root, name)).collect()
}

fn device(root: &Root, name: String) -> RdmaDevice {
    let at = format!("sys/class/infiniband/{name}");
    let numbers = root.names(&format!("{at}/ports")).into_iter().filter_map(|n| n.parse().ok());
    let address = root.real(format!("{at}/device"));
    let trained = |what: &str| root.text(format!("{at}/device/current_link_{what}"));
    let slot = PcieReading::parse(trained("speed").as_deref(), trained("width").as_deref());
    RdmaDevice {
        address: address.and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned())),
        interfaces: root.names(&format!("{at}/device/net")),
        // Without a node the kernel writes -1.
        numa: root.number(format!("{at}/device/numa_node")),
        slot: slot.link(),
        node_type: after_number(&root.text(format!("{at}/node_type")).unwrap_or_default()),
        firmware: root.text(format!("{at}/fw_ver")).filter(|version| !version.is_empty()),
        guid: root.text(format!("{at}/sys_image_guid")).and_then(|text| guid(&text)),
        board: root.text(format!("{at}/board_id")).filter(|board| !board.is_empty()),
        ports: numbers.map(|number| port(root, &at, number)).collect(),
        name,
    }
}

fn port(root: &Root, device: &str, number: u32) -> Port {
    let at = format!("{device}/ports/{number}");
    let read = |file: &str| root.text(format!("{at}/{file}")).unwrap_or_default();
    let rate = read("rate");
    let gids = root.names(&format!("{at}/gids")).into_iter().filter_map(|n| n.parse().ok());
    let mut gids: Vec<Gid> = gids.filter_map(|index| gid(root, &at, index)).collect();
    gids.sort_by_key(|gid| gid.index);
    Port {
        number,
        state: after_number(&read("state")),
        physical: after_number(&read("phys_state")),
        gbps: gbps(&rate),
        rate,
        ethernet: read("link_layer") == "Ethernet",
        lid: lid(&read("lid")),
        sm_lid: lid(&read("sm_lid")),
        gids,
    }
}

/// Parses "0x1a"; 0 stands for none (InfiniBand Architecture Specification, 4.1.3: it is reserved).
fn lid(text: &str) -> Option<u16> {
    u16::from_str_radix(text.trim_start_matches("0x"), 16).ok().filter(|lid| *lid != 0)
}

/// Parses "08c0:eb03:0024:721a"; all zeros is `None`.
fn guid(text: &str) -> Option<u64> {
    u64::from_str_radix(&text.replace(':', ""), 16).ok().filter(|guid| *guid != 0)
}

/// The RDMA MTU of a RoCE port: the largest of 4096 and its halves that fits the interface's MTU
/// together with the headers that the kernel reserves: GRH, UDP, BTH, XRC, atomics, ICRC
/// (include/rdma/ib_addr.h, iboe_get_mtu).
pub fn roce_mtu(interface: u32) -> u32 {
    const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;
    [4096, 2048, 1024, 512].into_iter().find(|mtu| mtu + HEADERS <= interface).unwrap_or(256)
}

/// Parses "4: ACTIVE" to ACTIVE.
fn after_number(text: &str) -> String {
    text.split_once(": ").map_or(text, |(_, word)| word).to_owned()
}

/// Parses "400 Gb/sec (4X NDR)"; a port that is down may have 0 or nothing.
fn gbps(rate: &str) -> Option<f64> {
    let number = rate.split_whitespace().next()?.parse::<f64>().ok()?;
    (number > 0.0 && number.is_finite()).then_some(number)
}

/// An entry that is in use: unused ones are all zeros, or cannot be read.
fn gid(root: &Root, port: &str, index: u32) -> Option<Gid> {
    let address: Ipv6Addr = root.number(format!("{port}/gids/{index}"))?;
    let kind = root.text(format!("{port}/gid_attrs/types/{index}"));
    if address.is_unspecified() {
        return None;
    }
    let interface = root.text(format!("{port}/gid_attrs/ndevs/{index}"));
    let is_here = |name: &String| root.exists(format!("sys/class/net/{name}"));
    Some(Gid {
        index,
        address,
        // "RoCE v2", "IB/RoCE v1": drivers/infiniband/core/cache.c, gid_type_str.
        version_two: kind.map(|kind| kind == "RoCE v2"),
        elsewhere: interface.as_ref().is_some_and(|name| !is_here(name)),
        interface,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GID: Gid = Gid {
        index: 0,
        address: Ipv6Addr::UNSPECIFIED,
        version_two: None,
        interface: None,
        elsewhere: false,
    };

    #[test]
    fn words_of_the_kernel() {
        assert_eq!(after_number("4: ACTIVE"), "ACTIVE");
        assert_eq!(after_number(""), "");
        assert_eq!(gbps("400 Gb/sec (4X NDR)"), Some(400.0));
        assert_eq!(gbps("2.5 Gb/sec (1X SDR)"), Some(2.5));
        assert_eq!(gbps("0 Gb/sec"), None);
        assert_eq!(guid("08c0:eb03:0024:721a"), Some(0x08c0_eb03_0024_721a));
        assert_eq!(["0x1a", "0x0", ""].map(lid), [Some(26), None, None]);
        assert_eq!([9000, 4200, 1500].map(roce_mtu), [4096, 4096, 1024]);
    }

    #[test]
    fn an_address_of_version_four() {
        let address = "0000:0000:0000:0000:0000:ffff:0a00:0102".parse().unwrap();
        let gid = Gid { index: 3, address, version_two: Some(true), ..GID };
        assert_eq!(gid.ipv4().unwrap().to_string(), "10.0.1.2");
    }

    proptest! {
        #[test]
        fn any_rate(text in ".{0,30}") {
            prop_assert!(gbps(&text).is_none_or(|rate| rate > 0.0));
            let _ = after_number(&text);
        }
    }
}
