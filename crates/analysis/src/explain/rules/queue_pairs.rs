//! Queue pairs whose work requests take far longer than those of the same host's others, by NCCL's `WQE latency summary`.
//! Not bandwidth, and not which switch is on the way.
//!
//! Source: NCCL_IB_WQE_LATENCY_THRESHOLD_NS, NCCL's src/transport/net_ib: times from post to poll, which include the wait behind
//! earlier requests and the proxy thread's own delays.

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{count, list, time},
};
use busbw_library_logs::nccl::{WqeLatency, WqeSummary};

use super::super::context::Context;

/// Work requests from which on a 99th percentile means something.
const MIN_REQUESTS: u64 = 100;
/// Other queue pairs of a host to hold one against.
const MIN_OTHERS: usize = 3;
/// A 99th percentile so many times the median of the others' stands out: histogram buckets are powers of two, so that two
/// neighbours may differ by two without a reason.
const P99_FACTOR: f64 = 4.0;
/// A difference of the 99th percentile below this costs no bandwidth, microseconds.
const MIN_DIFFERENCE_US: f64 = 100.0;
/// Share of slow requests that stands out where the others have next to none.
const MIN_SLOW_SHARE: f64 = 0.001;

/// A queue pair that stands out.
struct Outlier<'a> {
    one: &'a WqeLatency,
    summary: &'a WqeSummary,
    /// Median of the others' 99th percentiles, nanoseconds.
    others_p99_ns: f64,
}

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let all: Vec<&WqeLatency> = context.facts().flat_map(|facts| &facts.wqe_latencies).collect();
    let outliers = outliers(&all);
    let mut findings: Vec<Finding> = slow(&outliers, &all).into_iter().collect();
    findings.extend(stalled(&all));
    findings
}

/// A queue pair that told of enough requests, as sender or receiver.
fn told(one: &WqeLatency) -> Option<&WqeSummary> {
    one.summary.as_ref().filter(|summary| summary.count >= MIN_REQUESTS)
}

fn outliers<'a>(all: &[&'a WqeLatency]) -> Vec<Outlier<'a>> {
    let mut by_host: BTreeMap<(&str, &str), Vec<(&WqeLatency, &WqeSummary)>> = BTreeMap::new();
    for one in all {
        if let Some(summary) = told(one) {
            by_host.entry((&one.host, &one.direction)).or_default().push((one, summary));
        }
    }
    let mut found = Vec::new();
    for alike in by_host.values() {
        let mut p99: Vec<f64> = alike.iter().map(|(_, one)| one.p99_ns as f64).collect();
        p99.sort_by(f64::total_cmp);
        // The median of all is that of the others, unless half of them stand out.
        let Some(&median) = p99.get((p99.len().saturating_sub(1)) / 2) else { continue };
        if p99.len() <= MIN_OTHERS {
            continue;
        }
        let share = |one: &WqeSummary| one.slow as f64 / one.count as f64;
        let mut shares: Vec<f64> = alike.iter().map(|(_, one)| share(one)).collect();
        shares.sort_by(f64::total_cmp);
        let usual = shares.get((shares.len() - 1) / 2).copied().unwrap_or_default();
        for (one, summary) in alike {
            let p99 = summary.p99_ns as f64;
            let late = p99 > median * P99_FACTOR && p99 - median > MIN_DIFFERENCE_US * 1000.0;
            let often = share(summary) > MIN_SLOW_SHARE.max(usual * 10.0);
            if late || often {
                found.push(Outlier { one, summary, others_p99_ns: median });
            }
        }
    }
    found
}

