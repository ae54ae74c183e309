//! `explain` on made-up runs: what it says where machine, log and `--nodes` do not fit, where bytes go
//! another way than over NICs, and where there is little to say.
//! Not the public logs (`explain.rs`).

use busbw_analysis::explain::{self, Explanation, Hardware, RateKind};
use busbw_core::{
    Collective,
    finding::{Finding, Severity},
    record::Figures,
};
use busbw_hardware::limits::{Bottleneck, Resource};
use busbw_logs::import;
use busbw_logs::measurement::{Device, Form, Known, Measurement, Row};

/// Explains a text by what the hardware is said to be.
fn told(text: &str, machine: Option<&str>, nodes: Option<usize>) -> Vec<Explanation> {
    let read = import::read(text.as_bytes(), "log").unwrap();
    explain::explain(read.measurements, &Hardware::read(machine, nodes).unwrap())
}

/// A table of eight GPUs on one host.
fn of_eight(gpu: &str, before: &str, rows: &str) -> String {
    let devices = (0..8).map(|rank| {
        format!("#  Rank  {rank} Group  0 Pid 1 on h0 device  {rank} [0000:0{rank}:00] {gpu}\n")
    });
    let devices: String = devices.collect();
    format!(
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor)\n{devices}{before}\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n{rows}"
    )
}

const LARGE: &str =
    "8589934592 2147483648 float sum -1 60000 143.17 250.54 0 60000 143.17 250.54 0\n";

#[test]
fn a_machine_that_is_not_that_of_the_log_is_said() {
    let text = of_eight("NVIDIA A100-SXM4-80GB", "", LARGE);
    for (machine, nodes, words) in [
        ("dgx-h100", None, "GPUs are NVIDIA A100-SXM4-80GB"),
        ("gb200-nvl72", None, "the run has 8 GPUs a host, GB200 NVL72 has 4"),
        ("dgx-a100", Some(2), "--nodes says 2"),
    ] {
        let told = &told(&text, Some(machine), nodes)[0];
        let finding = told.findings.iter().find(|one| one.rule == "machine-disagrees").unwrap();
        assert_eq!(finding.severity, Severity::Error);
        assert!(told.sentence.contains(words), "{}", told.sentence);
        assert!(matches!(told.bottleneck, Bottleneck::Unknown { .. }), "{:?}", told.bottleneck);
    }
    let fits = &told(&text, Some("dgx-a100"), Some(1))[0];
    assert!(fits.findings.iter().all(|one| one.rule != "machine-disagrees"));
    assert_eq!(fits.bottleneck, Bottleneck::SetBy { resource: Resource::NvLink });
}

#[test]
fn small_messages_blame_no_link() {
    let rows = [
        "8 2 float sum -1 20.00 0.00 0.00 0 20.00 0.00 0.00 0\n",
        "64 16 float sum -1 20.00 0.00 0.01 0 20.00 0.00 0.01 0\n",
        "1024 256 float sum -1 20.00 0.05 0.09 0 20.00 0.05 0.09 0\n",
        "1048576 262144 float sum -1 40.00 26.21 45.88 0 40.00 26.21 45.88 0\n",
    ]
    .concat();
    let told = &told(&of_eight("NVIDIA H100 80GB HBM3", "", &rows), None, None)[0];
    assert_eq!(told.bottleneck, Bottleneck::Software);
    assert!(told.sentence.contains("too small to rate a link"), "{}", told.sentence);
    assert!(told.findings.iter().all(|one| one.severity == Severity::Note), "{:?}", told.findings);
}

/// P2P and shared memory off: what sockets carry between GPUs of one host crosses no NIC.
#[test]
fn sockets_of_one_host_are_held_against_no_nic() {
    let lines = [
        "NCCL_P2P_DISABLE set by environment to 1",
        "NCCL_SHM_DISABLE set by environment to 1",
        "Using network Socket",
    ];
    let said: String = lines.iter().map(|line| format!("h0:1:2 [0] NCCL INFO {line}\n")).collect();
    let row = "8589934592 2147483648 float sum -1 2000000 4.29 7.52 0 2000000 4.29 7.52 0\n";
    let told = &told(&of_eight("NVIDIA H100 80GB HBM3", &said, row), Some("dgx-h100"), None)[0];
    let limit = told.limit.as_ref().unwrap();
    assert!(limit.resources.iter().all(|part| part.resource != Resource::Nic), "{limit:?}");
    assert_eq!(limit.set_by, Resource::GpuPcie);
}

