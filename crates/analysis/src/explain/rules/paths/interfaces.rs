//! Traffic over one interface, although there are several.
//! Not how fast each is (`slow`).

use std::collections::BTreeSet;

use nccl_plugin_abi::net_stats::NetInterface;

use super::{LITTLE, Seen};
use crate::explain::finding::{Confidence, Finding, Weight};
use busbw_core::quantity::list;

/// An interface with less than this part of the other's speed would add little.
const WORTH: f64 = 0.5;

pub(super) fn look(between: &[Seen<'_>]) -> Option<Finding> {
    // Hosts differ: the first one that leaves interfaces out stands for all.
    between.iter().map(|seen| seen.process).find_map(|process| {
        let ours = || between.iter().filter(|seen| std::ptr::eq(seen.process, process));
        let paths = || ours().flat_map(|seen| &seen.connection.paths);
        if paths().fold(0u64, |sum, path| sum.saturating_add(path.bytes)) < LITTLE {
            return None;
        }
        let sent = paths().filter(|path| path.bytes > 0);
        let sent: Option<BTreeSet<_>> = sent.map(|path| path.local.map(|local| local.ip())).collect();
        let sent = sent?;
        let (used, idle): (Vec<&NetInterface>, Vec<&NetInterface>) = process
            .interfaces
            .iter()
            .filter(|one| !one.address.is_loopback())
            .partition(|one| sent.contains(&one.address));
        let ([used], false) = (used.as_slice(), idle.is_empty()) else { return None };
        let adds = |idle: &&&NetInterface| {
            let both = idle.speed_mbps.zip(used.speed_mbps);
            both.is_some_and(|(idle, used)| f64::from(idle) >= WORTH * f64::from(used))
        };
        let worth: Vec<&NetInterface> = idle.iter().filter(adds).copied().collect();
        let (weight, confidence) = match worth.is_empty() {
            false => (Weight::Slow, Confidence::Likely),
            true => (Weight::Note, Confidence::Possible),
        };
        let names: Vec<&str> = idle.iter().map(|one| one.name.as_str()).collect();
        let cause = format!(
            "everything left {} by {} alone, and nothing by {}",
            process.host,
            used.name,
            list(&names, "and")
        );
        let told = |one: &NetInterface| {
            let speed = one.speed_mbps.map_or("speed unknown".to_owned(), |speed| {
                format!("{} Gb/s", f64::from(speed) / 1000.0)
            });
            format!("{} ({}, {speed})", one.name, one.address)
        };
        let all: Vec<String> = std::iter::once(*used).chain(idle.iter().copied()).map(told).collect();
        let tried = paths().any(|path| {
            path.local.is_some_and(|local| idle.iter().any(|one| one.address == local.ip()))
        });
        let remedy = if tried {
            "paths from there do not come up: see whether both hosts reach each other by these interfaces (ping -I)"
        } else {
            "paths join interfaces in one subnet: give those of the other hosts addresses in the same ones; or leave out by NCCL_SOCKET_IFNAME what is not meant"
        };
        Some(
            Finding::new("one-interface-of-several", weight, confidence, cause)
                .evidence(format!("interfaces: {}", list(&all, "and")))
                .remedy(remedy)
                .confirm("ip -br addr, on both hosts; NCCL_DEBUG=INFO … | grep 'NET/busbw: one device over'"),
        )
    })
}
