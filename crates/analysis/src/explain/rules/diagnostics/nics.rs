//! The bandwidths of ib_write_bw in NCCL's diagnostics, held against the port's rate: a fabric that is evenly slow has no outlier.
//! Not the bandwidth of a collective: each rank's NIC writes alone, messages of 64 KiB.

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{count, list, percent, rate},
};
use busbw_hardware::{limits::framing, machine::Nics};
use busbw_library_logs::nccl::{DiagnosticFact, DiagnosticResult};

use super::super::super::context::Context;

/// A port that attains less of its limit is slow. The NCCL user guide's example attains 94 % at least; messages of 64 KiB out of
/// host memory and few queue pairs cost some.
const HEALTHY_SHARE: f64 = 0.8;

/// What NCCL takes for the rate of a port that it cannot read, Gb/s.
const UNREADABLE_PORT_GBIT: f64 = 10.0;

/// The highest bandwidth of one NIC.
struct Limit {
    /// Gb/s.
    gbit: f64,
    /// What sets it, and who says so.
    words: String,
}

/// The summary of a mode.
struct Summary<'a> {
    mode: &'a str,
    min: f64,
    median: f64,
    max: f64,
    ranks: u32,
    line: String,
}

pub(super) fn check(context: &Context<'_>, results: &[&DiagnosticResult]) -> Vec<Finding> {
    let mut findings = outliers(context, results);
    let has_outliers = !findings.is_empty();
    findings
        .extend(summaries(results).filter_map(|one| level(context, results, &one, has_outliers)));
    findings.extend(failed(results));
    findings
}

/// Whether all medians and slowest ranks come near the limit; none without a measurement or a limit.
pub(super) fn within_limit(context: &Context<'_>, results: &[&DiagnosticResult]) -> Option<bool> {
    let limit = limit(context, results).ok()?;
    let mut shares = summaries(results).map(|one| one.min / limit.gbit).peekable();
    shares.peek()?;
    Some(shares.all(|share| (HEALTHY_SHARE..=1.02).contains(&share)))
}

fn summaries<'a>(results: &'a [&DiagnosticResult]) -> impl Iterator<Item = Summary<'a>> {
    results.iter().filter_map(|one| match &one.fact {
        Some(DiagnosticFact::NetBandwidth { mode, min_gbit, median_gbit, max_gbit, ranks }) => {
            Some(Summary {
                mode,
                min: *min_gbit,
                median: *median_gbit,
                max: *max_gbit,
                ranks: *ranks,
                line: one.line(),
            })
        }
        _ => None,
    })
}

/// The limit of one rank's NIC, or why there is none.
fn limit(context: &Context<'_>, results: &[&DiagnosticResult]) -> Result<Limit, String> {
    let shared = results.iter().any(|one| one.text.starts_with("net devices are shared"));
    if shared {
        return Err(
            "several ranks shared a NIC during the check, and how many is not in the report"
                .to_owned(),
        );
    }
    if let Some(known) = &context.machine {
        let rdma = known.machine.node.nics.iter().filter(|one| one.kind.rdma());
        let each = rdma.filter_map(of_nics).reduce(|a, b| if b.gbit < a.gbit { b } else { a });
        if let Some(limit) = each {
            return Ok(limit);
        }
    }
    let facts = || context.facts();
    let ports = facts().flat_map(|one| &one.topologies).flat_map(|dump| &dump.nets);
    let readable = ports.map(|net| net.rate * 8.0).filter(|rate| *rate > UNREADABLE_PORT_GBIT);
    if let Some(gbit) = readable.reduce(f64::min) {
        let words = format!("{} Gb/s, the port's rate in NCCL's topology", rate(gbit));
        return Ok(Limit { gbit, words });
    }
    let devices = facts().flat_map(|one| &one.net_devices).map(|one| &one.what);
    // Only the first port of a merged device is measured.
    let single = devices.filter(|device| !device.name.contains('+'));
    let speeds = single.filter_map(|device| device.speed_mbps).min();
    let Some(mbps) = speeds.filter(|mbps| *mbps > 0) else {
        return Err("neither the file nor --machine says how fast the port is".to_owned());
    };
    let gbit = mbps as f64 / 1000.0;
    Ok(Limit { gbit, words: format!("{} Gb/s, the device's speed in NCCL's log", rate(gbit)) })
}

