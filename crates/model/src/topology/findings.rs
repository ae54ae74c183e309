//! What is wrong with a host as its topology shows it: what, where, the evidence, the cost, the remedy,
//! the command that confirms it. Not settings and not health, which is doctor's business.

use serde::{Deserialize, Serialize};

use super::{
    Device, LinkTrouble, Matrix, Net, Parent, Paths, System, Word, chip, judge,
    rates::{gpu_link_line, shown},
};
use crate::{
    limits::framing,
    machine::{Machine, Nics, PcieLink},
};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A slot is narrower or slower than the port or the device in it.
    Slot,
    /// A link is below what both ends can do.
    TrainedDown,
    /// Functions or ports that share a slot are together faster than it.
    SharedSlot,
    /// A switch's own link is slower than that of a device below it.
    Uplink,
    /// A GPU and its nearest NIC hang on different sockets.
    FarNic,
    /// A port is down.
    PortDown,
    /// A GPU has fewer links to others than its peers have.
    NvLink,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind.
    pub kind: Kind,
    /// Where: mlx5_0, GPU3, switch 0000:ca:00.0.
    pub subject: String,
    /// What, in a sentence.
    pub what: String,
    /// What it was concluded from.
    pub evidence: String,
    /// GB/s that it takes away, one way; none where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What to do.
    pub remedy: String,
    /// The command that confirms it.
    pub confirm: String,
}

/// Everything wrong with a host.
pub fn of_system(system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, device) in system.devices.iter().enumerate() {
        let name = name(system, at, device);
        findings.extend(small_slot(device));
        findings.extend(trained(device, &name));
        findings.extend(uplink(system, at, device));
        findings.extend(device.nets.iter().filter_map(|net| port_down(net, device)));
    }
    findings.extend(shared_slots(system));
    findings.extend(far_nics(system));
    findings.extend(fewer_links(system));
    findings.sort_by_key(|finding| finding.kind);
    findings
}

fn name(system: &System, at: usize, device: &Device) -> String {
    match device.nets.first() {
        _ if device.is_gpu() => system.gpu_name(at),
        Some(net) => net.name.clone(),
        None if device.is_switch() => format!("switch {}", device.address),
        None => device.address.clone(),
    }
}

fn lspci(address: &str) -> String {
    format!("sudo lspci -vv -s {address} | grep -e LnkCap: -e LnkSta:")
}

/// A port that is faster than the slot of its adapter.
fn small_slot(device: &Device) -> Option<Finding> {
    // A link below its best is no small slot.
    let slot = device.link.best().or_else(|| device.reading().link())?;
    let fastest = device.nets.iter().filter_map(|net| Some((net, net.line()?)));
    let (net, line) = fastest.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (line > slot.line()).then(|| Finding {
        kind: Kind::Slot,
        subject: net.name.clone(),
        what: format!(
            "the slot ({}) is narrower than the NIC ({})",
            shown(slot.line()),
            shown(line)
        ),
        evidence: format!("{} at {slot}, a port of {} Gb/s", known(device), line * 8.0),
        cost: Some(line - slot.line()),
        remedy: remedy_for_slot(device),
        confirm: format!("{}; ib_write_bw against it", lspci(&device.address)),
    })
}

/// Address and chip.
fn known(device: &Device) -> String {
    chip(device).map_or(device.address.clone(), |chip| format!("{chip} {}", device.address))
}

fn remedy_for_slot(device: &Device) -> String {
    match device.reading().width {
        Some(width) if width < 16 => {
            "move the card to a slot of 16 lanes, or undo the slot's bifurcation in the BIOS"
        }
        _ => "move the card to a slot of a newer generation, or check the slot's speed in the BIOS",
    }
    .to_owned()
}

