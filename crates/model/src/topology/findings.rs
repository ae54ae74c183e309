//! What is wrong with a host as its topology shows it: what, where, the evidence, the cost, the remedy,
//! the command that confirms it. Not settings and not health, which is doctor's business.

use serde::{Deserialize, Serialize};

use super::{
    Cpu, Device, GpuLinkKind, LinkTrouble, Matrix, Net, NetKind, Parent, Paths, System, Word, chip,
    judge,
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
    /// A GPU and its nearest NIC hang on different NUMA nodes.
    FarNic,
    /// A port is down.
    PortDown,
    /// A GPU has fewer NVLinks or xGMI links to others than its peers have.
    GpuLink,
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
        findings.extend(device.nets.iter().filter_map(|net| port_down(system, net, device)));
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
    (device.is_switch() && up.line() < link.line()).then(|| Finding {
        kind: Kind::Uplink,
        subject: format!("switch {}", device.address),
        what: format!(
            "its own link ({}) is slower than one below it ({})",
            shown(up.line()),
            shown(link.line())
        ),
        evidence: format!("{} has {up}, {} has {link}", known(device), known(fast)),
        cost: Some(link.line() - up.line()),
        remedy: "nothing for traffic that stays below the switch; otherwise check the slot's speed in the BIOS, or correct the file where the switch only shows itself so".to_owned(),
        confirm: lspci(&device.address),
    })
}

