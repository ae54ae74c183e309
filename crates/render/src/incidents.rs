//! Incidents of devices while a row was measured: throttled GPUs, errors of links and memory.
//! Not bytes, and not congestion, which is normal load of a network: those are in the record.

use std::collections::BTreeMap;

use busbw_core::record::{DeviceCounters, Meaning, Row};

use super::variant::named;

/// One sentence for each kind of incident of a row.
pub(super) fn incidents(row: &Row) -> Vec<String> {
    let during = format!(
        "while {} size {} {} {}{} was measured",
        row.benchmark.name(),
        row.size,
        row.datatype.name(),
        row.redop,
        named(row)
    );
    // The incident, and the devices that report it.
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for device in &row.counters {
        let mut note = |what, said: Option<String>| {
            if let Some(said) = said {
                kinds.entry(what).or_default().push(format!("{} ({said})", device.device));
            }
        };
        note("GPUs were throttled", throttled(device));
        note("links erred", events(device, Meaning::LinkError));
        note("data was sent again", events(device, Meaning::SentAgain));
        note("memory of GPUs erred", events(device, Meaning::MemoryError));
        note("drivers reported errors (XID)", numbers(&device.xids));
        note("counters were reset, so that nothing is known of them", list(&device.reset));
        let lost = "its counters are not read any more".to_owned();
        note("devices stopped answering", device.lost.then_some(lost));
    }
    kinds.iter().map(|(what, who)| format!("{during}, {what}: {}", who.join(", "))).collect()
}

/// Duration and reason, such as `power 41.2 ms; at the row's beginning or end: power cap`.
fn throttled(device: &DeviceCounters) -> Option<String> {
    let name =
        |name: &str| name.trim_start_matches("throttled_").trim_end_matches("_ns").to_owned();
    let times: Vec<String> = device
        .of(Meaning::Throttled)
        .map(|(counter, ns)| format!("{} {:.3} ms", name(counter), ns as f64 / 1e6))
        .collect();
    let seen = list(&device.throttled).map(|seen| format!("at the row's beginning or end: {seen}"));
    let said: Vec<String> = list(&times).into_iter().chain(seen).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn events(device: &DeviceCounters, meaning: Meaning) -> Option<String> {
    let events: Vec<String> = device.of(meaning).map(|(name, by)| format!("{name} {by}")).collect();
    list(&events)
}

fn numbers(numbers: &[u64]) -> Option<String> {
    list(&numbers.iter().map(u64::to_string).collect::<Vec<_>>())
}

fn list(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}
