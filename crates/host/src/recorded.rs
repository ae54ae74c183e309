//! Nodes as files: a server of eight GPUs and eight adapters, made as sysfs nests them, and its driver's
//! answers. Not any real machine's, but of their form.

use std::path::Path;

use busbw_core::finding::Finding;
use busbw_ffi::{
    nvml::{Driver, Fabric, FabricState, Gpu, NvLinks, Reading},
    search::Environment,
};

use crate::{
    doctor::{Node, check},
    machine::Root,
};

/// A file system root that can be changed before it is looked at.
pub struct Recorded {
    folder: tempfile::TempDir,
    pub environment: Environment,
    pub driver: Result<Driver, String>,
}

impl Recorded {
    /// A machine with nothing but a processor: a laptop, a container.
    pub fn laptop() -> Recorded {
        let node = Recorded {
            folder: folder(),
            environment: Environment::default(),
            driver: Err("libnvidia-ml.so.1: cannot open shared object file".to_owned()),
        };
        node.write(
            "proc/self/status",
            "Name:\tbusbw\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\n",
        );
        node.limit("8388608");
        node.write("proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n");
        node.write("proc/meminfo", "MemTotal:       16000000 kB\n");
        node.write("proc/sys/kernel/osrelease", "6.8.0-49-generic\n");
        node.write("sys/class/net/lo/operstate", "unknown\n");
        node.bridge("pci0000:00/0000:00:1c.0", "0000:00:1c.0", 0);
        node
    }

    /// Eight GPUs, eight InfiniBand adapters, each pair below a switch of its own; all is well.
    pub fn server() -> Recorded {
        let mut node = Recorded::laptop();
        node.write(
            "proc/self/status",
            "Name:\tbusbw\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-111\n",
        );
        node.limit("unlimited");
        node.write("proc/meminfo", "MemTotal:       2113000000 kB\n");
        node.write("sys/module/nvidia/version", "580.82.07\n");
        node.write("sys/module/nvidia_peermem/version", "580.82.07\n");
        node.write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n",
        );
        node.write("dev/kmsg", "6,1,1,-;Linux version 6.8.0\n");
        for index in 0..8 {
            node.pair(index);
            node.write(&format!("dev/infiniband/uverbs{index}"), "");
        }
        node.write("usr/lib64/libibverbs.so.1", "");
        let gpus = (0..8).map(|index| Ok(gpu(index))).collect();
        node.driver = Ok(Driver {
            version: Reading::Value("580.82.07".to_owned()),
            cuda: Reading::Value((13, 0)),
            gpus,
        });
        node
    }

    pub fn limit(&self, bytes: &str) {
        let text =
            format!("Limit  Soft  Hard  Units\nMax locked memory  {bytes}  {bytes}  bytes\n");
        self.write("proc/self/limits", &text);
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_dir_all(self.folder.path().join(path)).unwrap();
    }

    /// Where a file really is.
    pub fn root_path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    /// A file of adapter `index`'s only port.
    pub fn port(&self, index: usize, file: &str, text: &str) {
        self.write(
            &format!("sys/class/infiniband/mlx5_{index}/ports/1/{file}"),
            format!("{text}\n"),
        );
    }

    /// A file of a PCI device.
    pub fn pci(&self, address: &str, file: &str, text: impl AsRef<[u8]>) {
        self.write(&format!("sys/bus/pci/devices/{address}/{file}"), text);
    }

    /// GPU `index`.
    pub fn gpu(&mut self, index: usize) -> &mut Gpu {
        self.driver.as_mut().unwrap().gpus[index].as_mut().unwrap()
    }

    /// Turns every port into RoCE with the addresses that mlx5 makes.
    pub fn roce(&self) {
        for index in 0..8 {
            self.port(index, "link_layer", "Ethernet");
            let v4 = format!("0000:0000:0000:0000:0000:ffff:0a00:{:04x}", index + 1);
            let local = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001";
            let entries =
                [(local, "IB/RoCE v1"), (local, "RoCE v2"), (&v4, "IB/RoCE v1"), (&v4, "RoCE v2")];
            for (at, (address, kind)) in entries.into_iter().enumerate() {
                self.port(index, &format!("gids/{at}"), address);
                self.port(index, &format!("gid_attrs/types/{at}"), kind);
            }
            self.port(index, "gids/4", "0000:0000:0000:0000:0000:0000:0000:0000");
        }
    }

    pub fn node(self) -> (tempfile::TempDir, Node) {
        let root = Root::new(self.folder.path());
        let node = Node::read(root, self.environment, self.driver);
        (self.folder, node)
    }

    pub fn check(self) -> Vec<Finding> {
        let (_keep, node) = self.node();
        check(&node)
    }

    /// A device where sysfs has it, and the link that the bus has to it.
    fn device(&self, folder: &str, address: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.write(&format!("sys/devices/{folder}/{file}"), format!("{text}\n"));
        }
        link(
            self.folder.path(),
            &format!("sys/bus/pci/devices/{address}"),
            &format!("../../../devices/{folder}"),
        );
    }

    fn bridge(&self, folder: &str, address: &str, access: u16) {
        let best = [("max_link_speed", "32.0 GT/s PCIe"), ("max_link_width", "16")];
        let kind = [("vendor", "0x1000"), ("device", "0xc030"), ("class", "0x060400")];
        self.device(folder, address, &[kind.as_slice(), &best].concat());
        self.write(&format!("sys/devices/{folder}/config"), config(access));
    }

    /// GPU and adapter `index` below switch `index`.
    fn pair(&self, index: usize) {
        let bus = 0x10 + index * 0x10;
        let at = |offset: usize| format!("0000:{:02x}:00.0", bus + offset);
        let port = format!("pci0000:{bus:02x}/0000:{bus:02x}:01.0");
        let switch = format!("{port}/{}", at(1));
        let (left, right) =
            (format!("0000:{:02x}:00.0", bus + 2), format!("0000:{:02x}:01.0", bus + 2));
        self.bridge(&port, &format!("0000:{bus:02x}:01.0"), 0);
        self.bridge(&switch, &at(1), 0);
        self.bridge(&format!("{switch}/{left}"), &left, 0);
        self.bridge(&format!("{switch}/{right}"), &right, 0);
        let cores = if index < 4 { "0-55" } else { "56-111" };
        let link = [
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
            ("local_cpulist", cores),
            ("iommu_group/type", "identity"),
        ];
        let gpu = [("vendor", "0x10de"), ("device", "0x2335"), ("class", "0x030200")];
        let nic = [("vendor", "0x15b3"), ("device", "0x1021"), ("class", "0x020700")];
        self.device(
            &format!("{switch}/{left}/{}", at(3)),
            &at(3),
            &[gpu.as_slice(), &link].concat(),
        );
        self.device(
            &format!("{switch}/{right}/{}", at(4)),
            &at(4),
            &[nic.as_slice(), &link].concat(),
        );
        let interface = format!("sys/bus/pci/devices/{}/net/ib{index}", at(4));
        self.write(&format!("{interface}/mtu"), "4092\n");
        let name = format!("sys/class/infiniband/mlx5_{index}");
        self.write(&format!("{name}/fw_ver"), "28.43.1014\n");
        self.write(&format!("{name}/board_id"), "MT_0000000838\n");
        for (file, text) in [
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "400 Gb/sec (4X NDR)"),
            ("link_layer", "InfiniBand"),
            ("gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001"),
        ] {
            self.port(index, file, text);
        }
        let root = self.folder.path();
        self::link(root, &format!("{name}/device"), &format!("../../../bus/pci/devices/{}", at(4)));
        self::link(root, &format!("sys/class/net/ib{index}"), &format!("../../../{interface}"));
    }
}

