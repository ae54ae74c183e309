//! Reads this machine's tree: /sys under a root path, and the driver's facts about its GPUs.
//! Not the findings.

use std::collections::HashMap;

use busbw_ffi::nvml::{self, Driver, FabricState, NvLinkPeerKind};
use busbw_hardware::topology::{
    Cpu, Device, Fabric, Gpu, GpuLink, GpuLinkKind, Net, NetKind, Parent, PcieReading, PortState,
    System,
};

use crate::machine::{self, PciDevice, RdmaDevice, Root};

/// Reads the tree of the machine below `root`: GPUs, network adapters, and the switches above them as
/// NCCL has them, one upstream port for a whole switch.
pub fn read(root: &Root, driver: Option<&Driver>) -> System {
    let pci = machine::pci(root);
    let mut tree = Tree {
        by_address: pci.iter().map(|device| (device.address.as_str(), device)).collect(),
        system: System { version: version(&pci), cpus: cpus(root), ..System::default() },
        places: HashMap::new(),
    };
    let rdma = machine::rdma(root);
    let ethernet = ethernet(root, &rdma);
    let gpus: Vec<&nvml::Gpu> =
        driver.map(|driver| driver.gpus.iter().flatten().collect()).unwrap_or_default();
    for device in &pci {
        let gpu = gpus.iter().find(|gpu| gpu.address == device.address);
        let nets = nets(root, &device.address, &rdma, &ethernet);
        // A virtual function has its adapter's ports, which are counted there.
        let virtual_function =
            root.exists(format!("sys/bus/pci/devices/{}/physfn", device.address));
        let known = gpu.is_some() || machine::is_gpu(device) || !nets.is_empty();
        if virtual_function || !known {
            continue;
        }
        let place = tree.place(device);
        if let Some(entry) = tree.system.devices.get_mut(place) {
            entry.nets = nets;
            entry.gpu = gpu.map(|gpu| with_links(entry, gpu));
        }
    }
    // A container may hide the bus: then only the driver knows them.
    for gpu in gpus.iter().filter(|gpu| !tree.by_address.contains_key(gpu.address.as_str())) {
        let hidden = PciDevice {
            address: gpu.address.clone(),
            class: 0x03_0200,
            vendor: 0x10de,
            ..PciDevice::default()
        };
        let mut entry = tree.entry(&hidden, Parent::Cpu(0));
        entry.device = None;
        entry.gpu = Some(with_links(&mut entry, gpu));
        tree.system.devices.push(entry);
    }
    let on_no_device = ethernet.into_iter().filter(|(address, _)| address.is_none());
    if let Some(cpu) = tree.system.cpus.first_mut() {
        cpu.nets = on_no_device.map(|(_, net)| net).collect();
    }
    tree.system
}

/// RCCL reads another version of the XML than NCCL.
fn version(pci: &[PciDevice]) -> u32 {
    const AMD: u16 = 0x1002;
    if pci.iter().any(|device| device.vendor == AMD && machine::is_gpu(device)) { 2 } else { 1 }
}

/// NUMA nodes that have cores; one of unknown number where the machine shows none.
fn cpus(root: &Root) -> Vec<Cpu> {
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name)
    };
    let vendor = field("vendor_id").map(|(_, vendor)| vendor.to_owned());
    let number = |name| field(name).and_then(|(_, number)| number.parse().ok());
    let arch = match (&vendor, field("CPU implementer")) {
        (Some(_), _) => Some("x86_64".to_owned()),
        (None, Some(_)) => Some("arm64".to_owned()),
        _ => None,
    };
    let (family, model) = (number("cpu family"), number("model"));
    let alike = Cpu { arch, vendor, family, model, numa: Some(-1), ..Cpu::default() };
    let mut cpus: Vec<Cpu> = root
        .names("sys/devices/system/node")
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse::<i32>().ok())
        .filter_map(|numa| {
            let at = format!("sys/devices/system/node/node{numa}");
            let cores = root.text(format!("{at}/cpulist"))?;
            let first = *machine::processor_list(&cores).first()?;
            let package = format!("sys/devices/system/cpu/cpu{first}/topology/physical_package_id");
            Some(Cpu {
                numa: Some(numa),
                socket: root.number(package),
                affinity: root.text(format!("{at}/cpumap")),
                ..alike.clone()
            })
        })
        .collect();
    cpus.sort_by_key(|cpu| cpu.numa);
    if cpus.is_empty() { vec![alike] } else { cpus }
}

/// The tree while it grows.
struct Tree<'a> {
    by_address: HashMap<&'a str, &'a PciDevice>,
    system: System,
    places: HashMap<String, usize>,
}

impl Tree<'_> {
    /// The index of a device; adds it with all devices above it where it is not there yet.
    fn place(&mut self, device: &PciDevice) -> usize {
        if let Some(place) = self.places.get(&device.address) {
            return *place;
        }
        // Ports alternate: one down from a switch or the root, then the switch's own up.
        let switch = device.above.get(1).and_then(|up| self.by_address.get(up.as_str()).copied());
        let parent = match switch.filter(|switch| switch.above.len() < device.above.len()) {
            Some(switch) => Parent::Device(self.place(switch)),
            None => {
                let node = device.node.and_then(|node| i32::try_from(node).ok());
                let cpus = &self.system.cpus;
                let cpu = node.and_then(|node| cpus.iter().position(|c| c.numa == Some(node)));
                Parent::Cpu(cpu.unwrap_or(0))
            }
        };
        let entry = self.entry(device, parent);
        self.system.devices.push(entry);
        let place = self.system.devices.len() - 1;
        self.places.insert(device.address.clone(), place);
        place
    }

    fn entry(&self, device: &PciDevice, parent: Parent) -> Device {
        Device {
            address: device.address.clone(),
            parent,
            class: Some(device.class),
            vendor: Some(device.vendor),
            device: Some(device.device),
            subsystem_vendor: device.subsystem.map(|numbers| numbers.0),
            subsystem_device: device.subsystem.map(|numbers| numbers.1),
            link: device.link,
            host_bridge: device.host_bridge.clone(),
            peers: Vec::new(),
            gpu: None,
            nets: Vec::new(),
        }
    }
}

