//! NCCL's output as it really comes: excerpts of runs from 2.18 to 2.32, and damage done to them.
//! Not the single formats; the tests beside the code have those.

use std::collections::BTreeMap;

use busbw_library_logs::nccl::{Counted, transports_set_up};
use busbw_library_logs::nccl::{
    Execution, Messages, NcclFacts, Parser, PluginState, Transport, parse,
};
use proptest::prelude::*;

const TWO_NODES: &str = include_str!("data/nccl_log/two_nodes_socket_2.28.9.txt");
const SINGLE_PROCESS: &str = include_str!("data/nccl_log/single_process_2.28.9.txt");
const NVLS_PXN: &str = include_str!("data/nccl_log/nvls_pxn_ibext_2.19.3.txt");
const TUNING: &str = include_str!("data/nccl_log/tuning_2.27.7.txt");
const INSTRUMENTED: &str = include_str!("data/nccl_log/instrumented_2.26.6.txt");
const OFI_FAILING: &str = include_str!("data/nccl_log/ofi_failing_2.21.5.txt");
const COLLNET: &str = include_str!("data/nccl_log/collnet_sharp_2.23.4.txt");
const MNNVL: &str = include_str!("data/nccl_log/mnnvl_2.30.7.txt");
const WARNINGS: &str = include_str!("data/nccl_log/warnings_2.30.7.txt");
const TORN_OLD: &str = include_str!("data/nccl_log/torn_2.18.txt");
const TORN_NEW: &str = include_str!("data/nccl_log/torn_2.28.9.txt");

const DIAGNOSTICS: &str = include_str!("data/nccl_log/diagnostics_manual_2.32.txt");
const FORMS: &str = include_str!("data/nccl_log/forms_2.32.3.txt");

const ATTN: &str = include_str!("data/nccl_log/attn_2.32.3.txt");
const DIAGNOSED: &str = include_str!("data/nccl_log/diagnosed_2.32.3.txt");

const ALL: [&str; 15] = [
    TWO_NODES,
    SINGLE_PROCESS,
    NVLS_PXN,
    TUNING,
    INSTRUMENTED,
    OFI_FAILING,
    COLLNET,
    MNNVL,
    WARNINGS,
    TORN_OLD,
    TORN_NEW,
    DIAGNOSTICS,
    FORMS,
    ATTN,
    DIAGNOSED,
];

