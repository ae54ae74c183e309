//! In place that is always faster or always slower than out of place.
//! Not placements whose order varies from size to size (`unsteady`).

use busbw_logs::measurement::Figure;

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::percent;

/// Minimum difference of the times, as a share (8 %).
const MIN_GAP: f64 = 0.08;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let valid = run.collective().is_some_and(busbw_core::Collective::in_place_is_valid);
    if run.test.figure != Figure::Bandwidths || !valid {
        return Vec::new();
    }
    let best = context.busbw().unwrap_or(0.0);
    let gaps: Vec<f64> = context
        .nonempty_rows()
        .filter_map(|row| {
            let (out, inside) = (row.out_of_place.as_ref()?, row.in_place.as_ref()?);
            (out.busbw? > best * 0.25)
                .then_some(inside.time_us? / out.time_us.filter(|time| *time > 0.0)? - 1.0)
        })
        .collect();
    let same_way =
        gaps.iter().all(|gap| *gap > MIN_GAP / 2.0) || gaps.iter().all(|gap| *gap < -MIN_GAP / 2.0);
    let Some(middle) = busbw_stats::median(&gaps) else { return Vec::new() };
    if gaps.len() < 3 || !same_way || middle.abs() < MIN_GAP {
        return Vec::new();
    }
    let direction = if middle > 0.0 { "slower" } else { "faster" };
    let register = context.by_nccl();
    let remedy = "quote the placement that your program uses";
    let remedy = match register {
        true => format!("{remedy}; a registered buffer (-R 1) may close the gap"),
        false => remedy.to_owned(),
    };
    vec![
        Finding::new(
            "places-differ",
            Severity::Note,
            format!(
                "in place is {} % {direction} than out of place",
                percent(middle.abs() * 100.0)
            ),
        )
        .confidence(Confidence::Certain)
        .evidence(format!("at all {} large sizes", gaps.len()))
        .remedy(remedy)
        .confirm(context.repeat_command(if register { "-R 1" } else { "--repeat 5" })),
    ]
}