/// NCCL_HOSTID makes two nodes of one host: they are no hosts, and there is no limit for that.
#[test]
fn nodes_that_are_no_hosts() {
    let lines = [
        "NCCL_HOSTID set by environment to a",
        "comm 0x5 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId a000 commId 0xfe - Init START",
        "comm 0x5 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0",
    ];
    let said: String = lines.iter().map(|line| format!("h0:1:2 [0] NCCL INFO {line}\n")).collect();
    let text = of_eight("NVIDIA H100 80GB HBM3", &said, LARGE);
    let listed = &told(&text, Some("dgx-h100"), None)[0];
    assert!(listed.subject.contains("on 1 host,"), "{}", listed.subject);
    assert!(
        listed.limit.is_none() && listed.missing[0].contains("2 nodes"),
        "{:?}",
        listed.missing
    );
    let unlisted: String = text
        .lines()
        .filter(|line| !line.contains("Rank "))
        .fold(String::new(), |all, line| all + line + "\n");
    let unlisted = &told(&unlisted, Some("dgx-h100"), None)[0];
    assert!(!unlisted.subject.contains("host"), "{}", unlisted.subject);
}

/// Many tables of which the same is to be said: once, with their number.
#[test]
fn the_same_is_said_once() {
    let one = of_eight("NVIDIA H800", "", LARGE);
    let all = told(&one.repeat(5), None, None);
    assert_eq!(all.len(), 5);
    let mut out = Vec::new();
    explain::print_all(&mut out, &all, false).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("to rate it, busbw needs").count(), 1, "{text}");
    assert!(text.contains("The same holds for 4 more tables (lines 13, "), "{text}");
}

/// What the user says of hosts, where it cannot be: one line, exit 2, and nothing on stdout.
#[test]
fn hosts_that_cannot_be_are_refused() {
    for (nodes, why) in [
        ("1", "8 GPUs, and there are 16 ranks"),
        ("3", "16 ranks cannot be spread evenly over 3 hosts"),
    ] {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_busbw"))
            .args(["explain", "--machine", "dgx-h100", "--nodes", nodes])
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/explain/16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt"
            ))
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(ran.stdout.is_empty());
    }
}

/// Figures of the slot are the slot's, also where a tree's busbw is another.
#[test]
fn a_slot_under_a_tree_of_many_ranks() {
    let machine = "name = 'slots'\nnodes = 2\ngpus = 8\nmodel = 'RTX 4090'\npcie = '4.0 x16'\n[[nics]]\nrate = 100.0\nfabric = 'roce'\nslot = '3.0 x8'\n";
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), machine).unwrap();
    let head: String = (0..16)
        .map(|rank| format!("#  Rank  {rank} Group  0 Pid 1 on h{} device  {} [0000:0a:00] NVIDIA GeForce RTX 4090\n", rank / 8, rank % 8))
        .collect();
    let text = format!(
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor)\n{head}h0:1:2 [0] NCCL INFO AllReduce: 1073741824 Bytes -> Algo TREE proto SIMPLE channel{{Lo..Hi}}={{0..1}}\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n1073741824 268435456 float sum -1 160000 6.71 12.58 0 160000 6.71 12.58 0\n"
    );
    let told = &told(&text, file.path().to_str(), None)[0];
    for words in [
        "7.88 GB/s at most",
        "the NIC could do 12.50",
        "allows a busbw of 14.77 GB/s",
        "85.2 % of the slot's",
    ] {
        assert!(told.sentence.contains(words), "{words}: {}", told.sentence);
    }
}

