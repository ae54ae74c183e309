//! Every link of a host with its three rates, GB/s one way: line, payload, what NCCL expects.
//! They are never mixed (docs/topology.md), and nothing here is measured.

use serde::{Deserialize, Serialize};

use super::{Device, Gpu, GpuLinkKind, Net, NetKind, System};
use crate::{
    limits::{
        framing,
        resource::{nccl_link, sm},
    },
    machine::{Machine, NicKind, Nics, PcieLink},
};

/// Three rates of a link in one direction, GB/s; none where a rate is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Rates {
    /// The physical rate.
    pub line: Option<f64>,
    /// Line rate less framing.
    pub payload: Option<f64>,
    /// NCCL's own constant: an expectation, not a limit.
    pub nccl: Option<f64>,
}

/// A link and its rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedRates {
    /// Whose link: GPU0, mlx5_0, switch 0000:ca:00.0.
    pub subject: String,
    /// What kind: PCIe 5.0 x16, 18 NVLinks, port of 400 Gb/s.
    pub link: String,
    /// Its rates.
    pub rates: Rates,
}

/// Bytes of data in a PCIe packet where the size is not known: the setting of most hosts.
const USUAL_PCIE_PAYLOAD_BYTES: u16 = 256;

/// Every link, in the order of the tree: PCIe of switches, GPUs and adapters, links between GPUs, ports.
pub fn links(system: &System) -> Vec<NamedRates> {
    let mut all = Vec::new();
    for (at, device) in system.devices.iter().enumerate() {
        let subject = subject(system, at, device);
        if device.link != super::Ends::default() || device.class.is_some() {
            let link = device.reading().to_string();
            all.push(NamedRates { subject: subject.clone(), link, rates: pcie(device) });
        }
        if let Some(gpu) = &device.gpu {
            all.extend(between_gpus(&subject, gpu));
        }
        all.extend(device.nets.iter().map(|net| port(net, device)));
    }
    for net in system.virtual_nets() {
        // NCCL writes 10 Gb/s for what does not tell its speed.
        let rates = Rates { nccl: Some(net.line().unwrap_or(1.25)), ..Rates::default() };
        all.push(NamedRates { subject: net.name.clone(), link: "virtual interface".into(), rates });
    }
    all
}

fn subject(system: &System, at: usize, device: &Device) -> String {
    if device.is_gpu() {
        return system.gpu_name(at);
    }
    let kind = match (device.is_nic(), device.is_switch()) {
        (true, _) => "NIC ",
        (_, true) => "switch ",
        _ => "",
    };
    format!("{kind}{}", device.address)
}

/// Rates of the link from a device to its parent.
pub(super) fn pcie(device: &Device) -> Rates {
    let reading = device.reading();
    match reading.link() {
        Some(link) => of_link(link),
        None => Rates { nccl: Some(reading.nccl()), ..Rates::default() },
    }
}

fn of_link(link: PcieLink) -> Rates {
    let max_payload = link.max_payload.or(Some(USUAL_PCIE_PAYLOAD_BYTES));
    let payload = PcieLink { max_payload, ..link }.payload();
    Rates { line: Some(link.line()), payload, nccl: Some(link.nccl()) }
}

/// The links of a machine that is described by a file.
pub fn links_of_machine(machine: &Machine) -> Vec<NamedRates> {
    let node = &machine.node;
    let gpus = match node.gpus {
        1 => "GPU0".to_owned(),
        count => format!("GPU0-{}", count.saturating_sub(1)),
    };
    let named = |subject: &str, link: String, rates| NamedRates {
        subject: subject.to_owned(),
        link,
        rates,
    };
    let mut all = Vec::new();
    if let Some(nvlink) = node.nvlink.as_ref().filter(|_| node.gpus > 0) {
        let times = |rate: Option<f64>| Some(rate? * f64::from(nvlink.links?));
        let nccl = node.gpu.as_ref().and_then(sm).and_then(nccl_link);
        let rates = Rates { line: times(nvlink.line), payload: None, nccl: times(nccl) };
        let count = nvlink.links.map_or("?".to_owned(), |links| links.to_string());
        all.push(named(&gpus, format!("{count} NVLinks"), rates));
    }
    if let Some(link) = node.pcie.filter(|_| node.gpus > 0) {
        all.push(named(&gpus, link.to_string(), of_link(link)));
    }
    for nics in &node.nics {
        let subject = format!("{} NICs, each", nics.count);
        let line = framing::line(nics);
        let speed = nics.rate.map_or("unknown speed".to_owned(), |rate| format!("{rate} Gb/s"));
        let rates = Rates { line, payload: framing::payload(nics), nccl: line };
        all.push(named(&subject, format!("{}, {speed}", nics.kind.name()), rates));
        if let Some(slot) = nics.slot {
            let subject = match nics.sharing {
                0 | 1 => "slot of each NIC".to_owned(),
                sharing => format!("slot of each {sharing} NICs"),
            };
            all.push(named(&subject, slot.to_string(), of_link(slot)));
        }
    }
    all
}

