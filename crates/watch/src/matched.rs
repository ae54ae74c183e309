//! The same call on several ranks: those of one operation that have the same number in one communicator, and a send with its
//! receive. Not who was late.

use std::collections::HashMap;

use busbw_watch_file::{Call, Class};

use crate::{Group, Job};

/// One call as several ranks saw it.
#[derive(Debug, Clone)]
pub struct Matched<'a> {
    /// What it was, as the first of its ranks says.
    pub class: &'a Class,
    /// The rank whose class it is.
    first: u32,
    /// Its ranks, as places in [`Group::members`], with each one's times.
    pub entries: Vec<(usize, &'a Call)>,
}

impl Matched<'_> {
    /// The times on the GPU of its ranks, ns, by the place of the rank. None where one of them did not time it (small
    /// calls may be sampled): the shortest of the others need not be the shortest.
    pub fn durations(&self) -> impl Iterator<Item = (usize, u64)> {
        let timed = self.entries.iter().all(|(_, call)| call.duration.is_some());
        let entries = if timed { &self.entries[..] } else { &[] };
        entries.iter().filter_map(|(at, call)| Some((*at, call.duration?)))
    }

    /// Of a send or a receive the rank other than `rank`; of a collective none.
    #[must_use]
    pub fn other_than(&self, rank: u32) -> Option<u32> {
        let peer = self.class.peer?;
        // The class is the first rank's: its peer is the other one, or the one that is asked about.
        Some(if peer == rank { self.first } else { peer })
    }

    /// When the first of its ranks asked for it, ns since that rank's process began to write.
    #[must_use]
    pub fn enqueued(&self) -> u64 {
        self.entries.first().map_or(0, |(_, call)| call.enqueued)
    }
}

/// What makes a call the same on all ranks. Sends and receives: the sender, the receiver and their count.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Collective(&'a str, u64),
    Message { from: u32, to: u32, sequence: u64 },
}

/// The calls of a communicator, in the order in which the first of its ranks asked for them. Calls of one rank only are there
/// too.
#[must_use]
pub fn matched<'a>(job: &'a Job, group: &Group) -> Vec<Matched<'a>> {
    let mut calls: Vec<Matched<'a>> = Vec::new();
    let mut known: HashMap<Key<'a>, usize> = HashMap::new();
    for (at, member) in group.members.iter().enumerate() {
        let lines = job.peers[member.peer].calls.iter();
        for line in lines.filter(|line| line.class.communicator == member.number) {
            for call in &line.calls {
                let sequence = call.sequence;
                let key = match (line.class.peer, line.class.operation.as_str()) {
                    (Some(peer), "Send") => Key::Message { from: member.rank, to: peer, sequence },
                    (Some(peer), _) => Key::Message { from: peer, to: member.rank, sequence },
                    (None, operation) => Key::Collective(operation, sequence),
                };
                let place = *known.entry(key).or_insert(calls.len());
                match calls.get_mut(place) {
                    Some(one) => one.entries.push((at, call)),
                    None => {
                        let (class, first) = (&line.class, member.rank);
                        calls.push(Matched { class, first, entries: vec![(at, call)] });
                    }
                }
            }
        }
    }
    calls.sort_by_key(Matched::enqueued);
    calls
}
