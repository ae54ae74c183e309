//! Which device, port and address (GID) an RDMA program of this host uses, and why.
//! Not reading them (`rdma`), and nothing is opened: a choice may still be refused by the driver.

mod wanted;

use std::{fmt, net::Ipv6Addr};

use busbw_core::quantity::ranged;
use busbw_hardware::machine::PcieLink;

use super::{Gid, Port, RdmaDevice};
pub use wanted::Wanted;
use wanted::asked;

/// What an address of a port is good for; the first ones are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// Not Ethernet. InfiniBand routes by the LID, within a subnet.
    InfiniBand {
        /// The port's local identifier; `None` for devices that have none, such as EFA.
        lid: Option<u16>,
    },
    /// RoCE v2 over IPv4: routed as the host's IPv4.
    RoceV2Ipv4,
    /// RoCE v2 over IPv6: routed as the host's IPv6.
    RoceV2Ipv6,
    /// RoCE v2 with a link-local address: within the Ethernet segment.
    RoceV2LinkLocal,
    /// RoCE v1: within the Ethernet segment.
    RoceV1,
    /// RoCE, and the kernel does not say of which version.
    RoceUnknown,
}

impl AddressKind {
    fn of(gid: &Gid, port: &Port) -> AddressKind {
        match gid.version_two {
            _ if !port.ethernet => AddressKind::InfiniBand { lid: port.lid },
            None => AddressKind::RoceUnknown,
            Some(false) => AddressKind::RoceV1,
            Some(true) if gid.ipv4().is_some() => AddressKind::RoceV2Ipv4,
            Some(true) if gid.address.is_unicast_link_local() => AddressKind::RoceV2LinkLocal,
            Some(true) => AddressKind::RoceV2Ipv6,
        }
    }

    /// The kind without what differs from port to port.
    fn class(self) -> AddressKind {
        match self {
            AddressKind::InfiniBand { .. } => AddressKind::InfiniBand { lid: None },
            roce => roce,
        }
    }

    fn is_version_two(self) -> bool {
        use AddressKind::{RoceV2Ipv4, RoceV2Ipv6, RoceV2LinkLocal};
        matches!(self, RoceV2Ipv4 | RoceV2Ipv6 | RoceV2LinkLocal)
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressKind::InfiniBand { lid: Some(lid) } => write!(f, "InfiniBand, LID {lid}"),
            AddressKind::InfiniBand { lid: None } => f.write_str("InfiniBand"),
            AddressKind::RoceV2Ipv4 => f.write_str("RoCE v2, IPv4"),
            AddressKind::RoceV2Ipv6 => f.write_str("RoCE v2, IPv6"),
            AddressKind::RoceV2LinkLocal => f.write_str("RoCE v2, link-local"),
            AddressKind::RoceV1 => f.write_str("RoCE v1"),
            AddressKind::RoceUnknown => f.write_str("RoCE of an unknown version"),
        }
    }
}

/// A port that can be used, and the address to use it by.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// Port number, from 1.
    pub port: u32,
    /// Index of the address in the port's table.
    pub gid_index: u32,
    /// What the address is.
    pub kind: AddressKind,
    /// The address.
    pub gid: Ipv6Addr,
    /// Whether the link is Ethernet (RoCE).
    pub ethernet: bool,
    /// Line rate, Gb/s.
    pub gbps: Option<f64>,
    /// The device's NUMA node.
    pub numa: Option<u32>,
    /// Its PCIe slot: [`RdmaDevice::slot`].
    pub slot: Option<PcieLink>,
    /// The network interface of the address, or else of the device.
    pub interface: Option<String>,
    /// Whether that interface belongs to another network namespace: [`Gid::elsewhere`].
    pub elsewhere: bool,
    /// Why this one.
    pub why: String,
}

impl Choice {
    /// Device and port as NCCL_IB_HCA takes them: mlx5_0:1.
    pub fn name(&self) -> String {
        format!("{}:{}", self.device, self.port)
    }

    /// The address as people write it: 10.0.0.1, or an IPv6 address.
    pub fn address(&self) -> String {
        match self.gid.to_ipv4_mapped() {
            Some(four) => four.to_string(),
            None => self.gid.to_string(),
        }
    }
}

/// The ports that ranks of a host may take.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidates {
    /// In the order in which ranks take them; at least one.
    pub ports: Vec<Choice>,
    /// What is left out, with the reason: "mlx5_3: the port is DOWN, its link Polling".
    pub left_out: Vec<String>,
}

