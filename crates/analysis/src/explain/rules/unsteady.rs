//! Times of one size that vary: between batches or launches, between placements, and in the first row.
//! Not bandwidth that varies with the size (`dips`).

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{bytes, percent, plain, sizes, time};

/// Samples of one size, or its two placements, are unsteady if they differ by more than this share.
const MAX_STEADY_SPREAD: f64 = 0.10;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = samples(context).into_iter().chain(places(context)).collect();
    findings.extend(first_row(context));
    findings
}

fn samples(context: &Context<'_>) -> Option<Finding> {
    let mut worst: Option<(u64, f64)> = None;
    let mut rows = 0;
    for row in context.nonempty_rows() {
        for half in row.out_of_place.iter().chain(&row.in_place) {
            let low = half.samples_us.iter().copied().fold(f64::INFINITY, f64::min);
            let high = half.samples_us.iter().copied().fold(0.0, f64::max);
            let Some(middle) = half.time_us.filter(|time| *time > 0.0 && low.is_finite()) else {
                continue;
            };
            let spread = (high - low) / middle;
            if spread > MAX_STEADY_SPREAD {
                rows += 1;
                if worst.is_none_or(|(_, most)| spread > most) {
                    worst = Some((row.size, spread));
                }
            }
        }
    }
    let (size, spread) = worst?;
    Some(
        Finding::new(
            "unsteady-samples",
            Severity::Note,
            "times of one size vary between samples: small differences in this run mean nothing",
        )
        .confidence(Confidence::Certain)
        .evidence(format!(
            "samples vary by more than 10 % in {rows} figures; most at {}, {} %",
            bytes(size),
            percent(spread * 100.0)
        ))
        .remedy("check what else uses the hosts and the network; lock the clocks")
        .confirm(context.repeat_command("--repeat 5 --precision 2%")),
    )
}

/// In place and out of place do the same work: where sometimes one and sometimes the other is faster, times
/// are unsteady. This holds for collectives without a valid in-place result, too: their time is real.
fn places(context: &Context<'_>) -> Option<Finding> {
    let best = context.busbw()?;
    let mut differing: Vec<(u64, f64)> = Vec::new();
    let mut small: Vec<(u64, f64)> = Vec::new();
    for row in context.nonempty_rows() {
        let (Some(out), Some(inside)) = (&row.out_of_place, &row.in_place) else { continue };
        let (Some(a), Some(b)) = (out.time_us, inside.time_us) else { continue };
        let speed = out.busbw.unwrap_or(0.0);
        if a > 0.0 && b > 0.0 {
            let sizes = if speed > best * 0.5 { &mut differing } else { &mut small };
            sizes.push((row.size, b / a - 1.0));
        }
    }
    unsteady_places(context, &differing).or_else(|| unsteady_small_sizes(&small))
}

/// Sizes at which latency counts: nothing that costs bandwidth.
fn unsteady_small_sizes(all: &[(u64, f64)]) -> Option<Finding> {
    // A few sizes of any run differ.
    const MIN_SIZES: usize = 6;
    let apart = |(_, by): &&(u64, f64)| by.abs() >= MAX_STEADY_SPREAD;
    let differing: Vec<(u64, f64)> = all.iter().filter(apart).copied().collect();
    let faster = differing.iter().filter(|(_, by)| *by < 0.0).count();
    let both = faster.min(differing.len() - faster);
    if differing.len() < MIN_SIZES || both * 3 < differing.len() {
        return None;
    }
    let (size, most) = differing.iter().copied().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let at: Vec<u64> = differing.iter().map(|(size, _)| *size).collect();
    let cause = format!(
        "times of {} are unsteady: in place is now faster, now slower than out of place",
        sizes(&at)
    );
    Some(
        Finding::new("unsteady-small-sizes", Severity::Note, cause)
            .confidence(Confidence::Likely)
            .evidence(format!("most at {}, {} %", bytes(size), percent(most.abs() * 100.0)))
            .remedy("repeat the run before you conclude anything from one of these sizes"),
    )
}

fn unsteady_places(context: &Context<'_>, differing: &[(u64, f64)]) -> Option<Finding> {
    let faster = differing.iter().filter(|(_, by)| *by < -MAX_STEADY_SPREAD / 2.0).count();
    let slower = differing.iter().filter(|(_, by)| *by > MAX_STEADY_SPREAD / 2.0).count();
    let (size, most) = differing.iter().copied().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    if faster == 0 || slower == 0 || most.abs() < MAX_STEADY_SPREAD {
        return None;
    }
    Some(
        Finding::new("unsteady", Severity::Slow, "the run is unsteady: in place is sometimes faster and sometimes slower than out of place").confidence(Confidence::Likely)
            .evidence(format!("of {} large sizes, in place is faster at {faster} and slower at {slower}; most at {}, {} %", differing.len(), bytes(size), percent(most.abs() * 100.0)))
            .remedy("repeat the run before you conclude anything from a single size")
            .confirm(context.repeat_command(&format!("-b {0} -e {0} --repeat 5", plain(size)))),
    )
}

fn first_row(context: &Context<'_>) -> Option<Finding> {
    let [first, second, ..] = context.run.rows.as_slice() else { return None };
    let out = first.out_of_place.as_ref()?.time_us?;
    let next = second.out_of_place.as_ref()?.time_us?;
    let later = first.in_place.as_ref().and_then(|half| half.time_us).unwrap_or(next).max(next);
    if out < later * 1.4 || first.size > 1024 || second.size == 0 {
        return None;
    }
    Some(
        Finding::new(
            "first-row",
            Severity::Note,
            "the first figure includes one-time costs: connection setup, rising clocks",
        )
        .confidence(Confidence::Likely)
        .evidence(format!(
            "{} out of place at {}, then {}",
            time(out),
            bytes(first.size),
            time(next)
        ))
        .remedy("do not quote it as the latency; use more warm-up iterations (-w)"),
    )
}
