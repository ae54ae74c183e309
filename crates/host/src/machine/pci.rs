//! The PCI bus: devices, the ports above them, the width and speed of their links, and how ports
//! and the IOMMU treat traffic between devices.
//! Not what that costs.

use busbw_hardware::topology::{Ends, PcieReading};

use super::{Root, cpu::near};

/// Vendors that make GPUs for computing: NVIDIA, AMD.
const GPU_VENDORS: [u16; 2] = [0x10de, 0x1002];

/// One PCI device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PciDevice {
    /// Domain, bus, device, function: 0000:3b:00.0.
    pub address: String,
    /// Vendor number.
    pub vendor: u16,
    /// Device number.
    pub device: u16,
    /// Vendor and device number of the card that the chip is on.
    pub subsystem: Option<(u16, u16)>,
    /// Class, subclass, interface.
    pub class: u32,
    /// NUMA node; `None` where the firmware does not say.
    pub node: Option<u32>,
    /// Cores near it, as the kernel writes lists: 0-31,64-95.
    pub local_cores: Option<String>,
    /// The current and the maximum speed and width of its link, at both ends.
    pub link: Ends,
    /// The host bridge above it: pci0000:3a.
    pub host_bridge: Option<String>,
    /// Addresses of the ports above it, the nearest first.
    pub above: Vec<String>,
    /// The IOMMU's mode for its traffic: DMA, DMA-FQ, identity; `None` without an IOMMU.
    pub iommu: Option<String>,
    /// How it treats, as a port, traffic between devices below it.
    pub access: Access,
    /// Whether it may mark its requests as relaxed in their order; `None` where the configuration space does not show
    /// it, and for all but network devices.
    pub relaxed_ordering: Option<bool>,
}

impl PciDevice {
    /// Whether it is a network adapter of NVIDIA's (Mellanox's).
    pub fn is_nvidia_adapter(&self) -> bool {
        self.vendor == 0x15b3 && self.class >> 16 == 0x02
    }
}

/// Access Control Services of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// The configuration space shows its first bytes only: the rest needs root.
    #[default]
    Hidden,
    /// The port has no such capability.
    None,
    /// The bits that are set.
    Control(u16),
}

impl Access {
    /// Whether traffic between devices below is sent up to the root: request redirect, completion
    /// redirect or upstream forwarding (PCI Express Base Specification 6.0, 7.7.11.3, bits 2 to 4).
    pub const fn redirects(self) -> bool {
        matches!(self, Access::Control(bits) if bits & 0b1_1100 != 0)
    }
}

/// Whether it is a GPU for computing: those are display controllers as well.
pub fn is_gpu(device: &PciDevice) -> bool {
    GPU_VENDORS.contains(&device.vendor) && device.class >> 16 == 0x03
}

/// Classes that matter for traffic between GPUs: network, display, bridge, accelerator. Every read
/// from a device takes time, and there are hundreds of other devices.
const CLASSES: [u32; 4] = [0x02, 0x03, 0x06, 0x12];
/// A port or switch: PCI to PCI bridge.
const BRIDGE: u32 = 0x0604;
/// A network device, InfiniBand's too.
const NETWORK: u32 = 0x02;

pub(super) fn read(root: &Root) -> Vec<PciDevice> {
    root.names("sys/bus/pci/devices").into_iter().filter_map(|a| device(root, a)).collect()
}

fn device(root: &Root, address: String) -> Option<PciDevice> {
    let at = |file: &str| format!("sys/bus/pci/devices/{address}/{file}");
    let read = |file: &str| root.text(at(file));
    let hex = |file: &str| u32::from_str_radix(read(file)?.trim_start_matches("0x"), 16).ok();
    let class = hex("class").filter(|class| CLASSES.contains(&(class >> 16)))?;
    let config = (class >> 8 == BRIDGE).then(|| root.bytes(at("config"), 4096)).flatten();
    let own = (class >> 16 == NETWORK).then(|| root.bytes(at("config"), 256)).flatten();
    let (host_bridge, above) = above(root, &address);
    Some(PciDevice {
        vendor: hex("vendor")? as u16,
        device: hex("device")? as u16,
        subsystem: hex("subsystem_vendor")
            .zip(hex("subsystem_device"))
            .map(|(vendor, device)| (vendor as u16, device as u16)),
        class,
        node: root.number(at("numa_node")),
        local_cores: near(root, &address),
        link: ends(root, &address, above.first()),
        host_bridge,
        above,
        iommu: read("iommu_group/type"),
        access: config.map_or(Access::Hidden, |config| access(&config)),
        relaxed_ordering: own.and_then(|config| relaxed_ordering(&config)),
        address,
    })
}

/// A link as the device and the port above it show it.
fn ends(root: &Root, address: &str, port: Option<&String>) -> Ends {
    let reading = |address: &str, which: &str| {
        let read =
            |what: &str| root.text(format!("sys/bus/pci/devices/{address}/{which}_link_{what}"));
        PcieReading::parse(read("speed").as_deref(), read("width").as_deref())
    };
    let of_port = |which| port.map(|port| reading(port, which)).unwrap_or_default();
    Ends {
        now: reading(address, "current"),
        device_max: reading(address, "max"),
        port_now: of_port("current"),
        port_max: of_port("max"),
    }
}