/// The ports that can be used: named ones in the order of their names, else the fastest ones of the best kind of address,
/// in PCI order. Ports of several kinds do not reach each other, so that one kind is taken.
///
/// # Errors
/// None can be used: why, and what to do.
pub fn candidates(devices: &[RdmaDevice], wanted: &Wanted) -> Result<Candidates, String> {
    if devices.is_empty() {
        return Err("no RDMA device here: /sys/class/infiniband has none; load the adapter's driver (modprobe mlx5_ib), \
             pass the devices into the container (docker run --device=/dev/infiniband), or make a software device \
             (rdma link add rxe0 type rxe netdev eth0)"
            .to_owned());
    }
    let (pairs, are_named) = asked(devices, wanted)?;
    let mut left_out = Vec::new();
    let mut ports = Vec::new();
    for (device, port) in pairs {
        match judge(device, port, wanted.gid_index) {
            Ok(choice) => ports.push(choice),
            Err(reason) => left_out.push((format!("{}:{}", device.name, port.number), reason)),
        }
    }
    if !are_named {
        let some_here = ports.iter().any(|port| !port.elsewhere);
        leave_out(&mut ports, &mut left_out, |port| {
            let reason = || "its addresses are of another network namespace".to_owned();
            (port.elsewhere && some_here).then(reason)
        });
        let fastest = ports.iter().filter_map(|port| port.gbps).fold(0.0, f64::max);
        leave_out(&mut ports, &mut left_out, |port| {
            let slower = port.gbps.filter(|gbps| *gbps < fastest)?;
            Some(format!("{slower} Gb/s where other ports have {fastest} Gb/s"))
        });
        let best = ports.iter().map(|port| port.kind.class()).min();
        leave_out(&mut ports, &mut left_out, |port| {
            let best = best.filter(|best| port.kind.class() != *best)?;
            Some(format!("{} where other ports have {best}", port.kind.class()))
        });
    }
    let left_out = grouped(left_out);
    if ports.is_empty() {
        return Err(format!("no RDMA port can be used: {}", left_out.join("; ")));
    }
    let all = ports.len();
    for (at, port) in ports.iter_mut().enumerate() {
        let place = match (all, at) {
            (1, _) if are_named => "the port that was asked for".to_owned(),
            (_, _) if are_named => format!("port {} of the {all} that were asked for", at + 1),
            (1, _) if left_out.is_empty() => "the only port".to_owned(),
            (1, _) => "the only port that fits".to_owned(),
            (_, 0) => format!("the first of {all} active ports in PCI order"),
            _ => format!("port {} of {all} active ones in PCI order", at + 1),
        };
        port.why = format!("{place}; {}", port.why);
    }
    Ok(Candidates { ports, left_out })
}

/// The port of one rank. `turn` is its number among the host's ranks, or among those that are near the same NUMA node:
/// ranks take the ports in turn. `near` is the NUMA node of the rank's GPU or cores: ports of that node are preferred.
///
/// # Errors
/// None can be used: why, and what to do.
pub fn choose(
    devices: &[RdmaDevice],
    wanted: &Wanted,
    turn: usize,
    near: Option<u32>,
) -> Result<Choice, String> {
    let ports = candidates(devices, wanted)?.ports;
    let of_node = |port: &&Choice| near.is_some() && port.numa == near;
    let close: Vec<&Choice> = ports.iter().filter(of_node).collect();
    let (from, note) = match (close.is_empty(), near) {
        (false, Some(node)) if close.len() < ports.len() => {
            (close, format!(", on NUMA node {node} as the rank"))
        }
        (true, Some(node)) if ports.iter().any(|port| port.numa.is_some()) => {
            (ports.iter().collect(), format!(", none is on the rank's NUMA node {node}"))
        }
        _ => (ports.iter().collect(), String::new()),
    };
    // There is at least one: `candidates` says so.
    let Some(port) = from.get(turn % from.len().max(1)) else {
        return Err("no RDMA port".to_owned());
    };
    let (place, address) = port.why.split_once(';').unwrap_or((&port.why, ""));
    Ok(Choice { why: format!("{place}{note};{address}"), ..(*port).clone() })
}

/// Takes ports out for which there is a reason.
fn leave_out(
    ports: &mut Vec<Choice>,
    left_out: &mut Vec<(String, String)>,
    reason: impl Fn(&Choice) -> Option<String>,
) {
    ports.retain(|port| match reason(port) {
        Some(reason) => {
            left_out.push((port.name(), reason));
            false
        }
        None => true,
    });
}

