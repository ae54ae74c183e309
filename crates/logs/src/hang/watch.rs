//! Files of busbw's profiler as evidence.
//! Not their form (`busbw_watch_file`).
//!
//! NCCL counts a communicator's calls of each operation, so that the number of calls in all is the sum over the operations,
//! and the same on all ranks.

use std::collections::{BTreeMap, HashMap};

use busbw_watch_file::{Class, Heartbeat, Line, OpenCall, WatchFile};

use super::evidence::{Call, Condition, Evidence, Group, Member, Message, Progress, Source};

/// How long a file may be without a heartbeat while others have some, ns: heartbeats come each second.
const SILENCE: u64 = 5_000_000_000;
/// An open call is written again with each heartbeat; older ones ended, ns.
const OPEN_WITHIN: u64 = 4_000_000_000;
/// Calls of a process by which its clock is aligned.
const MAX_ALIGNED: usize = 4096;

/// What a process wrote, in all its files.
#[derive(Debug, Default)]
struct Written {
    began: u64,
    heartbeat: Option<Heartbeat>,
    finished: bool,
    /// Times on the GPU are known: a call without a channel that began has not begun.
    timed: bool,
    communicators: BTreeMap<u32, Seen>,
    job: Option<String>,
}

#[derive(Debug, Default)]
struct Seen {
    id: String,
    name: String,
    ranks: u32,
    rank: u32,
    /// By operation: calls so far.
    counts: BTreeMap<String, u64>,
    totals: BTreeMap<Class, u64>,
    /// By peer and direction: messages so far.
    messages: BTreeMap<(u32, bool), u64>,
    open: HashMap<(Class, u64), OpenCall>,
    /// When calls that ended were asked for: ns since the process began to write.
    asked: HashMap<(String, u64), u64>,
}

/// What is known of the processes so far.
#[derive(Debug, Default)]
pub(super) struct Watches {
    all: HashMap<usize, Written>,
}

impl Watches {
    /// Takes a file.
    pub(super) fn take(&mut self, file: &WatchFile, name: &str, evidence: &mut Evidence) {
        let process = &file.process;
        let at = evidence.of_pid(&process.host, process.pid, process.rank);
        if let Some(known) = evidence.processes.get_mut(at) {
            known.files.push(name.to_owned());
            known.began.get_or_insert(process.began);
        }
        if file.unread > 0 {
            evidence.remark(format!("{name}: {} lines could not be read", file.unread));
        }
        let written = self.all.entry(at).or_default();
        if written.began != 0 && written.began != process.began {
            return evidence.remark(format!(
                "{name} is left out: process {} on {} began at another time in another file",
                process.pid, process.host
            ));
        }
        written.began = process.began;
        written.job.clone_from(&process.job);
        file.lines.iter().for_each(|line| written.line(line));
    }

