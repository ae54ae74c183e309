//! Paths that were lost, or are missing now.
//! Not the messages on them: the other paths carried those.

use nccl_plugin_abi::net_stats::{NetPath, NetStats, PathState};

use super::{Counted, MAX_PATHS_LISTED, ends};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{count, percent};

/// A path that was lost at least this often, and this often in an hour, costs performance.
const FREQUENT_LOSSES_AND_PER_HOUR: (u64, f64) = (3, 60.0);
/// All paths of a connection are set up after this many seconds.
const SETUP_SECONDS: u64 = 5;

/// Number of paths that are missing while others of the connection are up.
fn missing(seen: Counted<'_>) -> usize {
    let begun = seen.process.written.saturating_sub(seen.connection.opened) >= SETUP_SECONDS;
    if seen.is_closed() || !begun {
        return 0;
    }
    seen.connection.paths.iter().filter(|path| path.state == PathState::Absent).count()
}

pub(super) fn check(all: &[Counted<'_>], processes: &[NetStats]) -> Option<Finding> {
    let unlisted = processes.iter().filter_map(|one| one.others);
    let unlisted = unlisted.fold(0u64, |sum, one| sum.saturating_add(one.lost));
    let mut paths: Vec<(Counted<'_>, &NetPath)> = all
        .iter()
        .flat_map(|seen| seen.connection.paths.iter().map(|path| (*seen, path)))
        .collect();
    let absent: usize = all.iter().map(|seen| missing(*seen)).sum();
    let in_use: usize =
        all.iter().filter(|seen| !seen.is_closed()).map(|seen| seen.connection.paths.len()).sum();
    let every = paths.len();
    let often = paths.iter().any(|(seen, path)| {
        let seconds = seen.process.written.saturating_sub(seen.connection.opened).max(60);
        path.lost >= FREQUENT_LOSSES_AND_PER_HOUR.0
            && path.lost as f64 * 3600.0 / seconds as f64 >= FREQUENT_LOSSES_AND_PER_HOUR.1
    });
    let hit = paths.iter().filter(|(_, path)| path.lost > 0).count();
    let lost = paths.iter().fold(unlisted, |sum, (_, path)| sum.saturating_add(path.lost));
    if lost == 0 && absent == 0 {
        return None;
    }
    let again = paths.iter().fold(0u64, |sum, (_, path)| {
        let again = if path.lost > 0 { path.again } else { 0 };
        sum.saturating_add(again).saturating_add(path.doubled)
    });
    let mut causes = Vec::new();
    if lost > 0 {
        causes.push(format!(
            "{hit} of {every} paths {} lost, {} in all; the others resent {}",
            if hit == 1 { "was" } else { "were" },
            count(lost, "time"),
            count(again, "chunk")
        ));
    }
    if absent > 0 {
        causes.push(format!(
            "{absent} of {in_use} paths {} missing: the others carry {} % of what all could carry",
            if absent == 1 { "is" } else { "are" },
            percent((in_use - absent) as f64 / in_use as f64 * 100.0)
        ));
    }
    let matters = absent > 0 || often;
    let severity = if matters { Severity::Slow } else { Severity::Note };
    let mut finding =
        Finding::new("lost-paths", severity, causes.join("; ")).confidence(Confidence::Certain);
    paths.retain(|(seen, path)| {
        path.lost > 0 || (missing(*seen) > 0 && path.state == PathState::Absent)
    });
    paths.sort_by_key(|(_, path)| std::cmp::Reverse(path.lost));
    for (seen, path) in paths.iter().take(MAX_PATHS_LISTED) {
        let state = if path.state == PathState::Absent { ", missing at the end" } else { "" };
        let seconds = seen.process.written.saturating_sub(seen.connection.opened);
        let times = count(path.lost, "time");
        finding = finding.evidence(format!("{}: lost {times} in {seconds} s{state}", ends(path)));
    }
    if let Some(broken) = all.iter().find_map(|seen| seen.connection.broken.as_ref()) {
        finding = finding.evidence(broken.clone());
    }
    Some(
        finding
            .remedy("check what happened on the route at that time: a firewall or load balancer that drops connections, a link that went down, or a host that restarted")
            .confirm("NCCL_DEBUG=INFO … | grep 'NET/busbw: path': when each was lost, and why; dmesg -T | grep -i link"),
    )
}
