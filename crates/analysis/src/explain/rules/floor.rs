//! The latency floor, and the size from which on half of the bandwidth is reached (n1/2).
//! Not a hardware limit: the floor is software and wire latency.

use busbw_hardware::limits::Bottleneck;

use super::super::context::{Context, latency_floor_us, row_speed, small_times};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{bytes, time};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(floor) = latency_floor_us(context.run) {
        let measured = small_times(context.run).len();
        findings.push(
            Finding::new(
                "latency-floor",
                Severity::Note,
                format!("latency floor: a small operation takes {}", time(floor)),
            )
            .confidence(Confidence::Certain)
            .evidence(format!("median of {measured} sizes up to 1 KiB")),
        );
    }
    if let Some((half, best)) = half_bandwidth(context) {
        findings.push(
            Finding::new("half-bandwidth-size", Severity::Note, format!("messages of about {} reach half of the bandwidth (n1/2)", bytes(half))).confidence(Confidence::Certain)
            .evidence(format!("half of {best:.1} GB/s, interpolated between measured sizes (logarithmic)"))
            .remedy("send larger messages; below this size the number of messages costs more than their bytes"),
        );
    }
    findings
}

/// The size in bytes at which bandwidth passes half of the measured one, and the measured one in GB/s.
fn half_bandwidth(context: &Context<'_>) -> Option<(u64, f64)> {
    // Where no size has many bytes, half of the best bandwidth is half of nothing.
    let software = context.judgement.bottleneck == Bottleneck::Software;
    let best = context.busbw().filter(|_| !software)?;
    let points: Vec<(u64, f64)> = context
        .nonempty_rows()
        .filter_map(|row| Some((row.size, row_speed(context.run, row)?)))
        .collect();
    if points.len() < 4 || !points.is_sorted_by(|a, b| a.0 < b.0) {
        return None;
    }
    let wanted = best / 2.0;
    let (below, above) = points.windows(2).find_map(|pair| match pair {
        [below, above] if below.1 < wanted && above.1 >= wanted => Some((*below, *above)),
        _ => None,
    })?;
    let part = (wanted - below.1) / (above.1 - below.1);
    let (low, high) = ((below.0 as f64).ln(), (above.0 as f64).ln());
    let size = (low + (high - low) * part).exp();
    // The figure is an estimate; it is printed in KiB or MiB.
    Some((size as u64, best))
}
