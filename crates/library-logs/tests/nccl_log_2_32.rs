//! NCCL 2.31 and 2.32: what they print otherwise than before, and their own diagnostics reports.
//! Not damage done to a log (`nccl_log`), and not the single formats; the tests beside the code have those.

use std::collections::BTreeMap;

use busbw_library_logs::nccl::{
    DiagnosticFact, DiagnosticsKind, Messages, PluginState, parse, transports_set_up,
};

const DIAGNOSTICS: &str = include_str!("data/nccl_log/diagnostics_manual_2.32.txt");
const FORMS: &str = include_str!("data/nccl_log/forms_2.32.3.txt");
const ATTN: &str = include_str!("data/nccl_log/attn_2.32.3.txt");
const DIAGNOSED: &str = include_str!("data/nccl_log/diagnosed_2.32.3.txt");

#[test]
fn diagnostics_reports_as_the_manual_prints_them() {
    let facts = parse(DIAGNOSTICS);
    assert_eq!(facts.messages, Messages { read: 18, ..Messages::default() });
    let found = facts.diagnostics.expect("two reports");
    let reports: Vec<_> =
        found.reports.iter().map(|one| (one.kind, one.begun, one.completed)).collect();
    assert_eq!(reports, [(DiagnosticsKind::Active, 1, 1), (DiagnosticsKind::Ras, 1, 1)]);
    let told = |check: &str| {
        let of_check = found.results.iter().filter(|one| one.what.check == check);
        of_check.map(|one| (one.what.ok, one.what.fact.clone())).collect::<Vec<_>>()
    };
    let accesses = |passed| Some(DiagnosticFact::Accesses { passed, tested: 56 });
    assert_eq!(told("p2p"), [(true, accesses(56)), (false, accesses(52))]);
    let bandwidths: Vec<_> = told("net bw")
        .into_iter()
        .map(|(ok, fact)| match fact {
            Some(DiagnosticFact::NetBandwidth { min_gbit, median_gbit, .. }) => {
                (ok, min_gbit, median_gbit)
            }
            Some(DiagnosticFact::NetOutlier { gbit, median_gbit, rank: 3, .. }) => {
                (ok, gbit, median_gbit)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(bandwidths, [(true, 376.1, 391.5), (false, 265.1, 391.5), (false, 265.1, 391.5)]);
    assert_eq!(told("NCCL environment").len(), 5);
}

#[test]
fn what_2_31_and_2_32_print_otherwise() {
    let facts = parse(FORMS);
    assert_eq!((facts.messages.unknown, facts.messages.torn), (0, 0), "{:?}", facts.unknown);
    assert_eq!(facts.messages.ignored, 3, "{:?}", facts.messages);
    let sentence = transports_set_up(std::slice::from_ref(&facts));
    // A receiver's `/flush=…` makes no other transport of it.
    assert_eq!(facts.transports.len(), 1, "{sentence}");
    assert_eq!(facts.warnings[0].what.level.as_deref(), Some("ATTN"));
    assert_eq!(facts.fabrics[0].what.degraded, Some(true));
    assert_eq!(facts.selections.len(), 3);
    assert_eq!(facts.choices.len(), 3);
    assert_eq!(facts.speed_changes[0].what.to_mbps, 100_000);
    assert_eq!(facts.ras_timeouts[0].what.peer.as_deref(), Some("10.0.0.2<28030>"));
    let [queue_pair] = &facts.wqe_latencies[..] else { panic!("{:?}", facts.wqe_latencies) };
    assert_eq!((queue_pair.slow_lines, queue_pair.summary.map(|s| s.slow)), (1, Some(17)));
    assert_eq!(
        facts.environment["NCCL_IB_RAIL_POLICY"],
        BTreeMap::from([("CX9:FLIP".to_owned(), 1)])
    );
    assert_eq!(facts.communicators[0].made_by.as_deref(), Some("ncclCommSplit"));
    assert_eq!(facts.diagnostics.expect("a report").results.len(), 2);
}

#[test]
fn a_start_of_2_32_with_its_own_diagnostics() {
    let facts = parse(ATTN);
    assert_eq!((facts.messages.unknown, facts.messages.torn), (0, 0), "{:?}", facts.unknown);
    let warned: Vec<_> =
        facts.warnings.iter().map(|w| (w.what.level.as_deref(), w.what.place.as_str())).collect();
    let expected = [
        (Some("ATTN"), "plugin/net.cc:229 (ncclNetPluginInit)"),
        (None, "transport/rma_socket.cc:32 (ncclRmaSocketProxyInit)"),
        (Some("ATTN"), "init.cc:759 (devCommSetup)"),
        (Some("ATTN"), "transport/net_socket.cc:240 (ncclNetSocketGetNsockNthread)"),
    ];
    assert_eq!(warned, expected);
    // Until 2.31 this was an INFO.
    let failed = facts.plugins.iter().find(|plugin| plugin.what.state == PluginState::Failed);
    assert_eq!(failed.map(|plugin| plugin.what.name.as_str()), Some("IB"));
    let facts = parse(DIAGNOSED);
    assert_eq!(facts.messages, Messages { read: 20, ..Messages::default() });
    let found = facts.diagnostics.expect("two reports");
    assert_eq!(found.reports.iter().map(|one| one.completed).sum::<u64>(), 2);
    let review: Vec<_> =
        found.results.iter().filter(|one| !one.what.ok).map(|one| &*one.what.check).collect();
    let mut checks = review;
    checks.dedup();
    assert_eq!(
        checks,
        ["net bw", "NCCL environment", "rdma_topo check", "IOMMU mode", "ATS state"]
    );
}
