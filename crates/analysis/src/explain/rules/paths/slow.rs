//! Paths that are much slower than the others of their connection.
//! Not those that carried too little to know.

use std::net::IpAddr;

use busbw_stats::median;
use nccl_plugin_abi::net_stats::NetPath;

use super::{Counted, MAX_PATHS_LISTED, ends, which};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{percent, rate, time};

/// Minimum of timed bytes before a path's rate is known, and of timed microseconds before it is called slow.
const MIN_BYTES_AND_MICROSECONDS: (u64, u64) = (2 << 20, 200_000);
/// A path is slow if the median of the others is this many times as fast. Paths share links by chance, and
/// a path that shares with more others is slower for that alone: see docs/explain.md.
const SLOW_FACTOR: f64 = 4.0;
/// Where a path is slow, others from this factor on count as slow with it.
const ALSO_SLOW_FACTOR: f64 = 2.0;
/// Up to this number of connections, one with a slow path is reported. With more, at least two must have
/// one, and one in [`CONNECTIONS_PER_SLOW_ONE`]: some have a slow path by chance.
const FEW_CONNECTIONS: usize = 3;
const CONNECTIONS_PER_SLOW_ONE: usize = 10;

/// The slow paths of a connection.
pub(super) struct Slow<'a> {
    pub paths: Vec<&'a NetPath>,
    /// Medians of the other paths: rate in GB/s, round trip in microseconds.
    pub others: (f64, Option<f64>),
    /// Rate of all paths together, and the same if these were as fast as the others, GB/s.
    pub sums: (f64, f64),
}

/// Slow paths of a connection, if any is.
pub(super) fn of_connection<'a>(seen: Counted<'a>) -> Option<Slow<'a>> {
    let known = |path: &&NetPath| path.timed_bytes >= MIN_BYTES_AND_MICROSECONDS.0;
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
        path.timed_us >= MIN_BYTES_AND_MICROSECONDS.1
            && others(path).is_some_and(|others| rate / share * times < others)
    };
    if !paths.iter().any(|one| slower(one, SLOW_FACTOR)) {
        return None;
    }
    let (slow, fast): (Vec<_>, Vec<_>) =
        paths.iter().partition(|one| slower(one, ALSO_SLOW_FACTOR));
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

/// The rate to expect of a path relative to the others: its interface's speed divided by the interface's
/// paths. 1 where the speed of an interface in use is not known.
fn share(seen: Counted<'_>, path: &NetPath) -> f64 {
    let speed = |local: IpAddr| {
        let one = seen.process.interfaces.iter().find(|one| one.address == local)?;
        one.speed_mbps.filter(|speed| *speed > 0)
    };
    // Over RDMA an interface carries the handshakes alone.
    let local = |path: &NetPath| path.local.filter(|_| path.port.is_none()).map(|local| local.ip());
    let all: Option<Vec<IpAddr>> = seen.connection.paths.iter().map(local).collect();
    let Some((all, own)) = all.zip(local(path)) else { return 1.0 };
    if !all.iter().all(|local| speed(*local).is_some()) {
        return 1.0;
    }
    let sharing = all.iter().filter(|local| **local == own).count();
    f64::from(speed(own).unwrap_or(1)) / sharing.max(1) as f64
}

pub(super) fn check(between: &[Counted<'_>]) -> Option<Finding> {
    let found: Vec<(Counted<'_>, Slow<'_>)> =
        between.iter().filter_map(|seen| Some((*seen, of_connection(*seen)?))).collect();
    let least = if between.len() <= FEW_CONNECTIONS {
        1
    } else {
        2.max(between.len() / CONNECTIONS_PER_SLOW_ONE)
    };
    if found.len() < least {
        return None;
    }
    let connections: Vec<Counted<'_>> = found.iter().map(|(seen, _)| *seen).collect();
    let paths = found.iter().map(|(_, slow)| slow.paths.len()).sum();
    let carried: f64 = found.iter().map(|(_, slow)| slow.sums.0).sum();
    let possible: f64 = found.iter().map(|(_, slow)| slow.sums.1).sum();
    let each = found.iter().flat_map(|(_, slow)| {
        slow.paths.iter().filter_map(move |path| Some((*path, slow, slow.others.0 / path.rate()?)))
    });
    let mut each: Vec<(&NetPath, &Slow<'_>, f64)> = each.collect();
    each.sort_by(|a, b| b.2.total_cmp(&a.2));
    let worst = each.first().map_or(SLOW_FACTOR, |(_, _, times)| *times);
    let (are, costs) = if paths == 1 { ("is", "it costs") } else { ("are", "they cost") };
    let cause = format!(
        "{} {are} up to {worst:.1} times slower than the others between the same hosts: {costs} about {} % of the bandwidth ({} instead of {} Gb/s while busy)",
        which(paths, &connections),
        percent((1.0 - carried / possible) * 100.0),
        rate(carried * 8.0),
        rate(possible * 8.0),
    );
    let confidence = if paths > 1 { Confidence::Likely } else { Confidence::Possible };
    let mut finding = Finding::new("slow-paths", Severity::Slow, cause).confidence(confidence);
    for (path, slow, _) in each.iter().take(MAX_PATHS_LISTED) {
        let (of_others, their_rtt) = slow.others;
        let rtt = path.rtt_us.zip(their_rtt).map_or(String::new(), |(rtt, theirs)| {
            format!("; round trip {}, theirs {}", time(f64::from(rtt)), time(theirs))
        });
        let segments = match path.port {
            Some(_) => String::new(),
            None => {
                let NetPath { retransmitted, segments, .. } = path;
                format!("; {retransmitted} of {segments} segments retransmitted")
            }
        };
        finding = finding.evidence(format!(
            "{}: {} Gb/s over {} while busy, the others {}{rtt}{segments}",
            ends(path),
            rate(path.rate().unwrap_or(0.0) * 8.0),
            time(path.timed_us as f64),
            rate(of_others * 8.0),
        ));
    }
    // The address of the interface, or the RDMA port.
    let way = |path: &NetPath| {
        path.port.clone().or_else(|| path.local.map(|local| local.ip().to_string()))
    };
    let own: Vec<Option<String>> = each.iter().map(|(path, ..)| way(path)).collect();
    let over_rdma = each.first().is_some_and(|(path, ..)| path.port.is_some());
    let interface = own.first().cloned().flatten().filter(|first| {
        let is_own = |path: &NetPath| way(path).as_ref() == Some(first);
        let beside = |seen: &Counted<'_>| !seen.connection.paths.iter().all(is_own);
        own.iter().all(|other| other.as_ref() == Some(first))
            && found.iter().any(|(seen, _)| beside(seen))
    });
    Some(match interface {
        Some(port) if over_rdma => finding
            .remedy(format!("all of them use {port}: check that port, its cable and its switch port"))
            .confirm("ibstat; rdma statistic show link; busbw doctor"),
        Some(address) => finding
            .remedy(format!("all of them use {address}: check that interface, its cable and its switch port"))
            .confirm("ethtool eth0 | grep Speed, with that interface's name, at both ends; busbw doctor"),
        None => finding
            .remedy("ECMP spreads the paths of an address pair over links by their ports: find the link that is slower, busier, or trained at a lower speed")
            .confirm("the counters and speeds of the switches' ports; repeat the run: its paths use other ports"),
    })
}