fn counts(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
    entries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// (from, to, transport, connections) of every pair.
fn pairs(facts: &NcclFacts) -> Vec<(u32, Option<u32>, String, u64)> {
    let pairs = facts.pairs.iter();
    let each = pairs.flat_map(|p| p.transports.iter().map(move |e| (p, e)));
    each.map(|(p, e)| (p.from, p.to, e.transport.to_string(), e.connections)).collect()
}

#[test]
fn two_nodes_over_sockets_seen_by_two_of_eight_ranks() {
    let facts = parse(TWO_NODES);
    assert_eq!(facts.messages, Messages { read: 82, ignored: 21, unknown: 0, torn: 0 });
    assert_eq!(facts.ordered_channels, Some(2));
    assert_eq!((facts.versions[0].what.code, facts.versions[0].said), (22_809, 2));
    assert_eq!(facts.versions[0].what.built_with.as_deref(), Some("13.0"));
    assert_eq!(facts.cuda_driver, counts(&[("13000", 2)]));
    assert_eq!(facts.networks, counts(&[("Socket", 2)]));
    assert_eq!(facts.bootstrap, counts(&[("lo", 2)]));
    assert_eq!(facts.environment["NCCL_HOSTID"], counts(&[("node0", 1), ("node1", 1)]));
    assert_eq!(facts.environment["NCCL_NVLS_ENABLE"], counts(&[("0", 2)]));
    assert_eq!(facts.config["Blocking"], counts(&[("1", 2)]));
    assert_eq!(facts.remarks, counts(&[("NET/IB : No device found.", 2)]));
    let state =
        |name| facts.plugins.iter().filter(move |p| p.what.name == name).map(|p| p.what.state);
    assert!(state("IB").eq([PluginState::Failed]));
    assert!(state("Socket").eq([PluginState::Initialized, PluginState::Assigned]));
    let [communicator] = &facts.communicators[..] else { panic!("{:?}", facts.communicators) };
    assert_eq!(communicator.id.as_deref(), Some("0xb769ba3a99226956"));
    assert_eq!(
        (communicator.nranks, communicator.nodes, communicator.mnnvl),
        (8, Some(2), Some(false))
    );
    let ranks: Vec<_> =
        communicator.ranks.iter().map(|r| (r.rank, r.pid, r.cuda_dev, r.local_ranks)).collect();
    assert_eq!(ranks, [(0, 5660, Some(0), Some(4)), (4, 5664, Some(4), Some(4))]);
    assert!(communicator.ranks.iter().all(|r| r.initialized));
    assert_eq!(communicator.ranks[1].bus_id.as_deref(), Some("a0"));
    assert_eq!(facts.channels[0].what.p2p_per_peer, 1);
    let expected = [
        (0, Some(1), "P2P/CUMEM".to_owned(), 2),
        (0, Some(3), "P2P/CUMEM".to_owned(), 2),
        (0, Some(4), "NET/Socket/0".to_owned(), 2),
        // Of these, only the receiver's output is at hand.
        (1, Some(4), "NET/Socket/0".to_owned(), 2),
        (4, Some(0), "NET/Socket/0".to_owned(), 2),
        (4, Some(5), "P2P/CUMEM".to_owned(), 2),
        (4, Some(7), "P2P/CUMEM".to_owned(), 2),
        (5, Some(0), "NET/Socket/0".to_owned(), 2),
    ];
    assert_eq!(pairs(&facts), expected);
    assert_eq!(facts.connected, counts(&[("rings", 2), ("trees", 2)]));
    let init = facts.init.iter().find(|t| t.call.as_deref() == Some("ncclCommInitRankConfig"));
    assert_eq!(init.map(|t| (t.said, t.nranks)), Some((2, Some(8))));
    assert_eq!(
        transports_set_up(std::slice::from_ref(&facts)),
        "transports set up: 8 connections P2P/CUMEM, 8 NET/Socket/0"
    );
}

#[test]
fn one_process_with_the_table_of_nccl_tests_around() {
    let facts = parse(SINGLE_PROCESS);
    assert_eq!((facts.messages.unknown, facts.messages.torn), (0, 0));
    assert_eq!(facts.config["nvlinkCentricSched"], counts(&[("1", 2)]));
    let sentence = transports_set_up(std::slice::from_ref(&facts));
    assert_eq!(sentence, "transports set up: 9 connections P2P/direct pointer");
    assert_eq!(facts.channels[0].what.coll, 24);
    assert_eq!(facts.communicators.len(), 1);
}

#[test]
fn pxn_nvls_and_plugins() {
    let facts = parse(NVLS_PXN);
    assert_eq!(facts.networks, counts(&[("IBext", 1)]));
    let plugins: Vec<_> = facts
        .plugins
        .iter()
        .map(|p| (p.what.kind.as_str(), p.what.name.as_str(), p.what.interface.as_deref()))
        .collect();
    let expected = [
        ("collnet", "SHARP", Some("v6")),
        ("net", "IBext", None),
        ("net", "NCCL RDMA Plugin v6", Some("v6")),
    ];
    assert_eq!(plugins, expected);
    assert_eq!(facts.net_devices.len(), 8);
    let nvls = facts.nvls.expect("it is spoken of");
    assert_eq!((nvls.available, nvls.unavailable, nvls.buffers), (1, 0, 1));
    let by_pxn =
        |t: &Transport| matches!(t, Transport::Net { pxn: Some(1), device: 5, gdrdma: true, .. });
    assert_eq!(
        facts.transports.iter().filter(|e| by_pxn(&e.transport)).map(|e| e.send).sum::<u64>(),
        2
    );
    let sentence = "transports set up: 10 connections P2P/CUMEM, 4 NET/IBext/5-6/GDRDMA (2 of them by PXN), \
                    NVLS buffers on 1 rank";
    assert_eq!(transports_set_up(std::slice::from_ref(&facts)), sentence);
    // 2.19 does not say how many nodes there are.
    assert_eq!(facts.communicators[0].nodes, None);
}

#[test]
fn graphs_and_choices() {
    let facts = parse(TUNING);
    assert_eq!(facts.graphs.len(), 2);
    let Counted { what: graph, said } = &facts.graphs[0];
    assert_eq!((graph.pattern, graph.channels, graph.bw_intra, *said), (4, 12, 20.0, 2));
    assert_eq!((graph.type_intra.as_str(), graph.type_inter.as_str()), ("NVL", "PIX"));
    let calls: Vec<_> = facts.choices.iter().map(|c| (c.bytes, c.calls)).collect();
    assert_eq!(calls.len(), 11);
    assert_eq!(calls[0], (8_388_608, 4));
    assert_eq!(calls[10], (8_589_934_592, 1));
    let ring = Execution::Tuned {
        algorithm: "RING".to_owned(),
        protocol: "SIMPLE".to_owned(),
        channels: Some([0, 23]),
        cluster_size: None,
    };
    assert!(
        facts
            .choices
            .iter()
            .all(|c| c.execution == ring && c.collective.as_deref() == Some("AllReduce"))
    );
}

#[test]
fn a_build_that_adds_function_names() {
    let facts = parse(INSTRUMENTED);
    assert_eq!((facts.messages.unknown, facts.messages.torn), (0, 0));
    assert_eq!(facts.versions[0].what.built_with, None);
    assert!(facts.gpu_direct.iter().all(|d| !d.what.enabled));
    assert_eq!(facts.gpu_direct.iter().map(|d| d.said).sum::<u64>(), 6);
}

#[test]
fn a_start_that_fails_has_chosen_and_not_set_up() {
    let facts = parse(OFI_FAILING);
    let [warning] = &facts.warnings[..] else { panic!("{:?}", facts.warnings) };
    let said = "NET/OFI Unable to register memory (type = 2) for device 7. RC: -22, Error: Invalid argument";
    assert_eq!((warning.what.text.as_str(), warning.said), (said, 4));
    assert_eq!((warning.what.host.as_str(), warning.what.pid), ("nid003981", 2_023_029));
    assert_eq!(
        (warning.what.rank, warning.what.place.as_str()),
        (Some(0), "register_mr_buffers:647")
    );
    assert_eq!(facts.networks, counts(&[("AWS Libfabric", 1)]));
    assert!(facts.plugins.iter().any(|p| p.what.version.as_deref() == Some("1.6.0")));
    assert!(!facts.communicators[0].ranks[0].initialized);
    let sentence = transports_set_up(std::slice::from_ref(&facts));
    assert!(
        sentence.starts_with("transports chosen, without a message of their completion: "),
        "{sentence}"
    );
}

#[test]
fn a_network_that_reduces() {
    let facts = parse(COLLNET);
    let expected = [
        (0, None, "COLLNET/SHARP/1/GDRDMA".to_owned(), 1),
        (2, None, "COLLNET/SHARP/5/GDRDMA".to_owned(), 1),
    ];
    assert_eq!(pairs(&facts), expected);
    let warned: Vec<_> = facts.warnings.iter().map(|w| w.what.rank).collect();
    assert_eq!(warned, [Some(0), Some(2)]);
    assert_eq!(facts.net_devices[0].what.link.as_deref(), Some("IB/SHARP"));
}

#[test]
fn nvlink_between_hosts_and_warnings_with_time_stamps() {
    let facts = parse(MNNVL);
    assert_eq!(facts.versions[0].what.code, 23_007);
    assert_eq!(facts.communicators[0].mnnvl, Some(true));
    assert_eq!(facts.fabrics[0].what.uuid, "a44167d15423d758.7d6b24c07d32e7b3");
    assert_eq!(pairs(&facts), [(0, Some(1), "P2P/MNNVL".to_owned(), 1)]);
    assert_eq!(facts.connected, counts(&[("rings", 1)]));
    let facts = parse(WARNINGS);
    let warned: Vec<_> = facts.warnings.iter().map(|w| (w.what.place.as_str(), w.said)).collect();
    let expected = [
        ("allocator.cc:132 (ncclMemFree)", 1),
        ("init.cc:2745 (commDestroySync)", 1),
        ("init.cc:2869 (commReclaim)", 1),
        ("misc/strongstream.cc:424 (ncclStrongStreamSynchronize)", 1),
    ];
    assert_eq!(warned, expected);
    assert_eq!(facts.warnings[0].what.text, "Cuda failure 'unspecified launch failure'");
}

#[test]
fn of_torn_messages_only_what_is_whole_counts() {
    let facts = parse(TORN_OLD);
    assert_eq!(facts.messages.torn, 3);
    assert_eq!(pairs(&facts), [(1, Some(0), "SHM/direct".to_owned(), 2)]);
    // One `2 coll channels …` is torn before its last figure.
    assert!(facts.channels.is_empty());
    assert_eq!(
        transports_set_up(std::slice::from_ref(&facts)),
        "transports set up: at least 2 connections SHM/direct"
    );
    // All three connections end in `SHM/direct/dir`.
    let facts = parse(TORN_NEW);
    assert!(facts.transports.is_empty());
    assert!(facts.messages.torn >= 3);
    assert_eq!(facts.messages.unknown, 0);
}

#[test]
fn facts_come_back_from_json_even_inside_a_tagged_record() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(tag = "kind")]
    enum Line {
        Nccl(Box<NcclFacts>),
    }
    for log in ALL {
        let line = Line::Nccl(Box::new(parse(log)));
        let json = serde_json::to_string(&line).expect("facts are JSON");
        assert_eq!(serde_json::from_str::<Line>(&json).expect("and back"), line);
    }
    assert!(parse("").is_empty());
    assert_eq!(
        serde_json::from_str::<NcclFacts>("{}").expect("all is optional"),
        NcclFacts::default()
    );
}

