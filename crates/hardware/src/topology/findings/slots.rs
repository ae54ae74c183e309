//! What is wrong with PCIe links: slots too small for what is in them, links that trained down, ports that
//! share a slot, switches with a narrow way up. Not ports and not ways.

use busbw_core::{
    finding::{Finding, Severity},
    quantity::ranged,
};

use super::{cost, known, lspci};
use crate::{
    machine::PcieLink,
    topology::{Device, LinkTrouble, Net, Parent, System, judge, rates::shown},
};

/// A port that is faster than the slot of its adapter.
pub(super) fn small_slot(device: &Device) -> Option<Finding> {
    // A link below its best is no small slot.
    let slot = device.link.best().or_else(|| device.reading().link())?;
    let fastest = device.nets.iter().filter_map(|net| Some((net, net.line()?)));
    let (net, line) = fastest.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (line > slot.line()).then(|| {
        let (least, most) = (shown(slot.line()), shown(line));
        let cause = format!("the slot ({least}) is narrower than the NIC ({most})");
        Finding::new("slot", Severity::Slow, cause)
            .subject(&net.name)
            .evidence(format!("{} at {slot}, a port of {} Gb/s", known(device), line * 8.0))
            .cost(cost(line - slot.line()))
            .remedy(remedy_for_slot(device))
            .confirm(format!("{}; ib_write_bw against it", lspci(&device.address)))
    })
}

fn remedy_for_slot(device: &Device) -> &'static str {
    match device.reading().width {
        Some(width) if width < 16 => {
            "move the card to a slot of 16 lanes, or undo the slot's bifurcation in the BIOS"
        }
        _ => "move the card to a slot of a newer generation, or check the slot's speed in the BIOS",
    }
}

pub(super) fn trained(device: &Device, name: &str) -> Vec<Finding> {
    let port = device.nets.iter().filter_map(Net::line).reduce(f64::max);
    let finding = |rule, cause: String, lost: f64, remedy: &str| {
        let link = &device.link;
        Finding::new(rule, Severity::Slow, cause)
            .subject(name)
            .evidence(format!(
                "{}: now {}, device up to {}, port above up to {}",
                known(device),
                link.now,
                link.device_max,
                link.port_max
            ))
            .cost(cost(lost))
            .remedy(remedy)
            .confirm(lspci(&device.address))
    };
    const RESEAT: &str =
        "reseat the card, clean its contacts, check riser and BIOS bifurcation; then a cold boot";
    const SPEED: &str =
        "check riser or cable, the slot's speed in the BIOS, firmware; then a cold boot";
    let mut findings = Vec::new();
    for trouble in judge(&device.link) {
        match trouble {
            LinkTrouble::Narrowed { now, best } => {
                // The speed of an idle GPU's link is no loss.
                let as_fast = PcieLink { generation: best.generation, ..now };
                let lost = best.line() - as_fast.line();
                let cause =
                    format!("its link has {} lanes where both ends have {}", now.width, best.width);
                findings.push(finding("trained-down", cause, lost, RESEAT));
            }
            // GPUs, and the switches above them, lower the speed of idle links.
            LinkTrouble::Slowed { .. } if device.is_gpu() || device.is_switch() => {}
            LinkTrouble::Slowed { now, best } => {
                let cause = format!("its link is {now} where both ends can do {best}");
                findings.push(finding("trained-down", cause, best.line() - now.line(), SPEED));
            }
            // The port tells whether it needs more than the slot; for a GPU there is none.
            LinkTrouble::SlotBelowDevice { slot, device: could } => {
                if port.is_none() && !device.is_switch() {
                    let cause = format!("its slot is {slot}, the device {could}");
                    let lost = could.line() - slot.line();
                    findings.push(finding("slot", cause, lost, remedy_for_slot(device)));
                }
            }
        }
    }
    findings
}

/// A switch whose own link is slower than a link below it.
pub(super) fn uplink(system: &System, at: usize, device: &Device) -> Option<Finding> {
    let up = device.reading().link()?;
    let below = system.devices.iter().filter(|below| below.parent == Parent::Device(at));
    let links = below.filter_map(|below| Some((below, below.reading().link()?)));
    let (fast, link) = links.max_by(|a, b| a.1.line().total_cmp(&b.1.line()))?;
    (device.is_switch() && up.line() < link.line()).then(|| {
        let (own, below) = (shown(up.line()), shown(link.line()));
        let cause = format!("its own link ({own}) is slower than one below it ({below})");
        Finding::new("uplink", Severity::Slow, cause)
            .subject(format!("switch {}", device.address))
            .evidence(format!("{} has {up}, {} has {link}", known(device), known(fast)))
            .cost(cost(link.line() - up.line()))
            .remedy("nothing for traffic that stays below the switch; otherwise check the slot's speed in the BIOS, or correct the file where the switch only shows itself so")
            .confirm(lspci(&device.address))
    })
}

