//! The closing sentence of a run: the transports that MPI named, the source of each, and what is
//! unknown.
//! Not bytes: only counters show those.

use std::collections::{BTreeMap, BTreeSet};

use super::MpiFacts;

/// The transports in one sentence, over the facts of all processes, such as `transports set up: PML
/// ob1, 12 connections vader, 4 tcp (Open MPI's log)`. A connection leads from one rank to another;
/// the opposite direction is another one.
pub fn transports_named(facts: &[MpiFacts]) -> String {
    let mut parts = Vec::new();
    let devices: BTreeSet<&str> = facts.iter().filter_map(|one| one.device.as_deref()).collect();
    if !devices.is_empty() {
        parts.push(format!("device {} (MPICH's version)", join(devices)));
    }
    let pmls: BTreeSet<&str> = facts.iter().filter_map(|one| one.pml.as_deref()).collect();
    if !pmls.is_empty() {
        let mut named = vec![format!("PML {}", join(pmls))];
        for (btl, connections) in connections(facts) {
            let noun = match (named.len(), connections) {
                (1, 1) => " connection",
                (1, _) => " connections",
                _ => "",
            };
            named.push(format!("{connections}{noun} {btl}"));
        }
        parts.push(format!("{} (Open MPI's log)", named.join(", ")));
    }
    let lanes = lanes(facts);
    if !lanes.is_empty() {
        parts.push(format!("lanes {} (UCX's log)", join(lanes)));
    }
    if parts.is_empty() {
        parts.push("no line names any".to_owned());
    }
    let unknown: BTreeSet<&str> =
        facts.iter().flat_map(|one| &one.unknown).map(String::as_str).collect();
    let mut sentence = format!("transports set up: {}", parts.join(", "));
    if !unknown.is_empty() {
        sentence.push_str(&format!("; not proven: {}", join(unknown)));
    }
    sentence
}

/// The number of connections of each BTL, without those of processes to themselves.
pub fn connections(facts: &[MpiFacts]) -> BTreeMap<&str, u64> {
    let mut all = BTreeMap::new();
    for one in facts {
        for btl in one.btls.keys() {
            *all.entry(btl.as_str()).or_default() += one.connections(btl);
        }
    }
    all.retain(|_, connections| *connections > 0);
    all
}

/// The lanes for messages of UCX's endpoints to other processes.
pub fn lanes(facts: &[MpiFacts]) -> BTreeSet<&str> {
    let endpoints = facts.iter().flat_map(MpiFacts::endpoints);
    endpoints.flat_map(|endpoint| endpoint.for_messages()).map(String::as_str).collect()
}

fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}
