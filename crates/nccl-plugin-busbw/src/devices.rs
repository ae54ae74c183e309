//! Interfaces of this host, and the devices that NCCL sees.
//! Not connections.

/// Which interfaces are taken.
mod choice;
/// NCCL's lists of names.
pub(crate) mod list;
/// Facts from /sys.
pub(crate) mod sys;

use std::{ffi::CString, net::IpAddr, path::Path};

use nccl_plugin_abi::net::PTR_HOST;

use crate::{
    failure::{Failure, Result},
    log, transport,
};

/// An interface with an address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name: "eth0".
    pub name: String,
    /// An address of it.
    pub address: IpAddr,
    /// Bits of the address that all hosts of its subnet share.
    pub prefix: u8,
    /// Mb/s, where the kernel reports it.
    pub speed: Option<u32>,
    /// Its device's path in /sys; none for virtual interfaces.
    pub path: Option<String>,
}

/// A device, as NCCL sees it.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its name in logs.
    pub name: CString,
    /// Its path in /sys, if it has one.
    pub path: Option<CString>,
    /// The same for all ports of a chip.
    pub guid: u64,
    /// Mb/s of all its interfaces or ports.
    pub speed: i32,
    /// Number of its RDMA port; 0 for others.
    pub port: i32,
    /// Kinds of memory that it takes, `PTR_*` bits of NCCL.
    pub kinds: i32,
    /// Its interfaces; none where it is RDMA ports.
    pub interfaces: Vec<Interface>,
    /// The devices that NCCL has merged into it, by their numbers; none where it is itself.
    pub parts: Vec<i32>,
}

/// Mb/s that NCCL assumes for an interface of unknown speed (src/transport/net_socket.cc:74).
pub const UNKNOWN_SPEED: u32 = 10_000;

/// One device over all interfaces that may be used, or none where NCCL has RDMA and BUSBW_NET does not ask for sockets.
///
/// # Errors
/// When the interfaces cannot be listed, NCCL_SOCKET_IFNAME selects none of them, or BUSBW_NET names a transport that
/// this plugin does not have.
pub fn devices() -> Result<Vec<Device>> {
    let root = Path::new("/");
    let asked = transport::of_environment()?;
    if let (None, Some(port)) = (asked, sys::active_rdma_port(root)) {
        let variable = transport::VARIABLE;
        log::info(&format!(
            "NET/busbw: no device, since RDMA port {port} is active and faster than TCP ({variable}=sockets offers it anyway)"
        ));
        return Ok(Vec::new());
    }
    let interfaces = interfaces()?;
    log::info(&format!("NET/busbw: one device over {}", spelled(&interfaces)));
    Ok(vec![together(root, interfaces)])
}

/// A device for each interface, as NCCL's own sockets have it.
///
/// # Errors
/// As [`devices`].
pub fn one_each() -> Result<Vec<Device>> {
    let device = |(number, interface): (usize, Interface)| Device {
        guid: number as u64,
        name: CString::new(interface.name.as_str()).unwrap_or_default(),
        ..together(Path::new("/"), vec![interface])
    };
    Ok(interfaces()?.into_iter().enumerate().map(device).collect())
}

/// Interfaces that are up, as NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose among them.
///
/// # Errors
/// When they cannot be listed, or the variables leave none.
pub fn interfaces() -> Result<Vec<Interface>> {
    let root = Path::new("/");
    let all = if_addrs::get_if_addrs()
        .map_err(|error| Failure::system("cannot list this host's interfaces", &error))?;
    let up = all.into_iter().filter(if_addrs::Interface::is_oper_up).map(|interface| Interface {
        prefix: match &interface.addr {
            if_addrs::IfAddr::V4(v4) => v4.prefixlen,
            if_addrs::IfAddr::V6(v6) => v6.prefixlen,
        },
        address: interface.ip(),
        speed: sys::speed(root, &interface.name),
        path: sys::path(root, &interface.name),
        name: interface.name,
    });
    let variable = |name| std::env::var(name).ok();
    choice::chosen(
        up.collect(),
        variable("NCCL_SOCKET_IFNAME").as_deref(),
        variable("NCCL_SOCKET_FAMILY").as_deref(),
    )
}

/// All addresses of this host; none where they cannot be listed.
pub fn addresses() -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.iter().map(if_addrs::Interface::ip).collect()
}

/// All of them as one device, with the path and the hardware address of the first.
fn together(root: &Path, interfaces: Vec<Interface>) -> Device {
    let first = interfaces.first();
    Device {
        name: c"busbw".to_owned(),
        path: first
            .and_then(|first| first.path.as_deref())
            .and_then(|path| CString::new(path).ok()),
        guid: first.map_or(0, |first| sys::hardware_address(root, &first.name)),
        speed: sum_of_speeds(root, &interfaces),
        port: 0,
        kinds: PTR_HOST,
        interfaces,
        parts: Vec::new(),
    }
}

/// Mb/s of all of them. An interface above a counted one, as a VLAN is, adds nothing; nor does a second interface above
/// the same lower one.
fn sum_of_speeds(root: &Path, interfaces: &[Interface]) -> i32 {
    let mut counted: Vec<String> = interfaces.iter().map(|own| own.name.clone()).collect();
    let mut sum = 0;
    for interface in interfaces {
        let below: Vec<String> = sys::below(root, &interface.name).collect();
        if !below.iter().any(|name| counted.contains(name)) {
            sum += u64::from(interface.speed.unwrap_or(UNKNOWN_SPEED));
            counted.extend(below);
        }
    }
    i32::try_from(sum).unwrap_or(i32::MAX)
}

/// "eth0:10.0.0.1 (100000 Mb/s) eth1:…".
fn spelled(interfaces: &[Interface]) -> String {
    let words = interfaces.iter().map(|Interface { name, address, speed, .. }| match speed {
        Some(speed) => format!("{name}:{address} ({speed} Mb/s)"),
        None => format!("{name}:{address} (speed unknown)"),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_adds_no_speed_to_that_of_what_it_lies_on() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("sys/class/net");
        for folder in ["eth0", "eth0.7/lower_eth0", "eth0.8/lower_eth0", "eth1"] {
            std::fs::create_dir_all(net.join(folder)).unwrap();
        }
        let interface = |name: &str, speed| Interface {
            name: name.to_owned(),
            address: [10, 0, 0, 1].into(),
            prefix: 24,
            speed,
            path: None,
        };
        let all = [
            interface("eth0", Some(25_000)),
            interface("eth0.7", Some(25_000)),
            interface("eth0.8", Some(25_000)),
            interface("eth1", None),
        ];
        assert_eq!(sum_of_speeds(root.path(), &all), 35_000);
        assert_eq!(sum_of_speeds(root.path(), &all[1..2]), 25_000);
        assert_eq!(sum_of_speeds(root.path(), &all[1..3]), 25_000);
        assert_eq!(sum_of_speeds(root.path(), &vec![interface("x", Some(u32::MAX)); 3]), i32::MAX);
    }

    #[test]
    fn this_host_has_an_interface() {
        let devices = one_each().unwrap();
        assert!(!devices.is_empty());
        for device in devices {
            assert!(device.speed > 0, "{device:?}");
            assert_eq!(device.interfaces.len(), 1);
        }
    }
}