/// GPUs and NICs that share the link of the switch above them, which carries one of them at full speed.
pub(super) fn shared_uplink(system: &System, at: usize, device: &Device) -> Option<Finding> {
    // Two GPUs a switch is how most hosts are built.
    const MIN_GPUS: usize = 3;
    let up = device.reading().link().filter(|_| device.is_switch())?;
    if !matches!(device.parent, Parent::Cpu(_)) {
        return None;
    }
    let below = |one: usize| system.above(one).contains(&at);
    let gpus: Vec<usize> = system.gpus().into_iter().filter(|gpu| below(*gpu)).collect();
    let alone = |gpu: &usize| {
        let gpu = system.devices.get(*gpu).and_then(|device| device.gpu.as_ref());
        gpu.is_some_and(|gpu| gpu.links.is_empty())
    };
    let all = system.devices.iter().enumerate().filter(|(one, _)| below(*one));
    let nics: Vec<&str> =
        all.flat_map(|(_, device)| device.nets.iter().map(|net| net.name.as_str())).collect();
    // Where GPUs have links of their own, little of what they send crosses it.
    if gpus.len() < MIN_GPUS || nics.is_empty() || !gpus.iter().all(alone) {
        return None;
    }
    let names: Vec<String> = gpus.iter().map(|gpu| system.gpu_name(*gpu)).collect();
    let cause = format!(
        "{} GPUs ({}) and {} share its one link of {}",
        gpus.len(),
        ranged(&names),
        ranged(&nics),
        shown(up.line())
    );
    Some(
        Finding::new("shared-uplink", Severity::Slow, cause)
            .subject(format!("switch {}", device.address))
            .evidence(format!("{} has {up} to the processor; the GPUs have no NVLink or xGMI", known(device)))
            .remedy("nothing for traffic that stays below the switch; each gets its share of the way to the processor and its memory, so spread a job's GPUs over switches")
            .confirm("nvidia-smi topo -m"),
    )
}

/// Functions and ports in one slot.
pub(super) fn shared_slots(system: &System) -> Vec<Finding> {
    // The same address on another host is another slot.
    let mut slots: Vec<(Option<u64>, &str)> = Vec::new();
    for (at, device) in system.devices.iter().enumerate() {
        let slot = (system.host(at), device.slot());
        if !device.nets.is_empty() && !slots.contains(&slot) {
            slots.push(slot);
        }
    }
    slots.into_iter().filter_map(|(host, slot)| shared_slot(system, host, slot)).collect()
}

fn shared_slot(system: &System, host: Option<u64>, slot: &str) -> Option<Finding> {
    let here = |(at, device): &(usize, &Device)| {
        device.slot() == slot && !device.nets.is_empty() && system.host(*at) == host
    };
    let functions: Vec<&Device> =
        system.devices.iter().enumerate().filter(here).map(|(_, device)| device).collect();
    let ports: Vec<(&str, f64)> = functions
        .iter()
        .flat_map(|device| &device.nets)
        .filter(|net| net.state.as_ref().is_none_or(|state| state.is_up()))
        .filter_map(|net| Some((net.name.as_str(), net.line()?)))
        .collect();
    let link = functions.first()?.reading().link()?;
    let sum: f64 = ports.iter().map(|(_, line)| line).sum();
    let names: Vec<&str> = ports.iter().map(|(name, _)| *name).collect();
    (ports.len() > 1 && sum > link.line()).then(|| {
        let (has, together) = (shown(link.line()), shown(sum));
        let cause = format!("they share a slot of {has}, and are together {together}");
        Finding::new("shared-slot", Severity::Slow, cause)
            .subject(names.join(", "))
            .evidence(format!("{slot} has {link} and {} ports", ports.len()))
            .cost(cost(sum - link.line()))
            .remedy("use one of them where one fills the slot; for all, a wider or faster slot")
            .confirm(format!("{}; ib_write_bw on all ports at once", lspci(slot)))
    })
}