/// Ranks on cores: no NCCL in the advice.
#[test]
fn advice_on_ranks_without_nccl_names_no_nccl() {
    let row = |size: u64, [out, inside]: [f64; 2]| Row {
        size,
        out_of_place: Some(Figures {
            time_us: Some(size as f64 / out / 1e3),
            busbw: Some(out),
            ..Figures::default()
        }),
        in_place: Some(Figures {
            time_us: Some(size as f64 / inside / 1e3),
            busbw: Some(inside),
            ..Figures::default()
        }),
        ..Row::default()
    };
    let device = |rank| Device { rank, address: "0000:00:00".to_owned(), ..Device::default() };
    let mut run = Measurement {
        ranks: Some(Known::stated(2)),
        devices: vec![device(0), device(1)],
        rows: vec![row(1 << 20, [9.0, 7.0]), row(1 << 21, [5.0, 4.0]), row(1 << 22, [9.0, 7.0])],
        ..Measurement::default()
    };
    run.test.collective = Some(Known::stated(Collective::AllReduce));
    for (form, named) in [(Form::Record, false), (Form::NcclTests, true)] {
        run.source.form = form;
        let told = &explain::explain(vec![run.clone()], &Hardware::default())[0];
        let rules: Vec<&str> = told.findings.iter().map(|one| &*one.rule).collect();
        assert!(rules.contains(&"dip") && rules.contains(&"places-differ"), "{rules:?}");
        let advice = |one: &Finding| format!("{:?} {:?}", one.remedy, one.confirm);
        let advice: String = told.findings.iter().map(advice).collect();
        assert_eq!(advice.contains("NCCL_"), named, "{advice}");
        assert_eq!(advice.contains("-R 1"), named, "{advice}");
    }
}

/// AMD's links are no NVLinks.
#[test]
fn links_are_called_what_they_are() {
    let machine = "name = 'amd'\nnodes = 1\ngpus = 8\nmodel = 'AMD Instinct MI300X'\npcie = '5.0 x16'\n[nvlink]\nlinks = 7\nline = 64.0\nswitched = false\n";
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    for (meshed, name) in [("meshed = true\n", "xGMI"), ("", "xGMI and PCIe of the GPU")] {
        std::fs::write(file.path(), format!("{machine}{meshed}")).unwrap();
        let all = told(&of_eight("AMD Instinct MI300X", "", LARGE), file.path().to_str(), None);
        let mut out = Vec::new();
        explain::print_all(&mut out, &all, false).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(&format!("bottleneck {name}\n"))
                || text.contains(&format!("not {name}\n")),
            "{text}"
        );
        assert!(!text.contains("NVLink") && !text.contains("nvidia-smi"), "{text}");
    }
}

#[test]
fn one_kind_of_connection_is_not_every_byte() {
    let lines = ["via NET/IB/0", "via NET/IB/1/GDRDMA"]
        .map(|via| format!("h0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] {via}\n"));
    let told = &told(&of_eight("NVIDIA H800", &lines.concat(), LARGE), None, None)[0];
    let finding = told.findings.iter().find(|one| one.rule == "no-gpudirect-rdma").unwrap();
    assert!(finding.cause.starts_with("some NICs"), "{}", finding.cause);
    assert_eq!(finding.evidence[0], "1 of 2 kinds of network connections lacks /GDRDMA");
}

/// A machine file that lives as long as the test.
fn machine_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// 16 ranks, a row of which out of place and in place are alike.
fn of_sixteen(collective: &str, time: &str, algbw: &str, busbw: &str) -> String {
    let ranks = (0..16).map(|rank| {
        format!(
            "#  Rank {rank} Group  0 Pid 1 on h{} device  {} [0000:01:00] NVIDIA H100 80GB HBM3\n",
            rank / 8,
            rank % 8
        )
    });
    let ranks: String = ranks.collect();
    let half = format!("{time} {algbw} {busbw} 0");
    format!(
        "# Collective test starting: {collective}_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n{ranks}# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n8589934592 2147483648 float sum -1 {half} {half}\n"
    )
}

