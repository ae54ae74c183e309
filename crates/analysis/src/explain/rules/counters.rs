//! Counters of devices of all hosts that grew while rows were measured, with the first such row: link errors, data sent
//! again, memory errors, throttled clocks, congestion. Records only.
//! Not counters of bytes.

use std::collections::BTreeMap;

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::record::{DeviceCounters, Meaning};
use busbw_logs::measurement::Row;

use super::super::context::{Context, of_size, plural};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let (spread, compare) = match context.by_nccl() {
        true => (
            "check whether other jobs ran; check PFC and ECN settings, and spread flows (NCCL_IB_QPS_PER_CONNECTION)",
            "busbw sweep -x NCCL_IB_QPS_PER_CONNECTION=1,4 all_reduce",
        ),
        false => ("check whether other jobs ran; check PFC and ECN settings", "ethtool -S eth0"),
    };
    let kinds = [
        (
            Meaning::LinkError,
            "link-errors",
            Severity::Slow,
            "links had errors while rows were measured",
            "clean or change the cable or transceiver, reseat the GPU or NIC",
            "busbw doctor; mlxlink -d mlx5_0 -c -e; nvidia-smi nvlink -e",
        ),
        (
            Meaning::SentAgain,
            "sent-again",
            Severity::Slow,
            "RDMA packets were lost, late or out of order, or a receiver was not ready: data was sent again",
            "RoCE: check that PFC or ECN is on for the traffic's priority, on hosts and switches; InfiniBand: check cables; \
             adaptive routing alone makes out_of_sequence grow",
            "busbw doctor; ethtool -S INTERFACE | grep -e discard -e pause; mlxlink -d mlx5_0 -c -e",
        ),
        (
            Meaning::MemoryError,
            "memory-errors",
            Severity::Slow,
            "a GPU's memory had errors",
            "have the GPU checked",
            "nvidia-smi -q -d ECC,PAGE_RETIREMENT",
        ),
        (
            Meaning::Throttled,
            "clocks-held-back",
            Severity::Slow,
            "a GPU throttled its clocks",
            "check its cooling and power limit",
            "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE",
        ),
        (
            Meaning::Congestion,
            "congestion",
            Severity::Note,
            "the network was congested: senders had to wait or packets were marked or dropped",
            spread,
            compare,
        ),
    ];
    kinds
        .into_iter()
        .filter_map(|(meaning, rule, severity, cause, remedy, confirm)| {
            let mut grown: BTreeMap<(String, String), u64> = BTreeMap::new();
            let mut first = None;
            for (number, row) in context.run.rows.iter().enumerate() {
                for (host, device) in devices(row) {
                    for (counter, by) in device.of(meaning) {
                        let name = format!("{host}{}", device.device);
                        let sum = grown.entry((name, counter.to_owned())).or_default();
                        *sum = sum.saturating_add(by);
                        first.get_or_insert((number, row));
                    }
                }
            }
            let (number, row) = first?;
            let certain = match meaning {
                Meaning::LinkError | Meaning::SentAgain => Confidence::Likely,
                _ => Confidence::Certain,
            };
            let cause = format!(
                "{cause}, first in row {} of {}{}",
                number + 1,
                context.run.rows.len(),
                of_size(row.size)
            );
            let mut finding = Finding::new(rule, severity, cause)
                .confidence(certain)
                .remedy(remedy)
                .confirm(confirm);
            let more = grown.len().saturating_sub(4);
            for ((device, counter), by) in grown.iter().take(4) {
                finding = finding.evidence(format!("{device}: {counter} grew by {by}"));
            }
            if more > 0 {
                finding = finding.evidence(format!("and {more} more {}", plural(more, "counter")));
            }
            Some(finding)
        })
        .collect()
}

/// The devices of a row, those of other hosts with the host in front.
fn devices(row: &Row) -> impl Iterator<Item = (String, &DeviceCounters)> {
    let here = row.counters.iter().map(|device| (String::new(), device));
    let there = row.other_hosts.iter().flat_map(|host| {
        host.counters.iter().map(move |device| (format!("{} ", host.host), device))
    });
    here.chain(there)
}
