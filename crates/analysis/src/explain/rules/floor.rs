//! The latency floor, and the size from which on half of the bandwidth is reached (n1/2).
//! Not a limit: starting an operation costs what it costs.

use super::super::{
    context::{Context, row_speed, small_times, start_us},
    finding::{Confidence, Finding, Weight},
};
use busbw_core::quantity::{bytes, time};

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(floor) = start_us(context.run) {
        let measured = small_times(context.run).len();
        findings.push(
            Finding::new(
                "latency-floor",
                Weight::Note,
                Confidence::Certain,
                format!("an operation takes {} however small it is", time(floor)),
            )
            .evidence(format!("median of {measured} sizes up to 1 KiB")),
        );
    }
    if let Some((half, best)) = half_bandwidth(context) {
        findings.push(
            Finding::new(
                "half-bandwidth-size",
                Weight::Note,
                Confidence::Certain,
                format!("half of the bandwidth is reached at about {}", bytes(half)),
            )
            .evidence(format!("half of {best:.1} GB/s, between measured sizes by their logarithms"))
            .remedy("keep messages above it; below it, their number counts and not their bytes"),
        );
    }
    findings
}

/// The size at which speed passes half of the settled one, and the latter.
fn half_bandwidth(context: &Context<'_>) -> Option<(u64, f64)> {
    let best = context.busbw()?;
    let points: Vec<(u64, f64)> = context
        .moving_rows()
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
    // Three digits are more than such a figure has; bytes are said in KiB or MiB anyway.
    Some((size as u64, best))
}
