//! The PCI bus: devices, the ports above them, how wide and how fast their links are, and what the
//! ports and the IOMMU do with traffic between devices. Not what that costs.

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
    /// Class, subclass, interface.
    pub class: u32,
    /// NUMA node; none where the firmware does not say.
    pub node: Option<u32>,
    /// Cores near it, as the kernel writes lists: 0-31,64-95.
    pub local_cores: Option<String>,
    /// Its link as it is.
    pub link: Option<Link>,
    /// The best link that it can have.
    pub link_max: Option<Link>,
    /// The best link that the port above it can have.
    pub slot_max: Option<Link>,
    /// Addresses of the ports above it, the nearest first.
    pub above: Vec<String>,
    /// What the IOMMU does with its traffic: DMA, DMA-FQ, identity; none where none is in its way.
    pub iommu: Option<String>,
    /// What it does, as a port, with traffic between devices below it.
    pub access: Access,
}

/// A PCIe link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// GT/s of a lane.
    pub speed: f64,
    /// Lanes.
    pub width: u32,
}

impl Link {
    /// PCIe generation: 2.5 GT/s is 1, 32 GT/s is 5.
    pub fn generation(&self) -> u32 {
        1 + [5.0, 8.0, 16.0, 32.0, 64.0].iter().filter(|speed| self.speed >= **speed).count() as u32
    }

    /// GB/s of one direction after the line code and before packet headers: 8b/10b up to generation 2,
    /// 128b/130b from 3 to 5, none in 6 (PCI Express Base Specification 6.0, 4.2).
    pub fn gbps_line(&self) -> f64 {
        let code = match self.generation() {
            1 | 2 => 0.8,
            3..=5 => 128.0 / 130.0,
            _ => 1.0,
        };
        self.speed * f64::from(self.width) * code / 8.0
    }

    /// The better link that both ends can have.
    pub fn both(self, other: Link) -> Link {
        Link { speed: self.speed.min(other.speed), width: self.width.min(other.width) }
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PCIe gen {} x{}", self.generation(), self.width)
    }
}

/// Access Control Services of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// The configuration space shows its first bytes only: that takes root.
    #[default]
    Hidden,
    /// The port has no such capability.
    None,
    /// The bits that are on.
    Control(u16),
}

impl Access {
    /// Whether traffic between devices below is sent up to the root: request redirect, completion
    /// redirect or upstream forwarding (PCI Express Base Specification 6.0, 7.7.11.3, bits 2 to 4).
    pub const fn redirects(self) -> bool {
        matches!(self, Access::Control(bits) if bits & 0b1_1100 != 0)
    }
}

/// Whether it is a GPU for computing: display controllers, which they call themselves as well.
pub fn is_gpu(device: &PciDevice) -> bool {
    GPU_VENDORS.contains(&device.vendor) && device.class >> 16 == 0x03
}

/// Classes that matter for traffic between GPUs: network, display, bridge, accelerator. Every question
/// to a device takes its time, and there are hundreds of others.
const CLASSES: [u32; 4] = [0x02, 0x03, 0x06, 0x12];
/// A port or switch: PCI to PCI bridge.
const BRIDGE: u32 = 0x0604;

pub(super) fn read(root: &Root) -> Vec<PciDevice> {
    root.names("sys/bus/pci/devices").into_iter().filter_map(|a| device(root, a)).collect()
}

fn device(root: &Root, address: String) -> Option<PciDevice> {
    let at = |file: &str| format!("sys/bus/pci/devices/{address}/{file}");
    let read = |file: &str| root.text(at(file));
    let hex = |file: &str| u32::from_str_radix(read(file)?.trim_start_matches("0x"), 16).ok();
    let class = hex("class").filter(|class| CLASSES.contains(&(class >> 16)))?;
    let config = (class >> 8 == BRIDGE).then(|| root.bytes(at("config"), 4096)).flatten();
    let above = above(root, &address);
    let slot = above.first().map(|port| format!("sys/bus/pci/devices/{port}"));
    Some(PciDevice {
        vendor: hex("vendor")? as u16,
        device: hex("device")? as u16,
        class,
        node: root.number(at("numa_node")),
        local_cores: near(root, &address),
        link: link(read("current_link_speed"), read("current_link_width")),
        link_max: link(read("max_link_speed"), read("max_link_width")),
        slot_max: slot.and_then(|slot| {
            let read = |file: &str| root.text(format!("{slot}/{file}"));
            link(read("max_link_speed"), read("max_link_width"))
        }),
        above,
        iommu: read("iommu_group/type"),
        access: config.map_or(Access::Hidden, |config| access(&config)),
        address,
    })
}

/// sysfs nests a device in the folder of the port above it: /sys/devices/pci0000:00/0000:00:01.0/...
fn above(root: &Root, address: &str) -> Vec<String> {
    let real = root.real(format!("sys/bus/pci/devices/{address}")).unwrap_or_default();
    let folders = real.iter().map(|part| part.to_string_lossy().into_owned());
    let mut ports: Vec<String> = folders.filter(|name| is_address(name)).collect();
    ports.pop();
    ports.reverse();
    ports
}

fn is_address(name: &str) -> bool {
    let pattern = "0000:00:00.0";
    name.len() == pattern.len()
        && name.bytes().zip(pattern.bytes()).all(|(b, p)| match p {
            b'0' => b.is_ascii_hexdigit(),
            punctuation => b == punctuation,
        })
}

/// "32.0 GT/s PCIe" and "16"; none for "Unknown" and for the 0 or 255 lanes of a virtual machine.
fn link(speed: Option<String>, width: Option<String>) -> Option<Link> {
    let speed = speed?.split_whitespace().next()?.parse::<f64>().ok()?;
    let width = width?.parse().ok()?;
    (speed > 0.0 && speed.is_finite() && (1..=32).contains(&width)).then_some(Link { speed, width })
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
    // Every capability takes at least four bytes, so a list in a circle ends here.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_as_the_kernel_writes_them() {
        let of = |speed: &str, width: &str| link(Some(speed.into()), Some(width.into()));
        let gen5 = of("32.0 GT/s PCIe", "16").unwrap();
        assert_eq!(gen5.to_string(), "PCIe gen 5 x16");
        assert_eq!(format!("{:.1}", gen5.gbps_line()), "63.0");
        assert_eq!(of("8 GT/s", "8").unwrap().to_string(), "PCIe gen 3 x8");
        assert_eq!(format!("{:.2}", of("8 GT/s", "8").unwrap().gbps_line()), "7.88");
        assert_eq!(of("64.0 GT/s PCIe", "16").unwrap().generation(), 6);
        for (speed, width) in [("Unknown", "16"), ("32.0 GT/s PCIe", "0"), ("32.0 GT/s", "255")] {
            assert_eq!(of(speed, width), None);
        }
    }

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
        }

        #[test]
        fn any_link_text(speed in ".{0,12}", width in ".{0,6}") {
            if let Some(link) = link(Some(speed), Some(width)) {
                prop_assert!(link.gbps_line() > 0.0 && link.width <= 32);
            }
        }

        #[test]
        fn addresses(domain: u16, bus: u8, device in 0..32_u8, function in 0..8_u8) {
            let address = format!("{domain:04x}:{bus:02x}:{device:02x}.{function}");
            prop_assert!(is_address(&address));
            prop_assert!(!is_address(&address[1..]));
        }
    }
}