/// A message of one rank at the rate of its NIC is no fault of anything else.
#[test]
fn one_nics_rate_is_what_a_message_takes() {
    let text = of_sixteen("sendrecv", "178957", "48.00", "48.00");
    let told = &told(&text, Some("dgx-h100"), Some(2))[0];
    assert!(matches!(told.bottleneck, Bottleneck::SetBy { .. }), "{:?}", told.bottleneck);
    assert!(told.sentence.contains("only those of its GPU"), "{}", told.sentence);
    assert!(told.findings.iter().all(|one| one.rule != "far-below-the-limit"));
    // One GPU a host: its PCIe link, of which no payload is known, sets the limit.
    let row = "8589934592 2147483648 float sum -1 178957 48.00 48.00 0 178957 48.00 48.00 0";
    let head = "# Collective test starting: sendrecv_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)";
    let ranks = [0, 1].map(|rank| {
        format!(
            "#  Rank {rank} Group  0 Pid 1 on h{rank} device  0 [0000:01:00] NVIDIA H100 80GB HBM3"
        )
    });
    let two = format!("{head}\n{}\n{}\n{row}\n", ranks[0], ranks[1]);
    let told = &self::told(&two, Some("dgx-h100"), Some(2))[0];
    assert_eq!(told.limit.as_ref().unwrap().rate, RateKind::LineRate);
    // More than that NIC carries: then it was several, and no share is above what they carry.
    let text = of_sixteen("sendrecv", "22607", "379.97", "379.97");
    let told = &self::told(&text, Some("dgx-h100"), Some(2))[0];
    assert!(told.sentence.contains("of 397.5 GB/s, 95.6 %"), "{}", told.sentence);
}

/// A slot that nobody described may be the reason.
#[test]
fn what_is_not_known_is_not_excluded() {
    let file = machine_file(
        "machine = 'dgx-h100'\nnodes = 2\n[[nics]]\ncount = 1\nrate = 100\nfabric = 'ethernet'\n",
    );
    let text = of_sixteen("all_reduce", "3221225", "2.67", "5.00");
    let told = &told(&text, file.path().to_str(), None)[0];
    assert!(
        told.sentence.contains("not known may limit it as well: the PCIe slot"),
        "{}",
        told.sentence
    );
    let finding = told.findings.iter().find(|one| one.rule == "far-below-the-limit").unwrap();
    assert!(finding.cause.contains("is not one of the known links"), "{}", finding.cause);
}

/// No result is more than what its packets carry; and the advice is of the NIC at hand.
#[test]
fn packets_whose_size_is_not_known_may_be_larger_than_usual() {
    let file = machine_file(
        "machine = 'dgx-h100'\nnodes = 2\n[[nics]]\ncount = 2\nrate = 400\nfabric = 'infiniband'\nslot = '5.0 x8'\n",
    );
    let text = of_sixteen("broadcast", "143166", "60.00", "60.00");
    let told = &told(&text, file.path().to_str(), None)[0];
    assert!(told.sentence.contains("more than packets of 256 B could carry"), "{}", told.sentence);
    let slot = told.findings.iter().find(|one| one.rule == "slot-narrower-than-nic").unwrap();
    let remedy = slot.remedy.as_deref().unwrap();
    assert!(
        remedy.ends_with("a NIC of 400 Gb/s needs 16 lanes of PCIe 5.0 or 8 lanes of PCIe 6.0"),
        "{remedy}"
    );
}

/// Nobody says that the switches do not reduce.
#[test]
fn only_is_as_far_as_the_machine_is_known() {
    let text = of_sixteen("all_reduce", "33553", "256.01", "480.02");
    let told = &told(&text, Some("dgx-h100"), Some(2))[0];
    let only = told.findings.iter().find(|one| one.rule == "algorithm").unwrap();
    assert!(only.cause.starts_with("only Tree or NVLSTree"), "{}", only.cause);
    assert!(only.evidence.iter().any(|one| one.contains("if the switches reduce")), "{only:?}");
}
