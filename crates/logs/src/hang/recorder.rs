//! Dumps of PyTorch's flight recorder as evidence.
//! Not their form (`crate::flight_recorder`).
//!
//! A call of NCCL is over when its state says so. Gloo's calls stay `scheduled` and are over when they are retired; a call of
//! NCCL that is retired and not completed has timed out (FlightRecorderDetail.hpp, `retire_id`). Calls of a group end in the
//! order of their numbers. A dump does not say which rank wrote it: the end of its name does.

use std::collections::{BTreeMap, HashMap, HashSet, hash_map::Entry as Slot};

use super::evidence::{Call, Evidence, Group, KEPT_CALLS, Member, Message, Progress, Source};
use crate::flight_recorder::{Dump, Entry};

/// The longest name of an operation or a type, bytes.
const MAX_NAME_BYTES: usize = 64;
/// The most open sends and receives of a rank.
const MAX_MESSAGES: usize = 256;

/// What is known of the dumps so far.
#[derive(Debug, Default)]
pub(super) struct Recorders {
    /// The first and the last call of each rank's dump, and its groups.
    dumps: HashMap<u32, Seen>,
    groups: HashMap<String, usize>,
}

#[derive(Debug)]
struct Seen {
    name: String,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    calls: usize,
    groups: Vec<usize>,
}

/// A dump, as far as it tells of a hang.
#[derive(Debug)]
pub(super) struct Digest {
    rank: u32,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    calls: usize,
    groups: Vec<OfGroup>,
}

/// What a dump says of one of its groups.
#[derive(Debug)]
struct OfGroup {
    name: String,
    words: String,
    /// Ranks of the job.
    list: Vec<u32>,
    /// None where the dump has no call of it and is not the whole of its rank's.
    progress: Option<Progress>,
}

impl Digest {
    /// Of a dump that was written at `written`, ns since 1970.
    ///
    /// # Errors
    /// Why it is left out, in words.
    pub(super) fn of(dump: &Dump<'_>, name: &str, written: Option<u64>) -> Result<Digest, String> {
        if dump.entries.is_empty() && dump.pg_config.is_empty() {
            return Err(format!("{name} has no call: the recorder was off, or nothing was called"));
        }
        let Some(rank) = rank_of(name) else {
            return Err(format!(
                "{name} is left out: a dump does not say which rank wrote it, and its name does not end with one"
            ));
        };
        let named: HashSet<&str> =
            dump.entries.iter().map(|one| one.process_group.0.as_str()).collect();
        let lists: HashMap<&str, Vec<u32>> = named
            .iter()
            .copied()
            .chain(dump.pg_config.keys().map(String::as_str))
            .filter_map(|group| Some((group, ranks(&dump.group(group)?.ranks))))
            .collect();
        if lists.values().any(|ranks| !ranks.is_empty() && !ranks.contains(&rank)) {
            return Err(format!(
                "{name} is left out: by its name it is rank {rank}'s, which is in none or not in all of its process groups"
            ));
        }
        // A buffer that was filled begins with a later record than the first.
        let whole = dump.entries.first().is_none_or(|one| one.record_id.0.unwrap_or(1) == 0);
        let mut walk: BTreeMap<&str, Walk<'_>> =
            dump.pg_config.keys().map(|group| (group.as_str(), Walk::default())).collect();
        if walk.len() == 1 && named.len() == 1 {
            walk.clear();
        }
        // Else a call that began looks like one that did not.
        let timed =
            dump.entries.iter().any(|one| one.time_discovered_started_ns.unwrap_or_default() > 0);
        let view = View { written, timed, whole };
        for entry in &dump.entries {
            walk.entry(entry.process_group.0.as_str()).or_default().entry(entry);
        }
        let of_group = |(group, walk): (&str, Walk<'_>)| OfGroup {
            name: group.to_owned(),
            words: short(walk.words()).to_owned(),
            list: lists.get(group).cloned().unwrap_or_default(),
            progress: (whole || !walk.is_empty())
                .then(|| walk.progress(walk.status(dump), view, KEPT_CALLS)),
        };
        let times = || dump.entries.iter().filter_map(|one| one.time_created_ns);
        Ok(Digest {
            rank,
            first_ns: times().min(),
            last_ns: times().max(),
            calls: dump.entries.len(),
            groups: walk.into_iter().map(of_group).collect(),
        })
    }
}