fn trained(device: &Device, name: &str) -> Vec<Finding> {
    let port = device.nets.iter().filter_map(Net::line).reduce(f64::max);
    let finding = |kind, what: String, cost: f64, remedy: &str| Finding {
        kind,
        subject: name.to_owned(),
        what,
        evidence: format!(
            "{}: now {}, device up to {}, port above up to {}",
            known(device),
            device.link.now,
            device.link.device_max,
            device.link.port_max
        ),
        cost: Some(cost),
        remedy: remedy.to_owned(),
        confirm: lspci(&device.address),
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
                let what =
                    format!("its link has {} lanes where both ends have {}", now.width, best.width);
                findings.push(finding(Kind::TrainedDown, what, lost, RESEAT));
            }
            // GPUs, and the switches above them, lower the speed of idle links.
            LinkTrouble::Slowed { .. } if device.is_gpu() || device.is_switch() => {}
            LinkTrouble::Slowed { now, best } => {
                let what = format!("its link is {now} where both ends can do {best}");
                findings.push(finding(Kind::TrainedDown, what, best.line() - now.line(), SPEED));
            }
            // The port tells whether it needs more than the slot; for a GPU there is none.
            LinkTrouble::SlotBelowDevice { slot, device: could } => {
                if port.is_none() && !device.is_switch() {
                    let what = format!("its slot is {slot}, the device {could}");
                    let lost = could.line() - slot.line();
                    findings.push(finding(Kind::Slot, what, lost, &remedy_for_slot(device)));
                }
            }
        }
    }
    findings
}

/// A switch whose own link is slower than a link below it.
fn uplink(system: &System, at: usize, device: &Device) -> Option<Finding> {
    let up = device.reading().link()?;
    let below = system.devices.iter().filter(|below| below.parent == Parent::Device(at));
    let links = below.filter_map(|below| Some((below, below.reading().link()?)));
    let (fast, link) = links.max_by(|a, b| a.1.line().total_cmp(&b.1.line()))?;
    // A root port's idle link is no loss, so that only what it is trained to counts.
    (device.is_switch() && up.line() < link.line()).then(|| Finding {
        kind: Kind::Uplink,
        subject: format!("switch {}", device.address),
        what: format!(
            "its own link ({}) is slower than that of {} below it ({})",
            shown(up.line()),
            fast.address,
            shown(link.line())
        ),
        evidence: format!("{} has {up}, {} has {link}", known(device), known(fast)),
        cost: Some(link.line() - up.line()),
        remedy: "nothing for traffic that stays below the switch; otherwise check the slot's speed in the BIOS, or correct the file where the switch only shows itself so".to_owned(),
        confirm: lspci(&device.address),
    })
}

fn port_down(net: &Net, device: &Device) -> Option<Finding> {
    let state = net.state.as_ref().filter(|state| !state.is_up())?;
    let shown = match state.physical.as_str() {
        "" => state.logical.clone(),
        physical => format!("{}, its link {physical}", state.logical),
    };
    Some(Finding {
        kind: Kind::PortDown,
        subject: net.name.clone(),
        what: format!("port {} is {shown}", net.port.unwrap_or(0)),
        evidence: format!("{}, as the kernel has it", known(device)),
        cost: net.line(),
        remedy: "check cable, transceiver and switch port; if it is meant to be unused, leave it out: NCCL_IB_HCA=^...".to_owned(),
        confirm: format!("ibstat {} {}", net.name, net.port.unwrap_or(1)),
    })
}

/// Functions and ports in one slot.
fn shared_slots(system: &System) -> Vec<Finding> {
    let mut slots: Vec<&str> = Vec::new();
    for device in system.devices.iter().filter(|device| !device.nets.is_empty()) {
        if !slots.contains(&device.slot()) {
            slots.push(device.slot());
        }
    }
    slots.into_iter().filter_map(|slot| shared_slot(system, slot)).collect()
}

