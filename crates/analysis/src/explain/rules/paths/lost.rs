//! Paths that were lost, or are missing now.
//! Not what became of messages: those went over the others.

use nccl_plugin_abi::net_stats::{NetPath, NetStats, PathState};

use super::{SHOWN, Seen, ends};
use crate::explain::finding::{Confidence, Finding, Weight};
use busbw_core::quantity::{count, percent};

/// A path that was lost so often, and so often in an hour, costs more than a moment.
const OFTEN: (u64, f64) = (3, 60.0);
/// A connection's paths are all there after so many seconds.
const BEGUN: u64 = 5;

/// Paths that are missing although others are there.
fn missing(seen: Seen<'_>) -> usize {
    let begun = seen.process.written.saturating_sub(seen.connection.opened) >= BEGUN;
    if seen.is_over() || !begun {
        return 0;
    }
    seen.connection.paths.iter().filter(|path| path.state == PathState::Absent).count()
}

pub(super) fn look(all: &[Seen<'_>], processes: &[NetStats]) -> Option<Finding> {
    let unlisted = processes.iter().filter_map(|one| one.others);
    let unlisted = unlisted.fold(0u64, |sum, one| sum.saturating_add(one.lost));
    let mut paths: Vec<(Seen<'_>, &NetPath)> = all
        .iter()
        .flat_map(|seen| seen.connection.paths.iter().map(|path| (*seen, path)))
        .collect();
    let absent: usize = all.iter().map(|seen| missing(*seen)).sum();
    let in_use: usize =
        all.iter().filter(|seen| !seen.is_over()).map(|seen| seen.connection.paths.len()).sum();
    let every = paths.len();
    let often = paths.iter().any(|(seen, path)| {
        let seconds = seen.process.written.saturating_sub(seen.connection.opened).max(60);
        path.lost >= OFTEN.0 && path.lost as f64 * 3600.0 / seconds as f64 >= OFTEN.1
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
    let mut said = Vec::new();
    if lost > 0 {
        said.push(format!(
            "paths were lost {}, {hit} of {every} of them; {} went over others instead",
            count(lost, "time"),
            count(again, "chunk")
        ));
    }
    if absent > 0 {
        said.push(format!(
            "{absent} of {in_use} paths {} missing: the others carry {} % of what all could",
            if absent == 1 { "is" } else { "are" },
            percent((in_use - absent) as f64 / in_use as f64 * 100.0)
        ));
    }
    let matters = absent > 0 || often;
    let weight = if matters { Weight::Slow } else { Weight::Note };
    let mut finding = Finding::new("lost-paths", weight, Confidence::Certain, said.join("; "));
    paths.retain(|(seen, path)| {
        path.lost > 0 || (missing(*seen) > 0 && path.state == PathState::Absent)
    });
    paths.sort_by_key(|(_, path)| std::cmp::Reverse(path.lost));
    for (seen, path) in paths.iter().take(SHOWN) {
        let state = if path.state == PathState::Absent { ", and is missing" } else { "" };
        let seconds = seen.process.written.saturating_sub(seen.connection.opened);
        let times = count(path.lost, "time");
        finding = finding.evidence(format!("{}: lost {times} in {seconds} s{state}", ends(path)));
    }
    if let Some(broken) = all.iter().find_map(|seen| seen.connection.broken.as_ref()) {
        finding = finding.evidence(broken.clone());
    }
    Some(
        finding
            .remedy("a firewall or a balancer that forgets connections, a link that goes down, or a host that was restarted: see what happened at that time on the way")
            .confirm("NCCL_DEBUG=INFO … | grep 'NET/busbw: path': when each was lost, and why; dmesg -T | grep -i link"),
    )
}
