//! RDMA ports of this host: which may be used, by which address, and what NCCL is told of them.
//! Not queue pairs (`queue_pairs`). Under a root path, so that tests have ports.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use busbw_verbs::{Address, Device as OpenDevice, Link, LinkLayer, Verbs, VerbsError};
use nccl_plugin_abi::Status;

use super::registrations::Registrations;
use crate::{
    devices::{list, sys},
    log,
    multipath::locks::lock,
    network::{Failure, Result},
};

/// NCCL's own variables for its IB network, which hold here, too.
const HCA: &str = "NCCL_IB_HCA";
/// Entries that NCCL reads of it (MAX_IB_DEVS).
const MAX_LISTED: usize = 32;
const GID_INDEX: &str = "NCCL_IB_GID_INDEX";
const TRAFFIC_CLASS: &str = "NCCL_IB_TC";
const SERVICE_LEVEL: &str = "NCCL_IB_SL";
const TIMEOUT: &str = "NCCL_IB_TIMEOUT";
const RETRIES: &str = "NCCL_IB_RETRY_CNT";
/// A device for four ports together, whose connections have paths over each, as NCCL makes of the ports that it merges itself.
pub(crate) const MERGE: &str = "BUSBW_NET_MERGE";
/// A retransmission after 4.096 us × 2^14 = 67 ms, seven of them: a path that delivers nothing is lost in half a second. NCCL
/// waits 20 times as long, since to it a lost path is a lost job.
const USUAL: (u8, u8) = (14, 7);
/// Between two looks at whether anything has happened to a port; and at whether one that is down is up again.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const DOWN_INTERVAL: Duration = Duration::from_millis(100);

/// A port that may be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    /// The device, such as mlx5_0.
    pub device: String,
    /// From 1.
    pub number: u8,
    /// Gb/s.
    pub gbps: f64,
    /// Whether it is Ethernet's (RoCE).
    pub is_ethernet: bool,
    /// Which of its addresses is used.
    pub gid_index: u8,
    /// The device's path in /sys.
    pub path: Option<String>,
    /// The same for all ports of a chip.
    pub guid: u64,
}

/// How packets are sent, as NCCL's variables have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wishes {
    traffic_class: u8,
    service_level: u8,
    timeout: u8,
    retries: u8,
}

/// The ports that NCCL_IB_HCA leaves, and that are up.
///
/// # Errors
/// There is none: why.
pub(super) fn usable(root: &Path) -> Result<Vec<Port>> {
    let listed = std::env::var(HCA).unwrap_or_default();
    let gid_index = number(GID_INDEX, -1..=255)?;
    let folder = root.join("sys/class/infiniband");
    let (mut ports, mut left_out) = (Vec::new(), Vec::new());
    for device in entries(&folder) {
        for port in entries(&folder.join(&device).join("ports")) {
            let Ok(number) = port.parse::<u8>() else { continue };
            if !list::selects(&listed, MAX_LISTED, &device, Some(number)) {
                left_out.push(format!("{device}:{number} is not in {HCA}={listed}"));
                continue;
            }
            match read(&folder.join(&device), &device, number, gid_index) {
                Ok(port) => ports.push(port),
                Err(why) => left_out.push(format!("{device}:{number} {why}")),
            }
        }
    }
    for port in &left_out {
        log::info(&format!("NET/busbw: RDMA port {port}"));
    }
    if ports.is_empty() {
        let why = match left_out.is_empty() {
            true => "/sys/class/infiniband has no device: load the adapter's driver, or pass the devices into the container"
                .to_owned(),
            false => left_out.join("; "),
        };
        let text = format!("BUSBW_NET=rdma, and no RDMA port can be used: {why}");
        return Err(Failure::new(Status::SYSTEM, text));
    }
    Ok(ports)
}

/// A port, or why it cannot be used.
fn read(
    device: &Path,
    name: &str,
    number: u8,
    gid_index: Option<i64>,
) -> std::result::Result<Port, String> {
    let port = device.join("ports").join(number.to_string());
    let state = sys::line(port.join("state")).unwrap_or_else(|| "unknown".to_owned());
    if state != "4: ACTIVE" {
        return Err(format!("is not active, its state is {state}"));
    }
    let is_ethernet = sys::line(port.join("link_layer")).as_deref() == Some("Ethernet");
    let gbps = sys::line(port.join("rate"))
        .and_then(|rate| rate.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0);
    let asked = gid_index.and_then(|index| u8::try_from(index).ok());
    let gid_index = match asked {
        Some(index) => index,
        None if is_ethernet => best_gid(&port)
            .ok_or("has no address: its interface has no IP address, or is down".to_owned())?,
        None => 0,
    };
    let guid = sys::line(device.join("node_guid")).unwrap_or_default().replace(':', "");
    Ok(Port {
        device: name.to_owned(),
        number,
        gbps,
        is_ethernet,
        gid_index,
        path: fs::canonicalize(device.join("device"))
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok()),
        guid: u64::from_str_radix(&guid, 16).unwrap_or(0),
    })
}