fn shared_slot(system: &System, slot: &str) -> Option<Finding> {
    let functions = system.devices.iter().filter(|device| device.slot() == slot);
    let functions: Vec<&Device> = functions.filter(|device| !device.nets.is_empty()).collect();
    let ports: Vec<(&str, f64)> = functions
        .iter()
        .flat_map(|device| &device.nets)
        .filter(|net| net.state.as_ref().is_none_or(|state| state.is_up()))
        .filter_map(|net| Some((net.name.as_str(), net.line()?)))
        .collect();
    let link = functions.first()?.reading().link()?;
    let sum: f64 = ports.iter().map(|(_, line)| line).sum();
    let names: Vec<&str> = ports.iter().map(|(name, _)| *name).collect();
    (ports.len() > 1 && sum > link.line()).then(|| Finding {
        kind: Kind::SharedSlot,
        subject: names.join(", "),
        what: format!(
            "they share a slot of {}, and are together {}",
            shown(link.line()),
            shown(sum)
        ),
        evidence: format!("{slot} has {link} and {} ports", ports.len()),
        cost: Some(sum - link.line()),
        remedy: "use one of them where one fills the slot; for all, a wider or faster slot"
            .to_owned(),
        confirm: format!("{}; ib_write_bw on all ports at once", lspci(slot)),
    })
}

/// GPUs from which every fast NIC is across sockets.
fn far_nics(system: &System) -> Vec<Finding> {
    let paths = Paths::of(system);
    let nets = system.nets();
    let net = |at: &(usize, usize)| Some((at.0, system.devices.get(at.0)?.nets.get(at.1)?));
    let mut nics: Vec<(usize, &Net)> = nets.iter().filter_map(net).collect();
    // The port for administration is no NIC for traffic between nodes.
    let fastest = nics.iter().filter_map(|(_, net)| net.mbps).max().unwrap_or(0);
    nics.retain(|(_, net)| net.mbps.is_none_or(|mbps| mbps > fastest / 3));
    let mut findings = Vec::new();
    for gpu in system.gpus() {
        let ways = nics.iter().map(|(at, net)| (paths.word(gpu, *at), *at, *net));
        let Some((Word::Sys, at, net)) = ways.min_by_key(|(word, ..)| *word) else { continue };
        let Some(device) = system.devices.get(gpu) else { continue };
        let nodes = [gpu, at].map(|at| {
            let cpu = paths.cpu(at).and_then(|cpu| system.cpus.get(cpu));
            cpu.and_then(|cpu| cpu.numa).map_or("?".to_owned(), |numa| numa.to_string())
        });
        let name = system.gpu_name(gpu);
        let evidence = format!(
            "{} on NUMA node {}, {} on NUMA node {}",
            known(device),
            nodes[0],
            net.name,
            nodes[1]
        );
        findings.push(far_nic(name, &net.name, evidence));
    }
    findings
}

fn far_nic(gpu: String, nic: &str, evidence: String) -> Finding {
    Finding {
        kind: Kind::FarNic,
        what: format!("its nearest NIC, {nic}, is on another socket"),
        subject: gpu,
        evidence,
        // What the sockets' links and NCCL's way through host memory cost is not told here.
        cost: None,
        remedy: "move a NIC or the GPU to the same socket; NCCL goes through host memory between sockets (no GPUDirect unless NCCL_NET_GDR_LEVEL=SYS)".to_owned(),
        confirm: "nvidia-smi topo -m".to_owned(),
    }
}

/// GPUs with fewer links than the others of this host.
fn fewer_links(system: &System) -> Vec<Finding> {
    let count = |at: &usize| {
        let gpu = system.devices.get(*at)?.gpu.as_ref()?;
        Some((*at, gpu, gpu.links.iter().fold(0_u32, |sum, link| sum.saturating_add(link.count))))
    };
    let each: Vec<_> = system.gpus().iter().filter_map(count).collect();
    let most = each
        .iter()
        .map(|(_, gpu, links)| (*links).max(gpu.links_in_all.unwrap_or(0)))
        .max()
        .unwrap_or(0);
    let fewer = each.iter().filter(|(_, _, links)| *links < most);
    fewer
        .map(|(at, gpu, links)| {
            let line = gpu_link_line(gpu);
            Finding {
                kind: Kind::NvLink,
                subject: system.gpu_name(*at),
                what: format!("{links} of {most} links to other GPUs"),
                evidence: match gpu.links_in_all {
                    Some(all) => format!("the driver shows {all} links, {links} of them up"),
                    None => format!("other GPUs of this host have {most}"),
                },
                cost: line.map(|line| line * f64::from(most - links)),
                remedy: "reset all GPUs (sudo nvidia-smi --gpu-reset), then reboot; if it stays, the bridge, baseboard or GPU is broken".to_owned(),
                confirm: "nvidia-smi nvlink -s".to_owned(),
            }
        })
        .collect()
}

