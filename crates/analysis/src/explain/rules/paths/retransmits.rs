//! Segments that the kernel sent again: on some paths only, which is a link that loses them, or on all.
//! Not paths that are slow because more is sent than they carry (`slow`).

use busbw_stats::median;
use nccl_plugin_abi::net_stats::NetPath;

use super::{SHOWN, Seen, ends, slow, which};
use crate::explain::finding::{Confidence, Finding, Weight};
use busbw_core::quantity::{percent, rate};

/// A path's share is known from so many segments on.
const ENOUGH: u64 = 500;
/// So many segments sent again, and such a share of all, are more than a probe now and then.
const SOME: (u64, f64) = (20, 0.002);
/// Paths that lose do so many times more often than the others.
const TIMES: f64 = 5.0;
/// Where at least half of all paths have such a share, it is no link of its own.
const EVERYWHERE: f64 = 0.005;
/// A queue is full where round trips take so many times those of the others.
const QUEUED: f64 = 1.5;

fn share<'a>(paths: impl IntoIterator<Item = &'a NetPath>) -> f64 {
    let add = |(again, all): (u64, u64), path: &NetPath| {
        (again.saturating_add(path.retransmitted), all.saturating_add(path.segments))
    };
    let (again, all) = paths.into_iter().fold((0, 0), add);
    again as f64 / all.max(1) as f64
}

fn known(seen: Seen<'_>) -> Vec<&NetPath> {
    seen.connection.paths.iter().filter(|path| path.segments >= ENOUGH).collect()
}

/// Paths of a connection that lose segments, where the others do not.
fn losing(seen: Seen<'_>) -> Option<Vec<&NetPath>> {
    let loses = |path: &&NetPath| path.retransmitted >= SOME.0 && share([*path]) >= SOME.1;
    let (losing, others): (Vec<&NetPath>, Vec<&NetPath>) = known(seen).into_iter().partition(loses);
    let apart = share(losing.iter().copied()) >= TIMES * share(others.iter().copied());
    if losing.is_empty() || others.len() < losing.len() || !apart {
        return None;
    }
    // A link that is slower than others drops what its queue does not hold.
    let slow = slow::of_connection(seen);
    let is_queue = |path: &NetPath| {
        slow.as_ref().is_some_and(|slow| {
            slow.paths.iter().any(|other| std::ptr::eq(*other, path))
                && path
                    .rtt_us
                    .zip(slow.others.1)
                    .is_some_and(|(rtt, theirs)| f64::from(rtt) > QUEUED * theirs)
        })
    };
    let losing: Vec<&NetPath> = losing.into_iter().filter(|path| !is_queue(path)).collect();
    (!losing.is_empty()).then_some(losing)
}

/// Gb/s while busy, the median of paths.
fn typical(paths: &[&NetPath]) -> String {
    let rates: Vec<f64> = paths.iter().filter_map(|path| path.rate()).collect();
    median(&rates).map_or("-".to_owned(), |one| rate(one * 8.0))
}

pub(super) fn look(between: &[Seen<'_>]) -> Option<Finding> {
    let found: Vec<(Seen<'_>, Vec<&NetPath>)> =
        between.iter().filter_map(|seen| Some((*seen, losing(*seen)?))).collect();
    if found.is_empty() {
        return everywhere(between);
    }
    let connections: Vec<Seen<'_>> = found.iter().map(|(seen, _)| *seen).collect();
    let mut paths: Vec<&NetPath> = found.iter().flat_map(|(_, paths)| paths.clone()).collect();
    let is_losing = |path: &NetPath| paths.iter().any(|other| std::ptr::eq(*other, path));
    let all = found.iter().flat_map(|(seen, _)| known(*seen));
    let others: Vec<&NetPath> = all.filter(|path| !is_losing(path)).collect();
    let cause = format!(
        "a link loses data: on {}, {} % of all segments were sent again, on the others {} %; they carry {} Gb/s each while busy, the others {}",
        which(paths.len(), &connections),
        percent(share(paths.iter().copied()) * 100.0),
        percent(share(others.iter().copied()) * 100.0),
        typical(&paths),
        typical(&others),
    );
    let confidence = if paths.len() > 1 { Confidence::Likely } else { Confidence::Possible };
    paths.sort_by(|a, b| share([*b]).total_cmp(&share([*a])));
    let mut finding = Finding::new("loss-on-paths", Weight::Slow, confidence, cause);
    for path in paths.iter().take(SHOWN) {
        let (again, all) = (path.retransmitted, path.segments);
        finding = finding.evidence(format!("{}: {again} of {all} segments", ends(path)));
    }
    Some(
        finding
            .remedy("look for a link that errs among those that these paths take: clean or change its cable or transceiver")
            .confirm("ethtool -S at both ends, and the error counters of the switches' ports; busbw doctor; the same run again: its paths have other ports"),
    )
}

/// Most paths lose: it is no link of its own.
fn everywhere(between: &[Seen<'_>]) -> Option<Finding> {
    let all: Vec<&NetPath> = between.iter().flat_map(|seen| known(*seen)).collect();
    let typical = median(&all.iter().map(|path| share([*path])).collect::<Vec<_>>())?;
    let again = all.iter().fold(0u64, |sum, path| sum.saturating_add(path.retransmitted));
    if typical < EVERYWHERE || again < SOME.0 {
        return None;
    }
    let cause = format!(
        "most of {} paths sent segments again, in the median {} % of them: the network's queues do not hold what is sent",
        all.len(),
        percent(typical * 100.0)
    );
    Some(
        Finding::new("loss-everywhere", Weight::Note, Confidence::Likely, cause)
            .evidence(format!("{again} segments sent again, {} % of all", percent(share(all) * 100.0)))
            .remedy("see whether many send to one host at once, whether other jobs ran, and how long the switches' queues are; fewer channels have less under way (NCCL_MAX_NCHANNELS)")
            .confirm("the counters of what the switches' ports dropped"),
    )
}
