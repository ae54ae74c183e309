//! Networks, their devices and interfaces: those that NCCL found and those that it uses.
//! Not the plugins, and not which connection uses which device.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::{Tally, keep};

/// The most distinct names of each kind that are kept.
const MAX_NAMES: usize = 512;

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NetDevice {
    /// `IB` or `Socket`.
    pub network: String,
    /// Name, such as `mlx5_0`, `eth0`; `mlx5_0+mlx5_1` is several as one.
    pub name: String,
    /// Port, of InfiniBand devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// `IB` or `RoCE`, and `IB/SHARP` where the switch reduces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Mb/s; of virtual devices, from 2.24 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u64>,
}

/// Whether NICs may read and write GPU memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuDirect {
    /// The network's name.
    pub network: String,
    /// Device number, the one in `via NET/…`.
    pub device: u32,
    /// Device name.
    pub name: String,
    /// NCCL's decision. One device can have both, on different hosts or from different GPUs.
    pub enabled: bool,
}

/// Helper threads of NET/Socket. Without this message each connection has one stream and no thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SocketThreads {
    /// Threads of a connection.
    pub threads: u32,
    /// Sockets of each thread.
    pub sockets_per_thread: u32,
}

/// A port whose speed changed while the job ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpeedChange {
    /// Device, such as `mlx5_0`.
    pub device: String,
    /// Its port.
    pub port: u32,
    /// Mb/s before.
    pub from_mbps: u64,
    /// Mb/s since.
    pub to_mbps: u64,
}

/// What has been read so far.
#[derive(Debug)]
pub(super) struct Network {
    pub names: Tally<String>,
    pub bootstrap: Tally<String>,
    pub devices: Tally<NetDevice>,
    pub gpu_direct: Tally<GpuDirect>,
    pub socket_threads: Tally<SocketThreads>,
    pub speed_changes: Tally<SpeedChange>,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            names: Tally::new(MAX_NAMES),
            bootstrap: Tally::new(MAX_NAMES),
            devices: Tally::new(MAX_NAMES),
            gpu_direct: Tally::new(MAX_NAMES),
            socket_threads: Tally::new(MAX_NAMES),
            speed_changes: Tally::new(MAX_NAMES),
        }
    }
}

impl Network {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, mut at: Cursor<'_>) -> Option<()> {
        match at.one_of(&["Using network ", "Bootstrap : Using ", "Bootstrap: Using ", "NET/"])? {
            "Using network " => self.names.add(keep(at.text()?)),
            "NET/" => return self.net(at),
            // Until 2.7 with a number. The address is left out: it is no setting.
            _ => {
                let (interface, _) = at.text()?.split_once(':')?;
                let name = interface.rsplit_once(']').map_or(interface, |(_, name)| name);
                self.bootstrap.add(keep(name));
            }
        }
        Some(())
    }

    /// What follows `NET/`.
    fn net(&mut self, mut at: Cursor<'_>) -> Option<()> {
        if at.has("Socket: Using ") || at.has("Socket : Using ") {
            let mut threads = at;
            if let Some(said) = socket_threads(&mut threads) {
                self.socket_threads.add(said);
                return Some(());
            }
            return self.add_devices("Socket", at.text()?);
        }
        if at.has("IB : Using ") {
            // `[RO]; OOB eth0:10.0.0.1<0>` follows the devices. "No device" leaves only that.
            let text = at.text()?;
            let devices = text.split_once("; OOB ").map_or(text, |(devices, _)| devices);
            return self.add_devices("IB", devices);
        }
        if let Some(change) = speed_change(at) {
            self.speed_changes.add(change);
            return Some(());
        }
        if at.has("IB : Made virtual device [") {
            at.until("] name=")?;
            let name = keep(at.until(" speed=")?);
            let speed_mbps = Some(at.number()?);
            at.literal(" ")?;
            self.devices.add(NetDevice {
                network: "IB".to_owned(),
                name,
                port: None,
                link: None,
                speed_mbps,
            });
            return Some(());
        }
        let network = keep(at.until(" : GPU Direct RDMA ")?);
        let enabled = at.one_of(&["Enabled", "Disabled"])? == "Enabled";
        let device = at.field(" for HCA ")?;
        at.literal(" '")?;
        let name = keep(at.until("'")?);
        self.gpu_direct.add(GpuDirect { network, device, name, enabled });
        Some(())
    }

    /// `[0]mlx5_2:1/IB/SHARP [1]mlx5_0:1/RoCE [RO]`, or `[0]eth0:10.0.0.1<0> [1]…`.
    fn add_devices(&mut self, network: &str, text: &str) -> Option<()> {
        for entry in text.split(' ') {
            let Some((name, tail)) = entry
                .strip_prefix('[')
                .and_then(|numbered| numbered.split_once(']'))
                .filter(|(number, _)| number.parse::<u32>().is_ok())
                .and_then(|(_, device)| device.split_once(':'))
            else {
                continue;
            };
            let (mut port, mut link) = (None, None);
            if network == "IB" {
                let Some((number, layer)) = tail.split_once('/') else { continue };
                // 2.30 puts rail and plane between port and link.
                port = number.split(':').next().and_then(|port| port.parse().ok());
                link = Some(keep(layer));
            }
            let network = network.to_owned();
            self.devices.add(NetDevice { network, name: keep(name), port, link, speed_mbps: None });
        }
        Some(())
    }
}

