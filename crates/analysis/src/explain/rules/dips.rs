//! Sizes that are slower than smaller and larger ones, and speed that falls at the end.
//! Not differences between samples of one size (`unsteady`).

use super::super::{
    context::{Context, row_speed},
    finding::{Confidence, Finding, Weight},
    limit::said_at,
};
use busbw_core::quantity::{bytes, list, plain, rate};

/// A size is a dip below this part of the best on either side of it.
const DIP: f64 = 0.92;

/// Dips are looked for among sizes that reach this part of the best: below it, time is not spent on
/// bytes.
const MOVING: f64 = 0.25;

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    // One launch of one type and operator; where sizes start again there are several.
    let points: Vec<(u64, f64)> =
        context.moving_rows().filter_map(|row| Some((row.size, row_speed(run, row)?))).collect();
    if points.len() < 3 || !points.is_sorted_by(|a, b| a.0 < b.0) {
        return Vec::new();
    }
    let mut best = 0.0_f64;
    let mut before = Vec::with_capacity(points.len());
    for (_, speed) in &points {
        before.push(best);
        best = speed.max(best);
    }
    let mut best_after = 0.0_f64;
    let mut dips = Vec::new();
    for ((size, speed), best_before) in points.iter().zip(before).rev() {
        let sides = best_after.min(best_before);
        if *speed < sides * DIP && sides > best * MOVING {
            dips.push((*size, *speed, sides));
        }
        best_after = speed.max(best_after);
    }
    dips.reverse();
    let mut findings = Vec::new();
    if let Some((size, ..)) = dips.first() {
        let sizes: Vec<String> = dips.iter().map(|(size, ..)| bytes(*size)).collect();
        let switched = dips.iter().any(|(size, ..)| changes_algorithm(context, *size));
        let (confidence, cause) = if switched {
            (Confidence::Likely, "NCCL's lines name another algorithm there")
        } else {
            (
                Confidence::Possible,
                "another algorithm or protocol from that size on, or disturbance by other work",
            )
        };
        let nccl = context.by_nccl();
        let remedy = if nccl {
            "if it comes again at the same size, a tuner or NCCL_ALGO/NCCL_PROTO can be told; if not, it was disturbance"
        } else {
            "if it comes again at the same size, it is the algorithm; if not, it was disturbance"
        };
        let log = if nccl { " with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING" } else { "" };
        let mut finding = Finding::new(
            "dip",
            Weight::Slow,
            confidence,
            format!(
                "{} slower than smaller and larger sizes: {cause}",
                if sizes.len() == 1 {
                    format!("{} is", sizes.join(""))
                } else {
                    format!("{} are", list(&sizes, "and"))
                }
            ),
        )
        .remedy(remedy)
        .confirm(
            context.again(&format!(
                "-b {} -e {} -f 2 --repeat 5",
                plain(size / 2),
                plain(size.saturating_mul(2))
            )) + log,
        );
        for (size, speed, sides) in dips.iter().take(3) {
            finding = finding.evidence(format!(
                "{} GB/s at {}, {} on either side",
                rate(*speed),
                bytes(*size),
                rate(*sides)
            ));
        }
        findings.push(finding);
    }
    if let Some((size, speed)) = points.last()
        && *speed < best * DIP
    {
        findings.push(
            Finding::new(
                "falls-at-the-end",
                Weight::Note,
                Confidence::Possible,
                "speed falls towards the largest size: heat, congestion or memory",
            )
            .evidence(format!("{} GB/s at {}, best {}", rate(*speed), bytes(*size), rate(best)))
            .confirm(context.again(&format!(
                "-b {} -e {} --repeat 5, and its record's counters",
                plain(*size),
                plain(*size)
            ))),
        );
    }
    findings
}

/// Whether NCCL's lines name one algorithm for a size and another for the next smaller one.
fn changes_algorithm(context: &Context<'_>, size: u64) -> bool {
    let (here, before) = (said_at(context, size), said_at(context, size / 2));
    !here.is_empty() && !before.is_empty() && here != before
}
