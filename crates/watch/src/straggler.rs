//! The processes that are late by themselves, and why.
//! Not the entries of one communicator (`lateness`).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Group, Job, Lateness, Matched, queue_time};

/// Share of the time in which the threads of a process could have run and got no core: from here on it is named, and it must
/// be this many times that of the other processes.
const NO_CORE: f64 = 0.1;
const NO_CORE_TIMES: f64 = 3.0;

/// Why a process is late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    /// Its calls were asked for in time and waited for the GPU, which still computed.
    Compute {
        /// Median of that wait in the late calls, ns.
        queued: u64,
    },
    /// Its calls were asked for late: the program on the CPU was.
    Host,
    /// The same, and its threads waited for a core.
    Core {
        /// Share of the time, all threads together.
        share: f64,
    },
    /// The GPU's clock is not known.
    Unknown,
}

/// A process that is late by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Straggler {
    /// The process: its place in [`Job::peers`].
    pub peer: usize,
    /// The communicator in which it cost most: its place in [`Job::groups`].
    pub group: usize,
    /// Its rank there.
    pub rank: u32,
    /// Calls there that it entered last.
    pub last: usize,
    /// Calls there that were compared.
    pub calls: usize,
    /// Median of how much later than the last but one it entered them, ns.
    pub late: u64,
    /// What it cost in all communicators, ns.
    pub cost: u64,
    /// The same of the time in the calls of that communicator.
    pub share: f64,
    /// Why.
    pub reason: Reason,
}

/// The processes that are late by themselves, the most costly first. `calls` and `lateness` have each communicator of the job
/// in turn.
#[must_use]
pub fn stragglers(job: &Job, calls: &[Vec<Matched<'_>>], lateness: &[Lateness]) -> Vec<Straggler> {
    let mut costs = vec![0; job.peers.len()];
    for (group, lateness) in job.groups.iter().zip(lateness) {
        for (member, entries) in group.members.iter().zip(&lateness.ranks) {
            costs[member.peer] = u64::saturating_add(costs[member.peer], entries.caused);
        }
    }
    let mut found: BTreeMap<usize, Straggler> = BTreeMap::new();
    for (at, (group, late)) in job.groups.iter().zip(lateness).enumerate() {
        let Some(place) = late.late else { continue };
        let peer = group.members[place].peer;
        let entries = late.ranks[place];
        let own = late.entries.iter().filter(|entry| entry.member == place);
        let new = Straggler {
            peer,
            group: at,
            rank: group.members[place].rank,
            last: entries.last,
            calls: late.calls,
            late: median(own.map(|entry| entry.by)),
            cost: costs[peer],
            share: entries.caused as f64 / late.time.max(1) as f64,
            reason: reason(job, group, place, &calls[at], late),
        };
        // Where it costs most, it is named.
        match found.get(&peer) {
            Some(old) if old.share >= new.share => {}
            _ => drop(found.insert(peer, new)),
        }
    }
    let mut found: Vec<Straggler> = found.into_values().collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.cost));
    found
}

fn reason(
    job: &Job,
    group: &Group,
    place: usize,
    calls: &[Matched<'_>],
    lateness: &Lateness,
) -> Reason {
    let member = group.members[place];
    let clocks = &job.peers[member.peer].clocks;
    let (mut queued, mut waited_for_gpu) = (Vec::new(), 0);
    for entry in lateness.entries.iter().filter(|entry| entry.member == place) {
        let own = calls[entry.call].entries.iter().find(|(member, _)| *member == place);
        let time = own.and_then(|(_, call)| queue_time(call, member.number, clocks));
        let Some(time) = time else { continue };
        queued.push(time);
        // Had the GPU been free when the call was asked for, it would have come earlier by this much.
        waited_for_gpu += usize::from(time >= entry.by / 2);
    }
    if queued.is_empty() {
        return Reason::Unknown;
    }
    if 2 * waited_for_gpu >= queued.len() {
        return Reason::Compute { queued: median(queued.into_iter()) };
    }
    let share = core_wait(job, member.peer).unwrap_or(0.0);
    let others = (0..job.peers.len()).filter(|peer| *peer != member.peer);
    let others: Vec<f64> = others.filter_map(|peer| core_wait(job, peer)).collect();
    let usual = busbw_stats::median(&others).unwrap_or(0.0);
    match share >= NO_CORE && share >= NO_CORE_TIMES * usual {
        true => Reason::Core { share },
        false => Reason::Host,
    }
}

/// What the threads of a process waited for a core, of the time.
fn core_wait(job: &Job, peer: usize) -> Option<f64> {
    let beats = &job.peers[peer].heartbeats;
    let (first, last) = (beats.first()?, beats.last()?);
    let time = last.at.checked_sub(first.at).filter(|time| *time > 0)?;
    let waited: f64 =
        beats[1..].iter().map(|beat| beat.core_wait.map(|ns| ns as f64)).sum::<Option<f64>>()?;
    Some(waited / time as f64)
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let values: Vec<f64> = values.map(|one| one as f64).collect();
    busbw_stats::median(&values).unwrap_or(0.0) as u64
}
