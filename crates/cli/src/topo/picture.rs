//! The tree of a host as lines: processors, switches, GPUs, adapters, ports.
//! Not the paths between them and not their rates in detail.

use std::io::{self, Write};

use busbw_hardware::topology::{
    Cpu, Device, Gpu, Net, NetKind, Parent, System, Target, chip, gpu_model, shown,
};

/// Draws it.
///
/// # Errors
/// `out` cannot be written.
pub fn print(out: &mut impl Write, system: &System) -> io::Result<()> {
    for (at, cpu) in system.cpus.iter().enumerate() {
        writeln!(out, "{}", processor(cpu))?;
        let mut entries = branches(system, Parent::Cpu(at));
        if let Some(nets) = interfaces(&cpu.nets) {
            entries.push(Branch::Text(nets));
        }
        draw(out, system, entries)?;
    }
    Ok(())
}

/// A line of the tree.
enum Branch {
    /// A device, by its index.
    Device(usize),
    /// A line without anything below it.
    Text(String),
}

fn branches(system: &System, parent: Parent) -> Vec<Branch> {
    let below = system.devices.iter().enumerate().filter(|(_, device)| device.parent == parent);
    below.map(|(at, _)| Branch::Device(at)).collect()
}

/// A walk with the lines that lead to what is left.
fn draw(out: &mut impl Write, system: &System, entries: Vec<Branch>) -> io::Result<()> {
    let mut left: Vec<(String, bool, Branch)> = Vec::new();
    push(&mut left, "", entries);
    while let Some((before, last, branch)) = left.pop() {
        let joint = if last { "└─" } else { "├─" };
        let (text, below) = match branch {
            Branch::Text(text) => (text, Vec::new()),
            Branch::Device(at) => {
                let Some(device) = system.devices.get(at) else { continue };
                let mut below: Vec<Branch> = branches(system, Parent::Device(at))
                    .into_iter()
                    .filter(|branch| !matches!(branch, Branch::Device(below) if *below <= at))
                    .collect();
                below.extend(device.nets.iter().map(|net| Branch::Text(interface(net))));
                (describe(system, at, device), below)
            }
        };
        writeln!(out, "{before}{joint} {text}")?;
        push(&mut left, &format!("{before}{}  ", if last { " " } else { "│" }), below);
    }
    Ok(())
}

/// The first one comes out first.
fn push(left: &mut Vec<(String, bool, Branch)>, before: &str, entries: Vec<Branch>) {
    let count = entries.len();
    let each = entries.into_iter().enumerate().rev();
    left.extend(each.map(|(at, branch)| (before.to_owned(), at + 1 == count, branch)));
}

fn processor(cpu: &Cpu) -> String {
    let socket = cpu.socket.map(|socket| format!("socket {socket}, "));
    let node = match cpu.numa {
        Some(numa) if numa >= 0 => format!("NUMA node {numa}"),
        _ => "processor (its NUMA node is not told)".to_owned(),
    };
    let vendor = cpu.vendor.as_deref().or(cpu.arch.as_deref()).unwrap_or("").trim();
    let numbers = cpu.family.zip(cpu.model);
    let numbers = numbers.map(|(family, model)| format!(" family {family} model {model}"));
    format!("{}{node}  {vendor}{}", socket.unwrap_or_default(), numbers.unwrap_or_default())
        .trim_end()
        .to_owned()
}

fn describe(system: &System, at: usize, device: &Device) -> String {
    let mut text = if device.is_gpu() {
        format!("{}  {}", system.gpu_name(at), gpu_model(device).unwrap_or_default())
    } else if device.is_nic() {
        format!("NIC  {}", chip(device).unwrap_or(""))
    } else if device.is_switch() {
        "switch".to_owned()
    } else {
        "device".to_owned()
    };
    text = text.trim_end().to_owned();
    text += &format!("  {}", device.address);
    let reading = device.reading();
    if reading != Default::default() {
        text += &format!("  {reading}");
    }
    if let Some(link) = reading.link() {
        text += &format!(", {} GB/s", shown(link.line()));
    }
    let now = device.link.now;
    if now.generation.is_some() && now.generation != reading.generation {
        text += &format!(" (now {now}, idle)");
    }
    if let Some(gpu) = &device.gpu {
        text += &joined(system, gpu);
    }
    text
}

/// ", 18 NVLinks to switches" and the like.
fn joined(system: &System, gpu: &Gpu) -> String {
    let mut switches = 0_u32;
    let mut others: Vec<String> = Vec::new();
    for link in &gpu.links {
        let target = system.find(&link.target);
        match (link.leads_to(), target) {
            (Target::Switch, _) => switches = switches.saturating_add(link.count),
            (_, Some(at)) => others.push(format!("{} x{}", system.gpu_name(at), link.count)),
            (..) => others.push(format!("{} x{}", link.target, link.count)),
        }
    }
    let version = gpu.nvlink_version.map(|version| format!(" of version {version}"));
    let mut text = match switches {
        0 => String::new(),
        links => format!(", {links} NVLinks{} to switches", version.unwrap_or_default()),
    };
    if !others.is_empty() {
        text += &format!(", links to {}", others.join(" "));
    }
    if let Some(fabric) = gpu.fabric.as_ref().filter(|fabric| fabric.state != "not-supported") {
        text += &format!(", fabric {}, clique {}", fabric.state, fabric.clique);
    }
    text
}

fn interface(net: &Net) -> String {
    let kind = match net.kind {
        Some(NetKind::Infiniband) => "  InfiniBand",
        Some(NetKind::Roce) => "  RoCE",
        Some(NetKind::Socket) => "  Ethernet",
        None => "",
    };
    let port = net.port.filter(|port| *port > 1).map(|port| format!(" port {port}"));
    let speed = net.line().map(|line| format!(", {} Gb/s, {} GB/s", line * 8.0, shown(line)));
    let state = net.state.as_ref().filter(|state| !state.is_up());
    let state = state.map(|state| format!(", {}", state.logical));
    let [port, speed, state] = [port, speed, state].map(Option::unwrap_or_default);
    format!("{}{port}{kind}{speed}{state}", net.name)
}

/// Interfaces on no PCI device in one line: hosts with containers have hundreds.
fn interfaces(nets: &[Net]) -> Option<String> {
    const MAX_INTERFACES_SHOWN: usize = 6;
    let names: Vec<&str> =
        nets.iter().take(MAX_INTERFACES_SHOWN).map(|net| net.name.as_str()).collect();
    let more = match nets.len().saturating_sub(MAX_INTERFACES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("on no PCI device: {}{more}", names.join(" ")))
}