/// What a machine that one has only read about shows.
pub fn of_machine(machine: &Machine) -> Vec<Finding> {
    let small = |nics: &Nics| {
        let (slot, line) = (nics.slot?, framing::line(nics)?);
        let sum = line * nics.sharing as f64;
        let (kind, what) = match slot.line() {
            least if least < line => {
                let (slot, nic) = (shown(least), shown(line));
                (Kind::Slot, format!("the slot ({slot}) is narrower than the NIC ({nic})"))
            }
            least if least < sum => {
                let (slot, sum) = (shown(least), shown(sum));
                (
                    Kind::SharedSlot,
                    format!("{} share a slot of {slot}, and are together {sum}", nics.sharing),
                )
            }
            _ => return None,
        };
        Some(Finding {
            kind,
            subject: format!("{} NICs", nics.count),
            what,
            evidence: format!("the machine file: {slot}, {} Gb/s", line * 8.0),
            cost: Some(sum.max(line) - slot.line()),
            remedy: "a slot of more lanes or a newer generation".to_owned(),
            confirm: "sudo lspci -vv | grep -e LnkCap: -e LnkSta:".to_owned(),
        })
    };
    machine.node.nics.iter().filter_map(small).collect()
}

/// What nvidia-smi's matrix alone shows.
pub fn of_matrix(matrix: &Matrix) -> Vec<Finding> {
    let mut findings = Vec::new();
    let gpus: Vec<usize> = matrix.gpus().collect();
    // A GPU with memory nodes of its own (Grace) is SYS from everything, its own socket's NICs included.
    let several_nodes = |gpu: usize| {
        let numa = matrix.endpoints.get(gpu).and_then(|endpoint| endpoint.numa.as_deref());
        numa.is_some_and(|numa| numa.contains([',', '-']))
    };
    for gpu in gpus.iter().filter(|gpu| !several_nodes(**gpu)) {
        let ways = matrix.nics().filter_map(|nic| Some((matrix.between(*gpu, nic)?, nic)));
        let nearest = ways.min_by_key(|(word, _)| *word);
        let names = |at: usize| matrix.endpoints.get(at).map_or("?", |e| e.known_as());
        if let Some((Word::Sys, nic)) = nearest {
            let evidence = format!("every NIC's word in the row of {} is SYS", names(*gpu));
            findings.push(far_nic(names(*gpu).to_owned(), names(nic), evidence));
        }
    }
    let links = |gpu: &usize| {
        let words = gpus.iter().filter_map(|other| matrix.between(*gpu, *other));
        words.fold(0_u32, |sum, word| match word {
            Word::NvLink(links) | Word::Xgmi(links) => sum.saturating_add(links),
            _ => sum,
        })
    };
    let most = gpus.iter().map(links).max().unwrap_or(0);
    for gpu in gpus.iter().filter(|gpu| links(gpu) < most) {
        findings.push(Finding {
            kind: Kind::NvLink,
            subject: matrix.endpoints.get(*gpu).map_or("?", |e| e.known_as()).to_owned(),
            what: format!("its row adds up to {} NVLinks, another's to {most}", links(gpu)),
            evidence: "the NV# words of its row".to_owned(),
            cost: None,
            remedy: "a bridge that is missing, or links that are down: compare with the machine's data sheet".to_owned(),
            confirm: "nvidia-smi nvlink -s".to_owned(),
        });
    }
    findings
}
