//! The lateness of a job's processes over the time, as rows that a page can show, and who is late most.
//! Not who is named (`busbw-watch`).

use std::collections::BTreeSet;

use busbw_watch::{Job, LateInWindow, OverTime, View};

use super::rounded;
use crate::data::{LateCell, LateProcess, LateRow};

/// Rows of the heat map.
const MOST_ROWS: usize = 64;
/// Processes of the table.
pub(super) const MOST_LATEST: usize = 12;

/// How many processes share a row.
pub(super) fn per_row(job: &Job) -> usize {
    job.peers.len().div_ceil(MOST_ROWS).max(1)
}

/// The rows: a process each, or as many neighbours as are needed for at most 64 rows. Of neighbours each cell has the one for
/// which others waited longest, so that no late one is lost among them.
pub(super) fn rows(job: &Job, view: &View, time: &OverTime) -> Vec<LateRow> {
    if time.windows == 0 {
        return Vec::new();
    }
    let named = named(view);
    let order = order(job);
    let several = per_row(job) > 1;
    let row = |peers: &[usize]| LateRow {
        name: match peers {
            [first, .., last] => range(job, *first, *last),
            [only] => one(job, *only),
            [] => String::new(),
        },
        named: peers.iter().any(|peer| named.contains(peer)),
        cells: (0..time.windows).map(|window| cell(job, time, peers, window, several)).collect(),
    };
    order.chunks(per_row(job)).map(row).collect()
}

fn cell(
    job: &Job,
    time: &OverTime,
    peers: &[usize],
    window: usize,
    several: bool,
) -> Option<LateCell> {
    let all = peers.iter().map(|peer| (*peer, time.lateness[*peer][window]));
    let known = all.filter(|(_, late)| late.calls > 0);
    // Of equals the first.
    let (peer, late) = known.reduce(|a, b| if each(&b.1) > each(&a.1) { b } else { a })?;
    Some(LateCell {
        us: rounded(each(&late)),
        last: late.last,
        calls: late.calls,
        who: (several && late.last > 0).then(|| one(job, peer)),
    })
}

/// What the others waited for it a call, us.
fn each(late: &LateInWindow) -> f64 {
    late.caused as f64 / 1e3 / late.calls.max(1) as f64
}

/// The processes that findings name.
fn named(view: &View) -> BTreeSet<usize> {
    let stragglers = view.stragglers.iter().map(|one| one.peer);
    stragglers.chain(view.interruptions.iter().map(|one| one.peer)).collect()
}

/// By rank, where the launcher gave every process one; else by host and pid.
fn order(job: &Job) -> Vec<usize> {
    let mut order: Vec<usize> = (0..job.peers.len()).collect();
    if job.peers.iter().all(|peer| peer.process.rank.is_some()) {
        order.sort_by_key(|peer| job.peers[*peer].process.rank);
    }
    order
}

fn one(job: &Job, peer: usize) -> String {
    let process = &job.peers[peer].process;
    match process.rank {
        Some(rank) => format!("rank {rank} ({})", process.host),
        None => job.peers[peer].named(),
    }
}

fn range(job: &Job, first: usize, last: usize) -> String {
    let rank = |peer: usize| job.peers[peer].process.rank;
    match (rank(first), rank(last)) {
        (Some(from), Some(to)) => format!("ranks {from} to {to}"),
        _ => format!("{} to {}", one(job, first), one(job, last)),
    }
}

/// The processes for which others waited, with what they waited in all, those that cost most first.
pub(super) fn late(job: &Job, time: &OverTime) -> Vec<(usize, LateInWindow)> {
    let all = order(job).into_iter().map(|peer| {
        let sum = |all: LateInWindow, one: &LateInWindow| LateInWindow {
            calls: all.calls + one.calls,
            last: all.last + one.last,
            caused: all.caused.saturating_add(one.caused),
        };
        (peer, time.lateness[peer].iter().fold(LateInWindow::default(), sum))
    });
    let mut late: Vec<(usize, LateInWindow)> = all.filter(|(_, late)| late.last > 0).collect();
    late.sort_by_key(|(_, late)| std::cmp::Reverse(late.caused));
    late
}

/// The first of them.
pub(super) fn latest(job: &Job, view: &View, time: &OverTime) -> Vec<LateProcess> {
    let named = named(view);
    let latest = late(job, time).into_iter().take(MOST_LATEST);
    latest
        .map(|(peer, late)| {
            let process = &job.peers[peer].process;
            LateProcess {
                rank: process.rank,
                host: process.host.clone(),
                pid: process.pid,
                last: late.last,
                calls: late.calls,
                caused_us: rounded(late.caused as f64 / 1e3),
                named: named.contains(&peer),
            }
        })
        .collect()
}