/// The driver's facts about a GPU; of its PCIe link only those that the bus hides.
fn with_links(entry: &mut Device, gpu: &nvml::Gpu) -> Gpu {
    let reading = |answer: &nvml::Reading<(u32, u32)>| {
        let (generation, width) = answer.value()?;
        let (generation, width) = (u8::try_from(*generation).ok()?, u8::try_from(*width).ok()?);
        Some(PcieReading { generation: Some(generation), width: Some(width) })
            .filter(|r| r.link().is_some())
    };
    if entry.link.now.link().is_none() {
        entry.link.now = reading(&gpu.pcie).unwrap_or(entry.link.now);
        entry.link.device_max = reading(&gpu.pcie_max).unwrap_or(entry.link.device_max);
    }
    let peers = gpu.nvlink_peers.value();
    let links = peers.iter().flat_map(|peers| &peers.peers).map(|peer| GpuLink {
        kind: GpuLinkKind::NvLink,
        target: peer.address.clone(),
        count: peer.links,
        class: match peer.kind {
            NvLinkPeerKind::Gpu => Some(0x03_0200),
            NvLinkPeerKind::Switch => Some(0x06_8000),
            NvLinkPeerKind::Processor => Some(0x06_8001),
            NvLinkPeerKind::Unknown => None,
        },
    });
    Gpu {
        index: Some(gpu.index),
        name: Some(gpu.name.clone()),
        sm: gpu.sm.value().copied(),
        links: links.collect(),
        nvlink_version: peers.and_then(|peers| peers.version),
        links_in_all: gpu.nvlinks.value().map(|links| links.all),
        fabric: gpu.fabric.value().map(fabric),
        ..Gpu::default()
    }
}

fn fabric(fabric: &nvml::Fabric) -> Fabric {
    let state = match (fabric.state, fabric.failed) {
        (FabricState::NotSupported, _) => "not-supported",
        (FabricState::NotStarted, _) => "not-started",
        (FabricState::InProgress, _) => "in-progress",
        (FabricState::Completed, None) => "completed",
        (FabricState::Completed, Some(_)) => "failed",
    };
    let cluster = fabric
        .cluster
        .iter()
        .any(|byte| *byte != 0)
        .then(|| fabric.cluster.iter().map(|byte| format!("{byte:02x}")).collect());
    Fabric { state: state.to_owned(), cluster, clique: fabric.clique }
}

/// Interfaces of a PCI device: its RDMA ports, or else its Ethernet interfaces.
fn nets(
    root: &Root,
    address: &str,
    rdma: &[RdmaDevice],
    ethernet: &[(Option<String>, Net)],
) -> Vec<Net> {
    let of_device = rdma.iter().filter(|rdma| rdma.address.as_deref() == Some(address));
    let ports: Vec<Net> = of_device.flat_map(|device| rdma_ports(root, device)).collect();
    if !ports.is_empty() {
        return ports;
    }
    let here = ethernet.iter().filter(|(at, _)| at.as_deref() == Some(address));
    here.map(|(_, net)| net.clone()).collect()
}

fn rdma_ports(root: &Root, device: &RdmaDevice) -> Vec<Net> {
    let interface_mtu = || {
        let interface = device.interfaces.first()?;
        root.number::<u32>(format!("sys/class/net/{interface}/mtu"))
    };
    let net = |port: &machine::Port| Net {
        name: device.name.clone(),
        mbps: port.gbps.map(|gbps| (gbps * 1000.0) as u32),
        port: Some(port.number),
        // NCCL prints the number as it lies in memory, which is the network's order.
        guid: device.guid.map(u64::swap_bytes),
        kind: Some(if port.ethernet { NetKind::Roce } else { NetKind::Infiniband }),
        state: Some(PortState { logical: port.state.clone(), physical: port.physical.clone() }),
        mtu: port.ethernet.then(interface_mtu).flatten().map(machine::roce_mtu),
        ..Net::default()
    };
    device.ports.iter().map(net).collect()
}

/// Ethernet interfaces with the PCI device of each; those on none only where they are up, since every
/// container and bridge has one.
fn ethernet(root: &Root, rdma: &[RdmaDevice]) -> Vec<(Option<String>, Net)> {
    let mut found = Vec::new();
    let of_rdma = |name: &String| rdma.iter().any(|device| device.interfaces.contains(name));
    for name in root.names("sys/class/net") {
        if name == "lo" || of_rdma(&name) {
            continue;
        }
        let at = format!("sys/class/net/{name}");
        let real = root.real(format!("{at}/device")).unwrap_or_default();
        let mut parts = real.iter().rev().map(|part| part.to_string_lossy().into_owned());
        let address = parts.find(|part| machine::is_address(part));
        let state = root.text(format!("{at}/operstate")).unwrap_or_default();
        if address.is_none() && state != "up" {
            continue;
        }
        let net = Net {
            mbps: machine::speed_mbps(root, &name),
            port: Some(0),
            kind: Some(NetKind::Socket),
            state: Some(PortState { logical: state, physical: String::new() }),
            mtu: root.number(format!("{at}/mtu")),
            name,
            ..Net::default()
        };
        found.push((address, net));
    }
    found
}
