//! Sizes that are slower than smaller and larger ones, and bandwidth that falls at the largest size.
//! Not differences between samples of one size (`unsteady`).

use super::super::{
    context::{Context, row_speed},
    limit::logged_algorithms,
};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{bytes, plain, rate, sizes};

/// A size is a dip below this share of the best bandwidth on either side of it.
const DIP_SHARE: f64 = 0.92;

/// Dips are searched among sizes that reach this share of the best bandwidth: below it the latency
/// dominates.
const BANDWIDTH_BOUND_SHARE: f64 = 0.25;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    // Rising sizes are one launch of one type and operator; sizes that start again are several.
    let points: Vec<(u64, f64)> =
        context.nonempty_rows().filter_map(|row| Some((row.size, row_speed(run, row)?))).collect();
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
        if *speed < sides * DIP_SHARE && sides > best * BANDWIDTH_BOUND_SHARE {
            dips.push((*size, *speed, sides));
        }
        best_after = speed.max(best_after);
    }
    dips.reverse();
    let mut findings = Vec::new();
    if let Some((size, ..)) = dips.first() {
        let at: Vec<u64> = dips.iter().map(|(size, ..)| *size).collect();
        let switched = dips.iter().any(|(size, ..)| changes_algorithm(context, *size));
        let (confidence, cause) = if switched {
            (Confidence::Likely, "NCCL's log names another algorithm for that size")
        } else {
            (
                Confidence::Possible,
                "another algorithm or protocol from that size on, or interference by other work",
            )
        };
        let nccl = context.by_nccl();
        let remedy = if nccl {
            "repeat the run: a dip at the same size is the algorithm, which a tuner plugin or NCCL_ALGO/NCCL_PROTO can change; else it was interference"
        } else {
            "repeat the run: a dip at the same size is the algorithm; else it was interference"
        };
        let log = if nccl { " with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING" } else { "" };
        let mut finding = Finding::new(
            "dip",
            Severity::Slow,
            format!(
                "{} {} slower than smaller and larger sizes: {cause}",
                sizes(&at),
                if at.len() == 1 { "is" } else { "are" }
            ),
        )
        .confidence(confidence)
        .remedy(remedy)
        .confirm(
            context.repeat_command(&format!(
                "-b {} -e {} -f 2 --repeat 5",
                plain(size / 2),
                plain(size.saturating_mul(2))
            )) + log,
        );
        let share = |(_, speed, sides): &&(u64, f64, f64)| speed / sides;
        if let Some((size, speed, sides)) = dips.iter().min_by(|a, b| share(a).total_cmp(&share(b)))
        {
            finding = finding.evidence(format!(
                "{}{} GB/s at {}, {} on either side",
                if at.len() > 1 { "worst: " } else { "" },
                rate(*speed),
                bytes(*size),
                rate(*sides)
            ));
        }
        findings.push(finding);
    }
    if let Some((size, speed)) = points.last()
        && *speed < best * DIP_SHARE
    {
        findings.push(
            Finding::new(
                "falls-at-the-end",
                Severity::Note,
                "bandwidth falls towards the largest size: heat, congestion or memory",
            )
            .confidence(Confidence::Possible)
            .evidence(format!("{} GB/s at {}, best {}", rate(*speed), bytes(*size), rate(best)))
            .confirm(context.repeat_command(&format!(
                "-b {} -e {} --repeat 5, then the counters in its record",
                plain(*size),
                plain(*size)
            ))),
        );
    }
    findings
}

/// Whether NCCL's log names one algorithm for a size and another for the next smaller one.
fn changes_algorithm(context: &Context<'_>, size: u64) -> bool {
    let (here, before) = (logged_algorithms(context, size), logged_algorithms(context, size / 2));
    !here.is_empty() && !before.is_empty() && here != before
}