/// Index of the address that reaches furthest: RoCE v2 over IPv4, over IPv6, within the link; RoCE v1.
fn best_gid(port: &Path) -> Option<u8> {
    let rank = |index: &u8| {
        let gid = sys::line(port.join("gids").join(index.to_string()))?.replace(':', "");
        let gid = u128::from_str_radix(&gid, 16).ok().filter(|gid| *gid != 0)?;
        let kind = sys::line(port.join("gid_attrs/types").join(index.to_string()))?;
        let is_ipv4 = gid >> 32 == 0xffff;
        let is_local = gid >> 118 == 0xfe80 >> 6;
        Some(match (kind.as_str(), is_ipv4, is_local) {
            ("RoCE v2", true, _) => 0,
            ("RoCE v2", false, false) => 1,
            ("RoCE v2", false, true) => 2,
            _ => 3,
        })
    };
    let indices = entries(&port.join("gids")).into_iter().filter_map(|index| index.parse().ok());
    let mut ranked: Vec<(u8, u8)> =
        indices.filter_map(|index| Some((rank(&index)?, index))).collect();
    ranked.sort_unstable();
    ranked.first().map(|(_, index)| *index)
}

/// A port whose device is open.
pub(super) struct OpenPort {
    pub port: Port,
    pub device: Arc<OpenDevice>,
    pub registrations: Registrations,
    pub address: Address,
    pub mtu: u32,
    /// How packets leave it.
    pub link: Link,
    /// When it was last looked whether it is up, and why it was not.
    looked: Mutex<(Instant, Option<String>)>,
    /// Whether its device has unreliable queue pairs, once that was tried.
    pub has_unreliable: OnceLock<bool>,
}

