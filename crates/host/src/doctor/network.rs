//! NICs: RDMA ports with state, speed, firmware, MTU and addresses, and plain Ethernet interfaces.
//! Not their PCIe links (`pcie`) and not the way to GPU memory (`gpudirect`).

use std::collections::BTreeMap;

use busbw_core::finding::Finding;
use busbw_core::quantity::ranged;

use super::{
    Node, addresses,
    advice::{About, Advice},
};
use crate::machine::{self, Port, RdmaDevice};

pub(super) const ABOUT: About = About("network");

/// Looks at every port, then at what they have in common.
pub fn check(node: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    if node.rdma.is_empty() {
        findings.push(no_rdma(node));
    }
    for device in &node.rdma {
        for port in &device.ports {
            findings.extend(judge_port(node, device, port));
        }
    }
    findings.extend(firmware(node));
    findings.extend(device_files(node));
    findings.extend(ethernet(node));
    findings
}

/// Within a container the folder may be missing although the host has adapters.
fn no_rdma(node: &Node) -> Finding {
    const NAME: &str = "RDMA";
    const CONFIRM: &str = "lspci | grep -i -e mellanox -e infiniband; ibv_devices";
    let cards = node.pci.iter().filter(|device| device.is_nvidia_adapter()).count();
    if cards > 0 {
        return ABOUT.unknown(
            NAME,
            format!("{cards} adapters on the bus, and no /sys/class/infiniband: no driver, or hidden in here"),
            CONFIRM,
        );
    }
    if !node.root.exists("sys/class/net") {
        return ABOUT.unknown(NAME, "there is no /sys/class to read", CONFIRM);
    }
    ABOUT.absent(NAME, "no InfiniBand or RoCE device; NCCL goes over sockets between nodes")
}

/// Name of a port: the device's, with the number where there are several.
pub(super) fn port_name(device: &RdmaDevice, port: &Port) -> String {
    match device.ports.len() {
        1 => device.name.clone(),
        _ => format!("{} port {}", device.name, port.number),
    }
}

/// Its kernel driver, with its version where it has one of its own: that of DOCA-OFED has, that of Linux has none.
pub(super) fn kernel_driver(node: &Node, device: &RdmaDevice) -> Option<String> {
    let real = node.root.real(format!("sys/class/infiniband/{}/device/driver", device.name))?;
    let driver = real.file_name()?.to_str()?.to_owned();
    Some(match node.root.text(format!("sys/module/{driver}/version")) {
        Some(version) => format!("{driver} {version}"),
        None => driver,
    })
}

fn judge_port(node: &Node, device: &RdmaDevice, port: &Port) -> Vec<Finding> {
    let name = &port_name(device, port);
    let confirm = &format!("ibstat {} {}", device.name, port.number);
    if port.state != "ACTIVE" {
        return vec![not_active(node, device, port, name, confirm)];
    }
    let kind = if port.ethernet { "RoCE" } else { "InfiniBand" };
    let interfaces = match device.interfaces_of(port).as_slice() {
        [] => "no interface".to_owned(),
        all => all.join(", "),
    };
    let firmware = device.firmware.as_deref().unwrap_or("unknown");
    let driver = kernel_driver(node, device).map(|driver| format!(", {driver}"));
    let seen = format!(
        "{kind} {}, {interfaces}, firmware {firmware}{}",
        port.rate,
        driver.unwrap_or_default()
    );
    let slower = slower_than_its_like(node, device, port, name, confirm);
    let mut findings = vec![slower.unwrap_or_else(|| ABOUT.fine(name, seen))];
    if port.ethernet {
        findings.extend(roce_mtu(node, device, port, name));
        findings.push(addresses::judge(node, device, port, name));
    } else {
        // sysfs does not show it: only the verbs do (struct ibv_port_attr, active_mtu).
        let ask = format!("ibv_devinfo -d {} -i {} | grep active_mtu", device.name, port.number);
        findings.push(ABOUT.unknown(
            name,
            "the InfiniBand MTU is not in sysfs; 4096 is wanted",
            &ask,
        ));
    }
    findings
}

/// Ports of the same board: the yardstick for one of them.
fn alike<'a>(node: &'a Node, device: &'a RdmaDevice) -> impl Iterator<Item = &'a Port> {
    let same = node.rdma.iter().filter(move |other| {
        other.board == device.board && other.board.is_some() && other.name != device.name
    });
    same.flat_map(|other| &other.ports).filter(|port| port.state == "ACTIVE")
}

fn not_active(node: &Node, device: &RdmaDevice, port: &Port, name: &str, confirm: &str) -> Finding {
    let state = format!("the port is {}, its link {}", port.state, port.physical);
    if port.state == "INIT" && !port.ethernet {
        return ABOUT.error(
            name,
            format!("{state}: no subnet manager has configured it"),
            &Advice {
                cost: "NCCL leaves the port out; with none left it uses sockets",
                remedy: "start a subnet manager (opensm, or the switch's), or check that it reaches this port",
                confirm: "sminfo; ibstat",
            },
        );
    }
    let peers = alike(node, device).count();
    if peers == 0 {
        return ABOUT.note(name, format!("{state}: not in use"), confirm);
    }
    let share = format!(
        "1 of {} ports like it is missing: at most {} % of the network bandwidth of this node",
        peers + 1,
        peers * 100 / (peers + 1)
    );
    let remedy = if port.physical == "Disabled" {
        format!("enable it (ip link set {} up, or ibportstate)", device.interfaces.join(" "))
    } else {
        "check cable, transceiver and switch port; if it is meant to be unused, leave it out: NCCL_IB_HCA=^...".to_owned()
    };
    ABOUT.slow(name, state, &Advice { cost: &share, remedy: &remedy, confirm })
}

