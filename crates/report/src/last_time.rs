//! A run against the newest earlier run of the same test on the same machine.
//! Not a verdict on the difference: `busbw compare` gives that, from several launches.

use std::path::Path;

use busbw_core::{
    quantity::{bytes, rate, time},
    shell::quoted,
};
use busbw_logs::{
    import,
    measurement::{Figure, Measurement},
};
use busbw_store as store;

use crate::data::Last;

/// Records of the data folder that are looked at, the newest.
const MAX_RECORDS: usize = 100;

/// Runs of the data folder.
pub fn history() -> Vec<Measurement> {
    let paths = store::last(MAX_RECORDS).unwrap_or_default();
    // What cannot be read is no part of the page.
    let read = |path: &Path| import::read_path(path).ok();
    paths.iter().filter_map(|path| read(path)).flat_map(|read| read.measurements).collect()
}

/// The last run of the same test before this one, at the size that its figure is of; none where there is none.
pub(super) fn last(run: &Measurement, size: u64, history: &[Measurement]) -> Option<Last> {
    let started = run.started.as_ref()?;
    let (id, now) = (run.id.as_ref()?, figure(run, size)?);
    let before = history.iter().filter(|other| {
        other.id.as_ref() != Some(id)
            && other.started.as_ref().is_some_and(|before| before < started)
            && is_same_test(other, run)
            && other.errors.iter().all(|error| error.trim().is_empty())
    });
    let (before, then) = before
        .filter_map(|other| Some((other, figure(other, size)?)))
        .max_by(|a, b| a.0.started.cmp(&b.0.started))?;
    let is_latency = run.test.figure == Figure::Latency;
    let written = match is_latency {
        true => time(then).replace("us", "µs"),
        false => format!("{} GB/s", rate(then)),
    };
    let change = (now / then - 1.0) * 100.0;
    let word = match (is_latency, change > 0.0) {
        (true, true) | (false, false) => "slower",
        _ => "faster",
    };
    let compared = match change.abs() {
        ..0.05 => "now the same".to_owned(),
        change => format!("now {change:.1} % {word}"),
    };
    let at = before.started.as_deref().unwrap_or_default();
    let of = before.id.as_deref().unwrap_or_default();
    Some(Last {
        sentence: format!("Last time ({at}) {written} at {}; {compared}.", bytes(size)),
        command: format!("busbw compare {} {}", quoted(of), quoted(&run.source.name)),
    })
}

/// The figure of a size: bandwidth, GB/s, or the time of a latency test, microseconds; the mean of valid placements.
fn figure(run: &Measurement, size: u64) -> Option<f64> {
    let row = run.rows.iter().find(|row| row.size == size)?;
    let of = |(_, half): (bool, &busbw_core::record::Figures)| match run.test.figure {
        Figure::Latency => half.time_us,
        _ => half.busbw.or(half.algbw),
    };
    let all: Vec<f64> = run.halves(row).filter_map(of).filter(|value| *value > 0.0).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Some(mean).filter(|mean| mean.is_finite())
}

fn is_same_test(a: &Measurement, b: &Measurement) -> bool {
    let host = |run: &Measurement| run.machine.as_ref().map(|machine| machine.host.clone());
    let devices = |run: &Measurement| -> Vec<String> {
        run.devices.iter().map(|device| format!("{} {}", device.host, device.name)).collect()
    };
    let datatype = |run: &Measurement| run.rows.first().and_then(|row| row.datatype);
    let backend = |run: &Measurement| run.options.get("backend").cloned();
    a.test_name() == b.test_name()
        && a.rank_count() == b.rank_count()
        && host(a) == host(b)
        && devices(a) == devices(b)
        && datatype(a) == datatype(b)
        && backend(a) == backend(b)
}
