//! Evidence of the net backend: the device that each rank's plugin gave it, by the plugin's own properties.
//! Not whether bytes went there (`counters`), and not NCCL's log.

use std::collections::BTreeSet;

use busbw_analysis::sweep::{EvidenceSource, Support};
use busbw_core::record::{Folded, NetFacts};

use super::profile::TransportKind;

/// The evidence over all launches, and the names of what ran.
pub(super) fn evidence(kind: &TransportKind, records: &[&Folded]) -> (String, EvidenceSource) {
    let measured = || records.iter().filter(|record| !record.rows.is_empty());
    let facts = || measured().flat_map(|record| &record.net);
    let name = |one: &NetFacts| format!("NET/{} ({})", one.plugin, one.device_name);
    let names: BTreeSet<String> = facts().map(name).collect();
    let found = names.into_iter().collect::<Vec<_>>().join(", ");
    let silent = |why: &str| EvidenceSource::no_data(why);
    if measured().next().is_none() {
        return (found, silent("nothing was measured"));
    }
    let ranks = |record: &&&Folded| record.net.len() == record.run.devices.len();
    if !measured().all(|record| ranks(&record)) {
        return (found, silent("not every rank's plugin named its device"));
    }
    let fits = |one: &NetFacts| match kind {
        TransportKind::Socket(interface) => one.device_name == *interface,
        TransportKind::Plugin(file) => one.path.ends_with(file.as_str()),
        TransportKind::Default => true,
        _ => false,
    };
    let misfits: BTreeSet<String> = measured()
        .flat_map(|record| record.net.iter().map(move |one| (one, &record.run.devices)))
        .filter(|(one, _)| !fits(one))
        .map(|(one, devices)| {
            let host = devices.get(one.rank).map_or("?", |device| &device.host);
            format!("rank {} on {host} used {}", one.rank, one.device_name)
        })
        .collect();
    let support = match misfits.len() {
        0 => Support::Confirms,
        _ if facts().any(fits) => Support::Partial,
        _ => Support::Contradicts,
    };
    let detail = match misfits.is_empty() {
        true => found.clone(),
        false => misfits.into_iter().collect::<Vec<_>>().join(", "),
    };
    (found, EvidenceSource { support, detail })
}
