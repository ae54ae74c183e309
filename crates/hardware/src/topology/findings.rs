//! Problems of a host that its topology shows. Not settings and not health, which doctor checks.

mod described;
mod far_gpus;
mod far_nics;
mod gpu_groups;
mod gpu_links;
mod ports;
mod slots;

use busbw_core::finding::Finding;

use super::{Device, Matrix, System, chip, rates::shown};

pub use described::of_machine;
pub use ports::too_fast;

/// The rules, in the order of their findings (docs/topology.md).
const RULES: [&str; 13] = [
    "port-speed",
    "self-link",
    "slot",
    "trained-down",
    "shared-slot",
    "uplink",
    "shared-uplink",
    "slow-network",
    "far-nic",
    "far-gpus",
    "port-down",
    "gpu-link",
    "gpu-groups",
];

/// Lost bandwidth of one direction as a cost.
fn cost(gbps: f64) -> String {
    format!("{} GB/s one way", shown(gbps))
}

/// All findings of a host.
pub fn of_system(system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, device) in system.devices.iter().enumerate() {
        let name = name(system, at, device);
        findings.extend(slots::small_slot(device));
        findings.extend(slots::trained(device, &name));
        findings.extend(slots::uplink(system, at, device));
        findings.extend(slots::shared_uplink(system, at, device));
        findings.extend(gpu_links::to_itself(device, &name));
        findings.extend(device.nets.iter().filter_map(|net| ports::port_down(system, net, device)));
    }
    findings.extend(ports::too_fast(system));
    findings.extend(slots::shared_slots(system));
    findings.extend(far_nics::far_nics(system));
    findings.extend(ports::slow_network(system));
    findings.extend(gpu_links::fewer_links(system));
    findings.extend(gpu_groups::of_system(system));
    findings.sort_by_key(|finding| RULES.iter().position(|rule| *rule == finding.rule));
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
    findings.extend(far_gpus::of_matrix(matrix));
    findings.extend(gpu_links::of_matrix(matrix));
    findings
}
