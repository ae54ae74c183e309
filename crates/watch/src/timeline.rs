//! One axis of time for the calls of all processes of a job.
//! Not who was late: this is known to some ms only, by how far programs run ahead of each other.
//!
//! Each process counts from when it began, and clocks of hosts may be wrong by hours. The same call is asked for on all of its
//! ranks within ms, though: the median difference of these times is that of the two processes' clocks. Processes that share no
//! call have the clocks of their hosts.

use std::collections::VecDeque;

use crate::{Job, Matched};

/// Calls of a rank from which the difference of two clocks is taken, the first ones.
const MOST_CALLS: usize = 1_000;

/// How the clocks of a job's processes stand to the first one's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    /// Added to a time of a process it gives one of the first process, ns.
    offsets: Vec<f64>,
    /// Whether calls align every process with the first one.
    pub(crate) aligned: bool,
}

impl Timeline {
    /// `of` has the calls of each communicator.
    pub(crate) fn of(job: &Job, of: &[Vec<Matched<'_>>]) -> Self {
        let edges = edges(job, of);
        let mut offsets: Vec<Option<f64>> = vec![None; job.peers.len()];
        let mut aligned = true;
        for root in 0..job.peers.len() {
            if offsets[root].is_some() {
                continue;
            }
            aligned &= root == 0;
            let began = |peer: usize| job.peers[peer].process.began as f64;
            offsets[root] = Some(began(root) - began(0));
            let mut next = VecDeque::from([root]);
            while let Some(peer) = next.pop_front() {
                let own = offsets[peer].unwrap_or(0.0);
                for (other, later) in &edges[peer] {
                    if offsets[*other].is_none() {
                        offsets[*other] = Some(own + later);
                        next.push_back(*other);
                    }
                }
            }
        }
        Self { offsets: offsets.into_iter().map(|one| one.unwrap_or(0.0)).collect(), aligned }
    }

    /// A time of a process by the clock of the first one, ns since that one began to write.
    pub(crate) fn at(&self, peer: usize, time: u64) -> f64 {
        time as f64 + self.offsets[peer]
    }
}

/// By process: others that had the same calls, and what is added to a time of theirs to give one of this process, ns.
fn edges(job: &Job, of: &[Vec<Matched<'_>>]) -> Vec<Vec<(usize, f64)>> {
    let mut edges: Vec<Vec<(usize, f64)>> = vec![Vec::new(); job.peers.len()];
    for (group, calls) in job.groups.iter().zip(of) {
        // Against the first rank: by these alone all ranks of a communicator are joined.
        let mut apart: Vec<Vec<f64>> = vec![Vec::new(); group.members.len()];
        for call in calls {
            let Some((hub, one)) = call.entries.first() else { continue };
            for (member, other) in &call.entries {
                let times = &mut apart[*member];
                let from_first = *hub == 0 && *member != 0;
                if from_first && times.len() < MOST_CALLS {
                    times.push(one.enqueued as f64 - other.enqueued as f64);
                }
            }
        }
        let Some(hub) = group.members.first() else { continue };
        for (member, times) in group.members.iter().zip(&apart) {
            let Some(later) = busbw_stats::median(times) else { continue };
            if member.peer != hub.peer {
                edges[hub.peer].push((member.peer, later));
                edges[member.peer].push((hub.peer, -later));
            }
        }
    }
    edges
}
