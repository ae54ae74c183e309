//! Other differences between two sides: versions, devices, options, settings. They may explain a difference in speed.
//! Not differences of figures.

use std::collections::{BTreeMap, BTreeSet};

use busbw_logs::measurement::{Device, Measurement};
use serde::Serialize;

use busbw_core::quantity::list;

/// A fact that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// Its name: `NCCL`, `device`, `NCCL_ALGO`.
    pub what: String,
    /// Value of the baseline.
    pub baseline: String,
    /// Value of the candidate.
    pub candidate: String,
}

/// Facts that both sides state and that differ; settings also where only one side has them.
pub(super) fn between(baseline: &[Measurement], candidate: &[Measurement]) -> Vec<Difference> {
    let facts: [(&str, Fact); 6] = [
        ("NCCL", |run| run.nccl.iter().cloned().collect()),
        ("device", |run| names(run, |device| &device.name)),
        ("host", |run| names(run, |device| &device.host)),
        ("hosts", |run| run.hosts.iter().map(usize::to_string).collect()),
        ("program", |run| run.source.version.iter().cloned().collect()),
        ("memory", |run| {
            run.test.memory.iter().map(|m| format!("{:?}", m.value).to_lowercase()).collect()
        }),
    ];
    let mut found: Vec<Difference> = facts
        .iter()
        .filter_map(|(what, fact)| {
            let (a, b) = (stated(baseline, *fact)?, stated(candidate, *fact)?);
            difference(what, a, b)
        })
        .collect();
    let (a, b) = (options(baseline), options(candidate));
    for (name, one) in &a {
        // The other side may have used the same option without stating it.
        let other = b.get(name).cloned();
        found.extend(other.and_then(|other| difference(name, one.clone(), other)));
    }
    let (a, b) = (settings(baseline), settings(candidate));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        if let (Some(one), Some(other)) = (value(name, &a, baseline), value(name, &b, candidate)) {
            found.extend(difference(name, one, other));
        }
    }
    found
}

/// A setting's value. A record without it was measured with it unset; a log without it proves nothing.
fn value(name: &str, of: &BTreeMap<String, String>, runs: &[Measurement]) -> Option<String> {
    let recorded = runs.iter().all(|run| run.source.form.facts().recorded);
    of.get(name).cloned().or(recorded.then(|| "unset".to_owned()))
}

/// A fact of a run: the set of its values.
type Fact = fn(&Measurement) -> BTreeSet<String>;

fn names(run: &Measurement, of: fn(&Device) -> &String) -> BTreeSet<String> {
    run.devices.iter().map(of).filter(|name| !name.is_empty()).cloned().collect()
}

fn stated(runs: &[Measurement], fact: Fact) -> Option<String> {
    let all: BTreeSet<String> = runs.iter().flat_map(fact).collect();
    let all: Vec<String> = all.into_iter().collect();
    (!all.is_empty()).then(|| list(&all, "and"))
}

fn difference(what: &str, baseline: String, candidate: String) -> Option<Difference> {
    (baseline != candidate).then(|| Difference { what: what.to_owned(), baseline, candidate })
}

/// The options that the runs were measured with.
fn options(runs: &[Measurement]) -> BTreeMap<String, String> {
    joined(runs.iter().flat_map(|run| &run.options))
}

/// Settings of the environment, where all runs that recorded one agree.
fn settings(runs: &[Measurement]) -> BTreeMap<String, String> {
    joined(runs.iter().flat_map(|run| &run.environment))
}

fn joined<'a>(stated: impl Iterator<Item = (&'a String, &'a String)>) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in stated {
        found.entry(name.clone()).or_default().insert(value.clone());
    }
    found
        .into_iter()
        .map(|(name, values)| (name, values.into_iter().collect::<Vec<_>>().join(" or ")))
        .collect()
}
