//! Counters of devices that grew while rows were measured: link errors, memory errors, throttled clocks,
//! congestion. Records only.
//! Not counters of bytes.

use std::collections::BTreeMap;

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::record::Meaning;

use super::super::context::{Context, plural};

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
            "links had errors while rows were measured: data was damaged, lost or retransmitted",
            "clean or change the cable or transceiver, reseat the GPU or NIC",
            "busbw doctor; mlxlink -d mlx5_0 -c -e; nvidia-smi nvlink -e",
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
            for device in context.run.rows.iter().flat_map(|row| &row.counters) {
                for (counter, by) in device.of(meaning) {
                    let sum = grown.entry((device.device.clone(), counter.to_owned())).or_default();
                    *sum = sum.saturating_add(by);
                }
            }
            if grown.is_empty() {
                return None;
            }
            let certain = if meaning == Meaning::LinkError {
                Confidence::Likely
            } else {
                Confidence::Certain
            };
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
