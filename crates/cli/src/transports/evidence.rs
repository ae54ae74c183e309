//! Which transport ran: the transports that NCCL's log names and the bytes that devices counted, compared
//! with the transport that was requested. Two independent sources of evidence: `log` and `counters`.
//! Not how either source is read.

use model::{plan::BackendChoice, record::Folded};
use serde::{Deserialize, Serialize};

use super::{
    counters, log,
    moved::Moved,
    profile::{Profile, Scope, TransportKind},
};

/// The requested transport, and the evidence of what ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// The requested transport.
    pub asked: String,
    /// Between which ranks.
    pub scope: Scope,
    /// What ran, as NCCL's log names it; empty where nothing ran.
    pub found: String,
    /// The conclusion from both sources.
    pub verdict: Conclusion,
    /// The evidence in NCCL's log.
    pub log: EvidenceSource,
    /// The evidence in devices' byte counters.
    pub counters: EvidenceSource,
    /// The rule by which NCCL chose another transport, or why nothing is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Bytes moved, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Percent of the limit at the largest size, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Percent>,
}

/// Percent of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Percent {
    /// The percentage.
    Known(f64),
    /// Why it is not known.
    Unknown(String),
}

/// One source of evidence: NCCL's log, or devices' counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceSource {
    /// Whether it supports that the requested transport ran.
    #[serde(alias = "says")]
    pub support: Support,
    /// What the source contains, in words.
    #[serde(alias = "words")]
    pub detail: String,
}

/// Whether a source supports that the requested transport ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// The requested transport ran.
    #[serde(alias = "yes")]
    Confirms,
    /// It ran between some ranks, another one between others.
    #[serde(alias = "partly")]
    Partial,
    /// Another transport ran.
    #[serde(alias = "no")]
    Contradicts,
    /// The source cannot tell.
    #[serde(alias = "silent")]
    NoData,
}

/// The conclusion from both sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Conclusion {
    /// It ran: at least one source confirms it, and none contradicts.
    Proven,
    /// Some ranks used it, others used another transport.
    Mixed,
    /// NCCL used another transport.
    Replaced,
    /// The sources contradict each other.
    #[serde(alias = "doubted")]
    Conflicting,
    /// Neither source has data.
    Unproven,
}

impl Conclusion {
    /// The conclusion as one word of the table.
    pub fn word(self) -> &'static str {
        match self {
            Conclusion::Proven => "proven",
            Conclusion::Mixed => "mixed",
            Conclusion::Replaced => "REPLACED",
            Conclusion::Conflicting => "CONFLICTING",
            Conclusion::Unproven => "unproven",
        }
    }
}

impl Transport {
    /// Draws the conclusion from the records of an environment's launches on `nodes` nodes.
    pub fn judge(profile: &Profile, records: &[&Folded], nodes: usize) -> Transport {
        let moved = Moved::of(records, profile.scope, nodes);
        let (found, log) = match &profile.kind {
            TransportKind::Host => own_memory(records),
            _ => log::evidence(profile, records, nodes),
        };
        let counters = moved.as_ref().map_or_else(
            || EvidenceSource::no_data("no counters"),
            |moved| counters::evidence(&profile.kind, profile.scope, moved),
        );
        let verdict = match (log.support, counters.support) {
            (Support::Confirms, Support::Contradicts) => Conclusion::Conflicting,
            (Support::Confirms, _) | (Support::NoData, Support::Confirms) => Conclusion::Proven,
            (Support::Partial, _) => Conclusion::Mixed,
            (Support::Contradicts, Support::Confirms) | (Support::NoData, Support::Contradicts) => {
                Conclusion::Conflicting
            }
            (Support::Contradicts, _) => Conclusion::Replaced,
            (Support::NoData, _) => Conclusion::Unproven,
        };
        let why = match verdict {
            Conclusion::Replaced | Conclusion::Mixed => rule(&profile.kind, &found),
            Conclusion::Unproven => Some(format!("{}; {}", log.detail, counters.detail)),
            Conclusion::Conflicting => {
                Some(format!("NCCL's log: {}; {}", log.detail, counters.detail))
            }
            Conclusion::Proven => None,
        };
        let (asked, scope) = (profile.name().to_owned(), profile.scope);
        Transport { asked, scope, found, verdict, log, counters, why, moved, limit: None }
    }

    /// The sources that confirm it: `log`, the counters' text, or both.
    pub fn by(&self) -> String {
        let log = (self.log.support == Support::Confirms).then_some(match self.asked.as_str() {
            "shm" if self.found == HOST_TRANSPORT => "busbw itself",
            _ => "log",
        });
        let counters =
            (self.counters.support == Support::Confirms).then(|| self.counters.detail.clone());
        let named = [log.map(str::to_owned), counters];
        let named: Vec<String> = named.into_iter().flatten().collect();
        if named.is_empty() { "-".to_owned() } else { named.join(" + ") }
    }
}

impl EvidenceSource {
    /// A source without data, and why.
    pub(super) fn no_data(detail: &str) -> EvidenceSource {
        EvidenceSource { support: Support::NoData, detail: detail.to_owned() }
    }
}

/// The transport of the host backend.
const HOST_TRANSPORT: &str = "shared memory";

/// The host backend's own evidence: busbw itself moves the bytes.
fn own_memory(records: &[&Folded]) -> (String, EvidenceSource) {
    let host = |record: &&&Folded| record.run.plan.backend == BackendChoice::Host;
    if records.iter().filter(host).count() == records.len() && !records.is_empty() {
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
        assert!(rule(&eno2, "NET/IB/GDRDMA (mlx5_0)").unwrap().starts_with("IB or RoCE wins"));
        assert!(rule(&eno2, "P2P/CUMEM").unwrap().starts_with("within a node P2P"));
        assert!(rule(&TransportKind::P2p, "SHM/direct").unwrap().contains("peer access"));
        assert_eq!(rule(&TransportKind::Default, "x"), None);
    }
}