/// `IB : mlx5_0:1 speed change detected: 400000 -> 100000 Mbps`.
fn speed_change(mut at: Cursor<'_>) -> Option<SpeedChange> {
    at.literal("IB : ")?;
    let device = keep(at.until(":").filter(|device| !device.contains(' '))?);
    let port = at.number()?;
    at.literal(" speed change detected: ")?;
    let from_mbps = at.number()?;
    at.literal(" -> ")?;
    let to_mbps = at.number()?;
    at.literal(" Mbps")?;
    at.end()?;
    Some(SpeedChange { device, port, from_mbps, to_mbps })
}

fn socket_threads(at: &mut Cursor<'_>) -> Option<SocketThreads> {
    let threads = at.number()?;
    let sockets_per_thread = at.field(" threads and ")?;
    at.literal(" sockets per thread")?;
    at.end()?;
    Some(SocketThreads { threads, sockets_per_thread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::tally::counted;

    fn read(texts: &[&str]) -> Network {
        let mut network = Network::default();
        for text in texts {
            assert!(network.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        network
    }

    #[test]
    fn names_and_interfaces() {
        let network = read(&[
            "Using network AWS Libfabric",
            "Using network Socket",
            "Using network Socket",
            "Bootstrap : Using eth0:172.17.3.106<0>",
            "Bootstrap: Using eth0:172.17.3.107<0>",
            "Bootstrap : Using [0]ib0:10.0.0.1<0>",
        ]);
        let expected = [("AWS Libfabric".to_owned(), 1), ("Socket".to_owned(), 2)];
        assert_eq!(network.names.finish(&mut 0), expected.into());
        let expected = [("eth0".to_owned(), 2), ("ib0".to_owned(), 1)];
        assert_eq!(network.bootstrap.finish(&mut 0), expected.into());
        let mut cut = Network::default();
        assert_eq!(cut.read(Cursor::new("Using network Sock", true)), None);
    }

    #[test]
    fn devices() {
        let network = read(&[
            "NET/IB : Using [0]mlx5_2:1/IB/SHARP [1]mlx5_0:1/RoCE [RO]; OOB ib0:10.159.0.40<0>",
            "NET/IB : Using [0]mlx5_7:2:1:0/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "NET/IB : Using [RO]; OOB lo:127.0.0.1<0>",
            "NET/Socket : Using [0]bond0:192.168.3.21<0> [1]veth26:fe80::5cd:%veth26<0>",
            "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=200000 ndevs=2",
        ]);
        let devices = counted(network.devices.finish(&mut 0));
        let told: Vec<_> = devices
            .iter()
            .map(|d| (d.what.name.as_str(), d.what.port, d.what.link.as_deref(), d.what.speed_mbps))
            .collect();
        let expected = [
            ("mlx5_0", Some(1), Some("RoCE"), None),
            ("mlx5_0+mlx5_1", None, None, Some(200_000)),
            ("mlx5_2", Some(1), Some("IB/SHARP"), None),
            ("mlx5_7", Some(2), Some("RoCE"), None),
            ("bond0", None, None, None),
            ("veth26", None, None, None),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_spoilt_device_is_passed_over() {
        let network = read(&["NET/IB : Using [0]mlx5_0:1/RoCE \u{fffd}1]mlx5_1:1/IB [x]y:1/IB []"]);
        assert_eq!(network.devices.finish(&mut 0).len(), 1);
    }

    #[test]
    fn a_port_that_changes_its_speed() {
        let network = read(&["NET/IB : mlx5_0:1 speed change detected: 400000 -> 100000 Mbps"]);
        let changes = counted(network.speed_changes.finish(&mut 0));
        let expected = SpeedChange {
            device: "mlx5_0".to_owned(),
            port: 1,
            from_mbps: 400_000,
            to_mbps: 100_000,
        };
        assert_eq!((&changes[0].what, changes[0].said), (&expected, 1));
        assert_eq!(speed_change(Cursor::new("IB : mlx5_0:1 speed change", false)), None);
    }

    #[test]
    fn gpu_direct_and_socket_threads() {
        let network = read(&[
            "NET/IB : GPU Direct RDMA Disabled for HCA 2 'mlx5_0+mlx5_1'",
            "NET/AWS Libfabric : GPU Direct RDMA Enabled for HCA 0 'cxi0'",
            "NET/Socket: Using 4 threads and 8 sockets per thread",
        ]);
        let gpu_direct = counted(network.gpu_direct.finish(&mut 0));
        assert_eq!(gpu_direct[0].what.network, "AWS Libfabric");
        assert!(gpu_direct[0].what.enabled);
        assert_eq!((gpu_direct[1].what.device, gpu_direct[1].what.enabled), (2, false));
        let threads = SocketThreads { threads: 4, sockets_per_thread: 8 };
        assert_eq!(network.socket_threads.finish(&mut 0), [(threads, 1)].into());
    }
}