#[test]
fn prefixes_colours_and_line_ends_change_nothing() {
    for log in ALL {
        let facts = parse(log);
        assert_eq!(parse(&log.replace('\n', "\r\n")), facts);
        for (before, after) in [
            ("[1,0]<stdout>:", ""),
            ("[1,12]<stderr>: ", ""),
            ("3: ", ""),
            ("[2026-05-05 06:16:47] ", ""),
            ("[pod/trainer-0/worker] 2026-05-05T06:16:47.1Z stderr F ", ""),
            ("\x1b[36m(RayWorker pid=7, ip=10.0.0.2)\x1b[0m ", "\x1b[0m"),
        ] {
            let dressed: String =
                log.lines().map(|line| format!("{before}{line}{after}\n")).collect();
            assert_eq!(parse(&dressed), facts, "{before}");
        }
    }
}

#[test]
fn one_parser_for_all_files_in_any_order_counts_alike() {
    let mut there = Parser::new();
    let mut back = Parser::new();
    ALL.iter().for_each(|log| log.lines().for_each(|line| there.line(line)));
    ALL.iter().rev().for_each(|log| log.lines().for_each(|line| back.line(line)));
    let (there, back) = (there.finish(), back.finish());
    assert_eq!(there.pairs, back.pairs);
    assert_eq!(there.transports, back.transports);
    assert_eq!(there.messages, back.messages);
    assert_eq!(there.environment, back.environment);
}

