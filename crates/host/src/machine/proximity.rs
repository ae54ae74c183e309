//! How near GPUs are to RDMA ports on the PCI buses of this host, and which GPU goes with which port.
//! Not NCCL's own search (`busbw_hardware::topology`), and no driver is asked.

use std::{fmt, path::PathBuf};

use super::Root;

/// How near two devices are; the first ones are nearer. NCCL's words are PIX, PXB, PHB, NODE and SYS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proximity {
    /// Below one PCIe switch: traffic between them need not reach the processor.
    Switch,
    /// Below one port of a host bridge, through several switches.
    RootPort,
    /// Below one host bridge.
    HostBridge,
    /// On one NUMA node.
    Node,
    /// On different NUMA nodes.
    OtherNode,
    /// One of them is not on a bus that /sys shows, as software devices are, or the kernel does not say on which node.
    Unknown,
}

impl fmt::Display for Proximity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proximity::Switch => "behind the same PCIe switch",
            Proximity::RootPort => "below the same PCIe root port",
            Proximity::HostBridge => "below the same PCI host bridge",
            Proximity::Node => "on the same NUMA node",
            Proximity::OtherNode => "on another NUMA node",
            Proximity::Unknown => "at an unknown distance",
        })
    }
}

/// How near a GPU, by its PCI address, is to an RDMA device, by its name.
fn proximity(root: &Root, device: &str, gpu: &str) -> Proximity {
    let device = format!("sys/class/infiniband/{device}/device");
    let gpu = format!("sys/bus/pci/devices/{gpu}");
    let (Some(one), Some(other)) = (buses(root, &device), buses(root, &gpu)) else {
        return Proximity::Unknown;
    };
    let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let node = |at: &str| root.number::<u32>(format!("{at}/numa_node"));
    match shared {
        0 => match (node(&device), node(&gpu)) {
            (Some(one), Some(other)) if one != other => Proximity::OtherNode,
            (Some(_), Some(_)) => Proximity::Node,
            // The kernel says -1 where there is one node only, and of devices whose firmware does not say.
            _ if root.exists("sys/devices/system/node/node1") => Proximity::Unknown,
            _ => Proximity::Node,
        },
        1 => Proximity::HostBridge,
        // Of a switch each has a port of its own above it.
        _ if shared + 2 >= one.len().max(other.len()) => Proximity::Switch,
        _ => Proximity::RootPort,
    }
}

/// A device's place on the buses, from its host bridge on: pci0000:80, 0000:80:01.0, 0000:81:00.0.
fn buses(root: &Root, device: &str) -> Option<Vec<PathBuf>> {
    let real = root.real(device)?;
    let names = real.components().map(|name| PathBuf::from(name.as_os_str()));
    let buses: Vec<PathBuf> =
        names.skip_while(|name| !name.to_string_lossy().starts_with("pci")).collect();
    (!buses.is_empty()).then_some(buses)
}

/// The GPU of the rank with number `turn` on its host: the nearest to its port that the fewest ranks before it have. Ranks take the
/// ports in turn. `None` without ports or GPUs.
pub fn nearest_gpu(
    root: &Root,
    ports: &[&str],
    gpus: &[&str],
    turn: usize,
) -> Option<(usize, Proximity)> {
    let mut ranks_on = vec![0; gpus.len()];
    let mut chosen = None;
    for rank in 0..=turn {
        let port = ports.get(rank % ports.len().max(1))?;
        let near = |(at, gpu): (usize, &&str)| (proximity(root, port, gpu), at);
        let each = gpus.iter().enumerate().map(near);
        let (proximity, at) =
            each.min_by_key(|(proximity, at)| (*proximity, ranks_on[*at], *at))?;
        ranks_on[at] += 1;
        chosen = Some((at, proximity));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::*;

    /// A host with these devices: name below `sys/class/infiniband`, or the address of a GPU, and the place.
    fn host(devices: &[(&str, &str, i32)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let path = |of: &str| folder.path().join(of);
        for (name, place, node) in devices {
            let place = path(&format!("sys/devices/{place}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("numa_node"), format!("{node}\n")).unwrap();
            let link = match name.contains(':') {
                true => path(&format!("sys/bus/pci/devices/{name}")),
                false => path(&format!("sys/class/infiniband/{name}/device")),
            };
            fs::create_dir_all(link.parent().unwrap_or(Path::new("/"))).unwrap();
            symlink(place, link).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn the_bus_says_how_near() {
        let (_folder, root) = host(&[
            ("mlx5_0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0),
            ("0000:19:00.0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:19:00.0", 0),
            (
                "0000:1b:00.0",
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/0000:1a:00.0/0000:1b:00.0",
                0,
            ),
            ("0000:20:00.0", "pci0000:15/0000:15:03.0/0000:20:00.0", 0),
            ("0000:30:00.0", "pci0000:30/0000:30:00.0", 0),
            ("0000:90:00.0", "LNXSYSTM:00/pci0000:90/0000:90:00.0", 1),
        ]);
        let of = |gpu| proximity(&root, "mlx5_0", gpu);
        assert_eq!(of("0000:19:00.0"), Proximity::Switch);
        assert_eq!(of("0000:1b:00.0"), Proximity::RootPort);
        assert_eq!(of("0000:20:00.0"), Proximity::HostBridge);
        assert_eq!(of("0000:30:00.0"), Proximity::Node);
        assert_eq!(of("0000:90:00.0"), Proximity::OtherNode);
        assert_eq!(of("0000:ff:00.0"), Proximity::Unknown);
    }

    #[test]
    fn each_rank_has_a_gpu_near_its_port() {
        let (_folder, root) = host(&[
            ("mlx5_0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0", 0),
            ("mlx5_1", "pci0000:90/0000:90:01.0/0000:91:00.0/0000:92:00.0", 1),
            ("0000:19:00.0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:19:00.0", 0),
            ("0000:1a:00.0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:1a:00.0", 0),
            ("0000:93:00.0", "pci0000:90/0000:90:01.0/0000:91:00.0/0000:93:00.0", 1),
        ]);
        // The driver lists the farther one first.
        let gpus = ["0000:93:00.0", "0000:19:00.0", "0000:1a:00.0"];
        let ports = ["mlx5_0", "mlx5_1"];
        let of = |turn| nearest_gpu(&root, &ports, &gpus, turn).map(|(at, _)| at);
        assert_eq!([of(0), of(1), of(2), of(3), of(4)], [1, 0, 2, 0, 1].map(Some));
        assert_eq!(nearest_gpu(&root, &["rxe0"], &gpus, 1), Some((1, Proximity::Unknown)));
        assert_eq!(nearest_gpu(&root, &[], &gpus, 0), None);
        assert_eq!(nearest_gpu(&root, &ports, &[], 0), None);
    }
}
