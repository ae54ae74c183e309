//! Which process is late by itself, and why; and which are late only because they wait for it elsewhere.
//! Not the entries of one communicator (`lateness`).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Group, Job, Lateness, Matched, queue_time};

/// Of what a process made others wait, this much must be its own: what it waited itself in other calls is taken off.
const OWN_PART: f64 = 0.5;
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
pub struct Culprit {
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
    /// What it cost in all communicators, less what it waited itself, ns.
    pub cost: u64,
    /// The same of the time in the calls of that communicator.
    pub share: f64,
    /// Why.
    pub reason: Reason,
}

/// What a process cost and waited in all communicators, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    caused: u64,
    suffered: u64,
}

/// The processes that are late by themselves, the most costly first. `of` has each communicator of the job in turn.
#[must_use]
pub fn culprits(job: &Job, of: &[(Vec<Matched<'_>>, Lateness)]) -> Vec<Culprit> {
    let mut accounts: BTreeMap<usize, Account> = BTreeMap::new();
    for (group, (_, lateness)) in job.groups.iter().zip(of) {
        for (member, entries) in group.members.iter().zip(&lateness.ranks) {
            let account = accounts.entry(member.peer).or_default();
            account.caused += entries.caused;
            account.suffered += entries.suffered;
        }
    }
    let mut found: BTreeMap<usize, Culprit> = BTreeMap::new();
    for (at, (group, (calls, lateness))) in job.groups.iter().zip(of).enumerate() {
        let Some(place) = lateness.late else { continue };
        let peer = group.members[place].peer;
        let account = accounts.get(&peer).copied().unwrap_or_default();
        let cost = account.caused.saturating_sub(account.suffered);
        if (cost as f64) < OWN_PART * account.caused as f64 {
            continue;
        }
        let entries = lateness.ranks[place];
        let new = Culprit {
            peer,
            group: at,
            rank: group.members[place].rank,
            last: entries.last,
            calls: lateness.calls,
            late: median(lateness.entries.iter().filter(|one| one.1 == place).map(|one| one.2)),
            cost,
            share: entries.caused as f64 / lateness.time.max(1) as f64,
            reason: reason(job, group, place, calls, lateness),
        };
        // Where it costs most, it is named.
        match found.get(&peer) {
            Some(old) if old.share >= new.share => {}
            _ => drop(found.insert(peer, new)),
        }
    }
    let mut found: Vec<Culprit> = found.into_values().collect();
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
    for (call, _, lead) in lateness.entries.iter().filter(|(_, rank, _)| *rank == place) {
        let own = calls[*call].entries.iter().find(|(rank, _)| *rank == place);
        let time = own.and_then(|(_, call)| queue_time(call, member.number, clocks));
        let Some(time) = time else { continue };
        queued.push(time);
        // Had the GPU been free when the call was asked for, it would have come earlier by this much.
        waited_for_gpu += usize::from(time >= lead / 2);
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
    let waited: u64 = beats[1..].iter().map(|beat| beat.core_wait).sum::<Option<u64>>()?;
    Some(waited as f64 / time as f64)
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let values: Vec<f64> = values.map(|one| one as f64).collect();
    busbw_stats::median(&values).unwrap_or(0.0) as u64
}
