//! PCIe links of GPUs and NICs: as wide and as fast as the device and its slot can be.
//! Not where they are in the tree.

use native::nvml::Gpu;

use super::{
    Node,
    finding::{About, Advice, Finding, Topic},
};
use crate::machine::{self, Link, PciDevice};

const ABOUT: About = About(Topic::Pcie);

/// Looks at every GPU and adapter.
pub fn look(node: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, device) in node.endpoints() {
        let gpu = node.gpus().find(|gpu| gpu.address == device.address);
        let port = node.rdma.iter().find(|rdma| rdma.address.as_ref() == Some(&device.address));
        let gbps = port.and_then(|p| p.ports.iter().filter_map(|port| port.gbps).reduce(f64::max));
        findings.extend(judge(&name, device, gpu, gbps));
    }
    for (name, device) in ethernet(node) {
        let mbps = node.root.number::<f64>(format!("sys/class/net/{name}/speed"));
        let gbps = mbps.filter(|mbps| *mbps > 0.0).map(|mbps| mbps / 1000.0);
        findings.extend(judge(&name, device, None, gbps));
    }
    findings
}

/// Network cards without RDMA, by the first of their interfaces; virtual ones have no link to judge.
fn ethernet(node: &Node) -> Vec<(String, &PciDevice)> {
    let rdma =
        |address: &String| node.rdma.iter().any(|rdma| rdma.address.as_ref() == Some(address));
    let cards =
        node.pci.iter().filter(|d| d.class >> 16 == 0x02 && d.link.is_some() && !rdma(&d.address));
    let named = cards.filter_map(|device| {
        let interfaces = node.root.names(&format!("sys/bus/pci/devices/{}/net", device.address));
        Some((interfaces.into_iter().next()?, device))
    });
    named.collect()
}

/// What the driver says of a GPU's link, where a virtual machine hides the bus.
fn by_driver(gpu: &Gpu) -> Option<(Link, Link)> {
    // Generation 1 is 2.5 GT/s; from 3 on, each doubles.
    let speed = |generation: u32| match generation {
        1 => Some(2.5),
        2 => Some(5.0),
        3..=6 => Some(8.0 * f64::from(1 << (generation - 3))),
        _ => None,
    };
    let link = |(generation, width): (u32, u32)| {
        (width > 0).then_some(())?;
        Some(Link { speed: speed(generation)?, width })
    };
    Some((link(*gpu.pcie.value()?)?, link(*gpu.pcie_max.value()?)?))
}

fn judge(
    name: &str,
    device: &PciDevice,
    gpu: Option<&Gpu>,
    port_gbps: Option<f64>,
) -> Vec<Finding> {
    let confirm = &format!("sudo lspci -vv -s {} | grep -e LnkCap: -e LnkSta:", device.address);
    let on_bus = device.link.zip(device.link_max);
    let Some((now, device_max)) = on_bus.or_else(|| gpu.and_then(by_driver)) else {
        let why = "its link is not told: a virtual machine hides the slot";
        return vec![ABOUT.unknown(name, why, confirm)];
    };
    let best = device.slot_max.map_or(device_max, |slot| device_max.both(slot));
    let mut findings = Vec::new();
    let cost = |from: Link, to: Link| {
        let (from, to) = (from.gbps_line(), to.gbps_line());
        let port = port_gbps.map(|gbps| gbps / 8.0).filter(|line| *line > from);
        match port {
            Some(line) => format!(
                "{from:.1} instead of {to:.1} GB/s before packet headers, for a port of {line:.1} GB/s"
            ),
            None => format!("{from:.1} instead of {to:.1} GB/s before packet headers"),
        }
    };
    let is_gpu = gpu.is_some() || machine::is_gpu(device);
    if now.width < best.width {
        // GPUs lower the speed of an idle link, and raise it under load.
        let loaded = if is_gpu { Link { speed: best.speed, ..now } } else { now };
        findings.push(ABOUT.slow(
            name,
            format!("{now} where device and slot can do x{}", best.width),
            &Advice {
                cost: &cost(loaded, best),
                remedy: "reseat the card, clean its contacts, check riser and BIOS bifurcation; then a cold boot",
                confirm,
            },
        ));
    }
    if now.speed < best.speed {
        let cause = format!("{now} where device and slot can do {best}");
        if is_gpu {
            let seen = format!("{cause}; an idle GPU may lower it");
            findings.push(ABOUT.note(name, seen, &format!("{confirm}, under load")));
        } else {
            let advice = Advice {
                cost: &cost(now, best),
                remedy: "check riser or cable, the slot's speed in the BIOS, firmware; then a cold boot",
                confirm,
            };
            findings.push(ABOUT.slow(name, cause, &advice));
        }
    }
    if best.gbps_line() < device_max.gbps_line() {
        findings.push(narrow_slot(
            name,
            best,
            device_max,
            port_gbps,
            confirm,
            cost(best, device_max),
        ));
    }
    if findings.is_empty() {
        let slot = if device.slot_max.is_some() { "device and slot" } else { "the device" };
        findings.push(ABOUT.fine(name, format!("{now}: what {slot} can do")));
    }
    if let Some(replays) = gpu.and_then(|gpu| gpu.pcie_replays.value()).filter(|count| **count > 0)
    {
        findings.push(ABOUT.note(name, format!("{replays} PCIe packets were sent again"), confirm));
    }
    findings
}

/// The device could do more in another slot: it matters where its port is faster than the slot.
fn narrow_slot(
    name: &str,
    slot: Link,
    device: Link,
    port_gbps: Option<f64>,
    confirm: &str,
    cost: String,
) -> Finding {
    let cause = format!("its slot is {slot}, the device {device}");
    match port_gbps {
        Some(gbps) if gbps / 8.0 <= slot.gbps_line() => {
            ABOUT.note(name, format!("{cause}; enough for its port"), confirm)
        }
        _ => {
            let remedy =
                "move the card to a wider or faster slot, or check the slot's settings in the BIOS";
            ABOUT.slow(name, cause, &Advice { cost: &cost, remedy, confirm })
        }
    }
}
