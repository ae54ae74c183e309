//! Interfaces of this host, and the devices that NCCL is told of.
//! Not connections.

use std::{ffi::CString, net::IpAddr};

/// An interface with an address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name: "eth0".
    pub name: String,
    /// An address of it.
    pub address: IpAddr,
    /// Bits of the address that all hosts of its subnet share.
    pub prefix: u8,
    /// Mb/s, where the kernel says so.
    pub speed: Option<u32>,
    /// Where it is in /sys, unless it is nowhere.
    pub path: Option<String>,
}

/// A device, as NCCL is told of it.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its name in logs.
    pub name: CString,
    /// Where it is in /sys, if anywhere.
    pub path: Option<CString>,
    /// The same for all ports of a chip.
    pub guid: u64,
    /// Mb/s of all its interfaces.
    pub speed: i32,
    /// Those.
    pub interfaces: Vec<Interface>,
}

/// Mb/s of an interface whose speed nobody knows, as NCCL takes it (src/transport/net_socket.cc:74).
pub const UNKNOWN_SPEED: u32 = 10_000;

/// Interfaces that are up, as NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose among them.
///
/// # Errors
/// When the system does not tell.
pub fn interfaces() -> std::io::Result<Vec<Interface>> {
    let all = if_addrs::get_if_addrs()?.into_iter().map(|interface| Interface {
        prefix: match &interface.addr {
            if_addrs::IfAddr::V4(v4) => v4.prefixlen,
            if_addrs::IfAddr::V6(v6) => v6.prefixlen,
        },
        address: interface.ip(),
        speed: None,
        path: None,
        name: interface.name,
    });
    Ok(all.collect())
}
