//! Which transport was requested in a sweep, and the evidence of which one ran.
//! Not how the evidence is gathered (`busbw-cli`).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The pairs of ranks in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All pairs.
    All,
    /// Pairs within a node.
    Within,
    /// Pairs between nodes.
    Between,
}

/// Bytes over all rows of all launches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Moved {
    /// The smallest number of bytes that had to move between the ranks in question.
    pub required: f64,
    /// Bytes that left all GPUs over NVLink; `None` where it was not read.
    pub nvlink: Option<u64>,
    /// Bytes that each network device moved in its busier direction.
    pub network: BTreeMap<String, u64>,
    /// Network devices that were read in every launch, on every host: nothing is known of others.
    pub read: BTreeSet<String>,
    /// `network` of each host, where there are several; `network` is their sum then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, BTreeMap<String, u64>>,
}

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

/// The transport of the host backend.
pub const HOST_TRANSPORT: &str = "shared memory";

impl Transport {
    /// The sources that confirm it: `log`, the counters' text, or both.
    pub fn by(&self) -> String {
        let log = (self.log.support == Support::Confirms).then_some(match self.asked.as_str() {
            "shm" if self.found == HOST_TRANSPORT => "busbw itself",
            asked if asked.starts_with("verbs:") => "record",
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
    pub fn no_data(detail: &str) -> EvidenceSource {
        EvidenceSource { support: Support::NoData, detail: detail.to_owned() }
    }
}

impl Moved {
    /// A device's bytes as a share of the required bytes.
    pub fn part(&self, bytes: u64) -> f64 {
        bytes as f64 / self.required
    }

    /// A network device's bytes; `None` where it was not read.
    pub fn over(&self, device: &str) -> Option<u64> {
        self.read.contains(device).then(|| self.network.get(device).copied().unwrap_or(0))
    }

    /// The network device that moved most bytes.
    pub fn busiest(&self) -> Option<(&str, u64)> {
        let most = self.network.iter().max_by_key(|(_, moved)| **moved)?;
        Some((most.0, *most.1))
    }
}