impl Recorders {
    /// Takes what the dump `name` says.
    pub(super) fn take(&mut self, digest: Digest, name: &str, evidence: &mut Evidence) {
        let Digest { rank, first_ns, last_ns, calls, groups } = digest;
        let mut seen = Seen { name: name.to_owned(), first_ns, last_ns, calls, groups: Vec::new() };
        match self.dumps.get(&rank) {
            None => {}
            Some(other) if (other.last_ns, other.calls) == (seen.last_ns, seen.calls) => return,
            Some(other) if other.first_ns == seen.first_ns => {
                // Two of one process: the newer one has the calls of the older.
                if other.last_ns >= seen.last_ns {
                    return;
                }
                for at in &other.groups {
                    let members = evidence.groups.get_mut(*at).map(|group| &mut group.members);
                    let own = members.into_iter().flat_map(BTreeMap::values_mut);
                    own.filter(|one| {
                        evidence
                            .processes
                            .get(one.process)
                            .is_some_and(|one| one.rank == Some(rank))
                    })
                    .for_each(|one| one.progress = None);
                }
            }
            Some(other) => {
                return evidence.remark(format!(
                    "{name} and {} are both rank {rank}'s and have other calls: of two jobs, or of two starts of one; the first is used",
                    other.name
                ));
            }
        }
        let process = evidence.of_rank(rank);
        if let Some(process) = evidence.processes.get_mut(process) {
            process.files.push(name.to_owned());
        }
        for OfGroup { name, words, list, progress } in groups {
            let Some(at) = self.group(&name, &words, &list, rank, process, evidence) else {
                continue;
            };
            let Some(mut progress) = progress else { continue };
            let kept = evidence.room_for_calls();
            while progress.over.len() > kept {
                progress.over.pop_first();
            }
            let own = match list.iter().position(|one| *one == rank) {
                Some(own) => u32::try_from(own).unwrap_or(u32::MAX),
                None => rank,
            };
            if let Some(member) =
                evidence.groups.get_mut(at).and_then(|one| one.members.get_mut(&own))
            {
                let over = progress.over.len();
                member.progress = Some(progress);
                evidence.keeps_calls(over);
            }
            seen.groups.push(at);
        }
        self.dumps.insert(rank, seen);
    }

    /// The place of a group, with all its members.
    fn group(
        &mut self,
        name: &str,
        words: &str,
        list: &[u32],
        rank: u32,
        process: usize,
        evidence: &mut Evidence,
    ) -> Option<usize> {
        // Ranks count their groups for themselves: the same name may be other ranks' elsewhere.
        let id = format!("{name} of {list:?}");
        let at = match self.groups.entry(id) {
            Slot::Occupied(slot) => *slot.get(),
            Slot::Vacant(slot) => {
                let mut members = BTreeMap::new();
                for (own, of_job) in (0..).zip(list) {
                    if !evidence.has_room() {
                        return None;
                    }
                    let process = evidence.of_rank(*of_job);
                    members.insert(own, Member { process, progress: None });
                }
                let words = match words {
                    "" | "undefined" => String::new(),
                    words => format!(" ({})", short(words)),
                };
                evidence.groups.push(Group {
                    source: Source::FlightRecorder,
                    id: slot.key().clone(),
                    name: format!("process group {}{words}", short(name)),
                    ranks: u32::try_from(list.len()).ok().filter(|ranks| *ranks > 0),
                    members,
                    communicator: evidence.groups.len(),
                    progressed: None,
                });
                *slot.insert(evidence.groups.len() - 1)
            }
        };
        if list.is_empty() && evidence.has_room() {
            let member = Member { process, progress: None };
            evidence.groups.get_mut(at)?.members.insert(rank, member);
        }
        Some(at)
    }
}