/// Ports with one reason share a sentence.
fn grouped(reasons: Vec<(String, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (name, reason) in reasons {
        // A port number 1 at the end would hide the device's number from ranges.
        let name = name.strip_suffix(":1").map_or(name.clone(), str::to_owned);
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    groups.into_iter().map(|(reason, names)| format!("{}: {reason}", ranged(&names))).collect()
}

/// Whether a port can be used, and by which address.
fn judge(device: &RdmaDevice, port: &Port, gid_index: Option<u32>) -> Result<Choice, String> {
    if device.node_type == "RNIC" {
        return Err("it speaks iWARP, whose connections only librdmacm makes".to_owned());
    }
    let interface = || device.interfaces.first().cloned();
    if port.state != "ACTIVE" {
        return Err(not_active(port, interface()));
    }
    let is_infiniband = !port.ethernet && device.node_type != "unspecified";
    if is_infiniband && port.lid.is_none() {
        return Err("it is ACTIVE without a LID; start a subnet manager (opensm) that reaches it"
            .to_owned());
    }
    let gid = address(port, gid_index)?;
    let kind = AddressKind::of(gid, port);
    let mut choice = Choice {
        device: device.name.clone(),
        port: port.number,
        gid_index: gid.index,
        kind,
        gid: gid.address,
        ethernet: port.ethernet,
        gbps: port.gbps,
        numa: device.numa,
        slot: device.slot,
        interface: gid.interface.clone().or_else(interface),
        elsewhere: gid.elsewhere,
        why: String::new(),
    };
    let by = if gid_index.is_some() { " as asked for" } else { "" };
    let address = choice.address();
    choice.why = match kind {
        AddressKind::RoceV2Ipv4 => format!("GID {}{by}: RoCE v2, {address}", gid.index),
        AddressKind::InfiniBand { .. } => format!("GID {}{by}: {kind}", gid.index),
        _ => format!("GID {}{by}: {kind}, {address}", gid.index),
    };
    if gid.elsewhere {
        let name = gid.interface.as_deref().unwrap_or_default();
        choice.why += &format!(" (of {name}, an interface of another network namespace)");
    }
    Ok(choice)
}

fn not_active(port: &Port, interface: Option<String>) -> String {
    let seen = match (port.state.as_str(), port.physical.as_str()) {
        ("", _) => return "its state cannot be read".to_owned(),
        (state, "") => format!("the port is {state}"),
        (state, physical) => format!("the port is {state}, its link {physical}"),
    };
    let up = |interface: Option<String>| {
        format!("ip link set {} up", interface.as_deref().unwrap_or("INTERFACE"))
    };
    let remedy = match port.physical.as_str() {
        _ if port.state == "INIT" && !port.ethernet => {
            "start a subnet manager (opensm) that reaches it".to_owned()
        }
        "Disabled" if port.ethernet => up(interface),
        "Disabled" => "enable it (ibportstate)".to_owned(),
        _ if port.ethernet => format!("check cable and switch port, and {}", up(interface)),
        _ => "check cable and switch port".to_owned(),
    };
    format!("{seen}; {remedy}")
}

/// The address that was asked for, or the best one.
fn address(port: &Port, index: Option<u32>) -> Result<&Gid, String> {
    let give = "give its interface an IPv4 address";
    let Some(wanted) = index else {
        // InfiniBand's first address is right. The table holds the interface's current addresses
        // (drivers/infiniband/core/roce_gid_mgmt.c).
        let best = port.gids.iter().min_by_key(|gid| match port.ethernet {
            true => (gid.elsewhere, Some(AddressKind::of(gid, port)), gid.index),
            false => (false, None, gid.index),
        });
        return best.ok_or_else(|| match port.ethernet {
            true => format!("its address table is empty; {give}"),
            false => "its address table is empty; restart the driver".to_owned(),
        });
    };
    let usable: Vec<String> = port
        .gids
        .iter()
        .filter(|gid| !port.ethernet || AddressKind::of(gid, port).is_version_two())
        .map(|gid| gid.index.to_string())
        .collect();
    let others = match usable.as_slice() {
        [] if port.ethernet => format!("no entry is RoCE v2; {give}"),
        [] => "the table is empty".to_owned(),
        all if port.ethernet => format!("RoCE v2 is at {}", ranged(all)),
        all => format!("there is {}", ranged(all)),
    };
    match port.gids.iter().find(|gid| gid.index == wanted) {
        None => Err(format!("GID index {wanted} is empty; {others}")),
        Some(gid) if AddressKind::of(gid, port) == AddressKind::RoceV1 => {
            Err(format!("GID index {wanted} is RoCE v1; {others}"))
        }
        Some(gid) => Ok(gid),
    }
}

#[cfg(test)]
mod tests;