/// The payload of a port, or of its slot where that is less.
fn of_nics(nics: &Nics) -> Option<Limit> {
    let line = nics.rate?;
    let port = framing::payload(nics).map_or(line, |gigabytes| gigabytes * 8.0);
    // Each port alone has the slot's whole width, but all ranks measure at once.
    let slot = nics
        .slot
        .map(|slot| slot.payload().unwrap_or(slot.line()) * 8.0 / nics.sharing.max(1) as f64);
    Some(match slot.filter(|slot| *slot < port) {
        Some(slot) => Limit {
            gbit: slot,
            words: format!(
                "{} Gb/s, the payload of its PCIe slot ({} Gb/s port)",
                rate(slot),
                rate(line)
            ),
        },
        None => Limit {
            gbit: port,
            words: format!("{} Gb/s, the payload of a port of {} Gb/s", rate(port), rate(line)),
        },
    })
}

/// One mode's figures against the limit.
fn level(
    context: &Context<'_>,
    results: &[&DiagnosticResult],
    one: &Summary<'_>,
    has_outliers: bool,
) -> Option<Finding> {
    let figures = format!(
        "{} Gb/s ({} to {}, {}, {})",
        rate(one.median),
        rate(one.min),
        rate(one.max),
        one.mode,
        count(one.ranks, "rank")
    );
    let found = |severity, cause: String| {
        Some(
            Finding::new("diagnostics-bandwidth", severity, cause)
                .confidence(Confidence::Certain)
                .evidence(one.line.clone()),
        )
    };
    let limit = match limit(context, results) {
        Ok(limit) => limit,
        Err(why) => {
            let cause = format!("the NICs write {figures}; whether that is fast is unknown: {why}");
            return found(Severity::Unknown, cause).map(|finding| {
                finding
                    .remedy("name the machine (--machine NAME or FILE), or run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH, which prints the ports' rates")
                    .confirm("ibstat; cat /sys/class/infiniband/*/ports/*/rate")
            });
        }
    };
    let share = one.median / limit.gbit;
    let words = &limit.words;
    if share > 1.02 {
        let cause =
            format!("the NICs write {figures}, more than {words}: the machine is another one");
        return found(Severity::Note, cause);
    }
    if share < HEALTHY_SHARE {
        let cause = format!(
            "all NICs are slow alike: {figures} is {} % of {words}; NCCL compares ranks with their median only and calls it OK",
            percent(share * 100.0)
        );
        return found(Severity::Slow, cause).map(|finding| {
            finding
                .cost(format!("{} Gb/s a NIC", rate(limit.gbit - one.median)))
                .remedy("look at what all hosts share: the ports' active rate and width, MTU, PCIe slot and payload size, ACS and IOMMU, and oversubscribed or throttled switches")
                .confirm("ibstat; sudo lspci -vv | grep -e LnkSta: -e MaxPayload; ib_write_bw --report_gbits -q 4 -s 1048576 between two hosts; sudo busbw doctor")
        });
    }
    if one.min / limit.gbit < HEALTHY_SHARE && !has_outliers {
        let cause = format!(
            "the slowest rank's NIC writes {} Gb/s, {} % of {words}; it is less than 30 % off the median, so that NCCL does not name it",
            rate(one.min),
            percent(one.min / limit.gbit * 100.0)
        );
        return found(Severity::Slow, cause).map(|finding| {
            finding
                .remedy("find the host: measure all pairs of hosts")
                .confirm("busbw pairs -H HOSTS; ib_write_bw --report_gbits between two hosts")
        });
    }
    let cause = format!(
        "NICs: {} of {words}, {} %; {} to {}, {}, {}",
        rate(one.median),
        percent(share * 100.0),
        rate(one.min),
        rate(one.max),
        one.mode,
        count(one.ranks, "rank")
    );
    found(Severity::Note, cause)
}

