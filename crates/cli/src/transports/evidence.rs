//! Which transport ran: the transports that NCCL's log names and the bytes that devices counted, compared
//! with the transport that was requested. Two independent sources of evidence: `log` and `counters`.
//! Not how either source is read.

use busbw_analysis::sweep::{Conclusion, EvidenceSource, HOST_TRANSPORT, Support, Transport};
use busbw_core::{plan::MovedBy, record::Folded};

use super::{
    counters, log, moved, net_devices,
    profile::{Profile, TransportKind},
    verbs,
};

/// Draws the conclusion from the records of an environment's launches on `nodes` nodes.
pub fn judge(profile: &Profile, records: &[&Folded], virtual_nodes: usize) -> Transport {
    let moved = moved::of(records, profile.scope, virtual_nodes);
    let by_plugin =
        |record: &&Folded| record.run.plan.backend.spec().moved_by == MovedBy::NetPlugin;
    let (found, log) = match &profile.kind {
        TransportKind::Host => own_memory(records),
        TransportKind::Verbs { ports } => verbs::evidence(ports, records),
        _ if records.iter().all(by_plugin) => net_devices::evidence(&profile.kind, records),
        _ => log::evidence(profile, records, virtual_nodes),
    };
    let counters = moved.as_ref().map_or_else(
        || EvidenceSource::no_data("no counters"),
        |moved| counters::evidence(&profile.kind, profile.scope, moved),
    );
    let verdict = match (log.support, counters.support) {
        (Support::Confirms, Support::Contradicts | Support::Partial) => Conclusion::Conflicting,
        (Support::Confirms, _) | (Support::NoData, Support::Confirms) => Conclusion::Proven,
        (Support::Partial, _) | (Support::NoData, Support::Partial) => Conclusion::Mixed,
        (Support::Contradicts, Support::Confirms) | (Support::NoData, Support::Contradicts) => {
            Conclusion::Conflicting
        }
        (Support::Contradicts, _) => Conclusion::Replaced,
        (Support::NoData, _) => Conclusion::Unproven,
    };
    let why = match verdict {
        Conclusion::Replaced if profile.is_beside() => Some(log.detail.clone()),
        Conclusion::Replaced => rule(&profile.kind, &found),
        Conclusion::Mixed => {
            let who = if log.support == Support::Partial { &log } else { &counters };
            let rule =
                rule(&profile.kind, &found).map_or(String::new(), |rule| format!("; {rule}"));
            Some(format!("{}{rule}", who.detail))
        }
        Conclusion::Unproven => Some(format!("{}; {}", log.detail, counters.detail)),
        Conclusion::Conflicting => {
            let source = if profile.is_beside() { "the record" } else { "NCCL's log" };
            Some(format!("{source}: {}; {}", log.detail, counters.detail))
        }
        Conclusion::Proven => None,
    };
    let (asked, scope) = (profile.name().to_owned(), profile.scope);
    Transport { asked, scope, found, verdict, log, counters, why, moved, limit: None }
}

/// The host backend's own evidence: busbw itself moves the bytes.
fn own_memory(records: &[&Folded]) -> (String, EvidenceSource) {
    let own = |record: &&Folded| record.run.plan.backend.spec().moved_by == MovedBy::Busbw;
    if records.iter().all(own) && !records.is_empty() {
        let detail = "the host backend has nothing else".to_owned();
        return (HOST_TRANSPORT.to_owned(), EvidenceSource { support: Support::Confirms, detail });
    }
    (String::new(), EvidenceSource::no_data("a cost model: nothing moves"))
}

/// The rule by which NCCL chose another transport.
fn rule(kind: &TransportKind, found: &str) -> Option<String> {
    let has = |word: &str| found.contains(word);
    let text = match kind {
        TransportKind::Socket(_) if has("NET/IB") => {
            "NCCL prefers IB or RoCE to sockets; NCCL_SOCKET_IFNAME names the interface of sockets, but does not select them"
        }
        TransportKind::Socket(_) if has("NET/Socket") => {
            "without IB NCCL uses the fastest interface, unless exactly one is named"
        }
        TransportKind::Socket(_) | TransportKind::Rdma { .. } if has("NET/") => {
            "NCCL prefers a net plugin to its own networks, unless NCCL_NET names one of these"
        }
        TransportKind::Plugin(_) if has("NET/") => {
            "NCCL skips a plugin that does not load or finds no device: then it uses IB or RoCE, then sockets"
        }
        TransportKind::Socket(_) | TransportKind::Rdma { .. } | TransportKind::Plugin(_) => {
            "within a node NCCL prefers P2P to SHM, and SHM to the network"
        }
        TransportKind::Shm if has("P2P") => "within a node NCCL prefers P2P to SHM",
        TransportKind::P2p | TransportKind::Shm if has("SHM") || has("NET/") => {
            "NCCL skips transports that a pair of ranks cannot use, such as P2P without peer access or SHM without a common /dev/shm, and uses the next one"
        }
        TransportKind::Nvls | TransportKind::CollNet => {
            "NCCL uses rings and trees where a communicator has not set this up"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_who_wins() {
        let eno2 = TransportKind::Socket("eno2".to_owned());
        assert!(
            rule(&eno2, "NET/IB/GDRDMA (mlx5_0)").unwrap().starts_with("NCCL prefers IB or RoCE")
        );
        assert!(rule(&eno2, "P2P/CUMEM").unwrap().starts_with("within a node NCCL prefers P2P"));
        assert!(rule(&TransportKind::P2p, "SHM/direct").unwrap().contains("peer access"));
        assert_eq!(rule(&TransportKind::Default, "x"), None);
    }
}
