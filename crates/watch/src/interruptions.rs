//! Times in which a whole process stood still: stopped, swapped out, or on a host that stood still.
//! Not a process that waits for another, whose own threads run on.

use serde::Serialize;

use crate::Job;

/// A thread that wakes every 50 ms is this late only where its process, or its host, stood still, ns. On a core that others
/// use all the time the scheduler gives it a turn within some tens of ms.
const STOOD_STILL: u64 = 500_000_000;

/// A process stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Interruption {
    /// The process: its place in [`Job::peers`].
    pub peer: usize,
    /// When it was over at the latest, ns since the process began to write.
    pub until: u64,
    /// How long, ns.
    pub lasted: u64,
}

/// All of them, by process and time.
#[must_use]
pub fn interruptions(job: &Job) -> Vec<Interruption> {
    let of = |(peer, one): (usize, &crate::Peer)| {
        let beats = one.heartbeats.iter().filter(|beat| beat.late >= STOOD_STILL);
        beats
            .map(|beat| Interruption { peer, until: beat.at, lasted: beat.late })
            .collect::<Vec<_>>()
    };
    job.peers.iter().enumerate().flat_map(of).collect()
}