fn slow(outliers: &[Outlier<'_>], all: &[&WqeLatency]) -> Option<Finding> {
    let worst = outliers.iter().max_by_key(|one| one.summary.p99_ns)?;
    let WqeLatency { host, device, port, peer, qpn, .. } = worst.one;
    let what = common(outliers, all);
    let cause = format!(
        "{what}: 99 % of the work requests of queue pair {qpn} to {peer} on {device} port {port} of {host} end within {}, those of the host's other queue pairs within {}; {} of {} took longer than NCCL's threshold of {}",
        time(worst.summary.p99_ns as f64 / 1000.0),
        time(worst.others_p99_ns / 1000.0),
        worst.summary.slow,
        worst.summary.count,
        time(worst.summary.threshold_ns as f64 / 1000.0),
    );
    Some(
        Finding::new("slow-queue-pair", Severity::Slow, cause)
            .confidence(Confidence::Likely)
            .evidence(line(worst.one, worst.summary))
            .evidence(format!("{} of {} stand out", outliers.len(), count(all.len() as u64, "queue pair")))
            .remedy("look at the port's errors and at congestion on the way to that peer; where one path of several is hot, spread the connection: NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_SPLIT_DATA_ON_QPS=1, or adaptive routing")
            .confirm(format!("on {host}: perfquery or ethtool -S for {device}; busbw pairs between the two hosts; busbw sweep -x NCCL_IB_QPS_PER_CONNECTION=1,4 all_reduce -b 64M -e 1G -f 4")),
    )
}

/// What the queue pairs that stand out share, and the others have not: device, or peer's address.
fn common(outliers: &[Outlier<'_>], all: &[&WqeLatency]) -> String {
    let device = |one: &WqeLatency| (one.host.clone(), one.device.clone(), one.port);
    // The port of an address is the connection's.
    let peer = |one: &WqeLatency| one.peer.split('<').next().unwrap_or_default().to_owned();
    let devices: BTreeSet<_> = outliers.iter().map(|slow| device(slow.one)).collect();
    let peers: BTreeSet<_> = outliers.iter().map(|slow| peer(slow.one)).collect();
    let known = || all.iter().filter(|one| told(one).is_some());
    let whole = |of: &dyn Fn(&WqeLatency) -> bool| {
        let count = known().filter(|one| of(one)).count();
        count > 1 && count == outliers.len()
    };
    match (devices.iter().next(), peers.iter().next()) {
        (Some(one), _) if devices.len() == 1 && whole(&|other| device(other) == *one) => {
            format!("every queue pair of {} port {} on {} is slow", one.1, one.2, one.0)
        }
        (_, Some(one)) if peers.len() == 1 && whole(&|other| peer(other) == *one) => {
            format!("every queue pair to {one} is slow")
        }
        _ if outliers.len() == 1 => "one queue pair is slow".to_owned(),
        (_, Some(_)) if peers.len() <= 3 => {
            let names: Vec<&String> = peers.iter().collect();
            format!("queue pairs to {} are slow", list(&names, "and"))
        }
        _ => format!("{} are slow", count(outliers.len() as u64, "queue pair")),
    }
}

fn line(one: &WqeLatency, summary: &WqeSummary) -> String {
    format!(
        "NET/IB: WQE latency summary [{} peer={} dev={} qpn={} port={}]: n={} slow={} … p50={} p99={} max={} ns",
        one.direction,
        one.peer,
        one.device,
        one.qpn,
        one.port,
        summary.count,
        summary.slow,
        summary.p50_ns,
        summary.p99_ns,
        summary.max_ns
    )
}

/// Work requests that had no completion for longer than the threshold.
fn stalled(all: &[&WqeLatency]) -> Option<Finding> {
    let worst =
        all.iter().filter(|one| one.stall_lines > 0).max_by_key(|one| one.longest_stall_ns)?;
    let pairs = all.iter().filter(|one| one.stall_lines > 0).count() as u64;
    let more = if pairs > 1 {
        format!(", and {} more", count(pairs - 1, "queue pair"))
    } else {
        String::new()
    };
    Some(
        Finding::new(
            "stalled-queue-pair",
            Severity::Slow,
            format!(
                "a work request of queue pair {} to {} on {} port {} of {} had no completion for {}{more}",
                worst.qpn,
                worst.peer,
                worst.device,
                worst.port,
                worst.host,
                time(worst.longest_stall_ns as f64 / 1000.0)
            ),
        )
        .confidence(Confidence::Likely)
        .evidence(format!("NCCL's log: NET/IB: WQE stall (no CQE), {}", count(worst.stall_lines, "line")))
        .remedy("look at the peer first: a process that is stopped or stuck there looks alike; then at the port's link, errors and pauses")
        .confirm(format!("on {}: perfquery or ethtool -S for {}; rdma resource show qp lqpn {}", worst.host, worst.device, worst.qpn)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_pair(qpn: u32, device: &str, peer: &str, p99_ns: u64, slow: u64) -> WqeLatency {
        WqeLatency {
            host: "a".to_owned(),
            direction: "send".to_owned(),
            peer: format!("{peer}<4{qpn}>"),
            device: device.to_owned(),
            qpn,
            port: 1,
            summary: Some(WqeSummary {
                count: 20_480,
                slow,
                threshold_ns: 1_000_000,
                p50_ns: 20_480,
                p99_ns,
                ..WqeSummary::default()
            }),
            ..WqeLatency::default()
        }
    }

    fn cause(all: &[WqeLatency]) -> Option<String> {
        let all: Vec<&WqeLatency> = all.iter().collect();
        slow(&outliers(&all), &all).map(|finding| finding.cause)
    }

    #[test]
    fn even_queue_pairs_and_few_of_them_are_no_finding() {
        let even: Vec<_> =
            (0..8).map(|n| queue_pair(n, "mlx5_0", "10.0.0.2", 65_536 << (n % 2), 0)).collect();
        assert_eq!(cause(&even), None);
        let few =
            [queue_pair(0, "mlx5_0", "b", 65_536, 0), queue_pair(1, "mlx5_0", "b", 6_553_600, 90)];
        assert_eq!(cause(&few), None);
    }

    #[test]
    fn the_device_or_the_peer_or_one_queue_pair_is_named() {
        let mut all: Vec<_> = (0..8)
            .map(|n| queue_pair(n, if n < 4 { "mlx5_0" } else { "mlx5_1" }, "10.0.0.2", 65_536, 0))
            .collect();
        all.push(queue_pair(8, "mlx5_2", "10.0.0.2", 4_194_304, 900));
        let one = cause(&all).expect("it stands out");
        assert!(one.starts_with("one queue pair is slow: 99 % of the work requests of queue pair 8 to 10.0.0.2<48> on mlx5_2 port 1 of a"), "{one}");
        all.push(queue_pair(9, "mlx5_2", "10.0.0.3", 4_194_304, 900));
        let device = cause(&all).expect("they stand out");
        assert!(device.starts_with("every queue pair of mlx5_2 port 1 on a is slow"), "{device}");
        all.truncate(8);
        all.push(queue_pair(8, "mlx5_0", "10.0.0.9", 4_194_304, 0));
        all.push(queue_pair(9, "mlx5_1", "10.0.0.9", 4_194_304, 0));
        let peer = cause(&all).expect("they stand out");
        assert!(peer.starts_with("every queue pair to 10.0.0.9 is slow"), "{peer}");
    }

    #[test]
    fn slow_requests_alone_stand_out_too() {
        let mut all: Vec<_> = (0..6).map(|n| queue_pair(n, "mlx5_0", "b", 65_536, 1)).collect();
        all.push(queue_pair(6, "mlx5_0", "c", 65_536, 100));
        let often = cause(&all).expect("it stands out");
        assert!(often.contains("100 of 20480 took longer"), "{often}");
    }

    #[test]
    fn a_request_without_completion() {
        let one = WqeLatency {
            stall_lines: 2,
            longest_stall_ns: 3_000_000_000,
            ..queue_pair(7, "mlx5_0", "b", 1, 0)
        };
        let found = stalled(&[&one]).expect("a stall");
        assert!(
            found.cause.contains("queue pair 7 to b<47> on mlx5_0 port 1 of a"),
            "{}",
            found.cause
        );
        assert!(stalled(&[&queue_pair(7, "mlx5_0", "b", 1, 0)]).is_none());
    }
}