/// What holds for a whole dump.
#[derive(Clone, Copy)]
struct View {
    /// When it was written, ns since 1970.
    written: Option<u64>,
    /// The begin of calls on the GPU is seen (TORCH_NCCL_ENABLE_TIMING).
    timed: bool,
    /// It has all calls from the first one on.
    whole: bool,
}

/// The entries of one group.
#[derive(Default)]
struct Walk<'d> {
    collectives: Vec<&'d Entry<'d>>,
    messages: Vec<&'d Entry<'d>>,
    /// Numbers of groups of messages that are over as a whole, or are not.
    coalesced: HashMap<i64, bool>,
}

impl<'d> Walk<'d> {
    fn entry(&mut self, entry: &'d Entry<'d>) {
        let (name, _) = operation(entry);
        match (entry.is_p2p || matches!(name, "send" | "recv"), name) {
            (true, "coalesced") => {
                self.coalesced.insert(entry.p2p_seq_id, is_over(entry));
            }
            (true, _) => self.messages.push(entry),
            (false, _) => self.collectives.push(entry),
        }
    }

    fn is_empty(&self) -> bool {
        self.collectives.is_empty() && self.messages.is_empty()
    }

    fn words(&self) -> &'d str {
        self.collectives
            .iter()
            .chain(&self.messages)
            .next()
            .map_or("", |one| one.process_group.1.as_str())
    }

    /// The number of the last collective that is over by the group's own status.
    fn status(&self, dump: &Dump<'_>) -> Option<u64> {
        let first = self.collectives.first()?;
        // Gloo counts messages, too.
        if first.profiling_name.as_str().starts_with("gloo:") {
            return None;
        }
        let status = dump.pg_status.get(&first.pg_id.0?.to_string())?;
        u64::try_from(status.last_completed_collective.0?).ok()
    }

    fn progress(&self, last_over: Option<u64>, view: View, kept: usize) -> Progress {
        let number = |entry: &Entry<'_>| u64::try_from(entry.collective_seq_id).unwrap_or_default();
        let over = self.collectives.iter().filter(|one| is_over(one)).map(|one| number(one)).max();
        let over = over.max(last_over);
        let mut progress = Progress { has_all_messages: view.whole, ..Progress::default() };
        for entry in &self.collectives {
            let number = number(entry);
            progress.entered = progress.entered.max(number);
            let to = match Some(number) <= over {
                true => &mut progress.over,
                false => &mut progress.open,
            };
            let call = call(entry, number, view);
            // The parts of a coalesced group have its number: the group's own entry is the last of them.
            to.entry(number)
                .and_modify(|known: &mut Call| {
                    known.elements = None;
                    known.started = known.started.max(call.started);
                })
                .or_insert(call);
            if progress.over.len() > kept {
                progress.over.pop_first();
            }
        }
        progress.entered = progress.entered.max(last_over.unwrap_or_default());
        let mut newest: HashMap<(u32, bool), i64> = HashMap::new();
        for entry in self.messages.iter().filter(|one| is_over(one)) {
            let Some((peer, is_send)) = ends(entry) else { continue };
            let known = newest.entry((peer, is_send)).or_insert(entry.p2p_seq_id);
            *known = (*known).max(entry.p2p_seq_id);
        }
        for entry in &self.messages {
            let Some((peer, is_send)) = ends(entry) else { continue };
            let made = progress.messages_made.entry((peer, is_send)).or_default();
            *made += 1;
            let nth = view.whole.then_some(*made);
            let as_a_whole = self.coalesced.get(&entry.p2p_seq_id).copied();
            let later = newest.get(&(peer, is_send)).is_some_and(|last| *last >= entry.p2p_seq_id);
            if as_a_whole.unwrap_or_else(|| is_over(entry)) || later {
                continue;
            }
            if progress.messages.len() < MAX_MESSAGES {
                let number = u64::try_from(entry.p2p_seq_id).unwrap_or_default();
                let call = call(entry, number, view);
                progress.messages.push(Message { peer, is_send, nth, call });
            }
        }
        progress
    }
}

fn is_over(entry: &Entry<'_>) -> bool {
    let gloo = || entry.profiling_name.as_str().starts_with("gloo:");
    entry.state.as_str() == "completed" || (entry.retired && gloo())
}