/// PCI address of GPU `index`, and of adapter `index`.
pub fn gpu_at(index: usize) -> String {
    format!("0000:{:02x}:00.0", 0x13 + index * 0x10)
}

/// See `gpu_at`.
pub fn nic_at(index: usize) -> String {
    format!("0000:{:02x}:00.0", 0x14 + index * 0x10)
}

/// In memory where there is such a place: a node is hundreds of small files.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn link(root: &Path, from: &str, to: &str) {
    let from = root.join(from);
    std::fs::create_dir_all(from.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(to, from).unwrap();
}

/// A configuration space with an ACS capability.
pub fn config(access: u16) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[0x100..0x104].copy_from_slice(&(0x000d_u32 | 1 << 16).to_le_bytes());
    bytes[0x106..0x108].copy_from_slice(&access.to_le_bytes());
    bytes
}

fn gpu(index: usize) -> Gpu {
    Gpu {
        index: index as u32,
        name: "NVIDIA H200".to_owned(),
        address: gpu_at(index),
        vbios: Reading::Value("96.00.CE.00.01".to_owned()),
        sm_mhz: Reading::Value(1980),
        sm_max_mhz: Reading::Value(1980),
        memory_mhz: Reading::Value(3201),
        memory_max_mhz: Reading::Value(3201),
        power_mw: Reading::Value(77_000),
        power_limit_mw: Reading::Value(700_000),
        power_default_mw: Reading::Value(700_000),
        temperature: Reading::Value(30),
        throttle: Reading::Value(busbw_ffi::nvml::throttle::IDLE),
        ecc: Reading::Value(true),
        ecc_uncorrected: Reading::Value(0),
        ecc_corrected: Reading::Value(0),
        recovery: Reading::Value(0),
        pcie: Reading::Value((5, 16)),
        pcie_max: Reading::Value((5, 16)),
        pcie_replays: Reading::Value(0),
        mig: Reading::Value(false),
        persistent: Reading::Value(true),
        nvlinks: Reading::Value(NvLinks { all: 18, up: 18, errors: Some(0) }),
        fabric: Reading::Value(Fabric { state: FabricState::Completed, ..Fabric::default() }),
        processes: Reading::Value(Vec::new()),
        ..Gpu::default()
    }
}
