//! Traffic over one interface, although there are several.
//! Not how fast each is (`slow`).

use std::collections::BTreeSet;

use nccl_plugin_abi::net_stats::NetInterface;

use super::{Counted, MIN_BYTES_TO_COMPARE};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::list;

/// An idle interface is worth using from this share of the speed of the one in use.
const USEFUL_SPEED_SHARE: f64 = 0.5;

pub(super) fn check(between: &[Counted<'_>]) -> Option<Finding> {
    // The first process with idle interfaces is reported for all.
    between.iter().map(|seen| seen.process).find_map(|process| {
        let ours = || between.iter().filter(|seen| std::ptr::eq(seen.process, process));
        let paths = || ours().flat_map(|seen| &seen.connection.paths);
        if paths().fold(0u64, |sum, path| sum.saturating_add(path.bytes)) < MIN_BYTES_TO_COMPARE {
            return None;
        }
        let sent = paths().filter(|path| path.bytes > 0);
        // Over RDMA nothing goes through interfaces.
        let interface = |path: &nccl_plugin_abi::net_stats::NetPath| {
            path.local.filter(|_| path.port.is_none()).map(|local| local.ip())
        };
        let sent: Option<BTreeSet<_>> = sent.map(interface).collect();
        let sent = sent?;
        let (used, idle): (Vec<&NetInterface>, Vec<&NetInterface>) = process
            .interfaces
            .iter()
            .filter(|one| !one.address.is_loopback())
            .partition(|one| sent.contains(&one.address));
        let ([used], false) = (used.as_slice(), idle.is_empty()) else { return None };
        let adds = |idle: &&&NetInterface| {
            let both = idle.speed_mbps.zip(used.speed_mbps);
            both.is_some_and(|(idle, used)| f64::from(idle) >= USEFUL_SPEED_SHARE * f64::from(used))
        };
        let worth: Vec<&NetInterface> = idle.iter().filter(adds).copied().collect();
        let (severity, confidence) = match worth.is_empty() {
            false => (Severity::Slow, Confidence::Likely),
            true => (Severity::Note, Confidence::Possible),
        };
        let names: Vec<&str> = idle.iter().map(|one| one.name.as_str()).collect();
        let cause = format!(
            "{} sent everything through {}, and nothing through {}",
            process.host,
            used.name,
            list(&names, "and")
        );
        let describe = |one: &NetInterface| {
            let speed = one.speed_mbps.map_or("speed unknown".to_owned(), |speed| {
                format!("{} Gb/s", f64::from(speed) / 1000.0)
            });
            format!("{} ({}, {speed})", one.name, one.address)
        };
        let all: Vec<String> = std::iter::once(*used).chain(idle.iter().copied()).map(describe).collect();
        let tried = paths().any(|path| {
            path.local.is_some_and(|local| idle.iter().any(|one| one.address == local.ip()))
        });
        let remedy = if tried {
            "paths over the idle interfaces do not connect: check that both hosts reach each other through them (ping -I)"
        } else {
            "paths connect interfaces of the same subnet: give the interfaces of all hosts addresses in common subnets, or exclude the idle ones with NCCL_SOCKET_IFNAME"
        };
        Some(
            Finding::new("one-interface-of-several", severity, cause).confidence(confidence)
                .evidence(format!("interfaces: {}", list(&all, "and")))
                .remedy(remedy)
                .confirm("ip -br addr, on both hosts; NCCL_DEBUG=INFO … | grep 'NET/busbw: one device over'"),
        )
    })
}
