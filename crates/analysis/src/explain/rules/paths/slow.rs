//! Paths that are much slower than the others of their connection.
//! Not those that carried too little to know.

use std::net::IpAddr;

use busbw_stats::median;
use nccl_plugin_abi::net_stats::NetPath;

use super::{SHOWN, Seen, ends, which};
use crate::explain::finding::{Confidence, Finding, Weight};
use busbw_core::quantity::{percent, rate, time};

/// A path is known by so many timed bytes; one that is blamed also by so many microseconds of them.
const ENOUGH: (u64, u64) = (2 << 20, 200_000);
/// So many times slower than the median of the others is slow. Paths share links by chance, and one that shares with
/// more others is slower for that alone: see the test.
const SLOW: f64 = 4.0;
/// Where some path is, this is slow as well.
const AS_WELL: f64 = 2.0;
/// Of several connections some have such a path by chance: one of few says something, else two, or one of so many.
const FEW: usize = 3;
const SEVERAL: usize = 10;

/// What is slow in a connection.
pub(super) struct Slow<'a> {
    pub paths: Vec<&'a NetPath>,
    /// Rate and round trip of the others, medians: GB/s, microseconds.
    pub others: (f64, Option<f64>),
    /// What all paths carry together, and would if these were as fast as the others, GB/s.
    pub sums: (f64, f64),
}

/// Slow paths of a connection, if any is.
pub(super) fn of_connection<'a>(seen: Seen<'a>) -> Option<Slow<'a>> {
    let known = |path: &&NetPath| path.timed_bytes >= ENOUGH.0;
    let paths: Vec<(&NetPath, f64, f64)> = seen
        .connection
        .paths
        .iter()
        .filter(known)
        .filter_map(|path| Some((path, path.rate()?, share(seen, path))))
        .collect();
    let others = |path: &NetPath| {
        let others = paths.iter().filter(|(other, ..)| !std::ptr::eq(*other, path));
        median(&others.map(|(_, rate, share)| rate / share).collect::<Vec<_>>())
    };
    let slower = |(path, rate, share): &(&NetPath, f64, f64), times: f64| {
        path.timed_us >= ENOUGH.1
            && others(path).is_some_and(|others| rate / share * times < others)
    };
    if !paths.iter().any(|one| slower(one, SLOW)) {
        return None;
    }
    let (slow, fast): (Vec<_>, Vec<_>) = paths.iter().partition(|one| slower(one, AS_WELL));
    let each = median(&fast.iter().map(|(_, rate, share)| rate / share).collect::<Vec<_>>())?;
    let sum: f64 = paths.iter().map(|(_, rate, _)| rate).sum();
    let missing: f64 = slow.iter().map(|(_, rate, share)| each * share - rate).sum();
    let rtt: Vec<f64> = fast.iter().filter_map(|(path, ..)| Some(path.rtt_us?.into())).collect();
    Some(Slow {
        paths: slow.iter().map(|(path, ..)| *path).collect(),
        others: (median(&fast.iter().map(|(_, rate, _)| *rate).collect::<Vec<_>>())?, median(&rtt)),
        sums: (sum, sum + missing.max(0.0)),
    })
}

/// What a path may be expected to carry against the others: its interface's speed over its paths, where the speed of
/// all interfaces in use is known.
fn share(seen: Seen<'_>, path: &NetPath) -> f64 {
    let speed = |local: IpAddr| {
        let one = seen.process.interfaces.iter().find(|one| one.address == local)?;
        one.speed_mbps.filter(|speed| *speed > 0)
    };
    let local = |path: &NetPath| path.local.map(|local| local.ip());
    let all: Option<Vec<IpAddr>> = seen.connection.paths.iter().map(local).collect();
    let Some((all, own)) = all.zip(local(path)) else { return 1.0 };
    if !all.iter().all(|local| speed(*local).is_some()) {
        return 1.0;
    }
    let sharing = all.iter().filter(|local| **local == own).count();
    f64::from(speed(own).unwrap_or(1)) / sharing.max(1) as f64
}

pub(super) fn look(between: &[Seen<'_>]) -> Option<Finding> {
    let found: Vec<(Seen<'_>, Slow<'_>)> =
        between.iter().filter_map(|seen| Some((*seen, of_connection(*seen)?))).collect();
    let least = if between.len() <= FEW { 1 } else { 2.max(between.len() / SEVERAL) };
    if found.len() < least {
        return None;
    }
    let connections: Vec<Seen<'_>> = found.iter().map(|(seen, _)| *seen).collect();
    let paths = found.iter().map(|(_, slow)| slow.paths.len()).sum();
    let carried: f64 = found.iter().map(|(_, slow)| slow.sums.0).sum();
    let possible: f64 = found.iter().map(|(_, slow)| slow.sums.1).sum();
    let each = found.iter().flat_map(|(_, slow)| {
        slow.paths.iter().filter_map(move |path| Some((*path, slow, slow.others.0 / path.rate()?)))
    });
    let mut each: Vec<(&NetPath, &Slow<'_>, f64)> = each.collect();
    each.sort_by(|a, b| b.2.total_cmp(&a.2));
    let worst = each.first().map_or(SLOW, |(_, _, times)| *times);
    let (are, costs) = if paths == 1 { ("is", "it costs") } else { ("are", "they cost") };
    let cause = format!(
        "{} {are} up to {worst:.1} times slower than the others between the same hosts: {costs} about {} % of what all of them could carry ({} instead of {} Gb/s while busy)",
        which(paths, &connections),
        percent((1.0 - carried / possible) * 100.0),
        rate(carried * 8.0),
        rate(possible * 8.0),
    );
    let confidence = if paths > 1 { Confidence::Likely } else { Confidence::Possible };
    let mut finding = Finding::new("slow-paths", Weight::Slow, confidence, cause);
    for (path, slow, _) in each.iter().take(SHOWN) {
        let (of_others, their_rtt) = slow.others;
        let rtt = path.rtt_us.zip(their_rtt).map_or(String::new(), |(rtt, theirs)| {
            format!("; round trip {}, theirs {}", time(f64::from(rtt)), time(theirs))
        });
        finding = finding.evidence(format!(
            "{}: {} Gb/s over {} while busy, the others {}{rtt}; {} of {} segments sent again",
            ends(path),
            rate(path.rate().unwrap_or(0.0) * 8.0),
            time(path.timed_us as f64),
            rate(of_others * 8.0),
            path.retransmitted,
            path.segments,
        ));
    }
    let own: Vec<Option<IpAddr>> =
        each.iter().map(|(path, ..)| path.local.map(|local| local.ip())).collect();
    let interface = own.first().copied().flatten().filter(|first| {
        let is_own = |path: &NetPath| path.local.is_some_and(|local| local.ip() == *first);
        let beside = |seen: &Seen<'_>| !seen.connection.paths.iter().all(is_own);
        own.iter().all(|other| *other == Some(*first)) && found.iter().any(|(seen, _)| beside(seen))
    });
    Some(match interface {
        Some(address) => finding
            .remedy(format!("all of them leave by {address}: look at that interface, its cable and its port at the switch"))
            .confirm("ethtool eth0 | grep Speed, with that interface's name, at both ends; busbw doctor"),
        None => finding
            .remedy("the paths of one pair of addresses are spread over links by their ports: look for a link among these that is slower, busier, or came up at a lower speed")
            .confirm("the counters and speeds of the switches' ports; the same run again: its paths have other ports"),
    })
}