/// A port that is down. An Ethernet port counts only where another one like it is up: most hosts have
/// some that nobody uses.
fn port_down(system: &System, net: &Net, device: &Device) -> Option<Finding> {
    let state = net.state.as_ref().filter(|state| !state.is_up())?;
    let ethernet = net.kind == Some(NetKind::Socket);
    let up = |net: &Net| net.state.as_ref().is_some_and(|state| state.is_up());
    let alike = |other: &Device| (other.vendor, other.device) == (device.vendor, device.device);
    if ethernet && !system.devices.iter().any(|other| alike(other) && other.nets.iter().any(up)) {
        return None;
    }
    let what = match state.physical.as_str() {
        "" => format!("the port is {}", state.logical),
        physical => format!("the port is {}, its link {physical}", state.logical),
    };
    let confirm = match net.port {
        Some(port) if !ethernet => format!("ibstat {} {port}", net.name),
        _ => format!("ip link show {}", net.name),
    };
    Some(Finding {
        kind: Kind::PortDown,
        subject: net.name.clone(),
        what,
        evidence: format!("{}, as the kernel has it", known(device)),
        cost: net.line(),
        remedy: "check cable, transceiver and switch port; if it is meant to be unused, leave it out: NCCL_IB_HCA=^..., NCCL_SOCKET_IFNAME=^...".to_owned(),
        confirm,
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

/// GPUs from which every fast NIC is in another NUMA node.
fn far_nics(system: &System) -> Vec<Finding> {
    let paths = Paths::of(system);
    let nets = system.nets();
    let net = |at: &(usize, usize)| Some((at.0, system.devices.get(at.0)?.nets.get(at.1)?));
    let mut nics: Vec<(usize, &Net)> = nets.iter().filter_map(net).collect();
    // The port for administration is no NIC for traffic between nodes.
    let fastest = nics.iter().filter_map(|(_, net)| net.mbps).max().unwrap_or(0);
    nics.retain(|(_, net)| net.mbps.is_none_or(|mbps| mbps > fastest / 3));
    let cpu = |at: usize| paths.cpu(at).and_then(|cpu| system.cpus.get(cpu));
    let mut findings = Vec::new();
    for gpu in system.gpus() {
        let apart = |at: usize| Apart::of(cpu(gpu), cpu(at));
        let ways = nics.iter().map(|(at, net)| (paths.word(gpu, *at), *at, *net));
        let nearest = ways.min_by_key(|(word, at, _)| (*word, apart(*at)));
        let Some((Word::Sys, at, net)) = nearest else { continue };
        let Some(device) = system.devices.get(gpu) else { continue };
        let place = |at: usize| {
            let numa = cpu(at).and_then(|cpu| cpu.numa);
            let node = numa.map_or("NUMA node ?".to_owned(), |numa| format!("NUMA node {numa}"));
            match cpu(at).and_then(|cpu| cpu.socket) {
                Some(socket) => format!("{node} of socket {socket}"),
                None => node,
            }
        };
        let name = system.gpu_name(gpu);
        let evidence =
            format!("{} on {}, {} on {}", known(device), place(gpu), net.name, place(at));
        findings.push(far_nic(name, &net.name, apart(at), evidence));
    }
    findings
}

/// How far apart two NUMA nodes are, near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Apart {
    /// In one socket, which the BIOS splits (NPS2 and NPS4, sub-NUMA clustering).
    Nodes,
    /// Whether sockets lie between them is not told.
    Unknown,
    /// In two sockets.
    Sockets,
}

impl Apart {
    fn of(one: Option<&Cpu>, other: Option<&Cpu>) -> Apart {
        let socket = |cpu: Option<&Cpu>| cpu.and_then(|cpu| cpu.socket);
        match (socket(one), socket(other)) {
            (Some(one), Some(other)) if one == other => Apart::Nodes,
            (Some(_), Some(_)) => Apart::Sockets,
            _ => Apart::Unknown,
        }
    }
}

fn far_nic(gpu: String, nic: &str, apart: Apart, evidence: String) -> Finding {
    const NCCL: &str =
        "NCCL goes through host memory there (no GPUDirect unless NCCL_NET_GDR_LEVEL=SYS)";
    let (place, remedy) = match apart {
        Apart::Nodes => (
            "in another NUMA node of its socket",
            "one NUMA node a socket in the BIOS (NPS1, sub-NUMA clustering off), or a NIC in a slot of the GPU's node",
        ),
        Apart::Unknown => (
            "in another NUMA node",
            "move a NIC or the GPU to the same NUMA node, or where one socket has both nodes, let the BIOS make one of them (NPS1, sub-NUMA clustering off)",
        ),
        Apart::Sockets => ("on another socket", "move a NIC or the GPU to the same socket"),
    };
    Finding {
        kind: Kind::FarNic,
        what: format!("its nearest NIC, {nic}, is {place}"),
        subject: gpu,
        evidence,
        // What the links between and NCCL's way through host memory cost is not told here.
        cost: None,
        remedy: format!("{remedy}; {NCCL}"),
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
            // The one without any has the kind of the others.
            let mut all = each.iter().flat_map(|(_, gpu, _)| &gpu.links);
            let brand = Brand::of(all.any(|link| link.kind == GpuLinkKind::Xgmi));
            Finding {
                kind: Kind::GpuLink,
                subject: system.gpu_name(*at),
                what: format!("{links} of {most} {} to other GPUs", brand.links),
                evidence: match gpu.links_in_all {
                    Some(all) => format!("the driver shows {all} links, {links} of them up"),
                    None => format!("other GPUs of this host have {most}"),
                },
                cost: line.map(|line| line * f64::from(most - links)),
                remedy: format!(
                    "reset all GPUs{}, then reboot; if it stays, the bridge, baseboard or GPU is broken",
                    brand.reset
                ),
                confirm: brand.confirm.to_owned(),
            }
        })
        .collect()
}

/// Whose links join GPUs: what they are called, and what looks after them.
struct Brand {
    links: &'static str,
    reset: &'static str,
    confirm: &'static str,
}

impl Brand {
    fn of(xgmi: bool) -> Brand {
        match xgmi {
            true => Brand { links: "xGMI links", reset: "", confirm: "amd-smi topology" },
            false => Brand {
                links: "NVLinks",
                reset: " (sudo nvidia-smi --gpu-reset)",
                confirm: "nvidia-smi nvlink -s",
            },
        }
    }
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
            findings.push(far_nic(names(*gpu).to_owned(), names(nic), Apart::Unknown, evidence));
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
    let mut words = gpus.iter().flat_map(|a| gpus.iter().filter_map(|b| matrix.between(*a, *b)));
    let brand = Brand::of(words.any(|word| matches!(word, Word::Xgmi(_))));
    for gpu in gpus.iter().filter(|gpu| links(gpu) < most) {
        findings.push(Finding {
            kind: Kind::GpuLink,
            subject: matrix.endpoints.get(*gpu).map_or("?", |e| e.known_as()).to_owned(),
            what: format!("its row adds up to {} {}, another's to {most}", links(gpu), brand.links),
            evidence: "the NV# or XG# words of its row".to_owned(),
            cost: None,
            remedy: "a bridge that is missing, or links that are down: compare with the machine's data sheet".to_owned(),
            confirm: brand.confirm.to_owned(),
        });
    }
    findings
}
