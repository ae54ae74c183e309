//! The bytes that devices counted over an environment's launches, and the bytes that had to move.
//! Not what follows from them (`evidence`).

use std::collections::BTreeSet;

use busbw_analysis::sweep::{Moved, Scope};

use busbw_core::{
    Benchmark, Collective,
    record::{DeviceKind, Folded, Meaning, Row, Unread},
};

use super::required;

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
                        let sent = device.of(Meaning::Sent).map(|(_, by)| by);
                        let sent = sent.fold(0, u64::saturating_add);
                        nvlink = nvlink.map(|sum: u64| sum.saturating_add(sent));
                    }
                    DeviceKind::Rdma | DeviceKind::Interface => {
                        let sum = all.network.entry(device.device.clone()).or_default();
                        *sum = sum.saturating_add(device.moved());
                    }
                }
            }
        }
    }
    all.nvlink = nvlink;
    (any && all.required > 0.0).then_some(all)
}