fn slower_than_its_like(
    node: &Node,
    device: &RdmaDevice,
    port: &Port,
    name: &str,
    confirm: &str,
) -> Option<Finding> {
    let fastest = alike(node, device).filter_map(|other| other.gbps).fold(0.0, f64::max);
    let mine = port.gbps.filter(|gbps| *gbps < fastest)?;
    Some(ABOUT.slow(
        name,
        format!("{mine} Gb/s where the same board has {fastest} Gb/s elsewhere in this node"),
        &Advice {
            cost: &format!(
                "{:.1} instead of {:.1} GB/s, and rings wait for the slowest",
                mine / 8.0,
                fastest / 8.0
            ),
            remedy: "check cable and transceiver (ibdiagnet, mlxlink), and the switch port's speed",
            confirm,
        },
    ))
}

/// The RDMA MTU follows from the interface's.
/// Payload: headers of RoCEv2 over MTU, 0.980 at 4096 and 0.926 at 1024 (docs/doctor.md).
fn roce_mtu(node: &Node, device: &RdmaDevice, port: &Port, name: &str) -> Vec<Finding> {
    let judge = |interface: &str| {
        let confirm =
            format!("ibv_devinfo -d {} | grep active_mtu; ip link show {interface}", device.name);
        let Some(mtu) = node.root.number::<u32>(format!("sys/class/net/{interface}/mtu")) else {
            return ABOUT.unknown(name, format!("the MTU of {interface} cannot be read"), &confirm);
        };
        let rdma = machine::roce_mtu(mtu);
        if rdma == 4096 {
            return ABOUT.fine(name, format!("{interface} has MTU {mtu}: RDMA MTU 4096"));
        }
        let cost = match rdma {
            1024 => "payload is 92.6 % of the line rate instead of 98.0 %".to_owned(),
            _ => "payload is less of the line rate than with 4096 (98.0 %)".to_owned(),
        };
        ABOUT.slow(
            name,
            format!("{interface} has MTU {mtu}: RDMA MTU {rdma} instead of 4096"),
            &Advice {
                cost: &cost,
                remedy: &format!("sudo ip link set {interface} mtu 9000 (4200 or more), on switches and all nodes, too"),
                confirm: &confirm,
            },
        )
    };
    device.interfaces_of(port).into_iter().map(judge).collect()
}

/// Devices of one board with several firmware versions.
fn firmware(node: &Node) -> Vec<Finding> {
    let mut boards: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for device in &node.rdma {
        if let (Some(board), Some(firmware)) = (&device.board, &device.firmware) {
            boards.entry(board).or_default().entry(firmware).or_default().push(&device.name);
        }
    }
    let several = boards.into_iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(board, versions)| {
            let each = versions.iter().map(|(version, on)| format!("{version} on {}", ranged(on)));
            let seen =
                format!("several firmware versions: {}", each.collect::<Vec<_>>().join("; "));
            ABOUT.note(board, seen, "cat /sys/class/infiniband/*/fw_ver; mlxfwmanager")
        })
        .collect()
}

/// The device files that verbs open: a container needs them passed in.
fn device_files(node: &Node) -> Option<Finding> {
    let any = node.rdma.iter().flat_map(|device| &device.ports).any(|port| port.state == "ACTIVE");
    let files = node.root.names("dev/infiniband");
    if !any || files.iter().any(|name| name.starts_with("uverbs")) {
        return None;
    }
    Some(ABOUT.error(
        "RDMA",
        "ports are active, and /dev/infiniband has no uverbs file",
        &Advice {
            cost: "NCCL finds no device (NET/IB : No device found) and uses sockets",
            remedy: "docker run --device=/dev/infiniband, or the RDMA device plugin in Kubernetes; on a host, modprobe ib_uverbs",
            confirm: "ls /dev/infiniband; ibv_devices",
        },
    ))
}

/// Share of the line rate that is TCP payload: IPv4 and TCP headers with timestamps take 52 B of the MTU,
/// Ethernet framing (preamble, header, checksum, gap) 38 B beside it.
fn tcp_payload_share(mtu: u32) -> f64 {
    (f64::from(mtu) - 52.0).max(0.0) / (f64::from(mtu) + 38.0)
}

/// Ethernet interfaces that are up and belong to no RDMA device.
fn ethernet(node: &Node) -> Vec<Finding> {
    let root = &node.root;
    let names = root.names("sys/class/net").into_iter().filter(|name| {
        // A folder "device" tells hardware from bridges, tunnels and loopback.
        root.exists(format!("sys/class/net/{name}/device"))
            && root.text(format!("sys/class/net/{name}/operstate")).as_deref() == Some("up")
            && !node.rdma.iter().any(|device| device.interfaces.contains(name))
    });
    let judge = |name: String| {
        let speed = root.number::<i64>(format!("sys/class/net/{name}/speed")).filter(|s| *s > 0);
        let speed = speed
            .map_or("speed unknown".to_owned(), |mbps| format!("{} Gb/s", mbps as f64 / 1000.0));
        match root.number::<u32>(format!("sys/class/net/{name}/mtu")) {
            Some(mtu) if mtu < 9000 => {
                let payload = 100.0 * tcp_payload_share(mtu);
                let seen = format!(
                    "{speed}, MTU {mtu}: TCP payload is {payload:.0} % of the line rate (99 % at MTU 9000)"
                );
                ABOUT.note(&name, seen, &format!("ip link show {name}"))
            }
            Some(mtu) => ABOUT.fine(&name, format!("{speed}, MTU {mtu}")),
            None => ABOUT.unknown(
                &name,
                format!("{speed}, MTU unreadable"),
                &format!("ip link show {name}"),
            ),
        }
    };
    names.map(judge).collect()
}
