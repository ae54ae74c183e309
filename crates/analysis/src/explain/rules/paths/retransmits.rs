//! Segments that the kernel retransmitted: on some paths only (a lossy link), or on most (congestion).
//! Not paths that are slow because more is sent than they carry (`slow`).

use busbw_stats::median;
use nccl_plugin_abi::net_stats::NetPath;

use super::{Counted, MAX_PATHS_LISTED, ends, slow, which};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{percent, rate};

/// Minimum of segments before a path's share of retransmissions is known.
const MIN_SEGMENTS: u64 = 500;
/// A path is lossy from this number of retransmitted segments on, and this share of all.
const LOSSY_SEGMENTS_AND_SHARE: (u64, f64) = (20, 0.002);
/// A lossy path retransmits at least this many times as often as the others.
const LOSSY_FACTOR: f64 = 5.0;
/// Where the median path retransmits this share, the network is congested and no single link is at fault.
const CONGESTED_SHARE: f64 = 0.005;
/// A queue is full where the round trip is this many times that of the others.
const QUEUED_RTT_FACTOR: f64 = 1.5;

fn share<'a>(paths: impl IntoIterator<Item = &'a NetPath>) -> f64 {
    let add = |(again, all): (u64, u64), path: &NetPath| {
        (again.saturating_add(path.retransmitted), all.saturating_add(path.segments))
    };
    let (again, all) = paths.into_iter().fold((0, 0), add);
    again as f64 / all.max(1) as f64
}

fn known(seen: Counted<'_>) -> Vec<&NetPath> {
    seen.connection.paths.iter().filter(|path| path.segments >= MIN_SEGMENTS).collect()
}

/// Paths of a connection that lose segments, where the others do not.
fn losing(seen: Counted<'_>) -> Option<Vec<&NetPath>> {
    let loses = |path: &&NetPath| {
        path.retransmitted >= LOSSY_SEGMENTS_AND_SHARE.0
            && share([*path]) >= LOSSY_SEGMENTS_AND_SHARE.1
    };
    let (losing, others): (Vec<&NetPath>, Vec<&NetPath>) = known(seen).into_iter().partition(loses);
    let apart = share(losing.iter().copied()) >= LOSSY_FACTOR * share(others.iter().copied());
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
                    .is_some_and(|(rtt, theirs)| f64::from(rtt) > QUEUED_RTT_FACTOR * theirs)
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

pub(super) fn check(between: &[Counted<'_>]) -> Option<Finding> {
    let found: Vec<(Counted<'_>, Vec<&NetPath>)> =
        between.iter().filter_map(|seen| Some((*seen, losing(*seen)?))).collect();
    if found.is_empty() {
        return everywhere(between);
    }
    let connections: Vec<Counted<'_>> = found.iter().map(|(seen, _)| *seen).collect();
    let mut paths: Vec<&NetPath> = found.iter().flat_map(|(_, paths)| paths.clone()).collect();
    let is_losing = |path: &NetPath| paths.iter().any(|other| std::ptr::eq(*other, path));
    let all = found.iter().flat_map(|(seen, _)| known(*seen));
    let others: Vec<&NetPath> = all.filter(|path| !is_losing(path)).collect();
    let cause = format!(
        "a link loses data: {} retransmitted {} % of their segments, the others {} %; each carries {} Gb/s while busy, the others {}",
        which(paths.len(), &connections),
        percent(share(paths.iter().copied()) * 100.0),
        percent(share(others.iter().copied()) * 100.0),
        typical(&paths),
        typical(&others),
    );
    let confidence = if paths.len() > 1 { Confidence::Likely } else { Confidence::Possible };
    paths.sort_by(|a, b| share([*b]).total_cmp(&share([*a])));
    let mut finding = Finding::new("loss-on-paths", Severity::Slow, cause).confidence(confidence);
    for path in paths.iter().take(MAX_PATHS_LISTED) {
        let (again, all) = (path.retransmitted, path.segments);
        finding = finding.evidence(format!("{}: {again} of {all} segments", ends(path)));
    }
    Some(
        finding
            .remedy("find the link with errors on the route of these paths; clean or change its cable or transceiver")
            .confirm("ethtool -S at both ends, and the error counters of the switches' ports; busbw doctor; repeat the run: its paths use other ports"),
    )
}

/// Most paths retransmit: the network is congested, no single link is at fault.
fn everywhere(between: &[Counted<'_>]) -> Option<Finding> {
    let all: Vec<&NetPath> = between.iter().flat_map(|seen| known(*seen)).collect();
    let typical = median(&all.iter().map(|path| share([*path])).collect::<Vec<_>>())?;
    let again = all.iter().fold(0u64, |sum, path| sum.saturating_add(path.retransmitted));
    if typical < CONGESTED_SHARE || again < LOSSY_SEGMENTS_AND_SHARE.0 {
        return None;
    }
    let cause = format!(
        "most of {} paths retransmitted segments, the median path {} %: queues in the network overflow",
        all.len(),
        percent(typical * 100.0)
    );
    Some(
        Finding::new("loss-everywhere", Severity::Note, cause).confidence(Confidence::Likely)
            .evidence(format!("{again} segments retransmitted, {} % of all", percent(share(all) * 100.0)))
            .remedy("check whether many hosts send to one (incast), whether other jobs ran, and the queue sizes of the switches; fewer channels have less data in flight (NCCL_MAX_NCHANNELS)")
            .confirm("the drop counters of the switches' ports"),
    )
}
