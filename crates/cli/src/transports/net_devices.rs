//! Evidence of the net backend: the interfaces or RDMA ports over which each rank's plugin had bytes acknowledged, or else the device
//! that it reports.
//! Not what devices counted (`counters`), and not NCCL's log.

use std::collections::BTreeSet;

use busbw_analysis::sweep::{EvidenceSource, Support};
use busbw_core::record::{Folded, NetFacts};

use nccl_plugin_abi::net_stats::NetPath;

use super::profile::TransportKind;

/// What one rank used.
struct Used {
    rank: usize,
    host: String,
    /// The plugin's name.
    plugin: String,
    /// Its file.
    path: String,
    /// Interfaces or devices; none where it sent nothing.
    devices: BTreeSet<String>,
}

/// The evidence over all launches, and the names of what ran.
pub(super) fn evidence(kind: &TransportKind, records: &[&Folded]) -> (String, EvidenceSource) {
    let measured: Vec<&&Folded> = records.iter().filter(|record| !record.rows.is_empty()).collect();
    let used: Vec<Used> = measured.iter().flat_map(|record| of_launch(record)).collect();
    let name = |one: &Used| {
        let devices = one.devices.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("NET/{} ({devices})", one.plugin)
    };
    let sent = || used.iter().filter(|one| !one.devices.is_empty());
    let names: BTreeSet<String> = sent().map(name).collect();
    let found = names.into_iter().collect::<Vec<_>>().join(", ");
    let silent = |why: &str| EvidenceSource::no_data(why);
    if measured.is_empty() {
        return (found, silent("nothing was measured"));
    }
    if measured.iter().any(|record| record.net.len() < record.run.devices.len()) {
        return (found, silent("not every rank's plugin reported its device"));
    }
    let fits = |one: &&Used| match kind {
        TransportKind::Socket(interface) => one.devices.iter().eq([interface]),
        TransportKind::Rdma { ports, .. } => {
            let names: Vec<String> =
                ports.iter().map(|(device, port)| format!("{device}:{port}")).collect();
            one.devices.iter().all(|used| names.contains(used))
        }
        TransportKind::Plugin(file) => one.path.ends_with(file.as_str()),
        _ => *kind == TransportKind::Default,
    };
    let misfits: BTreeSet<String> = sent()
        .filter(|one| !fits(one))
        .map(|one| format!("rank {} on {} used {}", one.rank, one.host, name(one)))
        .collect();
    let support = match (misfits.is_empty(), sent().any(|one| fits(&one))) {
        (true, true) => Support::Confirms,
        (true, false) => return (found, silent("no rank sent anything over the network")),
        (false, true) => Support::Partial,
        (false, false) => Support::Contradicts,
    };
    let detail = match misfits.is_empty() {
        true => found.clone(),
        false => misfits.into_iter().collect::<Vec<_>>().join(", "),
    };
    (found, EvidenceSource { support, detail })
}

fn of_launch(record: &Folded) -> impl Iterator<Item = Used> {
    record.net.iter().map(|facts| Used {
        rank: facts.rank,
        host: record.run.devices.get(facts.rank).map_or("?", |device| &device.host).to_owned(),
        plugin: facts.plugin.clone(),
        path: facts.path.clone(),
        devices: interfaces(record, facts)
            .unwrap_or_else(|| BTreeSet::from([facts.device_name.clone()])),
    })
}

/// The interfaces, or RDMA ports, over which a rank had bytes acknowledged; none without busbw's plugin's statistics.
fn interfaces(record: &Folded, facts: &NetFacts) -> Option<BTreeSet<String>> {
    let stats = record.paths.iter().find(|stats| stats.rank == Some(facts.rank))?;
    let paths = stats.connections.iter().flat_map(|connection| &connection.paths);
    let used = paths.filter(|path| path.bytes > 0);
    let name = |path: &NetPath| {
        if path.port.is_some() {
            return path.port.clone();
        }
        let address = path.local?.ip();
        let own = stats.interfaces.iter().find(|interface| interface.address == address)?;
        Some(own.name.clone())
    };
    used.map(name).collect()
}
