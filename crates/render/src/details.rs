//! What `-v` says on stderr: what was chosen for a run, and how each of its rows was measured.
//! Not warnings, which are said without it (`warnings`).

use busbw_core::{
    quantity::{bytes, count},
    record::{Half, Row, Run},
};

use super::variant::named;

/// What was chosen: backend, loops, memory, and the variables that libraries read.
pub fn run_details(run: &Run) -> Vec<String> {
    let plan = &run.plan;
    let mut said = vec![
        format!(
            "backend {}, {}: {} batches at least of {} iterations after {} untimed ones",
            plan.backend.name(),
            count(plan.ranks() as u64, "rank"),
            plan.sampling.min_batches,
            plan.iterations,
            plan.warmup
        ),
        format!("buffers: {} a rank", bytes(run.memory.buffers_per_rank)),
    ];
    let variables: Vec<String> =
        run.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !variables.is_empty() {
        said.push(format!("environment: {}", variables.join(" ")));
    }
    said
}

/// How a row was measured: batches, interval, and the library's algorithm where it is known.
pub fn row_details(row: &Row) -> Option<String> {
    let places = [("out of place", &row.out_of_place), ("in place", &row.in_place)];
    let each: Vec<String> = places
        .into_iter()
        .filter_map(|(place, half)| Some((place, half.as_ref()?)))
        .map(|(place, half)| format!("{place} {}", measured(half)))
        .collect();
    (!each.is_empty()).then(|| format!("{}{}: {}", bytes(row.size), named(row), each.join("; ")))
}

fn measured(half: &Half) -> String {
    let batches = half.batches_us.len().max(half.launches_us.len());
    let what = if half.launches_us.is_empty() { "batch" } else { "launch" };
    let batches = match batches {
        1 => format!("1 {what}"),
        several => format!("{several} {what}es"),
    };
    let interval = half.summary.as_ref().and_then(|summary| {
        let interval = summary.interval?;
        let share = 50.0 * (interval.high - interval.low) / summary.median;
        Some(format!(", ±{share:.1} % (95 % interval)"))
    });
    let fewer = half.fewer_iterations.map(|fewer| format!(", {fewer} iterations each"));
    let algorithm = half.figures.algorithm.as_ref().map(|name| format!(", {name}"));
    [Some(batches), interval, fewer, algorithm].into_iter().flatten().collect()
}