    /// Whether files of two jobs are among them.
    fn jobs(&self, evidence: &mut Evidence) {
        let mut jobs: Vec<&str> = self.all.values().filter_map(|one| one.job.as_deref()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.len() > 1 {
            let text =
                format!("files of {} jobs: {}; name those of one", jobs.len(), jobs.join(", "));
            evidence.remark(text);
        }
    }

    /// All files were read.
    pub(super) fn finish(self, evidence: &mut Evidence) {
        self.jobs(evidence);
        let mut order: Vec<(usize, Written)> = self.all.into_iter().collect();
        order.sort_unstable_by_key(|(at, _)| *at);
        let ends = ends(&order);
        let newest = ends.iter().filter_map(|end| *end).max();
        let mut groups: HashMap<String, usize> = HashMap::new();
        for ((at, written), end) in order.iter().zip(&ends) {
            let behind =
                newest.zip(*end).and_then(|(newest, end)| u64::try_from(newest - end).ok());
            let condition = match behind {
                _ if written.finished => Condition::Finished,
                Some(behind) if behind >= SILENCE => Condition::Silent(behind / 1_000_000),
                Some(_) => Condition::Alive,
                None => Condition::Unknown,
            };
            if let Some(process) = evidence.processes.get_mut(*at) {
                process.becomes(condition);
            }
            for (number, seen) in &written.communicators {
                // Before NCCL 2.27 there is no name that all ranks share.
                let id = match seen.id.as_str() {
                    "" => format!("{number} of process {at}"),
                    id => id.to_owned(),
                };
                if !evidence.has_room() {
                    return;
                }
                evidence.is_member(&hash(&id), seen.rank, *at);
                let group = *groups.entry(id.clone()).or_insert_with(|| {
                    let name = match seen.name.as_str() {
                        "" => format!("communicator {id}"),
                        name => format!("communicator {name}"),
                    };
                    evidence.groups.push(Group {
                        source: Source::Watch,
                        id,
                        name,
                        ranks: Some(seen.ranks).filter(|ranks| *ranks > 0),
                        members: BTreeMap::new(),
                        progressed: None,
                    });
                    evidence.groups.len() - 1
                });
                let progress = Some(seen.progress(written));
                if let Some(group) = evidence.groups.get_mut(group) {
                    group.members.insert(seen.rank, Member { process: *at, progress });
                }
            }
        }
    }
}

/// NCCL's hash of a communicator without the form of its source.
pub(super) fn hash(id: &str) -> String {
    id.trim_start_matches("0x").trim_start_matches('0').to_ascii_lowercase()
}

/// When each process last gave a sign, ns by the clock of the first: clocks of hosts are aligned by the calls that
/// processes made together, which all ranks make at about one time.
fn ends(order: &[(usize, Written)]) -> Vec<Option<i128>> {
    let asked = |written: &Written| -> HashMap<(String, String, u64), i128> {
        let mut all = HashMap::new();
        for seen in written.communicators.values().filter(|seen| !seen.id.is_empty()) {
            for ((operation, sequence), at) in &seen.asked {
                let key = (seen.id.clone(), operation.clone(), *sequence);
                all.insert(key, i128::from(written.began) + i128::from(*at));
            }
        }
        all
    };
    let mut known: HashMap<(String, String, u64), i128> = HashMap::new();
    order
        .iter()
        .map(|(_, written)| {
            let own = asked(written);
            let mut off: Vec<i128> =
                own.iter().filter_map(|(key, at)| Some(at - known.get(key)?)).collect();
            off.sort_unstable();
            let offset = off.get(off.len() / 2).copied().unwrap_or_default();
            own.into_iter().for_each(|(key, at)| {
                known.entry(key).or_insert(at - offset);
            });
            let last = written.heartbeat.map(|beat| beat.at)?;
            Some(i128::from(written.began) + i128::from(last) - offset)
        })
        .collect()
}

impl Written {
    fn line(&mut self, line: &Line) {
        match line {
            Line::Communicator(one) => {
                let seen = self.communicators.entry(one.number).or_default();
                seen.id.clone_from(&one.id);
                seen.name.clone_from(&one.name);
                (seen.ranks, seen.rank) = (one.ranks, one.rank);
            }
            Line::Calls(calls) => {
                let Some(seen) = self.communicators.get_mut(&calls.class.communicator) else {
                    return;
                };
                for call in &calls.calls {
                    self.timed |= call.started.is_some();
                    seen.count(&calls.class, call.sequence);
                    seen.open.remove(&(calls.class.clone(), call.sequence));
                    if calls.class.peer.is_none() && seen.asked.len() < MAX_ALIGNED {
                        let key = (calls.class.operation.clone(), call.sequence);
                        seen.asked.insert(key, call.enqueued);
                    }
                }
            }
            Line::Open(call) => {
                let Some(seen) = self.communicators.get_mut(&call.class.communicator) else {
                    return;
                };
                seen.count(&call.class, call.sequence);
                seen.open.insert((call.class.clone(), call.sequence), call.clone());
            }
            Line::Totals(totals) => {
                let Some(seen) = self.communicators.get_mut(&totals.class.communicator) else {
                    return;
                };
                if totals.class.peer.is_none() {
                    seen.totals.insert(totals.class.clone(), totals.calls);
                }
            }
            Line::Heartbeat(beat) => self.heartbeat = Some(*beat),
            Line::End(end) => self.finished = end.why == "finished",
            // Others, and those of a newer plugin, say nothing of who waits.
            _ => {}
        }
    }
}

impl Seen {
    fn count(&mut self, class: &Class, sequence: u64) {
        if let Some(peer) = class.peer {
            let known = self.messages.entry((peer, class.operation == "Send")).or_default();
            *known = (*known).max(sequence.saturating_add(1));
        } else {
            let known = self.counts.entry(class.operation.clone()).or_default();
            *known = (*known).max(sequence.saturating_add(1));
        }
    }

    fn progress(&self, written: &Written) -> Progress {
        let mut by_operation = self.counts.clone();
        let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
        for (class, calls) in &self.totals {
            let of = totals.entry(&class.operation).or_default();
            *of = of.saturating_add(*calls);
        }
        for (operation, calls) in totals {
            let known = by_operation.entry(operation.to_owned()).or_default();
            *known = (*known).max(calls);
        }
        let entered = by_operation.values().fold(0, |all: u64, calls| all.saturating_add(*calls));
        let newest = written.heartbeat.map_or(0, |beat| beat.at);
        let mut open: Vec<&OpenCall> =
            self.open.values().filter(|one| one.at.saturating_add(OPEN_WITHIN) >= newest).collect();
        open.sort_by_key(|one| (one.enqueued, one.sequence));
        let (messages, collectives): (Vec<&OpenCall>, Vec<&OpenCall>) =
            open.into_iter().partition(|one| one.class.peer.is_some());
        // A file may claim any number; calls behind it are still counted.
        let first = entered.saturating_sub(collectives.len() as u64).min(u64::MAX >> 1);
        let call = |one: &OpenCall| Call {
            operation: snake(&one.class.operation),
            number: one.sequence,
            elements: Some(one.class.count),
            datatype: one.class.datatype.clone(),
            waited_ms: Some(one.at.saturating_sub(one.enqueued) / 1_000_000),
            since: Some(written.began.saturating_add(one.enqueued)),
            started: match one.channels_started {
                0 => written.timed.then_some(false),
                _ => Some(true),
            },
            place: None,
        };
        Progress {
            entered,
            open: (first + 1..).zip(collectives.into_iter().map(call)).collect(),
            over: BTreeMap::new(),
            counts_only: false,
            by_operation,
            messages: messages
                .into_iter()
                .filter_map(|one| {
                    let is_send = one.class.operation == "Send";
                    let nth = Some(one.sequence.saturating_add(1));
                    Some(Message { peer: one.class.peer?, is_send, nth, call: call(one) })
                })
                .collect(),
            has_all_messages: true,
            messages_made: self.messages.clone(),
        }
    }
}

/// `AllReduce` as PyTorch and busbw write it.
pub(super) fn snake(name: &str) -> String {
    match name {
        "AlltoAll" => return "all_to_all".to_owned(),
        name if name.contains('_') => return name.to_owned(),
        _ => {}
    }
    let mut out = String::new();
    for c in name.chars().take(64) {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
