//! Advice about figures, after the table: noisy, drifting, wrong or waived rows.
//! Not errors, and not about options (`busbw-cli`).

use super::{
    incidents::incidents,
    variant::{conflict, named},
};
use busbw_core::{
    DataType, ReduceOp,
    plan::MovedBy,
    record::{Half, Row, Run},
};
use busbw_stats::summarise;

/// An iteration stalled if it takes this many times the median.
const STALL_FACTOR: f64 = 100.0;

/// Notes about a row: wrong elements with their indices, an algorithm that did not run, and incidents of devices.
pub fn row_warnings(row: &Row) -> Vec<String> {
    let wrong = halves(row)
        .flat_map(|(place, half)| half.wrong_places.iter().map(move |wrong| (place, wrong)))
        .map(|(place, wrong)| {
            format!(
                "wrong data: {} size {} {} {}{} {place}: rank {} found {} instead of {} in element {} ({})",
                row.benchmark.name(), row.size, row.datatype.name(), row.redop, named(row), wrong.rank,
                wrong.got, wrong.want, wrong.element, wrong.check
            )
        });
    wrong.chain(conflict(row)).chain(incidents(row)).collect()
}

/// Notes about a run: the number of noisy rows, and drift.
pub fn run_warnings(run: &Run, rows: &[Row]) -> Vec<String> {
    let all: Vec<(String, &Half)> = rows
        .iter()
        .flat_map(|row| {
            halves(row).map(move |(place, half)| (format!("{} B {place}", row.size), half))
        })
        .collect();
    let mut warnings = Vec::new();
    let mut say = |what: &str, advice: &str, picked: Vec<&str>| {
        if let Some(first) = picked.first() {
            let more = match picked.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            warnings.push(format!("{what}: {first}{more}; {advice}"));
        }
    };
    let pick = |test: &dyn Fn(&Half) -> bool| {
        all.iter().filter(|(_, half)| test(half)).map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let noisy = |half: &Half| half.summary.as_ref().is_some_and(|s| s.noisy);
    let drifting =
        |half: &Half| half.summary.as_ref().and_then(|s| s.drift).is_some_and(|d| d.significant);
    let outlying = |half: &Half| {
        half.summary.as_ref().is_some_and(|s| {
            s.outliers.severe > 0 && half.batches_us.len().max(half.launches_us.len()) >= 6
        })
    };
    say(
        "noisy, half the 95 % interval is over 5 % of the median",
        "use --precision 2%, or a quieter machine",
        pick(&noisy),
    );
    say(
        "times drift during the row",
        "the machine warms up or is shared; use --repeat",
        pick(&drifting),
    );
    say(
        "severe outliers among the samples",
        "the median ignores them; the record holds every sample",
        pick(&outlying),
    );
    let stalled = |half: &Half| {
        let spread = half.latency.as_ref().map(|figures| figures.spread);
        let spread = spread.or(half.messages.as_ref().map(|figures| figures.spread));
        spread.is_some_and(|spread| spread.max > STALL_FACTOR * spread.p50)
    };
    say(
        "single iterations took over 100 times the median",
        "a mean hides them; the record holds the longest",
        pick(&stalled),
    );
    if run.plan.sampling.precision.is_some() {
        let wanted = run.plan.sampling.precision.unwrap_or(0.0);
        // The rule uses the batches, even where the row's own statistics are over launches.
        let missed = |half: &Half| {
            let batches: Vec<f64> =
                half.batches_us.iter().map(|times| run.plan.average.of(times)).collect();
            let width = summarise(&batches).and_then(|s| s.interval?.relative_half_width(s.median));
            width.is_none_or(|w| w > wanted)
        };
        say(
            "--precision was not reached before --max-time",
            "give it more time, or accept the interval in the record",
            pick(&missed),
        );
    }
    let saturates = run.plan.backend.spec().moved_by == MovedBy::Mpi
        && rows.iter().any(|row| {
            row.redop == ReduceOp::Sum.name()
                && matches!(row.datatype, DataType::Int8 | DataType::Uint8)
                && halves(row).any(|(_, half)| half.figures.wrong.is_some_and(|wrong| wrong > 0))
        });
    if saturates {
        warnings.push(
            "sums of 8-bit integers are expected to wrap: Open MPI from 4.1 on lets them saturate with AVX \
             (open-mpi/ompi#8045); if that is all that is wrong, OMPI_MCA_op=^avx adds as C does"
                .to_owned(),
        );
    }
    warnings
}

fn halves(row: &Row) -> impl Iterator<Item = (&'static str, &Half)> {
    let out = row.out_of_place.iter().map(|half| ("out-of-place", half));
    out.chain(row.in_place.iter().map(|half| ("in-place", half)))
}
