//! What devices of the machine counted while a row was measured, as differences.
//! Not who caused it: counters see everything that ran meanwhile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is counted in a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Devices whose counters are read before and after each row.
    pub devices: BTreeMap<String, DeviceKind>,
    /// How long it took at the start to read all of them once, microseconds.
    pub reading_us: u64,
    /// What is not read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// Counters that are not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Of which kind of device.
    pub kind: DeviceKind,
    /// Which; without a name all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// Of which devices; without a name all of the kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Why.
    pub reason: String,
}

impl Unread {
    /// Whether bytes may have passed unseen.
    pub fn hides_bytes(&self) -> bool {
        let bytes = |name: &String| matches!(Meaning::of(name), Some(Meaning::Sent));
        self.counter.as_ref().is_none_or(bytes)
    }
}

/// What counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A GPU, by its PCI address; its NVLink bytes are summed over its links.
    Gpu,
    /// A port of an RDMA device, such as `mlx5_0/1`.
    Rdma,
    /// A network interface, loopback among them.
    Interface,
}

/// One device over one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// The device.
    pub device: String,
    /// What it is.
    pub kind: DeviceKind,
    /// By how much each counter grew; those that did not are left out. Units are in the names
    /// (`_bytes`, `_ns`), everything else is a number of events; docs/counters.md has the list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grown: BTreeMap<String, u64>,
    /// Counters that ran backwards: somebody reset them, so that nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset: Vec<String>,
    /// Why a GPU's clocks were held back at the beginning or at the end of the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<String>,
    /// Errors (XID) that a GPU's driver reported since the row before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<u64>,
    /// It answered before the row and no more after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// What it means that a counter grew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Bytes left the device.
    Sent,
    /// Bytes came to the device.
    Received,
    /// A link, or what lies behind it, erred: something was damaged, lost or sent again.
    LinkError,
    /// Memory of a GPU erred.
    MemoryError,
    /// A GPU's clocks were held back; nanoseconds.
    Throttled,
    /// A network at work: congestion was signalled, a sender had to wait.
    Congestion,
}

impl Meaning {
    /// That of a counter by its name in the record.
    pub fn of(counter: &str) -> Option<Meaning> {
        let meaning = match counter {
            "tx_bytes" | "nvlink_tx_bytes" => Meaning::Sent,
            "rx_bytes" | "nvlink_rx_bytes" => Meaning::Received,
            "xmit_wait" | "xmit_discards" | "cnp_sent" | "cnp_handled" | "cnp_ignored"
            | "ecn_marked" | "rx_dropped" | "tx_dropped" => Meaning::Congestion,
            "throttled_power_ns" | "throttled_thermal_ns" => Meaning::Throttled,
            "ecc_corrected" | "ecc_uncorrected" => Meaning::MemoryError,
            "nvlink_replays"
            | "nvlink_recoveries"
            | "nvlink_crc_errors"
            | "rx_errors"
            | "tx_errors"
            | "symbol_errors"
            | "link_recoveries"
            | "link_downs"
            | "integrity_errors"
            | "out_of_sequence"
            | "sequence_errors"
            | "implied_sequence_errors"
            | "ack_timeouts"
            | "rnr_retries"
            | "retries_exceeded"
            | "adaptive_retransmits"
            | "icrc_errors"
            | "retransmitted_bytes" => Meaning::LinkError,
            _ => return None,
        };
        Some(meaning)
    }
}

impl DeviceCounters {
    /// The counters of one meaning that grew.
    pub fn of(&self, meaning: Meaning) -> impl Iterator<Item = (&str, u64)> {
        let grown = self.grown.iter().map(|(name, by)| (name.as_str(), *by));
        grown.filter(move |(name, _)| Meaning::of(name) == Some(meaning))
    }

    /// Bytes that left or came, whichever are more.
    pub fn moved(&self) -> u64 {
        let bytes = |meaning| self.of(meaning).map(|(_, by)| by).sum::<u64>();
        bytes(Meaning::Sent).max(bytes(Meaning::Received))
    }
}
