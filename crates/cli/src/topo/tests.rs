//! What people see of recorded machines and of files: a change of these snapshots is a change of the
//! program.

use busbw_ffi::nvml::{NvLinkPeer, NvLinkPeerKind, NvLinkPeers, NvLinks, Reading};
use busbw_hardware::topology::{
    Input, Paths, System, Word, of_matrix, of_system, recognise, write,
};

use super::Report;
use busbw_analysis::machine_argument::Described;
use busbw_host::recorded::{Recorded, gpu_at, nic_at};
use busbw_host::topo::read;

/// A file that the tests of busbw_hardware read as well.
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../hardware/tests/data/topology/", $name)))
    };
}

fn printed(report: &Report, colour: bool) -> String {
    let mut text = Vec::new();
    report.print(&mut text, colour).unwrap();
    String::from_utf8(text).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn of_file((name, text): (&str, &str)) -> String {
    printed(&Report::new(name, recognise(text).unwrap().into(), Vec::new()), false)
}

/// Eight GPUs on NVSwitches and eight adapters, two sockets.
fn server() -> Recorded {
    let mut node = Recorded::server();
    node.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n");
    for (numa, cores, mask) in [(0, "0-55", "ffffff,ffffffff"), (1, "56-111", "ffff,0")] {
        let at = format!("sys/devices/system/node/node{numa}");
        node.write(&format!("{at}/cpulist"), format!("{cores}\n"));
        node.write(&format!("{at}/cpumap"), format!("{mask}\n"));
        let first = cores.split('-').next().unwrap();
        let package = format!("sys/devices/system/cpu/cpu{first}/topology/physical_package_id");
        node.write(&package, format!("{numa}\n"));
    }
    for index in 0..8 {
        for address in [gpu_at(index), nic_at(index)] {
            node.pci(&address, "numa_node", format!("{}\n", index / 4));
        }
        // The switch above them.
        let switch = format!("0000:{:02x}:00.0", 0x11 + index * 0x10);
        node.pci(&switch, "numa_node", format!("{}\n", index / 4));
        for (what, text) in [("speed", "32.0 GT/s PCIe\n"), ("width", "16\n")] {
            node.pci(&switch, &format!("current_link_{what}"), text);
        }
        let peer = |at: u32| NvLinkPeer {
            address: format!("0000:{:02x}:00.0", 0xc1 + at),
            kind: NvLinkPeerKind::Switch,
            links: if at < 2 { 5 } else { 4 },
        };
        node.gpu(index).sm = Reading::Value(90);
        node.gpu(index).nvlink_peers =
            Reading::Value(NvLinkPeers { version: Some(5), peers: (0..4).map(peer).collect() });
    }
    node
}

fn system(node: Recorded) -> System {
    let (_keep, node) = node.node();
    read(&node.root, node.driver.as_ref().ok())
}

fn report(node: Recorded) -> Report {
    Report::new("node7", Described::System(system(node)), Vec::new())
}

#[test]
fn a_server_that_is_well() {
    let report = report(server());
    assert_eq!(report.findings, []);
    insta::assert_snapshot!(printed(&report, false));
}

#[test]
fn a_server_with_troubles() {
    let mut node = server();
    // A slot of eight lanes, a link trained down, a port that is down, NVLinks that are down, and a GPU
    // whose adapter is on the other socket.
    node.pci("0000:22:01.0", "max_link_width", "8\n");
    node.pci("0000:22:01.0", "max_link_speed", "16.0 GT/s PCIe\n");
    node.pci(&nic_at(1), "current_link_width", "8\n");
    node.pci(&nic_at(1), "current_link_speed", "16.0 GT/s PCIe\n");
    node.pci(&nic_at(3), "current_link_width", "8\n");
    node.port(5, "state", "1: DOWN");
    node.port(5, "phys_state", "2: Polling");
    let peer =
        NvLinkPeer { address: "0000:c1:00.0".into(), kind: NvLinkPeerKind::Switch, links: 16 };
    node.gpu(6).nvlink_peers = Reading::Value(NvLinkPeers { version: Some(5), peers: vec![peer] });
    node.gpu(6).nvlinks = Reading::Value(NvLinks { all: 18, up: 16, errors: None });
    let report = report(node);
    let rules: Vec<(&str, &str)> =
        report.findings.iter().map(|finding| (&*finding.rule, finding.subject.as_str())).collect();
    assert_eq!(
        rules,
        [
            ("slot", "mlx5_1"),
            ("trained-down", "mlx5_3"),
            ("port-down", "mlx5_5"),
            ("gpu-link", "GPU6")
        ]
    );
    insta::assert_snapshot!(printed(&report, false));
    let mut plain = printed(&report, true);
    assert_ne!(plain, printed(&report, false));
    for code in ["\x1b[33m", "\x1b[0m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, printed(&report, false));
}

#[test]
fn files_of_hosts() {
    insta::assert_snapshot!("rtx4090_cx5_ib", of_file(file!("rtx4090_cx5_ib.xml")));
    insta::assert_snapshot!("rtx4090_cx5_sockets", of_file(file!("rtx4090_cx5_sockets.xml")));
    insta::assert_snapshot!("h200x8", of_file(file!("h200x8.xml")));
    insta::assert_snapshot!("mi350x8", of_file(file!("mi350x8.xml")));
    insta::assert_snapshot!("aws_p4d", of_file(file!("aws_p4d.xml")));
    insta::assert_snapshot!("gb200_smi", of_file(file!("gb200_smi.txt")));
    insta::assert_snapshot!("graphs", of_file(file!("graphs.xml")));
}

/// The XML of a machine says what its tree says, as far as XML has words for it.
#[test]
fn what_is_written_of_a_machine_is_read_again() {
    let system = system(server());
    let Ok(Input::System(again)) = recognise(&write(&system)) else { panic!("it is a topology") };
    assert_eq!(write(&again), write(&system));
    assert_eq!(again.devices.len(), system.devices.len());
    let ours = Report::new("a", Described::System(system), Vec::new());
    let theirs = Report::new("a", Described::System(again), Vec::new());
    assert_eq!(ours.nccl_paths, theirs.nccl_paths);
    assert_eq!(ours.links, theirs.links);
}

#[test]
fn without_a_driver_the_bus_still_tells() {
    let (_keep, node) = server().node();
    let system = read(&node.root, None);
    assert_eq!((system.gpus().len(), system.nets().len(), system.cpus.len()), (8, 8, 2));
    let words = Report::new("a", Described::System(system), Vec::new()).matrices.remove(0);
    let word = |a, b| words.between(a, b).unwrap().to_string();
    // GPU 0, its own adapter, the next one, one on the other socket.
    assert_eq!([word(0, 8), word(0, 9), word(0, 12)], ["PIX", "NODE", "SYS"]);
    assert_eq!([word(0, 1), word(0, 4)], ["NODE", "SYS"]);
}

#[test]
fn a_laptop_has_neither() {
    let system = system(Recorded::laptop());
    assert_eq!((system.devices.len(), system.cpus.len()), (0, 1));
    assert_eq!(of_system(&system), []);
}

#[test]
fn a_hidden_bus() {
    let node = server();
    node.remove("sys/bus");
    let system = system(node);
    assert_eq!(system.gpus().len(), 8);
    let shown: Vec<String> =
        system.devices.iter().map(|device| device.reading().to_string()).collect();
    assert_eq!(shown, ["PCIe 5.0 x16"; 8], "the driver knows the links");
}

/// The same between sockets, within a socket that the BIOS splits, and where nobody tells sockets.
#[test]
fn adapters_in_another_numa_node_are_far() {
    for (socket_of_node_1, place) in [
        (Some("1"), "on another socket"),
        (Some("0"), "in another NUMA node of its socket"),
        (None, "in another NUMA node"),
    ] {
        let node = server();
        for index in 0..4 {
            // The switches with the GPUs of node 0 have no adapter any more that is up.
            node.remove(&format!("sys/class/infiniband/mlx5_{index}"));
            node.remove(&format!("sys/bus/pci/devices/{}/net", nic_at(index)));
        }
        for core in [0, 56] {
            let package = format!("sys/devices/system/cpu/cpu{core}/topology/physical_package_id");
            match socket_of_node_1.filter(|_| core == 56) {
                Some(socket) => node.write(&package, format!("{socket}\n")),
                None if socket_of_node_1.is_none() => node.write(&package, "\n"),
                None => {}
            }
        }
        let findings = of_system(&system(node));
        let far: Vec<_> = findings.iter().filter(|finding| finding.rule == "far-nic").collect();
        let subjects: Vec<&str> = far.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(subjects, ["GPU0", "GPU1", "GPU2", "GPU3"]);
        let what = format!("its nearest NIC, mlx5_4, is {place}");
        assert!(far.iter().all(|finding| finding.cause == what), "{what}: {}", far[0].cause);
    }
}

/// AMD's links are not NVIDIA's.
#[test]
fn links_are_called_what_they_are() {
    let Ok(Input::System(mut system)) = recognise(file!("mi350x8.xml").1) else {
        panic!("it is a topology")
    };
    let gpu = system.gpus()[3];
    system.devices[gpu].gpu.as_mut().unwrap().links.truncate(5);
    let mut matrix = Paths::of(&system).matrix();
    matrix.cells[3][4] = Some(Word::Phb);
    matrix.cells[4][3] = Some(Word::Phb);
    for findings in [of_system(&system), of_matrix(&matrix)] {
        let links = findings.iter().find(|finding| finding.rule == "gpu-link").unwrap();
        assert!(links.cause.contains("xGMI links"), "{links:?}");
        assert!(!format!("{links:?}").contains("NVLink"), "{links:?}");
        assert!(!format!("{links:?}").contains("nvidia"), "{links:?}");
    }
}

#[test]
fn virtual_functions_are_their_adapters() {
    let node = server();
    node.pci(&nic_at(2), "physfn/vendor", "0x15b3\n");
    assert_eq!(system(node).nets().len(), 7);
}
