//! The counters of devices while a row was measured, as differences.
//! Not the cause: counters include everything that ran meanwhile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counters of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Devices whose counters are read before and after each row.
    pub devices: BTreeMap<String, DeviceKind>,
    /// The time to read all of them once at the start, in microseconds.
    pub reading_us: u64,
    /// Counters that are not read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// Counters that are not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The counter; all counters without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// The devices; all devices of the kind without names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// The reason.
    pub reason: String,
}

impl Counted {
    /// The devices whose bytes are all counted.
    pub fn with_bytes(&self) -> BTreeMap<String, DeviceKind> {
        let hides = |kind: DeviceKind| {
            self.unread.iter().any(|unread| unread.kind == kind && unread.hides_bytes())
        };
        let gpus_hidden = hides(DeviceKind::Gpu);
        let is_silent = |name: &String| {
            self.unread.iter().any(|unread| unread.hides_bytes() && unread.devices.contains(name))
        };
        let kept = |(name, kind): &(&String, &DeviceKind)| {
            !(is_silent(name) || gpus_hidden && **kind == DeviceKind::Gpu)
        };
        let counted = self.devices.iter().filter(kept);
        counted.map(|(name, kind)| (name.clone(), *kind)).collect()
    }
}

impl Unread {
    /// Whether bytes may have moved uncounted.
    pub fn hides_bytes(&self) -> bool {
        let bytes = |name: &String| matches!(Meaning::of(name), Some(Meaning::Sent));
        self.counter.as_ref().is_none_or(bytes)
    }
}

/// A kind of device.
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
    /// By how much each counter grew; those that did not are left out. The unit is in the name
    /// (`_bytes`, `_ns`), all others are numbers of events; docs/counters.md has the list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grown: BTreeMap<String, u64>,
    /// Counters that ran backwards: they were reset, so that their growth is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset: Vec<String>,
    /// The reasons for a GPU's lowered clocks at the beginning or at the end of the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<String>,
    /// Errors (XID) that a GPU's driver reported since the last row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<u64>,
    /// The device answered before the row and not after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// What a host other than process 0's counted while a row was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCounters {
    /// Its name.
    pub host: String,
    /// Devices whose bytes are counted there.
    pub devices: BTreeMap<String, DeviceKind>,
    /// By how much they grew; devices without a difference are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<DeviceCounters>,
}

/// The meaning of a counter's growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Bytes left the device.
    Sent,
    /// Bytes arrived at the device.
    Received,
    /// An error of a link: data was damaged, or the link was lost.
    LinkError,
    /// Packets of RDMA were lost, late or out of order, or a receiver was not ready: data was sent again.
    SentAgain,
    /// A memory error of a GPU.
    MemoryError,
    /// A GPU's clocks were lowered; nanoseconds.
    Throttled,
    /// Normal load of a network: congestion was signalled, a sender had to wait.
    Congestion,
}

impl Meaning {
    /// The meaning of a counter, by its name in the record.
    pub fn of(counter: &str) -> Option<Meaning> {
        let meaning = match counter {
            "tx_bytes" | "nvlink_tx_bytes" => Meaning::Sent,
            "rx_bytes" | "nvlink_rx_bytes" => Meaning::Received,
            "xmit_wait" | "xmit_discards" | "cnp_sent" | "cnp_handled" | "cnp_ignored"
            | "ecn_marked" | "rx_dropped" | "tx_dropped" => Meaning::Congestion,
            "rx_pause_frames"
            | "tx_pause_frames"
            | "rx_priority_pause_frames"
            | "tx_priority_pause_frames"
            | "rx_paused_us"
            | "tx_paused_us" => Meaning::Congestion,
            "throttled_power_ns" | "throttled_thermal_ns" => Meaning::Throttled,
            "ecc_corrected" | "ecc_uncorrected" => Meaning::MemoryError,
            "nvlink_replays" | "nvlink_recoveries" | "nvlink_crc_errors" | "rx_errors"
            | "tx_errors" | "symbol_errors" | "link_recoveries" | "link_downs"
            | "integrity_errors" | "icrc_errors" => Meaning::LinkError,
            "out_of_sequence"
            | "sequence_errors"
            | "implied_sequence_errors"
            | "duplicate_requests"
            | "ack_timeouts"
            | "rnr_retries"
            | "retries_exceeded"
            | "adaptive_retransmits"
            | "retransmitted_bytes" => Meaning::SentAgain,
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

    /// The larger of the bytes that left and those that arrived; the sums stop at the largest number.
    pub fn moved(&self) -> u64 {
        let bytes = |meaning| self.of(meaning).map(|(_, by)| by).fold(0, u64::saturating_add);
        bytes(Meaning::Sent).max(bytes(Meaning::Received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_moved_stops_at_the_largest_number() {
        let grown = [("tx_bytes".to_owned(), u64::MAX), ("nvlink_tx_bytes".to_owned(), 1)];
        let device = DeviceCounters {
            device: "lo".to_owned(),
            kind: DeviceKind::Interface,
            grown: grown.into(),
            reset: Vec::new(),
            throttled: Vec::new(),
            xids: Vec::new(),
            lost: false,
        };
        assert_eq!(device.moved(), u64::MAX);
    }
}
