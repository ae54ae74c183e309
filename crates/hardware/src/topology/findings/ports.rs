//! Ports that are down.
//! Not their rates, and not the cables between hosts.

use busbw_core::finding::{Finding, Severity};

use super::{cost, known};
use crate::topology::{Device, Net, NetKind, System};

/// A port that is down. An Ethernet port counts only where another one like it is up: most hosts have
/// some that nobody uses.
pub(super) fn port_down(system: &System, net: &Net, device: &Device) -> Option<Finding> {
    let state = net.state.as_ref().filter(|state| !state.is_up())?;
    let ethernet = net.kind == Some(NetKind::Socket);
    let up = |net: &Net| net.state.as_ref().is_some_and(|state| state.is_up());
    let alike = |other: &Device| (other.vendor, other.device) == (device.vendor, device.device);
    if ethernet && !system.devices.iter().any(|other| alike(other) && other.nets.iter().any(up)) {
        return None;
    }
    let cause = match state.physical.as_str() {
        "" => format!("the port is {}", state.logical),
        physical => format!("the port is {}, its link {physical}", state.logical),
    };
    let confirm = match net.port {
        Some(port) if !ethernet => format!("ibstat {} {port}", net.name),
        _ => format!("ip link show {}", net.name),
    };
    let finding = Finding::new("port-down", Severity::Slow, cause)
        .subject(&net.name)
        .evidence(format!("{}, as the kernel has it", known(device)))
        .remedy("check cable, transceiver and switch port; if it is meant to be unused, leave it out: NCCL_IB_HCA=^..., NCCL_SOCKET_IFNAME=^...")
        .confirm(confirm);
    Some(Finding { cost: net.line().map(cost), ..finding })
}
