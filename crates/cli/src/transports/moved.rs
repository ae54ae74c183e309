//! The bytes that devices counted over an environment's launches, and the bytes that had to move.
//! Not what follows from them (`evidence`).

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::{
    Benchmark, Collective,
    record::{DeviceKind, Folded, Meaning, Row, Unread},
};
use serde::{Deserialize, Serialize};

use super::{profile::Scope, required};

/// Bytes over all rows of all launches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Moved {
    /// The smallest number of bytes that had to move between the ranks in question.
    pub required: f64,
    /// Bytes that left all GPUs over NVLink; `None` where it was not read.
    pub nvlink: Option<u64>,
    /// Bytes that each network device moved in its busier direction.
    pub network: BTreeMap<String, u64>,
    /// Network devices that were read in every launch: nothing is known of others.
    pub read: BTreeSet<String>,
}

/// The smallest number of bytes that the ranks in question receive in one operation.
fn of_ranks(collective: Collective, row: &Row, scope: Scope, nodes: usize) -> f64 {
    let received = |ranks, groups| required::received(collective, row.size, ranks, groups);
    match scope {
        Scope::All => received(row.ranks, row.ranks),
        Scope::Between => received(row.ranks, nodes),
        Scope::Within => {
            let here = row.ranks / nodes.max(1);
            received(here, here) * nodes as f64
        }
    }
}

impl Moved {
    /// Adds the counters of all launches; `None` where none were read, or one was reset.
    pub fn of(records: &[&Folded], scope: Scope, nodes: usize) -> Option<Moved> {
        let mut all = Moved::default();
        let mut any = false;
        let mut nvlink = Some(0);
        // A launch without a row has no counts.
        for record in records.iter().filter(|record| !record.rows.is_empty()) {
            let counted = record.run.counted.as_ref()?;
            let is_read = |kind| counted.devices.values().any(|other| *other == kind);
            let hidden = |unread: &Unread| unread.kind == DeviceKind::Gpu && unread.hides_bytes();
            if !is_read(DeviceKind::Gpu) || counted.unread.iter().any(hidden) {
                nvlink = None;
            }
            let network = counted.devices.iter().filter(|(_, kind)| **kind != DeviceKind::Gpu);
            let read: BTreeSet<String> = network.map(|(name, _)| name.clone()).collect();
            all.read = if any { all.read.intersection(&read).cloned().collect() } else { read };
            let plan = &record.run.plan;
            for row in record.rows.iter().filter(|row| row.group == plan.colour(0)) {
                all.required += match row.benchmark {
                    Benchmark::Collective(collective) => {
                        of_ranks(collective, row, scope, nodes) * required::operations(row, plan)
                    }
                    // `Here::lone_ranks` waives pairs within nodes where there are none.
                    Benchmark::Messages(test) => required::exchanged(test, row, plan),
                    Benchmark::Pairs => continue,
                };
                any = true;
                for device in &row.counters {
                    if !device.reset.is_empty() || device.lost {
                        return None;
                    }
                    match device.kind {
                        DeviceKind::Gpu => {
                            let sent: u64 = device.of(Meaning::Sent).map(|(_, by)| by).sum();
                            nvlink = nvlink.map(|sum: u64| sum.saturating_add(sent));
                        }
                        DeviceKind::Rdma | DeviceKind::Interface => {
                            *all.network.entry(device.device.clone()).or_default() +=
                                device.moved();
                        }
                    }
                }
            }
        }
        all.nvlink = nvlink;
        (any && all.required > 0.0).then_some(all)
    }

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
