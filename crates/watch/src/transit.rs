//! How long a step is on its way from one rank to another, from when the sender's GPU had it to when the receiver got it.
//! Not which of two paths is slow (`paths`).
//!
//! The receiver's wait for a step begins when it asked for the call, the sender's wait for its GPU when that rank did. The
//! difference of the two waits, and of the two times, is the step's way. With TCP the sender knows nothing of it: a step is
//! done for it when the kernel has taken it.

use busbw_watch_file::Call;

use crate::{Group, Job, Matched};

/// Calls up to this size end on all ranks together whatever the paths are: they fit into the buffers on the way, bytes.
const SMALL: u64 = 64 << 10;
/// Fewer calls than this say nothing.
const LEAST_CALLS: usize = 20;

/// By how much later one rank asks for the calls of a communicator than another, ns, median; by the host's clock where both are on
/// one, else by clocks that small calls align, which end on all ranks together but for a step. None: too few calls, or nothing
/// aligns the clocks.
pub(crate) fn asked_later(
    job: &Job,
    group: &Group,
    calls: &[Matched<'_>],
    (from, to): (usize, usize),
) -> Option<f64> {
    let (a, b) = (group.members[from], group.members[to]);
    let (one, other) = (&job.peers[a.peer], &job.peers[b.peer]);
    let began = other.process.began as f64 - one.process.began as f64;
    let both = |call: &Matched<'_>| -> Option<(Call, Call)> {
        let of = |at| call.entries.iter().find(|(member, _)| *member == at).map(|(_, call)| **call);
        Some((of(from)?, of(to)?))
    };
    let asked: Vec<f64> = calls
        .iter()
        .filter_map(both)
        .map(|(a, b)| began + b.enqueued as f64 - a.enqueued as f64)
        .collect();
    if asked.len() < LEAST_CALLS {
        return None;
    }
    let median = busbw_stats::median(&asked)?;
    if one.process.host == other.process.host {
        return Some(median);
    }
    let ended = |peer: usize, number: u32, call: Call| -> Option<f64> {
        let clocks = &job.peers[peer].clocks;
        let queued = crate::queue_time(&call, number, clocks)?;
        Some(call.enqueued as f64 + queued as f64 + call.duration? as f64)
    };
    let apart: Vec<f64> = calls
        .iter()
        .filter(|call| call.class.size > 0 && call.class.size <= SMALL)
        .filter_map(both)
        .filter_map(|(x, y)| {
            Some(began + ended(b.peer, b.number, y)? - ended(a.peer, a.number, x)?)
        })
        .collect();
    if apart.len() < LEAST_CALLS {
        return None;
    }
    Some(median - busbw_stats::median(&apart)?)
}