#[test]
fn a_long_log_of_ever_new_things_stays_small() {
    let mut parser = Parser::new();
    for i in 0..100_000u32 {
        parser.line(&format!("h{i}:{i}:1 [0] a.cc:{i} NCCL WARN warning {i}"));
        parser.line(&format!(
            "h{i}:{i}:1 [0] NCCL INFO Channel 00/0 : {i}[0] -> 1[1] [send] via NET/n{i}/{i}"
        ));
        parser.line(&format!("h{i}:{i}:1 [0] NCCL INFO NCCL_V{i} set by environment to {i}."));
        parser.line(&format!(
            "h{i}:{i}:1 [0] NCCL INFO comm 0x{i:x} rank {i} nranks {i} cudaDev 0 busId 1 commId 0x{i:x} - Init START"
        ));
        parser.line(&format!("h{i}:{i}:1 [0] NCCL INFO AllReduce: {i} Bytes -> Algo A{i} proto LL channel{{Lo..Hi}}={{0..1}}"));
        parser.line(&format!("h{i}:{i}:1 [0] NCCL INFO Unheard of {i}"));
        parser.line(&format!("h{i}:{i} NCCL DIAG [INFO] check {i}: {i} ranks in comm 0x{i:x}"));
        parser.line(&format!("h{i}:{i}:1 [0] NCCL INFO NET/IB: WQE latency summary [send peer=p<{i}> dev=d qpn={i} port=1]: n=1 slow=0 thr=1ns | post-to-poll ns: mean=1 std=0 p50=1 p90=1 p99=1 p99.9=1 max=1"));
        parser.line(&format!("h{i}:{i}:1 [0] NCCL INFO RAS keep-alive timeout error (1s) on socket connection with p<{i}>"));
        parser.line(&format!(
            "h{i}:{i}:1 [0] NCCL INFO algSelection: A{i} picked within the selected set"
        ));
    }
    let facts = parser.finish();
    assert!(facts.left_out > 600_000, "{}", facts.left_out);
    assert_eq!((facts.messages.read, facts.messages.unknown), (900_000, 100_000));
    let json = serde_json::to_string(&facts).expect("facts are JSON");
    assert!(json.len() < 8_000_000, "{} bytes", json.len());
}

