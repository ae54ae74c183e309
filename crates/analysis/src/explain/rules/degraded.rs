//! Links that NCCL's log calls degraded: a port whose speed changed during the run, an NVLink fabric of less bandwidth, peers
//! that no longer answer RAS.
//! Not links that are slow and say nothing (`uneven_links`).
//!
//! Sources: `NET/IB : … speed change detected`, `MNNVL busId … degradedBw TRUE` (2.32 on), `RAS … timeout error`.

use std::collections::BTreeSet;

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{count, list, rate},
};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    [port(context), fabric(context), silent(context)].into_iter().flatten().collect()
}

/// A port that became slower.
fn port(context: &Context<'_>) -> Option<Finding> {
    let changes = context.facts().flat_map(|facts| &facts.speed_changes).map(|one| &one.what);
    let slower = changes.filter(|one| one.to_mbps < one.from_mbps).min_by_key(|one| one.to_mbps)?;
    let gbit = |mbps: u64| rate(mbps as f64 / 1000.0);
    Some(
        Finding::new(
            "port-slowed-down",
            Severity::Slow,
            format!(
                "port {} of {} went from {} to {} Gb/s while the job ran",
                slower.port,
                slower.device,
                gbit(slower.from_mbps),
                gbit(slower.to_mbps)
            ),
        )
        .confidence(Confidence::Certain)
        .evidence(format!(
            "NCCL's log: NET/IB : {}:{} speed change detected: {} -> {} Mbps",
            slower.device, slower.port, slower.from_mbps, slower.to_mbps
        ))
        .remedy("a link that trains with fewer lanes or a lower rate has a bad cable, transceiver or port: clean or replace it")
        .confirm(format!("ibstat {}; mlxlink -d {} -m -c", slower.device, slower.device)),
    )
}

fn fabric(context: &Context<'_>) -> Option<Finding> {
    let fabrics = context.facts().flat_map(|facts| &facts.fabrics).map(|one| &one.what);
    let told = fabrics.filter(|one| one.degraded == Some(true)).map(|one| {
        let (uuid, clique, mask) = (&one.uuid, &one.clique, &one.health_mask);
        format!("MNNVL … fabric UUID {uuid} cliqueId {clique} healthMask {mask} degradedBw TRUE")
    });
    // At level ATTN, which NCCL_DEBUG=WARN prints too.
    let remarks = context.facts().flat_map(|facts| facts.remarks.keys());
    let said = remarks.filter(|text| text.contains("DEGRADED_BANDWIDTH")).cloned();
    let evidence = told.chain(said).next()?;
    Some(
        Finding::new(
            "degraded-fabric",
            Severity::Slow,
            "a GPU's NVLink fabric has less bandwidth than it should: links or switches are down",
        )
        .confidence(Confidence::Certain)
        .evidence(evidence)
        .remedy("ask the fabric manager of the rack (NMX) which links are down; drain the tray until they are back")
        .confirm("nvidia-smi -q | grep -A8 Fabric; nvidia-smi nvlink --status"),
    )
}

/// Peers that RAS gave up waiting for.
fn silent(context: &Context<'_>) -> Option<Finding> {
    let all: Vec<_> = context
        .facts()
        .flat_map(|facts| &facts.ras_timeouts)
        .filter(|one| one.what.what.ends_with("error"))
        .collect();
    let peers: BTreeSet<&str> =
        all.iter().filter_map(|one| one.what.peer.as_deref()?.split('<').next()).collect();
    let first = all.first()?;
    let names: Vec<&str> = peers.iter().take(4).copied().collect();
    let who = match names.as_slice() {
        [] => "processes of the job".to_owned(),
        names => format!("processes at {}", list(names, "and")),
    };
    let lines = all.iter().map(|one| one.said).sum::<u64>();
    Some(
        Finding::new(
            "silent-peer",
            Severity::Warning,
            format!("{who} did not answer NCCL's RAS in time"),
        )
        .confidence(Confidence::Likely)
        .evidence(format!("RAS {} ({} s), {}", first.what.what, first.what.limit_s, count(lines, "line")))
        .remedy("look whether those processes live and run, and whether the bootstrap network reaches them; a stopped or starved process is silent, too")
        .confirm("ncclras -v on a host of the job; on those hosts: ps, dmesg"),
    )
}
