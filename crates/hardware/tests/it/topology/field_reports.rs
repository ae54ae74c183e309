//! The hosts of the field reports and our own: what their files say about limits (field-reports'
//! limits.tsv, rows 5, 6 and 18).

use busbw_hardware::{
    machine::{NicKind, PcieLink},
    topology::{NcclPath, Word, links},
};

use super::*;

#[test]
fn a_slot_that_is_narrower_than_its_nic() {
    let system = system("rtx4090_cx5_ib.xml");
    let findings = of_system(&system);
    let [slot] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((&*slot.rule, slot.subject.as_str()), ("slot", "mlx5_0"));
    assert_eq!(slot.cause, "the slot (7.88) is narrower than the NIC (12.5)");
    assert_eq!(slot.evidence, ["ConnectX-5 0000:b1:00.0 at PCIe 3.0 x8, a port of 100 Gb/s"]);
    assert_eq!(slot.cost.as_deref(), Some("4.62 GB/s one way"));
    let node = machine_of_system(&system, "rtx4090").node;
    assert_eq!((node.gpus, node.nvlink), (2, None));
    let [nics] = &node.nics[..] else { panic!("{:?}", node.nics) };
    assert_eq!((nics.count, nics.rate, nics.kind), (1, Some(100.0), NicKind::Roce));
    assert_eq!(nics.slot, PcieLink::new(3, 8));
    assert_eq!(node.pcie, PcieLink::new(4, 16));
}

#[test]
fn two_sockets_ports_in_one_slot() {
    let system = system("rtx4090_cx5_sockets.xml");
    let findings = of_system(&system);
    let rules: Vec<(&str, &str)> =
        findings.iter().map(|f| (&*f.rule, f.subject.as_str())).collect();
    assert_eq!(
        rules,
        [("slot", "ens9f0np0"), ("slot", "ens9f1np1"), ("shared-slot", "ens9f0np0, ens9f1np1")]
    );
    assert_eq!(findings[2].cause, "they share a slot of 7.88, and are together 25.0");
    // The port of 1 Gb/s on the other socket is none that traffic would take.
    let node = machine_of_system(&system, "rtx4090").node;
    let [nics] = &node.nics[..] else { panic!("{:?}", node.nics) };
    assert_eq!((nics.count, nics.rate, nics.sharing), (2, Some(100.0), 2));
    assert_eq!((nics.kind, nics.slot), (NicKind::Ethernet, PcieLink::new(3, 8)));
}

#[test]
fn three_rates_of_the_slot_and_of_the_port() {
    let all = links(&system("rtx4090_cx5_ib.xml"));
    let rates = |subject: &str| {
        let found = all.iter().find(|link| link.subject == subject).expect(subject);
        [found.rates.line, found.rates.payload, found.rates.nccl]
            .map(|rate| (rate.expect("a rate") * 100.0).round() / 100.0)
    };
    assert_eq!(rates("NIC 0000:b1:00.0"), [7.88, 7.15, 6.0]);
    assert_eq!(rates("mlx5_0"), [12.5, 12.25, 12.5]);
    assert_eq!(rates("GPU0"), [31.51, 28.6, 24.0]);
}

