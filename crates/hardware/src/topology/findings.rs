//! Problems of a host that its topology shows: kind, subject, evidence, cost, remedy, and the command that
//! confirms it. Not settings and not health, which doctor checks.

mod described;
mod far_nics;
mod gpu_links;
mod ports;
mod slots;

use serde::{Deserialize, Serialize};

use super::{Device, Matrix, System, chip};

pub use described::of_machine;

/// The kind of a problem.
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
    /// A GPU and its nearest NIC are on different NUMA nodes.
    FarNic,
    /// A port is down.
    PortDown,
    /// A GPU has fewer NVLinks or xGMI links to others than its peers have.
    GpuLink,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The subject: mlx5_0, GPU3, switch 0000:ca:00.0.
    pub subject: String,
    /// The problem in a sentence.
    pub what: String,
    /// The evidence for it.
    pub evidence: String,
    /// Bandwidth that it costs in one direction, GB/s; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What to do.
    pub remedy: String,
    /// The command that confirms it.
    pub confirm: String,
}

/// All findings of a host.
pub fn of_system(system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, device) in system.devices.iter().enumerate() {
        let name = name(system, at, device);
        findings.extend(slots::small_slot(device));
        findings.extend(slots::trained(device, &name));
        findings.extend(slots::uplink(system, at, device));
        findings.extend(device.nets.iter().filter_map(|net| ports::port_down(system, net, device)));
    }
    findings.extend(slots::shared_slots(system));
    findings.extend(far_nics::far_nics(system));
    findings.extend(gpu_links::fewer_links(system));
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

/// Address and chip.
fn known(device: &Device) -> String {
    chip(device).map_or(device.address.clone(), |chip| format!("{chip} {}", device.address))
}

/// The findings that nvidia-smi's matrix alone allows.
pub fn of_matrix(matrix: &Matrix) -> Vec<Finding> {
    let mut findings = far_nics::of_matrix(matrix);
    findings.extend(gpu_links::of_matrix(matrix));
    findings
}