/// Text that is nobody's message: it has no `NCCL ` and no `RCCL `.
fn noise() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("           8             2     float     sum      -1   491.09".to_owned()),
        Just("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC".to_owned()),
        Just("# Avg bus bandwidth    : 9.8".to_owned()),
        "[ -~]{0,40}",
        "\\PC{0,20}",
    ];
    pieces.prop_filter("a message", |text| !text.contains("CCL "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "(\\PC|\n|\x1b|\r|NCCL INFO |NCCL WARN |h:1:2 \\[0\\] |Channel | via ){0,60}") {
        let facts = parse(&text);
        let _ = transports_set_up(std::slice::from_ref(&facts));
        let twice = parse(&format!("{text}\n{text}"));
        prop_assert_eq!(twice.messages.read, 2 * facts.messages.read);
    }

    #[test]
    fn noise_between_lines_changes_nothing(
        which in 0..ALL.len(),
        noise in prop::collection::vec((any::<prop::sample::Index>(), noise()), 0..20),
    ) {
        let mut lines: Vec<&str> = ALL[which].lines().collect();
        for (at, text) in &noise {
            lines.insert(at.index(lines.len() + 1), text);
        }
        prop_assert_eq!(parse(&lines.join("\n")), parse(ALL[which]));
    }

    /// However a log is damaged, it never tells of more connections than it told before.
    #[test]
    fn cutting_lines_and_gluing_them_invents_no_connection(
        which in 0..ALL.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..10),
    ) {
        let mut lines: Vec<String> = ALL[which].lines().map(str::to_owned).collect();
        for (line, at) in &cuts {
            let next = line.index(lines.len() - 1) + 1;
            let after = lines.remove(next);
            let before = &mut lines[next - 1];
            let keep = before.floor_char_boundary(at.index(before.len() + 1));
            before.truncate(keep);
            before.push_str(&after);
        }
        let (whole, damaged) = (parse(ALL[which]), parse(&lines.join("\n")));
        for ends in &damaged.transports {
            let before = whole.transports.iter().find(|e| weaker(&e.transport, &ends.transport));
            prop_assert!(before.is_some_and(|e| e.send >= ends.send), "{:?}", ends);
        }
    }
}

/// Whether `less` is `whole`, or `whole` without a suffix that a cut may have taken.
fn weaker(whole: &Transport, less: &Transport) -> bool {
    whole.to_string().starts_with(&less.to_string())
}