#[test]
fn ways_through_the_hosts() {
    let cx5 = system("rtx4090_cx5_sockets.xml");
    let paths = Paths::of(&cx5);
    assert_eq!(
        shown(&paths.matrix()),
        "GPU0 X PIX SYS PHB PHB\nGPU1 PIX X SYS PHB PHB\neno2 SYS SYS X SYS SYS\n\
         ens9f0np0 PHB PHB SYS X PIX\nens9f1np1 PHB PHB SYS PIX X\n"
    );
    let [gpu, nic] = ["0000:cd:00.0", "0000:b1:00.0"].map(|at| cx5.find(at).expect(at));
    assert_eq!((paths.nccl(gpu, nic), paths.nccl(gpu, gpu)), (NcclPath::Phb, NcclPath::Loc));
    // Our own: NVSwitches, whose addresses a virtual machine does not show.
    let h200 = system("h200x8.xml");
    let paths = Paths::of(&h200);
    let gpus = h200.gpus();
    for (a, b) in gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))) {
        let word = if a == b { Word::Itself } else { Word::NvLink(18) };
        assert_eq!(paths.word(a, b), word);
        assert_eq!(paths.nccl(a, b) == NcclPath::Nvl, a != b);
    }
    let node = machine_of_system(&h200, "h200").node;
    let nvlink = node.nvlink.expect("NVLink");
    assert_eq!((node.gpus, nvlink.links, nvlink.line), (8, Some(18), Some(25.0)));
    assert!(nvlink.switched);
    assert_eq!(node.gpu.map(|gpu| (gpu.name, gpu.sm)), Some(("H200 SXM".to_owned(), Some(90))));
    assert_eq!(of_system(&h200), []);
    let all = links(&h200);
    let nvlinks = all.iter().find(|link| link.link == "18 NVLinks").expect("NVLinks").rates;
    assert_eq!((nvlinks.line, nvlinks.payload), (Some(450.0), None));
    assert!((nvlinks.nccl.expect("NCCL's") - 370.8).abs() < 1e-9);
}

/// Broadcom's switches are one switch for NCCL, and two levels for nvidia-smi.
#[test]
fn levels_of_a_switch() {
    let text = "<system version=\"1\"><cpu numaid=\"0\">
      <pci busid=\"0000:08:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\"
           subsystem_vendor=\"0x1000\" subsystem_device=\"0x0072\">
        <pci busid=\"0000:0d:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\"
             subsystem_vendor=\"0x1000\" subsystem_device=\"0x1003\">
          <pci busid=\"0000:0f:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci></pci>
        <pci busid=\"0000:0a:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\"
             subsystem_vendor=\"SUB\" subsystem_device=\"0x1003\">
          <pci busid=\"0000:0c:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_0\" port=\"1\"/></nic></pci>
        </pci></pci></cpu></system>";
    for (vendor, nccl) in [("0x1000", NcclPath::Pix), ("0x15d9", NcclPath::Pxb)] {
        let Ok(Input::System(system)) = recognise(&text.replace("SUB", vendor)) else {
            panic!("it is a topology")
        };
        let paths = Paths::of(&system);
        let [gpu, nic] = ["0000:0f:00.0", "0000:0c:00.0"].map(|at| system.find(at).expect(at));
        assert_eq!((paths.word(gpu, nic), paths.nccl(gpu, nic)), (Word::Pxb, nccl));
    }
}

#[test]
fn ways_over_other_gpus_and_processors() {
    let text = "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">
      <pci busid=\"1\"><gpu dev=\"0\"><nvlink target=\"2\" count=\"2\" tclass=\"0x030200\"/>
        <c2c bw=\"45000\" count=\"10\"/></gpu></pci>
      <pci busid=\"2\"><gpu dev=\"1\"><nvlink target=\"1\" count=\"2\" tclass=\"0x030200\"/>
        <nvlink target=\"3\" count=\"1\" tclass=\"0x030200\"/></gpu></pci>
      <pci busid=\"3\"><gpu dev=\"2\"/></pci>
      <pci busid=\"4\"><nic><net name=\"mlx5_0\"/></nic></pci></cpu>
      <cpu numaid=\"1\"><pci busid=\"5\"><gpu dev=\"3\"/></pci></cpu></system>";
    let Ok(Input::System(system)) = recognise(text) else { panic!("it is a topology") };
    let paths = Paths::of(&system);
    let way = |a, b| (paths.word(a, b).to_string(), paths.nccl(a, b).to_string());
    let both = |word: &str, nccl: &str| (word.to_owned(), nccl.to_owned());
    assert_eq!(way(0, 1), both("NV2", "NVL"));
    assert_eq!(way(1, 2), both("NV1", "NVL"));
    assert_eq!(way(0, 2), both("PHB", "NVB"));
    assert_eq!(way(0, 3), both("PHB", "P2C"));
    assert_eq!(way(2, 3), both("PHB", "PHB"));
    assert_eq!(way(0, 4), both("SYS", "SYS"));
}