/// Ranks that NCCL found more than 30 % off the median.
fn outliers(context: &Context<'_>, results: &[&DiagnosticResult]) -> Vec<Finding> {
    let limit = limit(context, results).ok();
    let of_limit = |gbit: f64| match &limit {
        Some(limit) => format!(", {} % of {}", percent(gbit / limit.gbit * 100.0), limit.words),
        None => String::new(),
    };
    let mut slow: Vec<(u32, &str, f64, f64, String)> = Vec::new();
    let mut fast: Vec<String> = Vec::new();
    let mut more = 0;
    for one in results {
        match &one.fact {
            Some(DiagnosticFact::NetOutlier { rank, host, gbit, median_gbit, .. }) => {
                if gbit < median_gbit {
                    slow.push((*rank, host, *gbit, *median_gbit, one.line()));
                } else {
                    fast.push(one.line());
                }
            }
            Some(DiagnosticFact::MoreNetOutliers { ranks, .. }) => more += ranks,
            _ => {}
        }
    }
    slow.sort_by(|a, b| a.2.total_cmp(&b.2));
    let mut findings = Vec::new();
    if let [(rank, host, gbit, median, _), rest @ ..] = slow.as_slice() {
        let mut ranks: Vec<u32> =
            rest.iter().map(|(rank, ..)| *rank).filter(|one| one != rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut hosts: Vec<&str> = slow.iter().map(|(_, host, ..)| *host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let others = match (ranks.len(), more) {
            (0, 0) => String::new(),
            (listed, more) => {
                format!(", and {} too", count(listed as u64 + u64::from(more), "other rank"))
            }
        };
        let cause = format!(
            "the NIC of rank {rank} on {host} writes {} Gb/s{}; the median is {}{others}",
            rate(*gbit),
            of_limit(*gbit),
            rate(*median)
        );
        let place = match hosts.as_slice() {
            [one] if slow.len() > 1 => {
                format!("all slow ranks are on {one}: compare that host with another")
            }
            [one] => format!(
                "compare {one} with another host: port rate and width, PCIe slot, cable and its errors, IOMMU"
            ),
            all => format!(
                "the ranks are on {}: neighbours in NCCL's ring of hosts share their measurement, so one of them or the link between them may be slow; measure all pairs",
                list(all, "and")
            ),
        };
        let mut finding = Finding::new("diagnostics-slow-nic", Severity::Slow, cause)
            .confidence(Confidence::Certain)
            .cost(format!("{} Gb/s", rate(median - gbit)));
        finding.evidence.extend(slow.iter().take(3).map(|one| one.4.clone()));
        findings.push(finding.remedy(place).confirm(format!(
            "on {host}: ibstat; sudo lspci -vv | grep LnkSta:; perfquery or ethtool -S for errors; busbw pairs -H HOSTS"
        )));
    }
    if let Some(line) = fast.first() {
        findings.push(
            Finding::new(
                "diagnostics-fast-nic",
                Severity::Note,
                "a NIC is over 30 % faster than the median: the others may be what is slow",
            )
            .confidence(Confidence::Likely)
            .evidence(line.clone()),
        );
    }
    findings
}

/// Pairs of NICs without a result, and a check that could not run.
fn failed(results: &[&DiagnosticResult]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pairs = || {
        results.iter().filter_map(|one| match &one.fact {
            Some(DiagnosticFact::FailedNetPair { server, client, why, .. }) => {
                Some((server, client, why, one))
            }
            _ => None,
        })
    };
    let several = pairs().count();
    // A link that is far too slow runs into the time limit of the tool.
    let slow = pairs().find(|(_, _, why, _)| why.contains("timed out"));
    if let Some(([server, server_device], [client, client_device], why, one)) =
        slow.or(pairs().next())
    {
        let timed_out = why.contains("timed out");
        let severity = if timed_out { Severity::Slow } else { Severity::Warning };
        let more = if several > 1 { format!(", and {} more", several - 1) } else { String::new() };
        let cause = format!(
            "ib_write_bw between {server} ({server_device}) and {client} ({client_device}) gave no result{more}: {why}"
        );
        let remedy = match timed_out {
            true => {
                "a link that works takes well under a second: look at this pair's ports and cables for errors; a larger NCCL_DIAGNOSTICS_IB_BW_TIMEOUT (5 s) only waits longer"
            }
            false => {
                "run the command by hand between the two hosts: names must resolve, the port must be open, and perftest be the same release on both"
            }
        };
        findings.push(
            Finding::new("diagnostics-nic-pair", severity, cause)
                .confidence(Confidence::Certain)
                .evidence(one.line())
                .remedy(remedy)
                .confirm(format!("ib_write_bw -d {server_device} --report_gbits on {server}, ib_write_bw -d {client_device} --report_gbits {server} on {client}")),
        );
    }
    let unable = results.iter().find(|one| {
        let known = [
            "cannot ",
            "required external tool",
            "failed: ",
            "test unable",
            "setup failed",
            "bootstrap failure",
            "capability probe",
        ];
        one.check == "net bw" && !one.ok && known.iter().any(|word| one.text.starts_with(word))
    });
    if let Some(one) = unable {
        let remedy = match one.text.starts_with("required external tool") {
            true => "install perftest (ib_write_bw) on every host",
            false => "measure with busbw instead, which needs no perftest",
        };
        let why = one.text.split(" in comm 0x").next().unwrap_or_default();
        findings.push(
            Finding::new(
                "diagnostics-incomplete",
                Severity::Unknown,
                format!("NCCL's check of the network did not run to its end: {why}"),
            )
            .confidence(Confidence::Certain)
            .evidence(one.line())
            .remedy(remedy)
            .confirm("busbw pairs -H HOSTS"),
        );
    }
    findings
}