/// sysfs nests a device in the folder of the port above it: /sys/devices/pci0000:00/0000:00:01.0/...
/// The host bridge, and the ports, the nearest first.
fn above(root: &Root, address: &str) -> (Option<String>, Vec<String>) {
    let real = root.real(format!("sys/bus/pci/devices/{address}")).unwrap_or_default();
    let folders: Vec<String> =
        real.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let bridge =
        folders.iter().rfind(|name| name.starts_with("pci") && name.contains(':')).cloned();
    let mut ports: Vec<String> = folders.into_iter().filter(|name| is_address(name)).collect();
    ports.pop();
    ports.reverse();
    (bridge, ports)
}

/// Whether a name has the form of a PCI device's address: 0000:3b:00.0.
pub fn is_address(name: &str) -> bool {
    let pattern = "0000:00:00.0";
    name.len() == pattern.len()
        && name.bytes().zip(pattern.bytes()).all(|(b, p)| match p {
            b'0' => b.is_ascii_hexdigit(),
            punctuation => b == punctuation,
        })
}

/// The ACS capability among the extended ones, which are a list from byte 256 on: number in bits 0-15,
/// next in bits 20-31 (PCI Express Base Specification 6.0, 7.6.3 and 7.7.11).
fn access(config: &[u8]) -> Access {
    const ACS: u32 = 0x000d;
    let word = |at: usize| {
        config.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes)
    };
    let mut at = 0x100;
    if word(at).is_none() {
        return Access::Hidden;
    }
    // Every capability takes at least four bytes, which bounds a circular list.
    for _ in 0..(4096 - 256) / 4 {
        let Some(header) = word(at) else { return Access::None };
        if header & 0xffff == ACS {
            return word(at + 4).map_or(Access::None, |w| Access::Control((w >> 16) as u16));
        }
        at = (header >> 20) as usize & !3;
        if at < 0x100 {
            return Access::None;
        }
    }
    Access::None
}

/// Bit 4 of Device Control, in the PCI Express capability, number 0x10 in the list that begins at byte 0x34 (PCI Express Base
/// Specification 6.0, 7.5.1.1.11, 7.5.3.4). Without root the kernel shows the first 64 bytes only.
fn relaxed_ordering(config: &[u8]) -> Option<bool> {
    const EXPRESS: u8 = 0x10;
    let byte = |at: usize| config.get(at).copied();
    let mut at = usize::from(byte(0x34)? & !3);
    // Every capability takes at least four bytes, which bounds a circular list.
    for _ in 0..(256 - 64) / 4 {
        if at < 0x40 {
            return None;
        }
        if byte(at)? == EXPRESS {
            return Some(byte(at + 8)? & 1 << 4 != 0);
        }
        at = usize::from(byte(at + 1)? & !3);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space(capabilities: &[(usize, u32, u16)]) -> Vec<u8> {
        let mut config = vec![0; 4096];
        for (index, (at, id, control)) in capabilities.iter().enumerate() {
            let next = capabilities.get(index + 1).map_or(0, |c| c.0 as u32);
            config[*at..at + 4].copy_from_slice(&(id | 1 << 16 | next << 20).to_le_bytes());
            config[at + 6..at + 8].copy_from_slice(&control.to_le_bytes());
        }
        config
    }

    #[test]
    fn access_control_is_found_in_the_list() {
        let on = access(&space(&[(0x100, 0x1, 0), (0x148, 0xd, 0x1d)]));
        assert_eq!(on, Access::Control(0x1d));
        assert!(on.redirects());
        assert!(!Access::Control(0x1).redirects(), "source validation alone redirects nothing");
        assert_eq!(access(&space(&[(0x100, 0x1, 0)])), Access::None);
        assert_eq!(access(&[0; 64]), Access::Hidden);
    }

    #[test]
    fn whether_order_may_be_relaxed() {
        let mut config = vec![0; 256];
        assert_eq!(relaxed_ordering(&config), None, "no list");
        (config[0x34], config[0x40], config[0x41]) = (0x40, 0x01, 0x60);
        (config[0x60], config[0x68]) = (0x10, 0x30);
        assert_eq!(relaxed_ordering(&config), Some(true));
        config[0x68] = 0x20;
        assert_eq!(relaxed_ordering(&config), Some(false));
        assert_eq!(relaxed_ordering(&config[..64]), None, "what others than root see");
        (config[0x60], config[0x61]) = (0x05, 0x40);
        assert_eq!(relaxed_ordering(&config), None, "a circle");
    }

    #[test]
    fn a_list_in_a_circle_ends() {
        assert_eq!(
            access(&space(&[(0x100, 0x1, 0), (0x148, 0x2, 0), (0x100, 0x1, 0)])),
            Access::None
        );
    }

    proptest! {
        #[test]
        fn any_configuration_space(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let got = access(&bytes);
            prop_assert_eq!(got == Access::Hidden, bytes.len() < 0x104);
            prop_assert!(bytes.len() > 64 || relaxed_ordering(&bytes).is_none());
        }

        #[test]
        fn addresses(domain: u16, bus: u8, device in 0..32_u8, function in 0..8_u8) {
            let address = format!("{domain:04x}:{bus:02x}:{device:02x}.{function}");
            prop_assert!(is_address(&address));
            prop_assert!(!is_address(&address[1..]));
        }
    }
}
