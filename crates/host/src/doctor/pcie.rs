//! PCIe links of GPUs and NICs: whether they run at the width and speed that device and slot support.
//! Not their position in the PCIe tree.

use busbw_core::finding::Finding;
use busbw_ffi::nvml::Gpu;
use busbw_hardware::{
    machine::PcieLink,
    topology::{Ends, LinkTrouble, judge as judge_link},
};

use super::{
    Node,
    advice::{About, Advice},
};
use crate::machine::{self, PciDevice};

const ABOUT: About = About("pcie");

/// Checks every GPU and adapter.
pub fn check(node: &Node) -> Vec<Finding> {
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
    let cards = node
        .pci
        .iter()
        .filter(|d| d.class >> 16 == 0x02 && d.link.now.link().is_some() && !rdma(&d.address));
    let named = cards.filter_map(|device| {
        let interfaces = node.root.names(&format!("sys/bus/pci/devices/{}/net", device.address));
        Some((interfaces.into_iter().next()?, device))
    });
    named.collect()
}

/// A GPU's link as the driver reports it, where a virtual machine hides the bus.
fn by_driver(gpu: &Gpu) -> Option<Ends> {
    let link = |(generation, width): (u32, u32)| {
        PcieLink::new(u8::try_from(generation).ok()?, u8::try_from(width).ok()?)
    };
    let (now, most) = (link(*gpu.pcie.value()?)?, link(*gpu.pcie_max.value()?)?);
    Some(Ends { now: now.into(), device_max: most.into(), ..Ends::default() })
}

fn judge(
    name: &str,
    device: &PciDevice,
    gpu: Option<&Gpu>,
    port_gbps: Option<f64>,
) -> Vec<Finding> {
    let confirm = &format!("sudo lspci -vv -s {} | grep -e LnkCap: -e LnkSta:", device.address);
    let known = |ends: &Ends| ends.now.link().is_some() && ends.best().is_some();
    let ends = Some(device.link).filter(known).or_else(|| gpu.and_then(by_driver));
    let Some((ends, now)) = ends.and_then(|ends| Some((ends, ends.now.link()?))) else {
        let why = "its link is not known: a virtual machine hides the slot";
        return vec![ABOUT.unknown(name, why, confirm)];
    };
    let mut findings = Vec::new();
    let cost = |from: PcieLink, to: PcieLink| {
        let (from, to) = (from.line(), to.line());
        let port = port_gbps.map(|gbps| gbps / 8.0).filter(|line| *line > from);
        match port {
            Some(line) => format!(
                "{from:.1} instead of {to:.1} GB/s before packet headers, for a port of {line:.1} GB/s"
            ),
            None => format!("{from:.1} instead of {to:.1} GB/s before packet headers"),
        }
    };
    let is_gpu = gpu.is_some() || machine::is_gpu(device);
    for trouble in judge_link(&ends) {
        findings.push(match trouble {
            LinkTrouble::Narrowed { now, best } => {
                // GPUs lower the speed of an idle link, and raise it under load.
                let loaded =
                    if is_gpu { PcieLink { generation: best.generation, ..now } } else { now };
                ABOUT.slow(
                    name,
                    format!("{now} where device and slot can do x{}", best.width),
                    &Advice {
                        cost: &cost(loaded, best),
                        remedy: "reseat the card, clean its contacts, check riser and BIOS bifurcation; then a cold boot",
                        confirm,
                    },
                )
            }
            LinkTrouble::Slowed { now, best } if is_gpu => {
                let seen = format!("{now} where device and slot can do {best}; an idle GPU may lower it");
                ABOUT.note(name, seen, &format!("{confirm}, under load"))
            }
            LinkTrouble::Slowed { now, best } => {
                let advice = Advice {
                    cost: &cost(now, best),
                    remedy: "check riser or cable, the slot's speed in the BIOS, firmware; then a cold boot",
                    confirm,
                };
                ABOUT.slow(name, format!("{now} where device and slot can do {best}"), &advice)
            }
            LinkTrouble::SlotBelowDevice { slot, device } => {
                narrow_slot(name, slot, device, port_gbps, confirm, cost(slot, device))
            }
        });
    }
    if findings.is_empty() {
        let slot = if ends.port_max.link().is_some() { "device and slot" } else { "the device" };
        findings.push(ABOUT.fine(name, format!("{now}: what {slot} can do")));
    }
    if let Some(replays) = gpu.and_then(|gpu| gpu.pcie_replays.value()).filter(|count| **count > 0)
    {
        findings.push(ABOUT.note(
            name,
            format!("PCIe packets that were replayed: {replays}"),
            confirm,
        ));
    }
    findings
}

/// A slot that supports less than the device. It costs bandwidth where the port is faster than the slot.
fn narrow_slot(
    name: &str,
    slot: PcieLink,
    device: PcieLink,
    port_gbps: Option<f64>,
    confirm: &str,
    cost: String,
) -> Finding {
    let cause = format!("its slot is {slot}, the device {device}");
    match port_gbps {
        Some(gbps) if gbps / 8.0 <= slot.line() => {
            ABOUT.note(name, format!("{cause}; enough for its port"), confirm)
        }
        _ => {
            let remedy =
                "move the card to a wider or faster slot, or check the slot's settings in the BIOS";
            ABOUT.slow(name, cause, &Advice { cost: &cost, remedy, confirm })
        }
    }
}
