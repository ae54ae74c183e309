//! Doctor on recorded nodes: each trouble is found, with its severity, and nothing else with it.

use crate::recorded::{Recorded, config, gpu_at, nic_at};
use busbw_ffi::nvml::{Fabric, FabricState, NvLinks, Reading, RemappedRows, throttle};

use busbw_core::finding::{Finding, Severity};

use super::Report;

/// Subject and cause of everything that is slow or an error, with the severity in front.
fn wrong(findings: &[Finding]) -> Vec<String> {
    let wrong = findings.iter().filter(|finding| finding.severity.is_wrong());
    wrong.map(|f| format!("{} {}: {}", f.severity.name(), f.subject, f.cause)).collect()
}

/// Whether the findings hold one with these words; the words are the reader's, so they are matched.
fn says(findings: &[Finding], severity: Severity, subject: &str, words: &str) -> bool {
    findings
        .iter()
        .any(|f| f.severity == severity && f.subject == subject && f.cause.contains(words))
}

fn printed(findings: Vec<Finding>) -> String {
    let mut text = Vec::new();
    Report::new("node7", None, findings).print(&mut text, false).unwrap();
    String::from_utf8(text).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

/// The files in `tests/` are what people read: a change of theirs is a change of the program.
#[test]
fn a_laptop_prints_this() {
    assert_eq!(printed(Recorded::laptop().check()), include_str!("tests/laptop.txt"));
}

#[test]
fn a_server_with_troubles_prints_this() {
    let mut node = Recorded::server();
    node.limit("65536");
    node.pci(&nic_at(3), "current_link_width", "8\n");
    node.port(5, "state", "1: DOWN");
    node.port(5, "phys_state", "2: Polling");
    for index in 0..8 {
        node.pci(&nic_at(index), "iommu_group/type", "DMA-FQ\n");
        node.pci(&gpu_at(index), "iommu_group/type", "DMA-FQ\n");
    }
    node.pci("0000:12:00.0", "config", config(0x1d));
    node.gpu(2).throttle = Reading::Value(throttle::HARDWARE | throttle::HARDWARE_HEAT);
    node.gpu(6).nvlinks = Reading::Value(NvLinks { all: 18, up: 16, errors: Some(0) });
    node.write("dev/kmsg", "4,9,9,-;NVRM: Xid (PCI:0000:73:00): 74, pid=1, NVLink: fatal error\n");
    assert_eq!(printed(node.check()), include_str!("tests/server.txt"));
}

#[test]
fn a_server_that_is_well_passes() {
    let findings = Recorded::server().check();
    // It has no NCCL; nothing else is wrong.
    assert_eq!(wrong(&findings).len(), 1, "{:?}", wrong(&findings));
    assert!(wrong(&findings)[0].starts_with("error NCCL: none found"));
}

/// Each change is found as what it is, and changes nothing else.
#[test]
fn one_trouble_at_a_time() {
    type Change = fn(&mut Recorded);
    let cases: [(&str, Change); 22] = [
        ("slow mlx5_3: PCIe 5.0 x8 where device and slot can do x16", |n| {
            n.pci(&nic_at(3), "current_link_width", "8\n")
        }),
        ("slow mlx5_3: PCIe 4.0 x16 where device and slot can do PCIe 5.0 x16", |n| {
            n.pci(&nic_at(3), "current_link_speed", "16.0 GT/s PCIe\n");
        }),
        ("slow mlx5_3: its slot is PCIe 4.0 x8, the device PCIe 5.0 x16", |n| {
            n.pci("0000:42:01.0", "max_link_width", "8\n");
            n.pci("0000:42:01.0", "max_link_speed", "16.0 GT/s PCIe\n");
            n.pci(&nic_at(3), "current_link_width", "8\n");
            n.pci(&nic_at(3), "current_link_speed", "16.0 GT/s PCIe\n");
        }),
        ("slow mlx5_5: the port is DOWN, its link Polling", |n| {
            n.port(5, "state", "1: DOWN");
            n.port(5, "phys_state", "2: Polling");
        }),
        (
            "error mlx5_5: the port is INIT, its link LinkUp: no subnet manager has configured it",
            |n| {
                n.port(5, "state", "2: INIT");
            },
        ),
        ("slow mlx5_1: 200 Gb/s where the same board has 400 Gb/s elsewhere in this node", |n| {
            n.port(1, "rate", "200 Gb/sec (4X HDR)");
        }),
        ("error RDMA: ports are active, and /dev/infiniband has no uverbs file", |n| {
            n.remove("dev/infiniband")
        }),
        ("slow ACS: 1 of 32 PCIe ports redirect peer traffic: 0000:12:00.0", |n| {
            n.pci("0000:12:00.0", "config", config(0x1d))
        }),
        ("slow IOMMU: it translates the addresses of GPU 0", |n| {
            n.pci(&gpu_at(0), "iommu_group/type", "DMA\n")
        }),
        ("error memlock: 64 KiB may be locked", |n| n.limit("65536")),
        ("error /dev/shm: 64 MiB in all, where NCCL wants 1 GiB", |n| {
            n.write("proc/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n")
        }),
        ("slow affinity: none of the 56 cores allowed is near GPU 4-7, mlx5_4-7", |n| {
            n.write("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-55\n");
        }),
        ("slow affinity: 2 cores for 8 GPUs", |n| {
            n.write("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0,56\n")
        }),
        ("error NVIDIA driver: the library is 580.82.07, the kernel module 575.1", |n| {
            n.write("sys/module/nvidia/version", "575.1\n")
        }),
        ("slow GPU 6: 16 of 18 NVLinks are up", |n| {
            n.gpu(6).nvlinks = Reading::Value(NvLinks { all: 18, up: 16, errors: None })
        }),
        ("error GPU 6: it is not registered with the NVLink fabric", |n| {
            n.gpu(6).fabric =
                Reading::Value(Fabric { state: FabricState::InProgress, ..Fabric::default() });
        }),
        ("slow GPU 1: its power limit is 500 W where 700 W is the default", |n| {
            n.gpu(1).power_limit_mw = Reading::Value(500_000)
        }),
        ("slow GPU 1: the hardware slows its clocks down: its power supply asks for it", |n| {
            n.gpu(1).throttle = Reading::Value(throttle::HARDWARE | throttle::POWER_BRAKE);
        }),
        ("error GPU 1: uncorrected memory errors since the driver was loaded: 3", |n| {
            n.gpu(1).ecc_uncorrected = Reading::Value(3)
        }),
        ("error GPU 1: no spare memory row is left", |n| {
            n.gpu(1).remapped =
                Reading::Value(RemappedRows { failed: true, ..RemappedRows::default() });
        }),
        ("error GPU 1: XID 79 (the GPU has fallen off the bus), 2 in the kernel's log", |n| {
            let line =
                "3,1,2,-;NVRM: Xid (PCI:0000:23:00): 79, pid=1, GPU has fallen off the bus.\n";
            n.write("dev/kmsg", line.repeat(2));
        }),
        ("slow GPU 1: it is cut into MIG instances", |n| n.gpu(1).mig = Reading::Value(true)),
    ];
    for (want, change) in cases {
        let mut node = Recorded::server();
        change(&mut node);
        let mut found = wrong(&node.check());
        found.retain(|text| !text.starts_with("error NCCL"));
        assert_eq!(found, [want]);
    }
}

#[test]
fn roce_ports() {
    let node = Recorded::server();
    node.roce();
    for index in 0..8 {
        node.pci(&nic_at(index), &format!("net/ib{index}/mtu"), "9000\n");
    }
    node.port(2, "gids/3", "0000:0000:0000:0000:0000:0000:0000:0000");
    node.pci(&nic_at(4), "net/ib4/mtu", "1500\n");
    let findings = node.check();
    assert!(says(
        &findings,
        Severity::Note,
        "mlx5_0",
        "RoCEv2 address 10.0.0.1 at index 3; NCCL before 2.21 needs NCCL_IB_GID_INDEX=3"
    ));
    assert!(says(&findings, Severity::Slow, "mlx5_2", "no RoCEv2 address for IPv4"));
    assert!(says(&findings, Severity::Slow, "mlx5_4", "MTU 1500: RDMA MTU 1024 instead of 4096"));
    assert!(says(&findings, Severity::Fine, "mlx5_0", "MTU 9000: RDMA MTU 4096"));

    let mut node = Recorded::server();
    node.roce();
    node.environment = node.environment.with("NCCL_IB_GID_INDEX", "2");
    assert!(says(&node.check(), Severity::Error, "mlx5_0", "NCCL_IB_GID_INDEX=2, which is RoCEv1"));
}

#[test]
fn a_traffic_class_through_a_port() {
    let server = |interface: &[(&str, &str)], variable: (&str, &str)| {
        let mut node = Recorded::server();
        node.roce();
        for priority in 0..8 {
            let on = if priority == 3 { "1\n" } else { "0\n" };
            for part in ["roce_np", "roce_rp"] {
                node.pci(&nic_at(0), &format!("net/ib0/ecn/{part}/enable/{priority}"), on);
            }
        }
        for (file, text) in interface {
            node.pci(&nic_at(0), &format!("net/ib0/{file}"), text);
        }
        node.environment = node.environment.with(variable.0, variable.1);
        node.check()
    };
    let trusting = [("qos/trust", "dscp\n")];
    let found = server(&trusting, ("NCCL_IB_TC", "106"));
    assert!(says(&found, Severity::Fine, "mlx5_0", "NCCL_IB_TC=106: DSCP 26, priority 3, ECN on"));
    assert!(says(
        &found,
        Severity::Unknown,
        "mlx5_0",
        "neither sysfs nor the driver (DCB) shows PFC"
    ));
    assert!(says(
        &found,
        Severity::Note,
        "mlx5_1",
        "NCCL_IB_TC=106: DSCP 26, priority 3 if the port trusts DSCP"
    ));
    let found = server(&trusting, ("UCX_IB_TRAFFIC_CLASS", "0"));
    assert!(says(&found, Severity::Slow, "mlx5_0", "ECN off; it is on for priority 3"));
    let found = server(&[("qos/trust", "pcp\n")], ("NVSHMEM_IB_TRAFFIC_CLASS", "106"));
    assert!(says(&found, Severity::Slow, "mlx5_0", "priority 0 by the service level"));
    // Words that are no number are the default.
    let found = server(&trusting, ("UCX_IB_TRAFFIC_CLASS", "auto"));
    assert!(says(&found, Severity::Note, "mlx5_0", "no traffic class is set"));
    let mut node = Recorded::server();
    node.environment = node.environment.with("NCCL_IB_SL", "3");
    assert!(says(&node.check(), Severity::Unknown, "mlx5_0", "NCCL_IB_SL=3: its virtual lane"));
}

#[test]
fn order_of_writes() {
    let space = |control: u8| {
        let mut config = vec![0; 256];
        (config[0x34], config[0x60], config[0x68]) = (0x60, 0x10, control);
        config
    };
    let server = |control: &[u8]| {
        let node = Recorded::server();
        for (index, control) in control.iter().enumerate() {
            node.pci(&nic_at(index), "config", space(*control));
        }
        node.check()
    };
    let name = "relaxed ordering";
    assert!(says(&server(&[0x10; 8]), Severity::Fine, name, "mlx5_0-7 may use it"));
    let mut one = [0x10; 8];
    one[2] = 0;
    assert!(says(&server(&one), Severity::Note, name, "mlx5_2 may not use it"));
    assert!(says(&server(&one[..2]), Severity::Unknown, name, "mlx5_2-7 do not show it"));
}

#[test]
fn a_software_device_has_an_mtu_too() {
    let node = Recorded::laptop();
    let port = "sys/class/infiniband/rxe0/ports/1";
    for (file, text) in [
        ("state", "4: ACTIVE"),
        ("link_layer", "Ethernet"),
        ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
        ("gid_attrs/types/1", "RoCE v2"),
        ("gid_attrs/ndevs/1", "veth0"),
    ] {
        node.write(&format!("{port}/{file}"), text);
    }
    node.write("sys/class/net/veth0/mtu", "1500");
    let found = node.check();
    assert!(says(&found, Severity::Slow, "rxe0", "veth0 has MTU 1500: RDMA MTU 1024"));
    // It has neither PFC nor ECN of its own.
    assert!(!found.iter().any(|finding| finding.cause.contains("PFC")));
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let mut node = Recorded::server();
    for port in ["0000:10:01.0", "0000:11:00.0", "0000:12:00.0", "0000:12:01.0"] {
        node.pci(port, "config", [0; 64]);
    }
    node.pci(&nic_at(0), "current_link_width", "0\n");
    std::fs::remove_file(node.root_path("dev/kmsg")).unwrap();
    std::fs::remove_file(node.root_path("proc/self/limits")).unwrap();
    node.gpu(0).throttle = Reading::Unknown("Insufficient Permissions".to_owned());
    let findings = node.check();
    for (subject, words) in [
        ("ACS", "4 ports do not show it"),
        ("mlx5_0", "its link is not known"),
        ("XIDs", "the kernel's log"),
        ("memlock", "/proc/self/limits cannot be read"),
        ("GPU 0", "the driver does not tell its throttle reasons"),
        ("mlx5_0", "the InfiniBand MTU is not in sysfs"),
    ] {
        assert!(says(&findings, Severity::Unknown, subject, words), "{subject}: {words}");
    }
}

#[test]
fn a_card_without_rdma_is_judged_as_well() {
    let node = Recorded::server();
    node.remove("sys/class/infiniband");
    node.pci(&nic_at(3), "current_link_width", "4\n");
    node.pci(&nic_at(3), "net/ib3/speed", "200000\n");
    let found =
        node.check().into_iter().find(|f| f.subject == "ib3" && f.severity == Severity::Slow);
    let cost = "15.8 instead of 63.0 GB/s before packet headers, for a port of 25.0 GB/s";
    assert_eq!(found.unwrap().cost.as_deref(), Some(cost));
}

#[test]
fn a_hidden_bus_is_unknown() {
    let node = Recorded::server();
    node.remove("sys/bus");
    node.remove("sys/class");
    let findings = node.check();
    assert!(says(&findings, Severity::Unknown, "ACS", "/sys does not show"));
    assert!(says(&findings, Severity::Unknown, "IOMMU", "/sys does not show"));
    assert!(says(&findings, Severity::Unknown, "affinity", "the cores near GPU 0-7 are not known"));
    assert!(says(&findings, Severity::Unknown, "RDMA", "there is no /sys/class to read"));
    // The driver knows the link.
    assert!(says(&findings, Severity::Fine, "GPU 0", "PCIe 5.0 x16: what the device can do"));
}

#[test]
fn gpus_without_a_driver() {
    let mut node = Recorded::server();
    node.driver = Err("DriverNotLoaded".to_owned());
    node.remove("sys/module/nvidia");
    let findings = node.check();
    assert!(says(
        &findings,
        Severity::Error,
        "NVIDIA driver",
        "8 NVIDIA GPUs on the bus, no kernel module"
    ));
}

#[test]
fn gpudirect_three_ways() {
    let state = |node: Recorded| {
        let found = node.check().into_iter().find(|f| f.subject == "GPUDirect RDMA").unwrap();
        (found.severity, found.cause)
    };
    assert_eq!(state(Recorded::server()), (Severity::Fine, "nvidia-peermem is loaded".to_owned()));
    let open = Recorded::server();
    open.remove("sys/module/nvidia_peermem");
    assert_eq!(state(open).0, Severity::Fine);
    let closed = Recorded::server();
    closed.remove("sys/module/nvidia_peermem");
    closed.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\n",
    );
    assert_eq!(state(closed).0, Severity::Slow);
}

#[test]
fn nvlink_between_nodes_takes_channels() {
    let beyond = |node: &mut Recorded| {
        for index in 0..8 {
            node.gpu(index).fabric = Reading::Value(Fabric {
                state: FabricState::Completed,
                cluster: [7; 16],
                ..Fabric::default()
            });
        }
    };
    let mut node = Recorded::server();
    beyond(&mut node);
    assert!(says(&node.check(), Severity::Slow, "IMEX", "no channel"));
    let mut node = Recorded::server();
    beyond(&mut node);
    node.write("dev/nvidia-caps-imex-channels/channel0", "");
    assert!(says(&node.check(), Severity::Fine, "IMEX", "channel0"));
}

#[test]
fn json_comes_back_as_it_was() {
    let report = Report::new("node7", Some(8), Recorded::server().check());
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn colour_changes_nothing_else() {
    let report = Report::new("node7", None, Recorded::server().check());
    let print = |colour| {
        let mut text = Vec::new();
        report.print(&mut text, colour).unwrap();
        String::from_utf8(text).unwrap()
    };
    let mut plain = print(true);
    for code in ["\x1b[32m", "\x1b[2m", "\x1b[36m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, print(false));
    assert_ne!(print(true), plain);
}
