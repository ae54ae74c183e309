//! Ports that are down, or said to be faster than any.
//! Not their rates, and not the cables between hosts.

use busbw_core::finding::{Finding, Severity};

use super::{cost, known};
use crate::{
    limits::framing,
    machine::{NicKind, Nics},
    topology::{Device, Net, NetKind, System, rates::shown},
};

/// Ethernet of a management port, Mb/s.
const SLOW_NETWORK_MBPS: u32 = 1000;

/// GPUs whose host has no faster network than a management port.
pub(super) fn slow_network(system: &System) -> Option<Finding> {
    let nets = || system.devices.iter().flat_map(|device| &device.nets);
    let fastest = nets().max_by_key(|net| net.mbps)?;
    // An unknown speed is no slow one.
    let slow = fastest.mbps? <= SLOW_NETWORK_MBPS && nets().all(|net| net.mbps.is_some());
    let line = fastest.line().filter(|_| slow && !system.gpus().is_empty())?;
    let port = Nics {
        count: 1,
        rate: Some(line * 8.0),
        kind: NicKind::Ethernet,
        mtu: fastest.mtu.or(Some(1500)),
        slot: None,
        sharing: 1,
    };
    let payload = framing::payload(&port).unwrap_or(line);
    let cause = format!(
        "nothing faster than its {} Gb/s joins this host with others: {payload:.3} GB/s at most",
        line * 8.0
    );
    Some(
        Finding::new("slow-network", Severity::Slow, cause)
            .subject(&fastest.name)
            .evidence(format!("it is the only network here; {} GB/s less the headers of TCP/IP", shown(line)))
            .remedy("use a faster port between hosts (NCCL_SOCKET_IFNAME, NCCL_IB_HCA); if there is one, find out why it is not shown")
            .confirm("ip -br link; lspci | grep -i -e ethernet -e infiniband"),
    )
}

/// Ports whose speed in the file is above that of any port, so that nothing follows for their slots.
pub fn too_fast(system: &System) -> Vec<Finding> {
    let finding = |(device, net): (&Device, &Net)| {
        let gigabits = f64::from(net.mbps.filter(|_| net.plausible_mbps().is_none())?) / 1000.0;
        let cause = format!("no port is as fast as {gigabits} Gb/s: its speed is a mistake");
        Some(
            Finding::new("port-speed", Severity::Error, cause)
                .subject(&net.name)
                .evidence(format!("{}; the fastest ports sold have 800 Gb/s, 1600 are announced", known(device)))
                .remedy("correct the speed in the file (NCCL's topology has it in Mb/s); limits leave it out")
                .confirm(format!("cat /sys/class/infiniband/{}/ports/*/rate; ethtool of its interface", net.name)),
        )
    };
    let nets = system.devices.iter().flat_map(|one| one.nets.iter().map(move |net| (one, net)));
    nets.filter_map(finding).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Input, recognise};

    #[test]
    fn a_port_faster_than_any_is_a_mistake_of_the_file() {
        for (name, speed, found) in [
            ("mlx5_0", "400000", 0),
            ("mlx5_0", "1600000", 0),
            ("mlx5_0", "4000000", 1),
            ("mlx5_0+mlx5_1+mlx5_2+mlx5_3", "3200000", 0),
        ] {
            let text = format!(
                r#"<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
                <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2331" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
                <pci busid="0000:17:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="16.0 GT/s PCIe" link_width="16"><nic>
                <net name="{name}" dev="0" speed="{speed}" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic></pci></cpu></system>"#
            );
            let Ok(Input::System(system)) = recognise(&text) else { panic!("{text}") };
            assert_eq!(too_fast(&system).len(), found, "{name} {speed}");
            let slots = crate::topology::of_system(&system);
            let slots = slots.iter().filter(|finding| finding.rule == "slot").count();
            // 400 Gb/s need more than 31.5 GB/s; of a port that cannot be nothing follows.
            assert_eq!(slots, 1 - found, "{name} {speed}");
        }
    }
}
