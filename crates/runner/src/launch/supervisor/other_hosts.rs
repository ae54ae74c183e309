//! The counters of hosts other than this one, around each row: one worker of each host reads them when it is asked.
//! Not this host's (`counting`), and not what counters prove.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use busbw_core::record::{HostCounters, Row};

use super::Launch;
use crate::backend::NO_ADDRESS;

/// How long a host may take to answer: its own readings take 2 s at most. A row is written without those that are
/// missing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// The hosts that are asked, and what is still missing.
#[derive(Default)]
pub(super) struct OtherHosts {
    /// One process of each host, with the PCI addresses of the host's GPUs.
    asked: BTreeMap<usize, Option<Vec<String>>>,
    /// Processes that have not answered yet, and when that is given up.
    missing: BTreeSet<usize>,
    due: Option<Instant>,
    /// The number of the last question: a late answer to an earlier one is no answer to it.
    question: u64,
    /// What was counted over the row that is complete.
    answers: Vec<HostCounters>,
    row: Option<Box<Row>>,
}

impl Launch<'_> {
    /// Chooses the workers that are asked; none where ranks share this host, or form several communicators, whose
    /// rows overlap.
    pub(super) fn watch_other_hosts(&mut self) {
        let groups =
            (0..self.plan.ranks()).any(|rank| self.plan.colour(rank) != self.plan.colour(0));
        if !self.apart || groups {
            return;
        }
        let ours = &self.describe.run.machine.host;
        let devices = self.devices();
        let mut hosts = BTreeSet::new();
        for (number, process) in self.processes.iter().enumerate() {
            if process.is_worker() && process.host != *ours && hosts.insert(process.host.clone()) {
                let here = devices.iter().filter(|device| device.host == process.host);
                let gpus = here.map(|device| device.address.clone());
                let gpus = gpus.filter(|address| address != NO_ADDRESS).collect();
                let asked = (!self.describe.resources.is_amd()).then_some(gpus);
                self.other_hosts.asked.insert(number, asked);
            }
        }
    }

    /// Asks every other host: before a row, or after `row`, which then waits for the answers.
    pub(super) fn ask_other_hosts(&mut self, row: Option<Box<Row>>) {
        let after = row.is_some();
        self.other_hosts.row = row;
        self.other_hosts.answers.clear();
        // Who has not read its counters before the row cannot tell what grew in it.
        let unread = std::mem::take(&mut self.other_hosts.missing);
        self.other_hosts.question += 1;
        for (number, gpus) in &self.other_hosts.asked {
            // Its ranks may have finished already: the process stays until the run's end.
            let Some(process) = self.processes.get(*number) else { continue };
            process.read_counters(gpus.clone(), self.other_hosts.question, after);
            if !(after && unread.contains(number)) {
                self.other_hosts.missing.insert(*number);
            }
        }
        self.other_hosts.due = Some(Instant::now() + ANSWER_TIMEOUT);
    }

    /// A host has answered.
    pub(super) fn on_counters(&mut self, process: usize, question: u64, counters: HostCounters) {
        let asked = question == self.other_hosts.question;
        if asked && self.other_hosts.missing.remove(&process) && self.other_hosts.row.is_some() {
            self.other_hosts.answers.push(counters);
        }
    }

    /// Whether ranks still have to wait for a host's counters.
    pub(super) fn other_hosts_are_missing(&self) -> bool {
        let Some(due) = self.other_hosts.due else { return false };
        self.ending.is_none() && Instant::now() < due && !self.other_hosts.missing.is_empty()
    }

    /// The row that waited, with what all hosts counted.
    pub(super) fn row_of_all_hosts(&mut self) -> Option<Row> {
        let mut row = self.other_hosts.row.take()?;
        row.other_hosts = std::mem::take(&mut self.other_hosts.answers);
        row.other_hosts.sort_by(|a, b| a.host.cmp(&b.host));
        Some(*row)
    }
}
