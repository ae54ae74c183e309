//! The bytes that the devices of all hosts counted over an environment's launches, and the bytes that had to move.
//! Not what follows from them (`evidence`).

use std::collections::{BTreeMap, BTreeSet};

use busbw_analysis::sweep::{Moved, Scope};

use busbw_core::{
    Benchmark, Collective,
    record::{DeviceKind, Folded, Meaning, Row},
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

/// Adds the counters of all launches and hosts; `None` where none were read, one was reset, a host is missing, or hosts
/// have unlike numbers of ranks, so that the bytes that had to move are not known.
pub fn of(records: &[&Folded], scope: Scope, virtual_nodes: usize) -> Option<Moved> {
    let mut all = Moved::default();
    let mut any = false;
    let mut nvlink = Some(0);
    // A launch without a row has no counts.
    for record in records.iter().filter(|record| !record.rows.is_empty()) {
        let counted = record.run.counted.as_ref()?;
        let hosts = hosts(record)?;
        let nodes = if hosts.len() > 1 { hosts.len() } else { virtual_nodes };
        let plan = &record.run.plan;
        for row in record.rows.iter().filter(|row| row.group == plan.colour(0)) {
            all.required += match row.benchmark {
                Benchmark::Collective(collective) => {
                    of_ranks(collective, row, scope, nodes) * required::operations(row, plan)
                }
                // `Here::lone_ranks` waives pairs within nodes where there are none.
                Benchmark::Messages(test) => required::exchanged(test, row, plan),
                Benchmark::Pairs | Benchmark::Replay => continue,
            };
            let ours = (&record.run.machine.host, counted.with_bytes(), &row.counters);
            let others = row.other_hosts.iter();
            let others = others.map(|one| (&one.host, one.devices.clone(), &one.counters));
            for (host, devices, counters) in std::iter::once(ours).chain(others) {
                if !devices.values().any(|kind| *kind == DeviceKind::Gpu) {
                    nvlink = None;
                }
                let network = devices.iter().filter(|(_, kind)| **kind != DeviceKind::Gpu);
                let read: BTreeSet<String> = network.map(|(name, _)| name.clone()).collect();
                all.read = if any { all.read.intersection(&read).cloned().collect() } else { read };
                any = true;
                for device in counters {
                    if !device.reset.is_empty() || device.lost {
                        return None;
                    }
                    if device.kind == DeviceKind::Gpu {
                        let sent = device.of(Meaning::Sent).map(|(_, by)| by);
                        let sent = sent.fold(0, u64::saturating_add);
                        nvlink = nvlink.map(|sum: u64| sum.saturating_add(sent));
                        continue;
                    }
                    add(&mut all.network, &device.device, device.moved());
                    let of_host = all.hosts.entry(host.clone()).or_default();
                    add(of_host, &device.device, device.moved());
                }
                all.hosts.entry(host.clone()).or_default();
            }
            if row.other_hosts.len() + 1 < hosts.len() {
                return None;
            }
        }
    }
    all.nvlink = nvlink;
    if all.hosts.len() < 2 {
        all.hosts.clear();
    }
    (any && all.required > 0.0).then_some(all)
}

fn add(to: &mut BTreeMap<String, u64>, device: &str, bytes: u64) {
    let sum = to.entry(device.to_owned()).or_default();
    *sum = sum.saturating_add(bytes);
}

/// The hosts of a record's ranks; none where they have unlike numbers of ranks.
fn hosts(record: &Folded) -> Option<BTreeSet<&str>> {
    let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
    record.run.devices.iter().for_each(|device| *ranks.entry(&device.host).or_default() += 1);
    let mut counts = ranks.values();
    let first = counts.next();
    counts.all(|count| Some(count) == first).then(|| ranks.into_keys().collect())
}