impl OpenPort {
    /// As NCCL_IB_HCA takes it: mlx5_0:1.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.port.device, self.port.number)
    }

    /// # Errors
    /// libibverbs is not there, or does not know the device or its address.
    pub(super) fn open(port: &Port) -> Result<Arc<OpenPort>> {
        let name = format!("{}:{}", port.device, port.number);
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(Status::SYSTEM, format!("RDMA port {name}: {error}"))
        };
        let verbs = Verbs::open().map_err(|error| failed(&error))?;
        let device = OpenDevice::open(verbs, &port.device).map_err(|error| failed(&error))?;
        let now = device.port(port.number).map_err(|error| failed(&error))?;
        let gid = match now.link_layer {
            LinkLayer::Ethernet => {
                let gid =
                    device.gid(port.number, port.gid_index).map_err(|error| failed(&error))?;
                if gid.is_unspecified() {
                    let text =
                        format!("entry {} of its addresses is empty ({GID_INDEX})", port.gid_index);
                    return Err(failed(&text));
                }
                Some(gid.octets())
            }
            LinkLayer::InfiniBand => None,
        };
        let limits = device.limits().map_err(|error| failed(&error))?;
        let wishes = wishes()?;
        Ok(Arc::new(OpenPort {
            registrations: Registrations::new(&device),
            address: Address { gid, lid: now.lid },
            mtu: now.mtu,
            link: Link {
                port: port.number,
                gid_index: port.gid_index,
                mtu: now.mtu,
                traffic_class: wishes.traffic_class,
                service_level: wishes.service_level,
                timeout: wishes.timeout,
                retries: wishes.retries,
                reads: limits.open_reads.min(limits.answered_reads).clamp(1, 16),
            },
            port: port.clone(),
            device,
            looked: Mutex::new((Instant::now(), None)),
            has_unreliable: OnceLock::new(),
        }))
    }

    /// Why the port carries nothing now, if so. Asking a device costs it a command of its firmware, so that it is asked only after an
    /// event, and until it is well again.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        let mut looked = lock(&self.looked);
        let interval = if looked.1.is_some() { DOWN_INTERVAL } else { LOOK_INTERVAL };
        if now.saturating_duration_since(looked.0) >= interval {
            let event = self.device.events().err();
            let is_asked = event.is_some() || looked.1.is_some();
            *looked = (now, is_asked.then(|| self.state(event)).flatten());
        }
        looked.1.clone()
    }

    /// What the device says of the port, after an event.
    fn state(&self, event: Option<VerbsError>) -> Option<String> {
        match self.device.port(self.port.number) {
            Ok(port) if port.active => None,
            Ok(port) => Some(event.map_or_else(
                || format!("{} is down, state {}", self.name(), port.state),
                |event| event.to_string(),
            )),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Opens each port once.
pub(super) struct Opened(Vec<OnceLock<Arc<OpenPort>>>);

impl Opened {
    pub(super) fn new(ports: &[Port]) -> Opened {
        Opened(ports.iter().map(|_| OnceLock::new()).collect())
    }

    /// # Errors
    /// As [`OpenPort::open`]; the next call tries it again.
    pub(super) fn get(&self, ports: &[Port], at: usize) -> Result<Arc<OpenPort>> {
        if let Some(open) = self.0[at].get() {
            return Ok(open.clone());
        }
        let open = OpenPort::open(&ports[at])?;
        Ok(self.0[at].get_or_init(|| open).clone())
    }
}

fn wishes() -> Result<Wishes> {
    let small = |name, most, usual: u8| {
        let value = number(name, -1..=most)?.filter(|value| *value >= 0);
        Ok(value.and_then(|value| u8::try_from(value).ok()).unwrap_or(usual))
    };
    Ok(Wishes {
        traffic_class: small(TRAFFIC_CLASS, 255, 0)?,
        service_level: small(SERVICE_LEVEL, 15, 0)?,
        timeout: small(TIMEOUT, 31, USUAL.0)?,
        retries: small(RETRIES, 7, USUAL.1)?,
    })
}

/// A variable's number, unless it is unset or empty.
fn number(name: &str, allowed: std::ops::RangeInclusive<i64>) -> Result<Option<i64>> {
    let Some(text) = std::env::var(name).ok().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let value = text.trim().parse().ok().filter(|value| allowed.contains(value));
    let expected = || format!("a number from {} to {}", allowed.start(), allowed.end());
    value.map(Some).ok_or_else(|| Failure::variable(name, &text, &expected()))
}

/// Names of a folder's entries, sorted as people count: mlx5_2 before mlx5_10.
fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = sys::entries(folder.to_owned()).collect();
    names.sort_by_key(|name| {
        let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (text.to_owned(), name[text.len()..].parse::<u64>().unwrap_or(0))
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys/class/infiniband").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const V4: &str = "0000:0000:0000:0000:0000:ffff:0a00:0001\n";
    const LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe00:0000\n";

    #[test]
    fn ports_that_are_up_are_taken_with_the_address_that_reaches_furthest() {
        let root = host(&[
            ("mlx5_10/ports/1/state", "4: ACTIVE\n"),
            ("mlx5_10/ports/1/link_layer", "InfiniBand\n"),
            ("mlx5_10/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
            ("mlx5_10/node_guid", "b83f:d203:0012:3456\n"),
            ("mlx5_2/ports/1/state", "4: ACTIVE\n"),
            ("mlx5_2/ports/1/link_layer", "Ethernet\n"),
            ("mlx5_2/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
            ("mlx5_2/ports/1/gids/0", LOCAL),
            ("mlx5_2/ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
            ("mlx5_2/ports/1/gids/1", LOCAL),
            ("mlx5_2/ports/1/gid_attrs/types/1", "RoCE v2\n"),
            ("mlx5_2/ports/1/gids/2", V4),
            ("mlx5_2/ports/1/gid_attrs/types/2", "IB/RoCE v1\n"),
            ("mlx5_2/ports/1/gids/3", V4),
            ("mlx5_2/ports/1/gid_attrs/types/3", "RoCE v2\n"),
            ("mlx5_3/ports/1/state", "1: DOWN\n"),
        ]);
        let ports = usable(root.path()).unwrap();
        let seen: Vec<_> = ports
            .iter()
            .map(|port| (port.device.as_str(), port.gid_index, port.is_ethernet, port.gbps))
            .collect();
        assert_eq!(seen, [("mlx5_2", 3, true, 100.0), ("mlx5_10", 0, false, 400.0)]);
        assert_eq!(ports[1].guid, 0xb83f_d203_0012_3456);
    }

    #[test]
    fn a_host_without_ports_is_told_why() {
        let text = usable(host(&[]).path()).unwrap_err().text;
        assert!(text.contains("has no device") && text.contains("BUSBW_NET=rdma"), "{text}");
        let text = usable(host(&[("mlx5_0/ports/1/state", "1: DOWN\n")]).path()).unwrap_err().text;
        assert!(text.contains("mlx5_0:1 is not active, its state is 1: DOWN"), "{text}");
        let no_address =
            [("mlx5_0/ports/1/state", "4: ACTIVE\n"), ("mlx5_0/ports/1/link_layer", "Ethernet\n")];
        let text = usable(host(&no_address).path()).unwrap_err().text;
        assert!(text.contains("has no address"), "{text}");
    }
}