/// The operation, and for a message its ends: `send`, `0->1`.
fn operation<'e>(entry: &'e Entry<'_>) -> (&'e str, &'e str) {
    let called = entry.profiling_name.as_str().split_once(':').map_or("", |(_, name)| name);
    called.split_once(' ').unwrap_or((called, ""))
}

/// The peer of a message, and whether it is sent there.
fn ends(entry: &Entry<'_>) -> Option<(u32, bool)> {
    let (name, ends) = operation(entry);
    // `0->1`; of a receive `1<-0`: this rank is always the first.
    let (_, peer) = ends.split_once("->").or_else(|| ends.split_once("<-"))?;
    Some((peer.trim().parse().ok()?, name == "send"))
}

fn call(entry: &Entry<'_>, number: u64, view: View) -> Call {
    let (name, _) = operation(entry);
    let since = entry.time_created_ns.and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0);
    let waited = since.zip(view.written).and_then(|(since, written)| written.checked_sub(since));
    let name = plain(name);
    let elements = is_even(&name).then(|| {
        let tensor = |sizes: &Vec<i64>| {
            sizes.iter().fold(1_u64, |all, size| {
                all.saturating_mul(u64::try_from(*size).unwrap_or_default())
            })
        };
        entry.input_sizes.iter().map(tensor).fold(0, u64::saturating_add)
    });
    Call {
        end_unknown: false,
        operation: name,
        number,
        nth: None,
        elements,
        datatype: entry
            .input_dtypes
            .first()
            .map_or_else(String::new, |name| short(name.as_str()).to_owned()),
        waited_ms: waited.map(|ns| ns / 1_000_000),
        since,
        started: match entry.state.as_str() {
            "started" => Some(true),
            "scheduled" if view.timed => Some(false),
            _ => None,
        },
        place: entry.frames.0.clone(),
    }
}

/// One name for what PyTorch calls in several ways.
fn plain(name: &str) -> String {
    let base = name.trim_start_matches('_').to_ascii_lowercase();
    let one = match base.as_str() {
        "allreduce" => "all_reduce",
        "all_gather_base"
        | "all_gather_single"
        | "all_gather_into_tensor"
        | "allgather"
        | "allgather_base"
        | "allgather_into_tensor" => "all_gather",
        "reduce_scatter_base" | "reduce_scatter_single" | "reduce_scatter_tensor" => {
            "reduce_scatter"
        }
        "broadcast_oop" => "broadcast",
        "reduce_oop" => "reduce",
        "all_reduce_barrier" => "barrier",
        "alltoall"
        | "alltoall_base"
        | "all_to_all_base"
        | "all_to_all_single"
        | "all_to_all_v_single" => "all_to_all",
        other => other,
    };
    short(one).to_owned()
}

/// Whether all ranks must give the same number of elements.
fn is_even(name: &str) -> bool {
    matches!(name, "all_reduce" | "all_gather" | "reduce_scatter" | "broadcast" | "reduce")
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME_BYTES)]
}

/// `[0, 1]`.
fn ranks(list: &str) -> Vec<u32> {
    let list = list.trim().trim_start_matches('[').trim_end_matches(']');
    list.split(',').filter_map(|rank| rank.trim().parse().ok()).collect()
}

/// The number at the end of a file's name: `comm_lib_trace_rank_3`, `rank_3.pickle`, `nccl_trace_rank_3.json`.
fn rank_of(name: &str) -> Option<u32> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let stem = match name.rsplit_once('.') {
        Some((stem, ending)) if !ending.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    };
    let from = stem.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    stem.get(from..).filter(|digits| !digits.is_empty())?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_the_rank() {
        for (name, rank) in [
            ("/tmp/comm_lib_trace_rank_3", Some(3)),
            ("dumps/rank_12.pickle", Some(12)),
            ("nccl_trace_rank_0.json", Some(0)),
            ("7", Some(7)),
            ("node2/dump", None),
            ("dump.pickle", None),
            ("rank_99999999999", None),
            ("é", None),
        ] {
            assert_eq!(rank_of(name), rank, "{name}");
        }
    }
}
