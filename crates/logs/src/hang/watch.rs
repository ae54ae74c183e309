//! Files of busbw's profiler as evidence.
//! Not their form (`busbw_watch_file`).
//!
//! NCCL counts a communicator's calls of each operation, so that the number of calls in all is the sum over the operations,
//! and the same on all ranks.

use std::collections::{BTreeMap, HashMap, VecDeque};

use busbw_watch_file::{Class, Heartbeat, Line, OpenCall, WatchFile};

use super::evidence::{
    Call, Condition, Evidence, Group, KEPT_CALLS, Member, Message, Progress, Source,
};
use super::same::hash;

/// How long a file may be without a heartbeat while others have some, ns: heartbeats come each second.
const SILENCE: u64 = 5_000_000_000;
/// An open call is written again with each heartbeat; older ones ended, ns.
const OPEN_WITHIN: u64 = 4_000_000_000;
/// Calls of a process by which its clock is aligned.
const MAX_ALIGNED: usize = 4096;

/// What a process wrote, in all its files.
#[derive(Debug, Default)]
struct Written {
    /// Its host and the boot of it: processes of one have one clock.
    host: (String, Option<String>),
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
    /// Classes of collectives that ended, and the newest of their calls.
    classes: Vec<Class>,
    ended: VecDeque<Ended>,
    /// All collectives that ended.
    all_ended: u64,
    /// When calls that ended were asked for: ns since the process began to write.
    asked: HashMap<(String, u64), u64>,
}

/// A collective that ended, or whose kernel was not timed.
#[derive(Debug, Clone, Copy)]
struct Ended {
    /// Its class's place.
    class: usize,
    /// NCCL's number of it.
    sequence: u64,
    /// When it was asked for, ns since the process began to write.
    enqueued: u64,
    /// Whether its end was seen.
    timed: bool,
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
            known.boot = known.boot.take().or_else(|| process.boot.clone());
            known.pid_namespace = known.pid_namespace.or(process.pid_namespace);
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
        written.host = (process.host.clone(), process.boot.clone());
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
                        communicator: evidence.groups.len(),
                        progressed: None,
                    });
                    evidence.groups.len() - 1
                });
                // Of a process that wrote its first lines and no more nothing says how far it came.
                let is_known = written.heartbeat.is_some() || !seen.counts.is_empty();
                let kept = evidence.room_for_calls();
                let progress = is_known.then(|| seen.progress(written, kept));
                evidence.keeps_calls(progress.as_ref().map_or(0, |one| one.over.len()));
                if let Some(group) = evidence.groups.get_mut(group) {
                    group.members.insert(seen.rank, Member { process: *at, progress });
                }
            }
        }
    }
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
    let mut hosts: HashMap<&(String, Option<String>), i128> = HashMap::new();
    let aligned: Vec<Option<i128>> = order
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
            hosts.entry(&written.host).or_insert(offset);
            Some(i128::from(written.began) + i128::from(last) - offset)
        })
        .collect();
    // Who wrote no heartbeat gave a sign when it began, by the clock that others of its host have.
    let began =
        |written: &Written| Some(i128::from(written.began) - hosts.get(&written.host).copied()?);
    order.iter().zip(aligned).map(|((_, one), end)| end.or_else(|| began(one))).collect()
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
                    seen.end(&calls.class, call);
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

    /// Keeps a collective that ended.
    fn end(&mut self, class: &Class, call: &busbw_watch_file::Call) {
        if class.peer.is_some() {
            return;
        }
        self.all_ended += 1;
        let class = match self.classes.iter().rposition(|one| one == class) {
            Some(place) => place,
            None if self.classes.len() < KEPT_CALLS => {
                self.classes.push(class.clone());
                self.classes.len() - 1
            }
            None => return,
        };
        if self.ended.len() == KEPT_CALLS {
            self.ended.pop_front();
        }
        let (sequence, enqueued) = (call.sequence, call.enqueued);
        self.ended.push_back(Ended { class, sequence, enqueued, timed: call.duration.is_some() });
    }

    fn progress(&self, written: &Written, kept: usize) -> Progress {
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
        let (messages, open): (Vec<&OpenCall>, Vec<&OpenCall>) =
            open.into_iter().partition(|one| one.class.peer.is_some());
        let mut ended = self.ended.iter().copied().collect::<Vec<_>>();
        ended.sort_by_key(|one| (one.enqueued, one.sequence));
        // Files that were put aside twice, and calls for which there was no room, are missing.
        let has_gaps = self.all_ended.saturating_add(open.len() as u64) != entered;
        // A file may claim any number; calls behind it are still counted.
        let behind = |calls: usize| entered.saturating_sub(calls as u64).min(u64::MAX >> 1);
        let first_open = behind(open.len());
        let first_over = behind(open.len() + ended.len());
        let left_out = ended.len().saturating_sub(kept);
        let ended = (first_over + 1..).zip(&ended).skip(left_out);
        Progress {
            entered,
            open: (first_open + 1..)
                .zip(open)
                .map(|(number, one)| (number, open_call(number, one, written)))
                .collect(),
            over: ended
                .filter(|(number, _)| *number <= first_open)
                .filter_map(|(number, one)| {
                    let class = self.classes.get(one.class)?;
                    let since = Some(written.began.saturating_add(one.enqueued));
                    let stands = (!one.timed).then(|| newest.saturating_sub(one.enqueued));
                    let waited_ms = stands.map(|ns| ns / 1_000_000);
                    let call = call(number, class, one.sequence);
                    Some((number, Call { since, waited_ms, end_unknown: !one.timed, ..call }))
                })
                .collect(),
            has_gaps,
            counts_only: false,
            by_operation,
            messages: messages
                .into_iter()
                .filter_map(|one| {
                    let is_send = one.class.operation == "Send";
                    let nth = one.sequence.saturating_add(1);
                    let call =
                        Call { elements: Some(one.class.count), ..open_call(nth, one, written) };
                    Some(Message { peer: one.class.peer?, is_send, nth: Some(nth), call })
                })
                .collect(),
            has_all_messages: true,
            messages_made: self.messages.clone(),
        }
    }
}

fn open_call(number: u64, one: &OpenCall, written: &Written) -> Call {
    Call {
        waited_ms: Some(one.at.saturating_sub(one.enqueued) / 1_000_000),
        since: Some(written.began.saturating_add(one.enqueued)),
        started: match one.channels_started {
            0 => written.timed.then_some(false),
            _ => Some(true),
        },
        ..call(number, &one.class, one.sequence)
    }
}

fn call(number: u64, class: &Class, sequence: u64) -> Call {
    // Others may be given as many elements as the rank likes, or NCCL says a sum.
    let is_even = matches!(
        class.operation.as_str(),
        "AllReduce" | "AllGather" | "ReduceScatter" | "Broadcast" | "Reduce"
    );
    Call {
        operation: snake(&class.operation),
        number,
        nth: Some(sequence.saturating_add(1)),
        elements: is_even.then_some(class.count),
        datatype: class.datatype.clone(),
        ..Call::default()
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
