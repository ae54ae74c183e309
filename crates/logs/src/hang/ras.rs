//! Reports of NCCL's RAS as evidence.
//! Not their form (`busbw_library_logs::ras`).

use std::collections::{BTreeMap, HashMap};

use busbw_library_logs::ras::{RasCommunicator, RasReport};

use super::evidence::{Condition, Evidence, Group, Member, Process, Progress, Source};
use super::same::hash;

/// With this begins what RAS says of a process that does not answer it.
pub const BY_RAS: &str = "NCCL's RAS";

/// What is known of the reports so far: the second one of a job shows whether it goes on.
#[derive(Debug, Default)]
pub(super) struct Reports {
    groups: HashMap<String, usize>,
    /// RAS's address of a host, and the host's name by files of its processes.
    hosts: HashMap<String, String>,
}

impl Reports {
    /// Takes a report.
    pub(super) fn take(&mut self, report: &RasReport, name: &str, evidence: &mut Evidence) {
        if report.communicators.is_empty() {
            evidence.remark(format!("{name}: RAS knows no communicator"));
        }
        if report.ras.timeouts_count > 0 {
            let count = report.ras.timeouts_count;
            evidence.remark(format!("{name}: {count} answers did not reach RAS in time"));
        }
        self.name_hosts(report, evidence);
        for one in &report.communicators {
            let id = one.id();
            let before = self.groups.get(&id).copied();
            let mut progressed = before.map(|_| false);
            let mut members = BTreeMap::new();
            for rank in &one.ranks {
                if !evidence.has_room() {
                    return;
                }
                let process = self.process(one, rank.rank, &rank.host, rank.pid, evidence);
                let by_operation = rank.collective_counts.clone();
                let entered =
                    by_operation.values().fold(0, |all: u64, one| all.saturating_add(*one));
                let earlier = before
                    .and_then(|at| {
                        evidence.groups.get(at)?.members.get(&rank.rank)?.progress.as_ref()
                    })
                    .map(|progress| progress.entered);
                if earlier.is_some_and(|earlier| earlier < entered) {
                    progressed = Some(true);
                }
                if rank.status.async_error != 0 && rank.status.async_error != IN_PROGRESS {
                    evidence.remark(format!(
                        "{name}: rank {} of communicator {} met an error in the background (ncclResult_t {})",
                        rank.rank, one.hash, rank.status.async_error
                    ));
                }
                let progress =
                    Progress { entered, by_operation, counts_only: true, ..Progress::default() };
                members.insert(rank.rank, Member { process, progress: Some(progress) });
            }
            for rank in &one.missing_ranks {
                if !evidence.has_room() {
                    return;
                }
                let process = self.process(one, rank.rank, &rank.host, rank.pid, evidence);
                let condition = match (rank.status.considered_dead, rank.status.unresponsive) {
                    (true, _) => {
                        Condition::Died(format!("{BY_RAS} has given it up: it gives no answer"))
                    }
                    (_, true) => Condition::Stopped(format!("{BY_RAS} gets no answer from it")),
                    _ => Condition::Unknown,
                };
                if let Some(known) = evidence.processes.get_mut(process) {
                    known.becomes(condition);
                }
                members.entry(rank.rank).or_insert(Member { process, progress: None });
            }
            let group = Group {
                source: Source::Ras,
                name: format!("communicator {}", one.hash),
                id: id.clone(),
                ranks: Some(one.size).filter(|size| *size > 0),
                members,
                communicator: before.unwrap_or(evidence.groups.len()),
                progressed,
            };
            match before.and_then(|at| evidence.groups.get_mut(at)) {
                Some(known) => {
                    let ever = known.progressed == Some(true);
                    *known = group;
                    if ever {
                        known.progressed = Some(true);
                    }
                }
                None => {
                    self.groups.insert(id, evidence.groups.len());
                    evidence.groups.push(group);
                }
            }
        }
    }
}

impl Reports {
    /// RAS knows hosts by their addresses, files by their names: a process that both know by its communicator, rank and number says which is
    /// which.
    fn name_hosts(&mut self, report: &RasReport, evidence: &Evidence) {
        for one in &report.communicators {
            for rank in &one.ranks {
                let known = evidence.of_member(&hash(&one.hash), rank.rank);
                let known = known.and_then(|at| evidence.processes.get(at));
                if let Some(Process { host: Some(host), pid: Some(pid), .. }) = known
                    && rank.pid == Some(*pid)
                    && !rank.host.is_empty()
                {
                    self.hosts.entry(rank.host.clone()).or_insert_with(|| host.clone());
                }
            }
        }
    }

    /// The process of a rank; RAS may not know it.
    fn process(
        &self,
        of: &RasCommunicator,
        rank: u32,
        address: &str,
        pid: Option<u32>,
        evidence: &mut Evidence,
    ) -> usize {
        let hash = hash(&of.hash);
        let named = || {
            let pid = pid?;
            self.hosts.get(address).and_then(|host| evidence.known_pid(host, pid))
        };
        let process = match (evidence.of_member(&hash, rank).or_else(named), pid) {
            (Some(known), _) => known,
            (None, Some(pid)) => evidence.of_pid(address, pid, None),
            (None, None) => evidence.of_nobody(),
        };
        evidence.is_member(&hash, rank, process);
        process
    }
}

/// `ncclInProgress` of nccl.h.
const IN_PROGRESS: i64 = 7;