fn between_gpus<'a>(subject: &'a str, gpu: &'a Gpu) -> impl Iterator<Item = NamedRates> + 'a {
    let of = |kind: GpuLinkKind| {
        let links = gpu.links.iter().filter(move |link| link.kind == kind);
        links.fold(0_u32, |count, link| count.saturating_add(link.count))
    };
    let bundle = |count: u32, name: &str, line: Option<f64>, nccl: Option<f64>| {
        let times = |rate: Option<f64>| rate.map(|rate| rate * f64::from(count));
        (count > 0).then(|| NamedRates {
            subject: subject.to_owned(),
            link: format!("{count} {name}"),
            rates: Rates { line: times(line), payload: None, nccl: times(nccl) },
        })
    };
    let nvlinks =
        bundle(of(GpuLinkKind::NvLink), "NVLinks", nvlink_line(gpu), gpu.sm.and_then(nccl_link));
    let xgmi = bundle(of(GpuLinkKind::Xgmi), "xGMI links", xgmi_line(gpu), xgmi_nccl(gpu));
    let c2c = gpu.c2c.map(|(mbps, count)| NamedRates {
        subject: subject.to_owned(),
        link: format!("{count} C2C to the processor"),
        rates: Rates {
            nccl: Some(f64::from(mbps) * f64::from(count) / 1000.0),
            ..Rates::default()
        },
    });
    [nvlinks, xgmi, c2c].into_iter().flatten()
}

/// GB/s of one of a GPU's links to others.
pub(super) fn gpu_link_line(gpu: &Gpu) -> Option<f64> {
    if gpu.gcn.is_some() { xgmi_line(gpu) } else { nvlink_line(gpu) }
}

/// GB/s of one NVLink, by the architecture that has it: NVLink 1 20, 2 to 4 25, 5 50, and 14.0625 of the
/// GA10x chips (NVIDIA's data sheets of P100, V100, A100, RTX A6000, H100, B200).
fn nvlink_line(gpu: &Gpu) -> Option<f64> {
    match gpu.sm? {
        60..70 => Some(20.0),
        70..=80 => Some(25.0),
        86 => Some(14.0625),
        90 => Some(25.0),
        100..110 => Some(50.0),
        _ => None,
    }
}

/// GB/s of one xGMI link (AMD's data sheets: MI300X 128 and MI350X 153.6 both ways).
fn xgmi_line(gpu: &Gpu) -> Option<f64> {
    match gpu.gcn.as_deref()? {
        "gfx942" => Some(64.0),
        "gfx950" => Some(76.8),
        _ => None,
    }
}

/// Rate that RCCL assumes for one xGMI link, GB/s (RCCL, src/graph/topo.h, *_XGMI_WIDTH).
fn xgmi_nccl(gpu: &Gpu) -> Option<f64> {
    Some(match gpu.gcn.as_deref()? {
        "gfx942" | "gfx950" => 48.0,
        "gfx90a" => 36.0,
        _ => 24.0,
    })
}

fn port(net: &Net, device: &Device) -> NamedRates {
    let line = net.line();
    let speed = net
        .mbps
        .map_or("unknown speed".to_owned(), |mbps| format!("{} Gb/s", f64::from(mbps) / 1000.0));
    let kind = match net.kind {
        Some(NetKind::Infiniband) => "InfiniBand",
        Some(NetKind::Roce) => "RoCE",
        Some(NetKind::Socket) => "Ethernet",
        None if device.vendor == Some(0x1d0f) => "EFA",
        None => "port",
    };
    NamedRates {
        subject: net.name.clone(),
        link: format!("{kind}, {speed}"),
        rates: Rates {
            line,
            payload: net.kind.and_then(|kind| payload(net, kind)),
            // NCCL takes 10 Gb/s where the speed is not known.
            nccl: Some(net.mbps.map_or(1.25, |mbps| f64::from(mbps) / 8000.0)),
        },
    }
}

/// A port's payload rate; where its MTU is not known, at the largest common one (an upper bound).
fn payload(net: &Net, kind: NetKind) -> Option<f64> {
    let (kind, most) = match kind {
        NetKind::Infiniband => (NicKind::InfiniBand, 4096),
        NetKind::Roce => (NicKind::Roce, 4096),
        NetKind::Socket => (NicKind::Ethernet, 9000),
    };
    let rate = net.plausible_mbps().map(|mbps| f64::from(mbps) / 1000.0);
    let mtu = Some(net.mtu.unwrap_or(most));
    framing::payload(&Nics { count: 1, rate, kind, mtu, slot: None, sharing: 1 })
}

/// A rate with as few digits as needed: 0.125, 7.88, 12.5, 1800.
pub fn shown(gbps: f64) -> String {
    match gbps {
        rate if rate >= 999.5 => format!("{rate:.0}"),
        rate if rate >= 9.995 => format!("{rate:.1}"),
        rate if rate >= 0.9995 => format!("{rate:.2}"),
        rate => format!("{rate:.3}"),
    }
}
