//! Facts from /sys about interfaces and RDMA ports, under a root path.
//! Not which of them are used.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn net(root: &Path, name: &str) -> PathBuf {
    root.join("sys/class/net").join(name)
}

pub(crate) fn line(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Names of a folder's entries, sorted; none where there is no folder.
pub(crate) fn entries(folder: PathBuf) -> impl Iterator<Item = String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.into_iter()
}

/// Mb/s; none for virtual interfaces and those without a link, which report -1 or nothing.
pub(super) fn speed(root: &Path, name: &str) -> Option<u32> {
    let speed: i32 = line(net(root, name).join("speed"))?.parse().ok()?;
    u32::try_from(speed).ok().filter(|&speed| speed > 0)
}

/// Path of its device with links resolved, as NCCL wants it.
pub(super) fn path(root: &Path, name: &str) -> Option<String> {
    let path = fs::canonicalize(net(root, name).join("device")).ok()?;
    path.into_os_string().into_string().ok()
}

/// Its hardware address as a number; 0 without one.
pub(super) fn hardware_address(root: &Path, name: &str) -> u64 {
    let text = line(net(root, name).join("address")).unwrap_or_default();
    // RoCE's and Ethernet's have 6 bytes; of InfiniBand's 20 the last 8 are its GUID.
    let bytes = text.split(':').map(|byte| u64::from_str_radix(byte, 16).unwrap_or(0) & 0xff);
    bytes.fold(0, |number, byte| number << 8 | byte)
}

/// The interfaces below it, as under a VLAN or a bond.
pub(super) fn below(root: &Path, name: &str) -> impl Iterator<Item = String> {
    entries(net(root, name)).filter_map(|entry| Some(entry.strip_prefix("lower_")?.to_owned()))
}

/// The first active RDMA port: "mlx5_0/1".
pub(super) fn active_rdma_port(root: &Path) -> Option<String> {
    let cards = root.join("sys/class/infiniband");
    entries(cards.clone()).find_map(|card| {
        let ports = cards.join(&card).join("ports");
        let active =
            |port: &String| line(ports.join(port).join("state")).as_deref() == Some("4: ACTIVE");
        Some(format!("{card}/{}", entries(ports.clone()).find(active)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_speed_is_one_only_where_the_kernel_knows() {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in
            [("a", "100000\n"), ("b", "-1\n"), ("c", ""), ("d", "0\n"), ("e", "4294967295\n")]
        {
            file(root.path(), &format!("sys/class/net/{name}/speed"), text);
        }
        let speeds = ["a", "b", "c", "d", "e", "f"].map(|name| speed(root.path(), name));
        assert_eq!(speeds, [Some(100_000), None, None, None, None, None]);
    }

    #[test]
    fn a_path_has_no_links_in_it() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("sys/devices/pci0000:00/0000:00:05.0");
        fs::create_dir_all(&real).unwrap();
        fs::create_dir_all(root.path().join("sys/class/net/eth0")).unwrap();
        std::os::unix::fs::symlink(&real, root.path().join("sys/class/net/eth0/device")).unwrap();
        let expected = fs::canonicalize(&real).unwrap().into_os_string().into_string().unwrap();
        assert_eq!(path(root.path(), "eth0"), Some(expected));
        assert_eq!(path(root.path(), "lo"), None);
    }

    #[test]
    fn hardware_addresses_are_numbers() {
        let root = tempfile::tempdir().unwrap();
        file(root.path(), "sys/class/net/eth0/address", "02:00:00:00:01:ff\n");
        file(
            root.path(),
            "sys/class/net/ib0/address",
            "80:00:00:00:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:11:22:33\n",
        );
        assert_eq!(hardware_address(root.path(), "eth0"), 0x0200_0000_01ff);
        assert_eq!(hardware_address(root.path(), "ib0"), 0x0c42_a103_0011_2233);
        assert_eq!(hardware_address(root.path(), "gone"), 0);
    }

    #[test]
    fn an_rdma_port_counts_when_it_is_active() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(active_rdma_port(root.path()), None);
        file(root.path(), "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
        assert_eq!(active_rdma_port(root.path()), None);
        file(root.path(), "sys/class/infiniband/mlx5_1/ports/1/state", "2: INIT\n");
        file(root.path(), "sys/class/infiniband/mlx5_1/ports/2/state", "4: ACTIVE\n");
        assert_eq!(active_rdma_port(root.path()).as_deref(), Some("mlx5_1/2"));
    }
}
