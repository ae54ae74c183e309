//! What logs say of failures, as evidence: who died, and how far PyTorch's watchdogs saw each rank come.
//! Not the lines (`busbw_library_logs::failure`).

use std::collections::BTreeMap;

use busbw_library_logs::failure::{FailureFacts, Incident, Kind};

use super::evidence::{Call, Condition, Evidence, Group, Member, Progress, Source};

/// Takes what the log `name` says.
pub(super) fn take(facts: &FailureFacts, name: &str, evidence: &mut Evidence) {
    for incident in facts.incidents.iter().filter(|one| !one.consequence) {
        let how = match incident.kind {
            Kind::Killed => "was killed by signal 9 (SIGKILL)".to_owned(),
            Kind::OomKill => "was ended by the out-of-memory killer".to_owned(),
            Kind::Crashed | Kind::Aborted => match incident.details.signal {
                Some(signal) => format!("died of signal {signal}"),
                None => "crashed".to_owned(),
            },
            Kind::GpuHardware | Kind::GpuFault => "met a fault of its GPU".to_owned(),
            _ => continue,
        };
        // A data loader's process is no rank.
        if incident.details.name.as_deref() == Some("data loader") {
            continue;
        }
        for rank in &incident.ranks {
            let at = evidence.of_rank(*rank);
            if let Some(process) = evidence.processes.get_mut(at) {
                process
                    .becomes(Condition::Died(format!("{how} (line {} of {name})", incident.line)));
                if let ([host], [pid]) = (&set(&incident.hosts)[..], &set(&incident.pids)[..]) {
                    process.host.get_or_insert_with(|| host.clone());
                    process.pid.get_or_insert(*pid);
                }
            }
        }
    }
    progress(facts, evidence);
}

fn set<T: Clone>(all: &std::collections::BTreeSet<T>) -> Vec<T> {
    all.iter().cloned().collect()
}

/// The groups whose watchdogs spoke.
fn progress(facts: &FailureFacts, evidence: &mut Evidence) {
    let waits: Vec<&Incident> =
        facts.incidents.iter().filter(|one| one.kind == Kind::WatchdogTimeout).collect();
    let mut groups: BTreeMap<&str, BTreeMap<u32, Progress>> = BTreeMap::new();
    for one in &facts.progress {
        let progress = groups.entry(&one.group).or_default().entry(one.rank).or_default();
        progress.entered = one.enqueued;
        for number in (one.completed.saturating_add(1)..=one.enqueued).take(1) {
            let wait = waits.iter().find(|wait| {
                wait.ranks.contains(&one.rank) && wait.details.sequence == Some(number)
            });
            let call = Call {
                operation: wait
                    .and_then(|wait| wait.details.op.clone())
                    .unwrap_or_else(|| "a collective".to_owned()),
                number,
                elements: None,
                waited_ms: wait.and_then(|wait| wait.details.milliseconds),
                ..Call::default()
            };
            progress.open.insert(number, call);
        }
    }
    for (name, members) in groups {
        // Only of the default group a member's rank is the job's.
        let whole = name.contains("default_pg");
        let group = Group {
            source: Source::Log,
            id: name.to_owned(),
            name: format!("process group {}", inner(name)),
            ranks: None,
            members: BTreeMap::new(),
            communicator: evidence.groups.len(),
            progressed: None,
        };
        let mut group = group;
        for (rank, progress) in members {
            if !whole || !evidence.has_room() {
                continue;
            }
            let process = evidence.of_rank(rank);
            group.members.insert(rank, Member { process, progress: Some(progress) });
        }
        if !group.members.is_empty() {
            evidence.groups.push(group);
        }
    }
}

/// `ID 0 PG GUID 0(default_pg)` as `0 (default_pg)`.
fn inner(name: &str) -> String {
    let guid = name.rsplit("GUID ").next().unwrap_or(name);
    guid.replacen('(', " (", 1)
}
